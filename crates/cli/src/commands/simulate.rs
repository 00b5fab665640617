//! Simulates the cost of a store, without one.

use std::fmt::Display;
use std::fs;
use std::ops::RangeInclusive;
use std::time::Instant;

use serde::Serialize;
use terrace::{CompactionPolicy, Compression, Error, KeyspaceOptions, Options};
use terrace_tools::simulate::{
    DELETE_SHARES, EXPONENTS, KeyDistribution, MAX_FLUSHES, MAX_KEY_BYTES, MAX_KEYS,
    MAX_VALUE_BYTES, MIN_ARENA_BYTES, Outcome, Simulation, Speeds, TreeKind, TrieForm,
};

use crate::arguments::{Simulate, SimulateCompaction};
use crate::failure::{Failure, Result};
use crate::output::{print, print_json};
use crate::progress::Steps;
use crate::report::{bytes, count};

/// A write buffer is this part of the distinct records.
const BUFFER_PART: u64 = 100;
/// The least that such a buffer can be.
const LEAST_BUFFER_BYTES: u64 = 16 << 10;
/// The most that `--buffer` can be.
const MAX_BUFFER_BYTES: u64 = 1 << 50;
/// Speeds of devices, from a tape's to those of a thousand machines.
const MB_S: RangeInclusive<f64> = 0.001..=1e9;

pub fn run(what: &Simulate) -> Result<()> {
    match what {
        Simulate::Compaction(arguments) => compaction(arguments),
    }
}

/// A policy and its cost.
#[derive(Serialize)]
struct Simulated {
    policy: String,
    /// Time that the simulation took.
    elapsed_s: f64,
    outcome: Outcome,
}

fn compaction(arguments: &SimulateCompaction) -> Result<()> {
    let described = describe(arguments)?;
    let simulations = arguments
        .policies
        .iter()
        .map(|policy| Ok((policy, under(policy, &described)?)));
    let simulations: Vec<(&String, Simulation)> = simulations.collect::<Result<_>>()?;
    let mut all = Vec::new();
    for (policy, simulation) in simulations {
        all.push(simulated(policy, &simulation)?);
    }
    match arguments.json {
        true => print_json(&all),
        false => print(as_text(&described, &all)),
    }
}

fn simulated(policy: &str, simulation: &Simulation) -> Result<Simulated> {
    let began = Instant::now();
    let mut progress = Steps::of_things(format!("{policy}:"), "write");
    let writes = simulation.writes;
    let outcome = simulation.run(&mut |share| {
        progress.reach((writes as f64 * share) as u64, Some(writes));
    });
    progress.finish();
    Ok(Simulated {
        policy: policy.to_owned(),
        elapsed_s: began.elapsed().as_secs_f64(),
        outcome: outcome.map_err(usage)?,
    })
}

fn describe(arguments: &SimulateCompaction) -> Result<Simulation> {
    check(arguments)?;
    let writes = arguments.keys as f64 * arguments.writes_per_key;
    if writes.is_nan() || writes < 1.0 {
        return Err(Failure::Usage(format!(
            "--writes-per-key must be at least {} for --keys {}: one write in all",
            1.0 / arguments.keys as f64,
            arguments.keys
        )));
    }
    let records = Simulation {
        keys: arguments.keys,
        key_bytes: arguments.key_bytes,
        value_bytes: arguments.value_bytes,
        writes: writes.round() as u64,
        distribution: match (arguments.zipfian, arguments.shuffled) {
            (Some(exponent), _) => KeyDistribution::Zipfian { exponent },
            (None, true) => KeyDistribution::Shuffled,
            (None, false) => KeyDistribution::Uniform,
        },
        fill_first: arguments.fill_first,
        delete_share: arguments.deletes,
        speeds: speeds(arguments),
        ..Simulation::default()
    };
    let data_bytes = records.keys.saturating_mul(records.record_bytes());
    let options = match &arguments.options {
        Some(file) => {
            let text = fs::read_to_string(file).map_err(|error| Failure::file(file, error))?;
            let options = Options::from_toml(&text).map_err(usage)?;
            options.resolved().map_err(usage)?
        }
        None => sized(
            arguments
                .buffer
                .unwrap_or((data_bytes / BUFFER_PART).max(LEAST_BUFFER_BYTES)),
        ),
    };
    let simulation = Simulation { options, ..records };
    check_writes(arguments, &simulation)?;
    Ok(simulation)
}

/// Refuses a number outside of its range, by the name of its option.
fn check(arguments: &SimulateCompaction) -> Result<()> {
    within("--keys", arguments.keys, 1..=MAX_KEYS)?;
    within("--key-bytes", arguments.key_bytes, 1..=MAX_KEY_BYTES)?;
    within("--value-bytes", arguments.value_bytes, 0..=MAX_VALUE_BYTES)?;
    within("--deletes", arguments.deletes, DELETE_SHARES)?;
    if let Some(bytes) = arguments.buffer {
        within("--buffer", bytes, MIN_ARENA_BYTES..=MAX_BUFFER_BYTES)?;
    }
    if let Some(exponent) = arguments.zipfian {
        within("--zipfian", exponent, EXPONENTS)?;
    }
    for (option, speed) in [
        ("--write-mb-s", arguments.write_mb_s),
        ("--merge-mb-s", arguments.merge_mb_s),
    ] {
        speed.map_or(Ok(()), |speed| within(option, speed, MB_S))?;
    }
    Ok(())
}

