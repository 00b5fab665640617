//! Runs of several stores that alternate, each in a process and a directory of its own.
//!
//! A store's threads, caches and memory end with its process, and what drifts on the machine meets all
//! stores alike: each repeat begins with another one.

mod child;
mod progress;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::memory_limit::MemoryLimit;
use crate::outcome::{Contest, RunOutcome};
use crate::run::Plan;
use crate::store::Contestant;
use crate::workload::db_bench::{self, Benchmark};
use crate::workload::{Dataset, Phase};
use crate::{Result, machine};

pub use child::{Job, run_one};

/// A program that can run contests: the stores that it knows, and how it starts itself again.
#[derive(Clone)]
pub struct Program {
    /// All stores that can be named.
    pub contestants: Vec<Contestant>,
    /// Those that take part when none is named.
    pub default_contestants: Vec<&'static str>,
    /// What makes the program call [`run_one`], as its first arguments.
    pub child_arguments: Vec<&'static str>,
}

impl Program {
    /// The contestants of these names, in this order.
    ///
    /// # Errors
    /// A name that is not known, with those that are.
    pub fn named(&self, names: &[String]) -> Result<Vec<Contestant>> {
        let find = |name: &String| {
            let known = || {
                self.contestants
                    .iter()
                    .map(|known| known.name)
                    .collect::<Vec<_>>()
            };
            self.contestants
                .iter()
                .find(|contestant| contestant.name == name)
                .copied()
                .ok_or_else(|| {
                    format!(
                        "there is no store {name} here; there are {}",
                        known().join(", ")
                    )
                    .into()
                })
        };
        names.iter().map(find).collect()
    }
}

/// A plan under one regime of memory.
#[derive(Clone, Debug)]
pub struct Variant {
    /// What is run.
    pub plan: Plan,
    /// The most memory of a run, page cache included; `None` for no bound.
    pub memory_bytes: Option<u64>,
    /// Why there is none although one was asked for.
    pub unbounded_because: Option<String>,
}

/// A contest that is to be held.
pub struct Setup {
    /// What was typed.
    pub command: String,
    /// In words, what is run.
    pub title: String,
    /// What is the same for all, by name.
    pub conditions: Vec<(String, String)>,
    /// The plans.
    pub variants: Vec<Variant>,
    /// The stores, in the order of reports.
    pub contestants: Vec<Contestant>,
    /// How often each store goes through each plan.
    pub repeats: u32,
    /// Where directories are made.
    pub directory: PathBuf,
    /// Options of single contestants, by contestant.
    pub own: BTreeMap<String, BTreeMap<String, String>>,
}

/// Holds the contest.
///
/// # Errors
/// The first run that fails ends it: a store that errs or gives a wrong answer has no figures. So do
/// two stores that were asked the same and found different numbers of records.
pub fn hold(program: &Program, setup: &Setup) -> Result<Contest> {
    let mut machine = machine::describe(&setup.directory);
    (machine.harness_read_ns, machine.harness_write_ns) = harness_cost(setup)?;
    let mut runs: Vec<RunOutcome> = Vec::new();
    let total = setup.repeats as usize * setup.variants.len() * setup.contestants.len();
    let mut shown = progress::Shown::new(total);
    for repeat in 0..setup.repeats {
        for variant in &setup.variants {
            let first = runs.len();
            for contestant in rotated(&setup.contestants, repeat) {
                shown.begin(contestant.name, repeat, &variant.plan.label);
                let outcome = one(program, setup, variant, contestant, repeat, &mut shown)
                    .map_err(|error| format!("{}: {error}", contestant.name))?;
                shown.end(&outcome);
                runs.push(outcome);
            }
            agree(runs.get(first..).unwrap_or_default())?;
        }
    }
    shown.finish();
    order(&mut runs, &setup.contestants);
    Ok(Contest {
        command: setup.command.clone(),
        title: setup.title.clone(),
        conditions: setup.conditions.clone(),
        machine,
        runs,
    })
}

/// Each repeat begins with another contestant.
fn rotated(contestants: &[Contestant], repeat: u32) -> impl Iterator<Item = &Contestant> {
    let skip = repeat as usize % contestants.len().max(1);
    contestants
        .iter()
        .cycle()
        .skip(skip)
        .take(contestants.len())
}

/// Reports show contestants in the order in which they were named.
fn order(runs: &mut [RunOutcome], contestants: &[Contestant]) {
    let place = |name: &str| {
        contestants
            .iter()
            .position(|contestant| contestant.name == name)
    };
    runs.sort_by_key(|run| (run.repeat, place(&run.store)));
}

