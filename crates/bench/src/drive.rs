//! From what was typed to a contest, and from a contest to what is shown.

mod paced;

use std::collections::BTreeMap;
use std::io::Write;

use crate::arguments::{Bench, Common, Memory};
use crate::contest::{self, Program, Setup, Variant};
use crate::outcome::Contest;
use crate::run::Plan;
use crate::settings::{DurabilityClass, Settings};
use crate::workload::Workload;
use crate::{Result, memory_limit, report, work};

/// Does what was typed: holds the contest and shows what it gave.
///
/// # Errors
/// Arguments that make no sense, a store that fails, and output that cannot be written.
pub fn run(program: &Program, bench: &Bench, command: &str) -> Result<()> {
    let Some(common) = bench.common() else {
        return contest::run_one(program);
    };
    check_output(common)?;
    let mut setup = setup(program, work::load(bench, common)?, common, command)?;
    let mut contest = contest::hold(program, &setup)?;
    // What was found before is shown, whatever becomes of the rest.
    let paced = match common.paced {
        Some(percent) => paced::add(program, &mut setup, &mut contest, percent),
        None => Ok(()),
    };
    show(&contest, common, matches!(bench, Bench::Explain(_)))?;
    paced?;
    contest.succeeded()
}

/// A rate of all phases that do not load.
fn rates(work: &Workload, rate: Option<f64>) -> BTreeMap<String, f64> {
    let paced = work.phases.iter().filter(|phase| !phase.starts_empty);
    rate.into_iter()
        .flat_map(|rate| paced.clone().map(move |phase| (phase.name.clone(), rate)))
        .collect()
}

/// Before hours of work, not after.
fn check_output(common: &Common) -> Result<()> {
    contest::check_directory(&common.directory)?;
    if let Some(path) = &common.html {
        std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    let not_above = |value: Option<f64>| value.is_some_and(|value| value.is_nan() || value <= 0.0);
    if not_above(common.rate) || not_above(common.paced) {
        return Err("--rate and --paced are above 0".into());
    }
    if !(0.0..=1000.0).contains(&common.warm_up) {
        return Err("--warm-up is a percentage from 0 to 1000".into());
    }
    Ok(())
}

fn show(contest: &Contest, common: &Common, explain: bool) -> Result<()> {
    if let Some(path) = &common.html {
        report::write_html(contest, path)?;
    }
    let text = if common.json {
        serde_json::to_string_pretty(contest)? + "\n"
    } else if explain {
        report::profiles(contest)
    } else {
        report::table(contest)
    };
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    if let (Some(path), false) = (&common.html, common.json) {
        writeln!(stdout, "\nThe report is in {}", path.display())?;
    }
    Ok(())
}

fn setup(program: &Program, work: Workload, common: &Common, command: &str) -> Result<Setup> {
    let contestants = if common.stores.is_empty() {
        let names: Vec<_> = program
            .default_contestants
            .iter()
            .map(|name| name.to_string())
            .collect();
        program.named(&names)?
    } else {
        program.named(&common.stores)?
    };
    let variants = regimes(common)
        .iter()
        .map(|bounded| variant(&work, common, *bounded))
        .collect::<Result<Vec<_>>>()?;
    let mut own: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for option in &common.set {
        if !contestants
            .iter()
            .any(|contestant| contestant.name == option.store)
        {
            return Err(format!("--set names {}, which does not take part", option.store).into());
        }
        own.entry(option.store.clone())
            .or_default()
            .insert(option.name.clone(), option.value.clone());
    }
    Ok(Setup {
        command: command.into(),
        title: format!("{}: {}", work.name, work.dataset.describe()),
        conditions: conditions(&work, common, &variants),
        variants,
        contestants,
        repeats: if common.tiny {
            1
        } else {
            common.repeats.max(1)
        },
        directory: common.directory.clone(),
        own,
    })
}

fn regimes(common: &Common) -> &'static [bool] {
    match common.memory {
        Memory::Fits => &[false],
        Memory::Bounded => &[true],
        Memory::Both => &[false, true],
    }
}