fn within<N: PartialOrd + Display>(option: &str, value: N, range: RangeInclusive<N>) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    Err(Failure::Usage(format!(
        "{option} is {value}; it must be from {least} to {most}"
    )))
}

/// Refuses a load that takes hours, with the largest number that would be taken in its place.
fn check_writes(arguments: &SimulateCompaction, simulation: &Simulation) -> Result<()> {
    let most = simulation.max_writes().map_err(usage)?;
    if simulation.writes <= most {
        return Ok(());
    }
    let largest = match most / arguments.keys {
        0 => {
            let keys = most as f64 / arguments.writes_per_key;
            format!("--keys can be at most {}", keys.max(1.0) as u64)
        }
        writes_per_key => format!("--writes-per-key can be at most {writes_per_key}"),
    };
    Err(Failure::Usage(format!(
        "{:.3e} writes are too many for a simulation (it takes {} write buffers at most): {largest} here",
        simulation.writes as f64,
        count(MAX_FLUSHES),
    )))
}

fn speeds(arguments: &SimulateCompaction) -> Option<Speeds> {
    Some(Speeds {
        write_bytes_per_second: arguments.write_mb_s? * 1e6,
        merge_bytes_per_second: arguments.merge_mb_s? * 1e6,
    })
}

/// Returns the options of a store whose sizes are multiples of its write buffer.
fn sized(buffer_bytes: u64) -> Options {
    Options {
        arena_bytes: buffer_bytes,
        default_keyspace: KeyspaceOptions {
            table_bytes: buffer_bytes,
            compression: vec![Compression::None],
            level1_bytes: buffer_bytes.saturating_mul(4),
            ..KeyspaceOptions::default()
        },
        level0_merge: 4,
        level0_slowdown: 20,
        constants: terrace::Constants {
            slice_bytes: buffer_bytes.saturating_mul(4),
            debt_slowdown_bytes: buffer_bytes.saturating_mul(256),
            debt_stop_bytes: buffer_bytes.saturating_mul(1024),
            ..terrace::Constants::default()
        },
        ..Options::default()
    }
}

/// Returns the load under a policy, as it is typed.
fn under(policy: &str, described: &Simulation) -> Result<Simulation> {
    let wrong = || {
        let known = "leveled, tiered, lazy, dedup[:THRESHOLD], score[:LEAST] and trie";
        Failure::Usage(format!("{policy:?} is no policy; there are {known}"))
    };
    let (name, parameter) = match policy.split_once(':') {
        Some((name, parameter)) => (name, Some(parameter.parse().map_err(|_| wrong())?)),
        None => (policy, None),
    };
    let mut simulation = described.clone();
    let options = &mut simulation.options;
    match (name, parameter) {
        ("leveled", None) => options.compaction_policy = CompactionPolicy::Leveled,
        ("tiered", None) => options.compaction_policy = CompactionPolicy::Tiered,
        ("lazy", None) => options.compaction_policy = CompactionPolicy::Lazy,
        ("dedup", threshold) => {
            options.compaction_policy = CompactionPolicy::Dedup;
            options.dedup_threshold = threshold.unwrap_or(options.dedup_threshold);
        }
        ("score", least) => {
            options.compaction_policy = CompactionPolicy::Score;
            options.min_score = least.unwrap_or(options.min_score);
        }
        ("trie", None) => simulation.tree = TreeKind::Trie(TrieForm::default()),
        _ => return Err(wrong()),
    }
    Ok(simulation)
}

/// Returns the failure for a description; an argument that makes no sense is wrong usage.
fn usage(error: Error) -> Failure {
    match error {
        Error::InvalidArgument(what) => Failure::Usage(what),
        error => error.into(),
    }
}

fn as_text(described: &Simulation, all: &[Simulated]) -> String {
    let data_bytes = described.keys.saturating_mul(described.record_bytes());
    let mut text = format!(
        "{:.3e} keys of {} B, {} distinct; {:.3e} writes; write buffers of {}; simulated\n\n",
        described.keys as f64,
        described.record_bytes(),
        bytes(data_bytes),
        described.writes as f64,
        bytes(described.options.arena_bytes),
    );
    let held_back = described.speeds.is_some();
    text.push_str("policy        written  settled    space     peak  settled     runs   merges");
    text.push_str(if held_back { "  held back\n" } else { "\n" });
    for Simulated {
        policy, outcome, ..
    } in all
    {
        let merges: u64 = outcome.merges.values().map(|merges| merges.count).sum();
        text.push_str(&format!(
            "{policy:<12} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>8.1} {merges:>8}",
            outcome.write_amplification,
            outcome.settled_write_amplification,
            outcome.space.mean,
            outcome.space.peak,
            outcome.space.settled,
            outcome.sub_levels.mean,
        ));
        if let Some(seconds) = outcome.seconds {
            let share = seconds.held_back / seconds.load.max(f64::MIN_POSITIVE);
            text.push_str(&format!(" {:>8.0} %", share * 100.0));
        }
        text.push('\n');
    }
    let enlarged = all
        .iter()
        .filter_map(|one| one.outcome.enlarged_table_bytes);
    if let Some(largest) = enlarged.max() {
        text.push_str(&format!(
            "\nTables are up to {} here: there would be too many of their real size.\n",
            bytes(largest)
        ));
    }
    text
}
