//! The measurements of each system, read off its runs.

use serde::{Deserialize, Serialize};

use super::setting::SMALL_BYTES;
use super::{contests, paper};
use crate::outcome::{Contest, Latency, PhaseOutcome};
use crate::report::numbers::digits;
use crate::reproduce::plexdb::Figure;

/// One system in one phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// The system.
    pub system: String,
    /// The phase, with its conditions behind its name.
    pub phase: String,
    /// Client threads.
    pub clients: u32,
    /// Operations a second, to the last acknowledgement.
    pub per_second: Figure,
    /// Bytes of values in that, MiB a second.
    pub mib_per_second: Figure,
    /// Mean latency, us.
    pub mean_us: Figure,
    /// Median latency, us.
    pub p50_us: Figure,
    /// 99th percentile, us.
    pub p99_us: Figure,
    /// 99.9th percentile, us.
    pub p999_us: Figure,
    /// Operations a second until nothing was left to flush or merge; none where nothing is written.
    pub settled_per_second: Option<Figure>,
    /// Processor time of an operation, host and node together, us.
    pub processor_us: Figure,
    /// Latencies of the repeat whose mean is the median one (us), and the part of operations that took at
    /// most that.
    pub cdf: Vec<(f64, f64)>,
    /// Values of each repeat, in order: operations a second, mean and 99th percentile.
    pub repeats: Vec<Repeat>,
}

/// One repeat.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Repeat {
    /// The number of the repeat.
    pub repeat: u32,
    /// Operations a second.
    pub per_second: f64,
    /// us.
    pub mean_us: f64,
    /// us.
    pub p99_us: f64,
}

/// Returns all systems in all phases.
pub fn measured(contest: &Contest) -> Vec<Measured> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for run in &contest.runs {
        for phase in &run.phases {
            let pair = (phase.name.as_str(), run.store.as_str());
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
    }
    let of = |(phase, system): (&str, &str)| of_phase(contest, system, phase);
    pairs.into_iter().filter_map(of).collect()
}

/// Returns the figures of a system in a phase.
pub fn find<'a>(all: &'a [Measured], system: &str, phase: &str) -> Option<&'a Measured> {
    let is_it = |one: &&Measured| one.system == system && one.phase == phase;
    all.iter().find(is_it)
}

fn of_phase(contest: &Contest, system: &str, phase: &str) -> Option<Measured> {
    let runs = contest.runs.iter().filter(|run| run.store == system);
    let found = runs.flat_map(|run| {
        let phases = run.phases.iter().filter(|found| found.name == phase);
        phases.filter_map(|found| Some((run.repeat, found, only_latency(found)?)))
    });
    let found: Vec<(u32, &PhaseOutcome, &Latency)> = found.collect();
    let over = |read: &dyn Fn(&PhaseOutcome, &Latency) -> f64| {
        let values: Vec<f64> = found
            .iter()
            .map(|(_, one, latency)| read(one, latency))
            .collect();
        Figure::of(&values)
    };
    let settled: Option<Vec<f64>> = found
        .iter()
        .map(|(_, one, _)| Some(one.operations as f64 / one.settled_s?))
        .collect();
    let mib = value_bytes(phase) / f64::from(1 << 20);
    let mut by_mean = found.clone();
    by_mean.sort_by(|(_, _, one), (_, _, other)| one.mean_us.total_cmp(&other.mean_us));
    let (_, _, middle) = by_mean.get(by_mean.len() / 2)?;
    Some(Measured {
        system: system.into(),
        phase: phase.into(),
        clients: found.first()?.1.clients,
        per_second: over(&|one, _| one.completed_per_second())?,
        mib_per_second: over(&|one, _| one.completed_per_second() * mib)?,
        mean_us: over(&|_, latency| latency.mean_us)?,
        p50_us: over(&|_, latency| latency.p50_us)?,
        p99_us: over(&|_, latency| latency.p99_us)?,
        p999_us: over(&|_, latency| latency.p999_us)?,
        settled_per_second: settled.and_then(|values| Figure::of(&values)),
        processor_us: over(&|one, _| {
            (one.usage.user_s + one.usage.system_s) * 1e6 / one.operations.max(1) as f64
        })?,
        cdf: middle.cdf.clone(),
        repeats: found
            .iter()
            .map(|(repeat, one, latency)| Repeat {
                repeat: *repeat,
                per_second: one.completed_per_second(),
                mean_us: latency.mean_us,
                p99_us: latency.p99_us,
            })
            .collect(),
    })
}

/// Phases have operations of one kind.
fn only_latency(phase: &PhaseOutcome) -> Option<&Latency> {
    phase.latencies.values().next()
}

fn value_bytes(phase: &str) -> f64 {
    match phase.ends_with(contests::SMALL) {
        true => f64::from(SMALL_BYTES),
        false => f64::from(paper::VALUE_BYTES),
    }
}

/// Writes a median, and the least and the most where they differ.
pub fn text(figure: Figure) -> String {
    let Figure {
        median,
        least,
        most,
    } = figure;
    match least == most {
        true => digits(median),
        false => format!("{} [{}..{}]", digits(median), digits(least), digits(most)),
    }
}

/// A quantity of one system against another: one change for each repeat, of runs that followed each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Over all repeats, %.
    pub percent: Figure,
    /// How many repeats.
    pub repeats: usize,
}

impl Change {
    /// Returns none without a repeat of both.
    pub fn of(ours: &Measured, theirs: &Measured, read: fn(&Repeat) -> f64) -> Option<Change> {
        let changes = ours.repeats.iter().filter_map(|one| {
            let mut others = theirs.repeats.iter();
            let other = others.find(|other| other.repeat == one.repeat)?;
            Some((read(one) / read(other) - 1.0) * 100.0)
        });
        let changes: Vec<f64> = changes.collect();
        Some(Change {
            percent: Figure::of(&changes)?,
            repeats: changes.len(),
        })
    }

    /// Returns whether several repeats lie on one side.
    pub fn exceeds_spread(&self) -> bool {
        self.repeats > 1 && (self.percent.least > 0.0 || self.percent.most < 0.0)
    }

    /// Returns the change in words: `-62 % [-65..-58]`.
    pub fn text(&self) -> String {
        let Figure {
            median,
            least,
            most,
        } = self.percent;
        match self.repeats {
            1 => format!("{median:+.0} %"),
            _ => format!("{median:+.0} % [{least:+.0}..{most:+.0}]"),
        }
    }
}
