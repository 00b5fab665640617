//! From arguments to a contest, and from a contest to its output.

mod paced;

use std::collections::BTreeMap;

use crate::arguments::{Bench, Common, Memory};
use crate::contest::{self, Program, Setup, Variant};
use crate::output::Output;
use crate::run::{INTERVAL_MS, Plan};
use crate::settings::Settings;
use crate::workload::Workload;
use crate::{Result, memory_limit, reopen, report, told, work};

/// Runs the command: holds the contest and shows its outcome.
///
/// # Errors
/// Arguments that make no sense, a store that fails, and output that cannot be written.
pub fn run(program: &Program, bench: &Bench, command: &str) -> Result<()> {
    if let Bench::Reopen(asked) = bench {
        return reopen::run(program, asked, command);
    }
    let Some(common) = bench.common() else {
        return contest::run_one(program);
    };
    check(common)?;
    let mut setup = setup(program, work::load(bench, common)?, common, command)?;
    let mut contest = contest::hold(program, &setup)?;
    // The earlier findings are shown, whatever becomes of the rest.
    let paced = match common.paced {
        Some(percent) => paced::add(program, &mut setup, &mut contest, percent),
        None => Ok(()),
    };
    let text = match bench {
        Bench::Explain(_) => report::profiles,
        _ => report::table,
    };
    output(common).show(&contest, || text(&contest), || report::page(&contest))?;
    paced?;
    contest.succeeded()
}

/// Returns the same rate for all of them.
fn rates(work: &Workload, rate: Option<f64>) -> BTreeMap<String, f64> {
    rate.into_iter()
        .flat_map(|rate| paced::phases(&work.phases).map(move |phase| (phase.name.clone(), rate)))
        .collect()
}

fn output(common: &Common) -> Output<'_> {
    Output {
        json: common.runs.json,
        html: common.html.as_deref(),
    }
}

/// Checks the arguments before hours of work, not after.
fn check(common: &Common) -> Result<()> {
    contest::check_directory(&common.runs.directory)?;
    output(common).check()?;
    let not_above = |value: Option<f64>| value.is_some_and(|value| value.is_nan() || value <= 0.0);
    if not_above(common.rate) || not_above(common.paced) {
        return Err("--rate and --paced are above 0".into());
    }
    if common.rate.is_some() && common.paced.is_some() {
        return Err(
            "--paced is a share of what a closed loop gives, and --rate leaves none".into(),
        );
    }
    if !(0.0..=1000.0).contains(&common.warm_up) {
        return Err("--warm-up is a percentage from 0 to 1000".into());
    }
    Ok(())
}

