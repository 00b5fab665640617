//! Figures 4.2 and 4.3: throughput against a store with a write-ahead log.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::gain::Gain;
use super::paper;
use super::setting::{Setting, WARM_UP};
use super::stores::{LOG, MODEL_OPTION, REGION, REGION_MODELLED};
use crate::contest::{self, Program, Setup, Variant};
use crate::outcome::Contest;
use crate::reproduce::report::{Bar, Chart, Claim, Section, Table, Whose};
use crate::run::{INTERVAL_MS, Plan};
use crate::workload::ycsb::UpdateStyle;
use crate::workload::{Options, named};
use crate::{Error, Result};

/// In this order: workloads that leave the records as they are come first. G begins with a new
/// store; H goes on from its records.
const WORKLOADS: &str = "A,B,C,F100,D,G,H";

const ROCKSDB: &str = "rocksdb";

/// Numbers of the figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Gains {
    /// The store with its new writes in the region.
    pub region: String,
    /// Comparisons against each baseline, the one that stands for the thesis' first.
    pub comparisons: Vec<Comparison>,
    /// All runs.
    pub contest: Contest,
}

/// Gains against one baseline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// Its name.
    pub baseline: String,
    /// Gains by workload, in the thesis' order.
    pub gains: Vec<Gain>,
}

/// Returns the name of the contestant with the region.
pub fn region_name(setting: &Setting) -> &'static str {
    match setting.model {
        Some(_) => REGION_MODELLED,
        None => REGION,
    }
}

/// Returns the options that take the model to a run's process.
pub fn own_options(
    setting: &Setting,
    contestant: &str,
) -> BTreeMap<String, BTreeMap<String, String>> {
    let model = setting.model.map(|model| {
        let option = (MODEL_OPTION.to_string(), model.to_string());
        (contestant.to_string(), BTreeMap::from([option]))
    });
    model.into_iter().collect()
}

/// Holds the contest.
///
/// # Errors
/// A store that fails.
pub fn measure(program: &Program, setting: &Setting, command: &str) -> Result<Gains> {
    let region = region_name(setting);
    let baselines = baselines(program);
    let names = baselines.iter().copied().chain([region]);
    let names: Vec<String> = names.map(str::to_string).collect();
    let setup = Setup {
        command: command.into(),
        title: format!("{}: figures 4.2 and 4.3", paper::TITLE),
        conditions: Vec::new(),
        variants: vec![Variant {
            plan: plan(setting, WORKLOADS, setting.records)?,
            memory_bytes: None,
            unbounded_because: None,
        }],
        contestants: program.named(&names)?,
        repeats: setting.repeats,
        directory: setting.directory.clone(),
        own: own_options(setting, region),
    };
    let contest = contest::hold(program, &setup)?;
    contest.succeeded()?;
    let comparisons = baselines.iter().map(|baseline| Comparison {
        baseline: baseline.to_string(),
        gains: paper::GAINS
            .iter()
            .filter_map(|(workload, _)| Gain::of(&contest, workload, region, baseline))
            .collect(),
    });
    Ok(Gains {
        region: region.into(),
        comparisons: comparisons.collect(),
        contest,
    })
}

/// Returns the baselines. The thesis compares an engine with itself: so the store with a log is
/// first, by which claims are judged. RocksDB, another engine, follows where the program has it.
fn baselines(program: &Program) -> Vec<&'static str> {
    let mut known = program.contestants.iter();
    let has_rocksdb = known.any(|contestant| contestant.name == ROCKSDB);
    std::iter::once(LOG)
        .chain(has_rocksdb.then_some(ROCKSDB))
        .collect()
}

/// Plans YCSB workloads over the setting's records.
pub fn plan(setting: &Setting, workloads: &str, records: u64) -> Result<Plan> {
    let options = Options {
        records: Some(records),
        operations: Some(setting.operations),
        clients: Some(setting.clients),
        update: UpdateStyle::Value,
        ..Options::default()
    };
    let workload = named(workloads, &options)
        .ok_or_else(|| Error::from(format!("there is no workload {workloads}")))?;
    Ok(Plan {
        dataset: workload.dataset,
        phases: workload.phases,
        rates: BTreeMap::new(),
        seed: setting.seed,
        settings: setting.settings(),
        warm_up: WARM_UP,
        sample_interval_ms: INTERVAL_MS,
        label: String::new(),
    })
}