fn one(
    program: &Program,
    setup: &Setup,
    variant: &Variant,
    contestant: &Contestant,
    repeat: u32,
    shown: &mut progress::Shown,
) -> Result<RunOutcome> {
    // What the run before has left to be written back must not burden this one.
    rustix::fs::sync();
    let directory = tempfile::Builder::new()
        .prefix("terrace-bench-")
        .tempdir_in(&setup.directory)?;
    let limit = variant.memory_bytes.map(MemoryLimit::new).transpose()?;
    let mut plan = variant.plan.clone();
    plan.settings.own = setup.own.get(contestant.name).cloned().unwrap_or_default();
    let job = Job {
        contestant: contestant.name.into(),
        plan,
        repeat,
        directory: directory.path().to_path_buf(),
        memory_group: limit.as_ref().map(|limit| limit.path().to_path_buf()),
    };
    child::start(program, &job, |progress| shown.progress(&progress))
}

/// Stores that one client asked the same must have found the same.
fn agree(runs: &[RunOutcome]) -> Result<()> {
    let Some((first, others)) = runs.split_first() else {
        return Ok(());
    };
    for other in others {
        for (left, right) in first.phases.iter().zip(&other.phases) {
            let counts = |phase: &crate::outcome::PhaseOutcome| {
                (phase.operations, phase.found, phase.missing, phase.scanned)
            };
            if left.clients == 1 && counts(left) != counts(right) {
                return Err(format!(
                    "{} and {} disagree in {}: operations, records found, missing and scanned were \
                     {:?} and {:?}",
                    first.store,
                    other.store,
                    left.name,
                    counts(left),
                    counts(right)
                )
                .into());
            }
        }
    }
    Ok(())
}

/// What the harness takes for a read and for a write, ns: the workload's own records, written to and
/// read from a store that does nothing.
fn harness_cost(setup: &Setup) -> Result<(f64, f64)> {
    const OPERATIONS: u64 = 200_000;
    let Some(variant) = setup.variants.first() else {
        return Ok((0.0, 0.0));
    };
    let directory = tempfile::tempdir()?;
    let mut dataset = variant.plan.dataset;
    dataset.records = dataset.records.clamp(1, OPERATIONS);
    let plan = Plan {
        phases: harness_phases(&dataset),
        dataset,
        rates: BTreeMap::new(),
        label: String::new(),
        warm_up: 0.0,
        ..variant.plan.clone()
    };
    let run = crate::run::run(&crate::stores::NOTHING, &plan, 0, directory.path(), &|_| {})?;
    let cost = |place: usize| {
        let phase = run.phases.get(place);
        phase.map_or(0.0, |phase| {
            1e9 * phase.acknowledged_s / phase.operations.max(1) as f64
        })
    };
    Ok((cost(1), cost(0)))
}

/// Writes, then reads that find nothing and accept it.
fn harness_phases(dataset: &Dataset) -> Vec<Phase> {
    let mut reads = db_bench::phases(&[Benchmark::ReadRandom], dataset, None, 1);
    reads.iter_mut().for_each(|phase| phase.sparse = true);
    reads
}

/// Whether a directory can hold a contest: it is there and can be written to.
///
/// # Errors
/// It cannot; what the system says.
pub fn check_directory(directory: &Path) -> Result<()> {
    tempfile::tempdir_in(directory).map(drop).map_err(|error| {
        format!(
            "cannot make directories in {}: {error}",
            directory.display()
        )
        .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::PhaseOutcome;
    use crate::stores::NOTHING;

    fn run_of(store: &str, found: u64, clients: u32) -> RunOutcome {
        RunOutcome {
            store: store.into(),
            repeat: 0,
            durability: String::new(),
            settings: Vec::new(),
            phases: vec![PhaseOutcome {
                found,
                clients,
                ..PhaseOutcome::default()
            }],
        }
    }

    #[test]
    fn stores_that_found_different_records_are_an_error() {
        assert!(agree(&[run_of("a", 7, 1), run_of("b", 7, 1)]).is_ok());
        let error = agree(&[run_of("a", 7, 1), run_of("b", 7, 1), run_of("c", 8, 1)]).unwrap_err();
        assert!(error.to_string().starts_with("a and c disagree"), "{error}");
        // Several clients insert and read in an order of their own.
        assert!(agree(&[run_of("a", 7, 4), run_of("b", 8, 4)]).is_ok());
    }

    #[test]
    fn each_repeat_begins_with_another_contestant() {
        let named = |name| Contestant { name, ..NOTHING };
        let three = [named("a"), named("b"), named("c")];
        let order = |repeat| rotated(&three, repeat).map(|c| c.name).collect::<String>();
        assert_eq!(
            [order(0), order(1), order(2), order(3)],
            ["abc", "bca", "cab", "abc"]
        );
    }

    #[test]
    fn an_unknown_store_is_refused_with_those_there_are() {
        let program = Program {
            contestants: vec![NOTHING],
            default_contestants: vec!["nothing"],
            child_arguments: vec![],
        };
        let error = program.named(&["something".into()]).err().unwrap();
        assert_eq!(
            error.to_string(),
            "there is no store something here; there are nothing"
        );
    }
}
