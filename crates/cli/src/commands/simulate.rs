//! What a store would cost, without one.

use std::fs;
use std::time::{Duration, Instant};

use serde::Serialize;
use terrace::simulate::{KeyDistribution, Outcome, Simulation, Speeds, TreeKind, TrieForm};
use terrace::{CompactionPolicy, Compression, Error, Options};

use crate::arguments::{Simulate, SimulateCompaction};
use crate::commands::{as_json, print};
use crate::failure::{Failure, Result};
use crate::report::bytes;

/// A write buffer is this part of the distinct records.
const BUFFER_PART: u64 = 100;
/// The least that a buffer can be.
const LEAST_BUFFER_BYTES: u64 = 16 << 10;
/// Between two words of how far it is.
const INTERVAL: Duration = Duration::from_secs(5);

pub fn run(what: &Simulate) -> Result<()> {
    match what {
        Simulate::Compaction(arguments) => compaction(arguments),
    }
}

/// A policy and what it costs.
#[derive(Serialize)]
struct Simulated {
    policy: String,
    /// Simulating it took so long.
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
        let began = Instant::now();
        let mut told = began;
        let outcome = simulation.run(&mut |share| {
            if told.elapsed() >= INTERVAL {
                told = Instant::now();
                eprintln!("{policy}: {:.0} %", share * 100.0);
            }
        });
        all.push(Simulated {
            policy: policy.clone(),
            elapsed_s: began.elapsed().as_secs_f64(),
            outcome: outcome.map_err(usage)?,
        });
    }
    match arguments.json {
        true => print(as_json(&all)?),
        false => print(as_text(&described, &all)),
    }
}

fn describe(arguments: &SimulateCompaction) -> Result<Simulation> {
    if arguments.keys == 0 {
        return Err(Failure::Usage("keys must be from 1".into()));
    }
    let writes = arguments.keys as f64 * arguments.writes_per_key;
    if !writes.is_finite() || writes < 1.0 {
        return Err(Failure::Usage("--writes-per-key must be above 0".into()));
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
            Options::from_toml(&text).map_err(usage)?
        }
        None => sized(arguments.buffer.unwrap_or(data_bytes / BUFFER_PART)),
    };
    Ok(Simulation { options, ..records })
}

fn speeds(arguments: &SimulateCompaction) -> Option<Speeds> {
    Some(Speeds {
        write_bytes_per_second: arguments.write_mb_s? * 1e6,
        merge_bytes_per_second: arguments.merge_mb_s? * 1e6,
    })
}

/// A store whose sizes are multiples of its write buffer.
fn sized(buffer_bytes: u64) -> Options {
    let buffer_bytes = buffer_bytes.max(LEAST_BUFFER_BYTES);
    Options {
        arena_bytes: buffer_bytes,
        arena_index_bytes: buffer_bytes / 2,
        table_bytes: buffer_bytes,
        compression: vec![Compression::None],
        level0_merge: 4,
        level0_slowdown: 20,
        level0_stop: 36,
        level1_bytes: buffer_bytes.saturating_mul(4),
        slice_bytes: buffer_bytes.saturating_mul(4),
        debt_slowdown_bytes: buffer_bytes.saturating_mul(256),
        debt_stop_bytes: buffer_bytes.saturating_mul(1024),
        ..Options::default()
    }
}

/// The load under a policy, as it is typed.
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
            options.least_score = least.unwrap_or(options.least_score);
        }
        ("trie", None) => simulation.tree = TreeKind::Trie(TrieForm::default()),
        _ => return Err(wrong()),
    }
    Ok(simulation)
}

/// A description that makes no sense was typed.
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