/// Shows the gains to people.
pub fn section(gains: &Gains, modelled: bool) -> Section {
    let bar = |label: &str, whose, value| Bar {
        label: label.into(),
        whose,
        value,
    };
    let first = gains.comparisons.first();
    let bars = first.into_iter().flat_map(|comparison| &comparison.gains);
    let bars = bars.flat_map(|gain| {
        let published = paper::gain(&gain.phase).unwrap_or_default();
        [
            bar(&gain.phase, Whose::Paper, published),
            bar(&gain.phase, Whose::Ours, gain.percent),
        ]
    });
    Section {
        figure: "Figures 4.2 and 4.3".into(),
        title: "throughput with new writes in the region, against a write-ahead log".into(),
        modelled,
        emulated: false,
        notes: vec![
            "Gains are medians over repeats; in brackets the least and the greatest. A gain exceeds \
             the spread if all repeats lie on one side of zero. F100 is the thesis' F: \
             read-modify-writes only."
                .into(),
            format!(
                "The thesis changes RocksDB 6.24 and compares it with itself unchanged, whose sync \
                 mode is unstated. So {LOG} stands for its baseline, and claims are judged by it: \
                 this store with one pwrite for each write, and all else alike. A program that has RocksDB (`peers \
                 reproduce wbl`) shows a comparison with that, too; it holds engines against each \
                 other, and not only logs against regions."
            ),
            format!(
                "{LOG} and {} have Terrace's default policy for the DRAM buffer, `resident`: a write \
                 brings the copy of its key up to date, if there is one, and new keys are not \
                 forwarded; while all blocks fit into the memory for reads, the buffer sleeps. The \
                 thesis forwards every write; figure 4.4 sets the policies beside each other.",
                gains.region
            ),
        ],
        tables: gains.comparisons.iter().map(|c| table(c, &gains.region)).collect(),
        plots: Vec::new(),
        charts: vec![Chart {
            title: "Gain in throughput".into(),
            unit: "%".into(),
            bars: bars.collect(),
        }],
    }
}

fn table(comparison: &Comparison, region: &str) -> Table {
    let mut table = Table::new(
        &format!("{region} over {}", comparison.baseline),
        &[
            "workload",
            "log op/s",
            "region op/s",
            "published %",
            "here %",
            "spread",
            "exceeds it",
        ],
    );
    table.rows.extend(comparison.gains.iter().map(|gain| {
        vec![
            gain.phase.clone(),
            format!("{:.0}", gain.baseline_rate),
            format!("{:.0}", gain.rate),
            paper::gain(&gain.phase).map_or("-".into(), |percent| format!("{percent:+.2}")),
            format!("{:+.2}", gain.percent),
            gain.spread().unwrap_or_else(|| "-".into()),
            match (gain.repeats, gain.exceeds_spread()) {
                (1, _) => "-",
                (_, true) => "yes",
                (_, false) => "no",
            }
            .into(),
        ]
    }));
    table
}

/// Returns one claim for each workload, against the baseline that stands for the thesis'.
pub fn claims(gains: &Gains, because: &str) -> Vec<Claim> {
    let Some(comparison) = gains.comparisons.first() else {
        return Vec::new();
    };
    let claim = |gain: &Gain| {
        let published = paper::gain(&gain.phase)?;
        Some(Claim {
            claim: format!(
                "Workload {}: {} without a log over {} (the thesis: RocksDB)",
                gain.phase,
                if published > 0.0 { "a gain" } else { "a loss" },
                comparison.baseline
            ),
            paper: format!("{published:+.2} %"),
            ours: gain.text(),
            verdict: gain.verdict(published),
            because: gain.because(because),
        })
    };
    comparison.gains.iter().filter_map(claim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Contestant;
    use crate::stores::NOTHING;

    #[test]
    fn claims_are_judged_by_the_same_engine_with_a_log() {
        let mut program = Program {
            contestants: vec![NOTHING],
            default_contestants: Vec::new(),
            child_arguments: Vec::new(),
        };
        assert_eq!(baselines(&program), [LOG]);
        program.contestants.push(Contestant {
            name: ROCKSDB,
            ..NOTHING
        });
        assert_eq!(baselines(&program), [LOG, ROCKSDB]);
    }
}