fn setup(program: &Program, work: Workload, common: &Common, command: &str) -> Result<Setup> {
    let is_open = common.rate.is_some() || common.paced.is_some();
    if is_open && paced::phases(&work.phases).next().is_none() {
        return Err("--rate and --paced: none of these workloads can be held at a rate".into());
    }
    let contestants = told::contestants(program, &common.stores)?;
    let variants = regimes(common)
        .iter()
        .map(|bounded| variant(&work, common, *bounded))
        .collect::<Result<Vec<_>>>()?;
    Ok(Setup {
        command: command.into(),
        title: format!("{}: {}", work.name, work.dataset.describe()),
        conditions: conditions(&work, common, &variants),
        variants,
        own: told::own_options(&common.stores, &contestants)?,
        contestants,
        repeats: common.runs.repeats(),
        directory: common.runs.directory.clone(),
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
    let bound_bytes = bounded.then(|| bound_bytes(common, data_bytes));
    // Where the page cache cannot be bounded it is left out, and the report says so.
    let unbounded_because = bounded
        .then(memory_limit::available)
        .and_then(Result::err)
        .map(|error| error.to_string());
    let mut settings = told::settings(&common.stores, common.runs.tiny, data_bytes);
    settings.expected_records = work.dataset.records;
    settings.tables = work::tables(&work.phases);
    if let (Some(bound), None) = (bound_bytes, common.stores.cache_mib) {
        settings.cache_bytes = bounded_cache_bytes(bound, &settings);
        settings.direct_write_buffer_bytes = bounded_direct_write_buffer_bytes(bound, &settings);
        settings.direct_cache_bytes = bounded_direct_cache_bytes(bound, &settings);
    }
    let plan = Plan {
        dataset: work.dataset,
        phases: work.phases.clone(),
        rates: rates(work, common.rate),
        warm_up: common.warm_up / 100.0,
        sample_interval_ms: INTERVAL_MS,
        seed: common.runs.seed,
        settings: Settings {
            bound_bytes,
            cache_is_chosen: common.stores.cache_mib.is_some(),
            direct_io: settings.direct_io || unbounded_because.is_some(),
            ..settings
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

/// Returns half of the memory that the write buffers leave; the other half is the page cache's.
fn bounded_cache_bytes(bound_bytes: u64, settings: &Settings) -> u64 {
    const LEAST_BYTES: u64 = told::LEAST_CACHE_BYTES / 8;
    let buffers = u64::from(settings.write_buffers);
    let buffers_bytes = settings.write_buffer_bytes.saturating_mul(buffers);
    (bound_bytes.saturating_sub(buffers_bytes) / 2).max(LEAST_BYTES)
}

/// Returns the size of one write buffer of a store that reads past the page cache, in whole MiB.
fn bounded_direct_write_buffer_bytes(bound_bytes: u64, settings: &Settings) -> u64 {
    const MIB: u64 = 1 << 20;
    let bytes = bound_bytes / 20 / MIB * MIB;
    bytes.clamp(MIB, settings.write_buffer_bytes.max(MIB))
}

/// Returns the memory that its write buffers and its filters leave, but for
/// [`bounded_direct_reserve_bytes`]. With a buffer less than there may be, or with filters of ten
/// million records left out of account, writes waited 40 to 110 ms for memory; without
/// [`memory_limit::allocator_arenas`], too.
fn bounded_direct_cache_bytes(bound_bytes: u64, settings: &Settings) -> u64 {
    let buffers = u64::from(settings.write_buffers);
    let buffers_bytes = settings.direct_write_buffer_bytes.saturating_mul(buffers);
    let filter_bits = u64::from(settings.filter_bits_per_key);
    let filters_bytes = settings.expected_records.saturating_mul(filter_bits) / 8;
    bound_bytes
        .saturating_sub(buffers_bytes.saturating_add(filters_bytes))
        .saturating_sub(bounded_direct_reserve_bytes(bound_bytes))
        .max(settings.cache_bytes)
}

/// Returns memory for the program, its merges and its allocator: no page cache gives way to them.
/// Of 650 MiB 40 are enough, of 391 MiB 39.
fn bounded_direct_reserve_bytes(bound_bytes: u64) -> u64 {
    (bound_bytes / 10).min(40 << 20).max(bound_bytes / 20)
}

/// Below it no store opens, and a program takes some of it itself.
const LEAST_BOUND_BYTES: u64 = 64 << 20;

fn bound_bytes(common: &Common, data_bytes: u64) -> u64 {
    common
        .memory_mib
        .map_or(data_bytes / 3, |mib| mib << 20)
        .max(LEAST_BOUND_BYTES)
}

fn bound(variant: &Variant) -> String {
    match (variant.memory_bytes, &variant.unbounded_because) {
        (Some(bytes), _) => {
            let group = memory_limit::describe().unwrap_or_else(|error| error.to_string());
            let (name, arenas) = memory_limit::allocator_arenas();
            format!("at most {} in {group}, {name}={arenas}", told::mib(bytes))
        }
        (None, Some(because)) => format!(
            "no bound ({because}); in its place tables are read past the page cache by stores \
             that can"
        ),
        (None, None) => "no bound".into(),
    }
}

/// Returns the conditions that are the same for all, for people.
fn conditions(work: &Workload, common: &Common, variants: &[Variant]) -> Vec<(String, String)> {
    let mut conditions: Vec<(String, String)> = Vec::new();
    let mut say = |name: &str, value: String| conditions.push((name.into(), value));
    say("data", told::mib(work.dataset.expected_bytes()));
    for phase in &work.phases {
        say(&format!("phase {}", phase.name), phase.describe());
    }
    for variant in variants {
        let memory = told::memory(&variant.plan.settings);
        let memory = format!("{}; {memory}", bound(variant));
        say(&format!("memory{}", variant.plan.label), memory);
    }
    for (name, value) in told::conditions(&common.stores) {
        say(&name, value);
    }
    let warm_up = match common.warm_up {
        0.0 => "none".into(),
        percent => {
            format!("{percent} % of a workload's operations, before they are measured; loads none")
        }
    };
    say("warm-up", warm_up);
    say("seed", common.runs.seed.to_string());
    conditions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stores_past_the_page_cache_are_told_fits_their_bound() {
        for (bound_bytes, reserve_bytes) in [
            (64 << 20, 6_710_886),
            (387_000_001, 38_700_000),
            (682_000_000, 40 << 20),
            (5 << 30, 256 << 20),
        ] {
            let mut settings = Settings::default();
            settings.expected_records = 0;
            settings.cache_bytes = bounded_cache_bytes(bound_bytes, &settings);
            settings.direct_write_buffer_bytes =
                bounded_direct_write_buffer_bytes(bound_bytes, &settings);
            let cache_bytes = bounded_direct_cache_bytes(bound_bytes, &settings);
            let buffer_bytes = settings.direct_write_buffer_bytes;
            // An arena is made of whole pages.
            assert!(buffer_bytes > 0 && buffer_bytes.is_multiple_of(1 << 20));
            assert!(cache_bytes >= settings.cache_bytes);
            settings.expected_records = bound_bytes / 1000;
            let filters_bytes = settings.expected_records * 10 / 8;
            let beside_filters_bytes = bounded_direct_cache_bytes(bound_bytes, &settings);
            assert_eq!(beside_filters_bytes + filters_bytes, cache_bytes);
            let all_bytes = cache_bytes + u64::from(settings.write_buffers) * buffer_bytes;
            assert_eq!(bound_bytes - all_bytes, reserve_bytes, "{bound_bytes}");
        }
    }
}
