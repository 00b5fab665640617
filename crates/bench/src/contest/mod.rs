//! Runs of several stores that alternate, each in a process and a directory of its own.
//!
//! A store's threads, caches and memory end with its process. A drift of the machine meets all
//! stores alike: each repeat begins with another one. Phases that follow each other on one store
//! share a process. A plan that begins again with an empty store also begins a new process: the
//! heap that an earlier store has left behind would be memory that the next one is refused.

pub(crate) mod child;
mod hang;
mod harness;
pub(crate) mod progress;
pub(crate) mod turns;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use terrace_storage::Escaped;

use crate::memory_limit::MemoryLimit;
use crate::outcome::{Contest, Failure, RunOutcome};
use crate::run::Plan;
use crate::store::Contestant;
use crate::{Error, Result, machine};

use child::{Job, Task};
use turns::{fresh_directory, has_failed, order, rotated, some_are_left};

pub use child::run_one;

/// A program that can run contests: the stores that it knows, and how it starts itself again.
#[derive(Clone)]
pub struct Program {
    /// All stores that can be named.
    pub contestants: Vec<Contestant>,
    /// Those that take part when none is named.
    pub default_contestants: Vec<&'static str>,
    /// First arguments with which the program calls [`run_one`].
    pub child_arguments: Vec<&'static str>,
}

impl Program {
    /// Returns the contestants of these names, in this order.
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
                        "there is no store {} here; there are {}",
                        terrace_storage::Escaped::name(name),
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
    /// The plan.
    pub plan: Plan,
    /// The most memory of a run, page cache included; `None` for no bound.
    pub memory_bytes: Option<u64>,
    /// Why there is none although one was asked for.
    pub unbounded_because: Option<String>,
}

/// A contest that is to be held.
pub struct Setup {
    /// The command, as it was typed.
    pub command: String,
    /// A title in words.
    pub title: String,
    /// Conditions that are the same for all, by name.
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

/// Holds the contest. A store that errs or gives a wrong answer has no more figures: it takes part in
/// no further run, and the contest tells of it ([`Contest::failures`]).
///
/// # Errors
/// All stores have failed, or two that were asked the same found different numbers of records.
pub fn hold(program: &Program, setup: &Setup) -> Result<Contest> {
    let mut machine = machine::describe(&setup.directory);
    if let Some(variant) = setup.variants.first() {
        machine.harness = harness::costs(&variant.plan)?;
    }
    let mut runs: Vec<RunOutcome> = Vec::new();
    let mut failures: Vec<Failure> = Vec::new();
    let total = setup.repeats as usize * setup.variants.len() * setup.contestants.len();
    let mut shown = progress::Shown::new(total);
    for repeat in 0..setup.repeats {
        for variant in &setup.variants {
            let first = runs.len();
            for contestant in rotated(&setup.contestants, repeat) {
                if has_failed(contestant, &failures) {
                    shown.skip();
                    continue;
                }
                shown.begin(contestant.name, repeat, &variant.plan.label);
                match one(program, setup, variant, contestant, repeat, &mut shown) {
                    Ok(outcome) => {
                        shown.end(&outcome);
                        runs.push(outcome);
                    }
                    Err(error) => {
                        let failure = Failure::of(contestant, repeat, &variant.plan.label, &error);
                        shown.failed(&failure);
                        failures.push(failure);
                        some_are_left(&setup.contestants, &failures)?;
                    }
                }
            }
            agree(runs.get(first..).unwrap_or_default())?;
        }
    }
    shown.finish();
    order(&mut runs, &setup.contestants, |run| {
        (run.repeat, &run.store)
    });
    Ok(Contest {
        command: setup.command.clone(),
        title: setup.title.clone(),
        conditions: setup.conditions.clone(),
        machine,
        runs,
        failures,
    })
}

/// Goes through a plan, each part of it that begins with an empty store in a process of its own.
fn one(
    program: &Program,
    setup: &Setup,
    variant: &Variant,
    contestant: &Contestant,
    repeat: u32,
    shown: &mut progress::Shown,
) -> Result<RunOutcome> {
    let mut plan = variant.plan.clone();
    plan.settings.own = setup.own.get(contestant.name).cloned().unwrap_or_default();
    let mut whole: Option<RunOutcome> = None;
    for part in plan.parts() {
        let directory = fresh_directory(&setup.directory)?;
        let limit = variant.memory_bytes.map(MemoryLimit::new).transpose()?;
        let job = Job {
            contestant: contestant.name.into(),
            directory: directory.path().to_path_buf(),
            memory_group: limit.as_ref().map(|limit| limit.path().to_path_buf()),
            parent: std::process::id(),
            task: Task::Run { plan: part, repeat },
        };
        let outcome: RunOutcome =
            child::start(program, &job, |progress| shown.progress(&progress))?;
        match &mut whole {
            Some(whole) => whole.phases.extend(outcome.phases),
            None => whole = Some(outcome),
        }
    }
    whole.ok_or_else(|| Error::from("the plan has no phases"))
}

/// The phase that has a writer beside its clients.
const WITH_A_WRITER: &str = "readwhilewriting";

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
            // A writer beside the client gets as far as it gets.
            let has_writer =
                left.name == WITH_A_WRITER || left.operations_beside + right.operations_beside > 0;
            let alone = left.clients == 1 && !has_writer;
            if alone && counts(left) != counts(right) {
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

/// Checks that a directory can hold a contest: it is there and can be written to.
///
/// # Errors
/// The system's error, if it cannot.
pub fn check_directory(directory: &Path) -> Result<()> {
    tempfile::tempdir_in(directory).map(drop).map_err(|error| {
        format!(
            "cannot make directories in {}: {error}",
            Escaped::path(directory)
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
            phases: vec![PhaseOutcome {
                found,
                clients,
                ..PhaseOutcome::default()
            }],
            ..RunOutcome::default()
        }
    }

    #[test]
    fn stores_that_found_different_records_are_an_error() {
        assert!(agree(&[run_of("a", 7, 1), run_of("b", 7, 1)]).is_ok());
        let error = agree(&[run_of("a", 7, 1), run_of("b", 7, 1), run_of("c", 8, 1)]).unwrap_err();
        assert!(error.to_string().starts_with("a and c disagree"), "{error}");
        // A phase with a writer is not compared, whatever count the writer has.
        let with_a_writer = |store: &str, found| {
            let mut run = run_of(store, found, 1);
            run.phases[0].name = WITH_A_WRITER.into();
            run
        };
        assert!(agree(&[with_a_writer("a", 7), with_a_writer("b", 8)]).is_ok());
        // Several clients insert and read in an order of their own.
        assert!(agree(&[run_of("a", 7, 4), run_of("b", 8, 4)]).is_ok());
        let mut beside = run_of("b", 8, 1);
        beside.phases[0].operations_beside = 1;
        assert!(agree(&[run_of("a", 7, 1), beside]).is_ok());
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
