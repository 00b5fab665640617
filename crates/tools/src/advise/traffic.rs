//! The traffic of a store's levels, its present placement, and the time of its requests on a processor.

use std::time::Duration;

use terrace::{LevelStatistics, Statistics};
use terrace_lsm::compaction::cost::{LevelTraffic, Placement, Traffic};
use terrace_lsm::time_profile::PathProfile;
use terrace_storage::Purpose;

use super::{AdvisedTier, Error, Result};

/// Requests without which counts say nothing about a load.
const MIN_REQUESTS: u64 = 1000;
/// Part of a level's bytes on another tier from which on its place is in doubt.
const MIXED_PART: f64 = 0.1;
/// Operations of the time profile that are requests.
const REQUESTS: [&str; 3] = ["get", "write", "seek"];
/// Operations whose time is that of requests.
const FOREGROUND: [&str; 4] = ["get", "write", "seek", "step"];
const BACKGROUND: [&str; 2] = ["flush", "merge"];
/// Stages in which an operation waits.
const WAITS: [&str; 7] = [
    "commit queue",
    "held back",
    "persist",
    "waiting for write rate",
    "system call: read",
    "system call: write",
    "system call: sync",
];

/// Returns the levels that have tables.
pub(super) fn filled_levels(statistics: &Statistics) -> Result<Vec<usize>> {
    let levels = statistics.levels.iter().enumerate();
    let filled: Vec<usize> = levels
        .filter(|(_, level)| level.bytes > 0)
        .map(|(number, _)| number)
        .collect();
    match filled.is_empty() {
        true => Err(Error::NoTables),
        false => Ok(filled),
    }
}

/// Returns the traffic since the store was opened, down to the last level with tables.
pub(super) fn traffic_of(statistics: &Statistics) -> Result<Traffic> {
    let paths = statistics.time.paths.iter();
    let paths = paths.filter(|path| REQUESTS.contains(&path.path.as_str()));
    let requests = paths.map(|path| operations_of(statistics, path));
    let requests = requests.fold(0, u64::saturating_add);
    if requests < MIN_REQUESTS {
        return Err(Error::NoTraffic { requests });
    }
    let last = statistics.levels.iter().rposition(|level| level.bytes > 0);
    let levels = statistics
        .levels
        .iter()
        .take(last.map_or(0, |last| last + 1));
    let levels = levels.map(of_level);
    Ok(Traffic {
        requests,
        levels: levels.collect(),
        arena_bytes: statistics.io.of(Purpose::Arena).written_bytes,
        syncs: statistics.latencies.sync.count,
    })
}

/// Returns the number of operations. Gets and writes that were timed, and those that were watched, together say it
/// more exactly than the watched ones alone.
fn operations_of(statistics: &Statistics, path: &PathProfile) -> u64 {
    let timed = match path.path.as_str() {
        "get" => statistics.latencies.get,
        "write" => statistics.latencies.write,
        _ => return path.operations,
    };
    let taken = timed.count.saturating_add(path.watched);
    let parts = 1.0 / f64::from(timed.one_in) + 1.0 / f64::from(path.one_in);
    match timed.one_in > 0 && path.one_in > 0 {
        true => (taken as f64 / parts).round() as u64,
        false => path.operations,
    }
}

fn of_level(level: &LevelStatistics) -> LevelTraffic {
    LevelTraffic {
        stored_bytes: level.bytes,
        reads: level.reads,
        read_bytes: level.read_bytes,
        // Reads of scans are among the random ones: they are longer.
        scanned_bytes: 0,
        flushed_bytes: level.flushed_bytes,
        compaction_read_bytes: level.compaction_read_bytes,
        compaction_written_bytes: level.compaction_written_bytes,
    }
}

/// Time on a processor for one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Processor {
    pub(super) request_us: f64,
    /// The part of flushes and compactions.
    pub(super) background_us: f64,
}

impl Processor {
    /// Returns the time of stages in which operations do not wait.
    pub(super) fn of(statistics: &Statistics, traffic: &Traffic) -> Processor {
        let each_us = |paths: &[&str]| {
            let all = statistics.time.paths.iter();
            let chosen = all.filter(|path| paths.contains(&path.path.as_str()));
            let busy_us = chosen.map(|path| {
                // The times stand for the operations as the profile counts them.
                let operations = operations_of(statistics, path) as f64;
                let part = operations / path.operations.max(1) as f64;
                busy_time(path).as_secs_f64() * 1e6 * part
            });
            busy_us.sum::<f64>() / traffic.requests.max(1) as f64
        };
        Processor {
            request_us: each_us(&FOREGROUND),
            background_us: each_us(&BACKGROUND),
        }
    }
}

fn busy_time(path: &PathProfile) -> Duration {
    let stages = path.stages.iter();
    stages
        .filter(|stage| !WAITS.contains(&stage.stage.as_str()))
        .map(|stage| stage.time)
        .fold(Duration::ZERO, Duration::saturating_add)
}

/// Returns the placement of now: for each level with tables the tier that has most of its bytes. `None` if that
/// tier takes no new tables.
pub(super) fn placement_of(
    statistics: &Statistics,
    tiers: &[AdvisedTier],
    filled: &[usize],
) -> Option<Placement> {
    let levels = filled.iter().map(|&level| {
        let number = largest_part(statistics, level)?.0;
        tiers.iter().position(|tier| tier.number == Some(number))
    });
    Some(Placement::new(levels.collect::<Option<Vec<usize>>>()?))
}

/// Returns the number of the tier that has most bytes of a level, and its part of them.
fn largest_part(statistics: &Statistics, level: usize) -> Option<(u8, f64)> {
    let parts = statistics.tiers.iter().map(|tier| {
        let bytes = tier.level_bytes.get(level).copied().unwrap_or(0);
        (tier.number, bytes)
    });
    let all = parts.clone().map(|(_, bytes)| bytes);
    let all = all.fold(0, u64::saturating_add);
    let (number, bytes) = parts.max_by_key(|(_, bytes)| *bytes)?;
    Some((number, bytes as f64 / all.max(1) as f64))
}

/// Returns reasons why predictions may be less certain.
pub(super) fn notes(statistics: &Statistics, tiers: &[AdvisedTier]) -> Vec<String> {
    let mut notes = Vec::new();
    for (level, totals) in statistics.levels.iter().enumerate() {
        let part = largest_part(statistics, level).map_or(1.0, |(_, part)| part);
        if totals.bytes > 0 && part < 1.0 - MIXED_PART {
            notes.push(format!(
                "level {level} lies on several tiers; the present placement counts it where most of it lies"
            ));
        }
    }
    let closed = statistics.tiers.iter().filter(|tier| tier.state != "open");
    for tier in closed {
        let (name, state) = (&tier.name, &tier.state);
        notes.push(format!("the tier {name} is {state}, and takes no level"));
    }
    let unpriced = tiers.iter().filter(|tier| tier.profile.price_per_gb == 0.0);
    for tier in unpriced {
        notes.push(format!(
            "the tier {} has no price, and counts as free",
            tier.name
        ));
    }
    notes
}
