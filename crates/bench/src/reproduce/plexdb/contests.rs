//! The contests: which phases each point goes through.

use std::collections::BTreeMap;

use super::paper;
use super::points::{POINTS, Point};
use super::setting::{Setting, UPDATES};
use crate::Result;
use crate::contest::{self, Program, Setup, Variant};
use crate::outcome::Contest;
use crate::run::Plan;
use crate::workload::db_bench::Benchmark;
use crate::workload::updates;
use crate::workload::ycsb::{Distribution, Mix, UpdateStyle};
use crate::workload::{LoadOrder, Phase, PhaseKind};

/// Phase of reads of records that are there.
pub const READS: &str = "reads";
/// Phase of reads of keys that are not.
pub const ABSENT: &str = "absent keys";

/// Phase of scans of some rows in order, from anywhere.
pub const SCANS: &str = "scans";

/// Rows of a scan.
pub const SCAN_ROWS: u64 = 50;
/// Reads for each scan.
const SCAN_PART: u64 = 10;
/// A tenth of the time that a load of half a second takes.
const SAMPLE_INTERVAL_MS: u64 = 50;
/// Reads beforehand: as many as are measured, so that caches are as reads leave them.
const WARM_UP: f64 = 1.0;

/// Runs the paper's load, and reads and scans of the store that it left.
///
/// # Errors
/// All stores have failed; the contest reports the failure of a single one.
pub fn updates(
    program: &Program,
    setting: &Setting,
    points: &[&Point],
    command: &str,
) -> Result<Contest> {
    let dataset = setting.dataset();
    let scan = Benchmark::SeekRandom { rows: SCAN_ROWS };
    let phases = vec![
        updates::phase(UPDATES, &dataset, 1),
        reads(READS, PhaseKind::Ycsb(uniform_reads()), setting),
        reads(ABSENT, PhaseKind::DbBench(Benchmark::ReadMissing), setting),
        Phase::new(
            SCANS,
            PhaseKind::DbBench(scan),
            setting.reads / SCAN_PART,
            1,
        ),
    ];
    hold(program, setting, points, command, phases, WARM_UP)
}

/// As many writes of keys that are chosen zipfian, after one of each.
///
/// # Errors
/// All stores have failed; of a single one the contest tells.
pub fn zipfian(
    program: &Program,
    setting: &Setting,
    points: &[&Point],
    command: &str,
) -> Result<Contest> {
    let dataset = setting.dataset();
    let mix = Mix {
        reads: 0.0,
        updates: 1.0,
        distribution: Distribution::Zipfian,
        ..uniform_reads()
    };
    let updates = setting.writes() - setting.records;
    let phases = vec![
        Phase::load(&dataset, LoadOrder::Random, 1),
        Phase::new("zipfian updates", PhaseKind::Ycsb(mix), updates, 1),
    ];
    hold(program, setting, points, command, phases, 0.0)
}

fn uniform_reads() -> Mix {
    Mix {
        reads: 1.0,
        updates: 0.0,
        inserts: 0.0,
        scans: 0.0,
        read_modify_writes: 0.0,
        distribution: Distribution::Uniform,
        update: UpdateStyle::Value,
    }
}

fn reads(name: &str, kind: PhaseKind, setting: &Setting) -> Phase {
    Phase::new(name, kind, setting.reads, 1)
}

fn hold(
    program: &Program,
    setting: &Setting,
    points: &[&Point],
    command: &str,
    phases: Vec<Phase>,
    warm_up: f64,
) -> Result<Contest> {
    let names: Vec<String> = points.iter().map(|point| point.name.to_string()).collect();
    let told = points
        .iter()
        .map(|point| (point.name.to_string(), point.told(setting)));
    let written = phases.iter().filter(|phase| phase.settles);
    let rates = written.filter_map(|phase| Some((phase.name.clone(), setting.rate?)));
    let rates: BTreeMap<String, f64> = rates.collect();
    let setup = Setup {
        command: command.into(),
        title: paper::TITLE.into(),
        conditions: setting.conditions(),
        variants: vec![Variant {
            plan: Plan {
                dataset: setting.dataset(),
                phases,
                rates,
                warm_up,
                sample_interval_ms: SAMPLE_INTERVAL_MS,
                seed: setting.seed,
                settings: setting.settings(),
                label: String::new(),
            },
            memory_bytes: None,
            unbounded_because: None,
        }],
        contestants: program.named(&names)?,
        repeats: setting.repeats,
        directory: setting.directory.clone(),
        own: told.collect(),
    };
    contest::hold(program, &setup)
}

/// Returns the requested points, or all whose store the program has.
///
/// # Errors
/// A name that is no point's, and a point whose store is not there.
pub fn chosen(program: &Program, asked: &[String]) -> Result<Vec<&'static Point>> {
    let is_there = |point: &&Point| {
        let mut known = program.contestants.iter();
        known.any(|contestant| contestant.name == point.store)
    };
    if asked.is_empty() {
        return Ok(POINTS.iter().filter(is_there).collect());
    }
    let find = |name: &String| {
        let point = Point::named(name).filter(is_there);
        point.ok_or_else(|| {
            let known: Vec<_> = POINTS
                .iter()
                .filter(is_there)
                .map(|point| point.name)
                .collect();
            format!(
                "there is no point {name} here; there are {}",
                known.join(", ")
            )
            .into()
        })
    };
    asked.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_chosen_by_name_and_only_where_their_store_is() {
        let program = Program {
            contestants: crate::stores::terrace::CONTESTANTS.to_vec(),
            default_contestants: Vec::new(),
            child_arguments: Vec::new(),
        };
        let chosen = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            chosen(&program, &names).map(|points| points.len())
        };
        assert_eq!(chosen(&[]).unwrap(), 12);
        assert_eq!(chosen(&["terrace-lazy", "terrace-dedup-1.8"]).unwrap(), 2);
        for name in ["nobody", "leveldb"] {
            let error = chosen(&[name]).unwrap_err().to_string();
            assert!(error.contains(&format!("no point {name} here; there are terrace-leveled,")));
        }
    }
}