fn variant(work: &Workload, common: &Common, bounded: bool) -> Result<Variant> {
    let data_bytes = work.dataset.expected_bytes();
    let buffers_bytes = buffer_bytes(common).saturating_mul(u64::from(common.write_buffers));
    let bound_bytes = bounded.then(|| bound_bytes(common, data_bytes));
    // Where the page cache cannot be bounded it is left out, and the report says so.
    let unbounded_because = bounded
        .then(memory_limit::available)
        .and_then(Result::err)
        .map(|error| error.to_string());
    let cache_bytes = match (common.cache_mib, bound_bytes) {
        (Some(mib), _) => mib << 20,
        (None, None) => (data_bytes + data_bytes / 4).max(LEAST_CACHE_BYTES),
        (None, Some(bound)) => (bound.saturating_sub(buffers_bytes) / 2).max(LEAST_CACHE_BYTES / 8),
    };
    let plan = Plan {
        dataset: work.dataset,
        phases: work.phases.clone(),
        rates: rates(work, common.rate),
        warm_up: common.warm_up / 100.0,
        seed: common.seed,
        settings: Settings {
            durability: if common.durable {
                DurabilityClass::PowerCut
            } else {
                DurabilityClass::ProcessCrash
            },
            cache_bytes,
            write_buffer_bytes: buffer_bytes(common),
            write_buffers: common.write_buffers,
            background_threads: common.background_threads.max(2),
            filter_bits_per_key: common.filter_bits,
            compressed: common.compress,
            direct_io: common.direct || unbounded_because.is_some(),
            bounded,
            expected_data_bytes: data_bytes,
            ..Settings::default()
        },
        label: match common.memory {
            Memory::Fits => String::new(),
            _ if bounded => ", bounded".into(),
            _ => ", fits".into(),
        },
    };
    Ok(Variant {
        plan,
        memory_bytes: bound_bytes.filter(|_| unbounded_because.is_none()),
        unbounded_because,
    })
}

const LEAST_CACHE_BYTES: u64 = 64 << 20;

/// Below it no store opens, and a program takes some of it itself.
const LEAST_BOUND_BYTES: u64 = 64 << 20;

fn bound_bytes(common: &Common, data_bytes: u64) -> u64 {
    common
        .memory_mib
        .map_or(data_bytes / 3, |mib| mib << 20)
        .max(LEAST_BOUND_BYTES)
}

fn buffer_bytes(common: &Common) -> u64 {
    const TINY_BYTES: u64 = 1 << 20;
    if common.tiny {
        TINY_BYTES
    } else {
        common.write_buffer_mib << 20
    }
}

/// What is the same for all, for people.
fn conditions(work: &Workload, common: &Common, variants: &[Variant]) -> Vec<(String, String)> {
    let mib = |bytes: u64| format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20));
    let mut conditions: Vec<(String, String)> = Vec::new();
    let mut say = |name: &str, value: String| conditions.push((name.into(), value));
    say("data", mib(work.dataset.expected_bytes()));
    for phase in &work.phases {
        say(&format!("phase {}", phase.name), phase.describe());
    }
    say(
        "durability",
        if common.durable {
            "every write is synced"
        } else {
            "survives the death of the process"
        }
        .into(),
    );
    for variant in variants {
        let (plan, settings) = (&variant.plan, &variant.plan.settings);
        let bound = match (variant.memory_bytes, &variant.unbounded_because) {
            (Some(bytes), _) => {
                let group = memory_limit::describe().unwrap_or_else(|error| error.to_string());
                format!("at most {} in {group}", mib(bytes))
            }
            (None, Some(because)) => format!(
                "no bound ({because}); in its place tables are read past the page cache by stores \
                 that can"
            ),
            (None, None) => "no bound".into(),
        };
        let of = plan.label.trim_start_matches(", ");
        let of = if of.is_empty() {
            String::new()
        } else {
            format!(", {of}")
        };
        say(
            &format!("memory{of}"),
            format!(
                "{bound}; for reads {}, write buffers {} x {}",
                mib(settings.cache_bytes),
                settings.write_buffers,
                mib(settings.write_buffer_bytes)
            ),
        );
    }
    say(
        "background threads",
        common.background_threads.max(2).to_string(),
    );
    say("filter", format!("{} bits a key", common.filter_bits));
    say(
        "compression",
        if common.compress {
            "LZ4 below the first levels"
        } else {
            "none"
        }
        .into(),
    );
    say(
        "tables are read",
        if common.direct {
            "past the page cache, by stores that can"
        } else {
            "through the page cache"
        }
        .into(),
    );
    let warm_up = match common.warm_up {
        0.0 => "none".into(),
        percent => {
            format!("{percent} % of a workload's operations, before they are measured; loads none")
        }
    };
    say("warm-up", warm_up);
    say("seed", common.seed.to_string());
    conditions
}
