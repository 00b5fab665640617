//! Runs of the same placement together, and one placement against another.

use serde::{Deserialize, Serialize};

use super::cost;
use super::run::Run;
use super::setting::Memory;
use crate::report::numbers::digits;
use crate::reproduce::plexdb::Figure;

/// A placement or size under one regime of memory, over its repeats.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Placement, or size of the data.
    pub case: String,
    /// Memory for reads.
    pub memory: Memory,
    /// Requests a second.
    pub per_second: Figure,
    /// Median time of a request.
    pub p50_us: Figure,
    /// Time that one request of a hundred exceeds.
    pub p99_us: Figure,
    /// Price of a million requests, in the currency of the profiles.
    pub price_per_million: Figure,
}

impl Measured {
    /// Returns the figures of a case; `None` without a run of it.
    pub fn of(runs: &[Run], case: &str, memory: Memory, scale: f64) -> Option<Measured> {
        let over = |read: &dyn Fn(&Run) -> f64| {
            let values: Vec<f64> = of_case(runs, case, memory).map(read).collect();
            Figure::of(&values)
        };
        Some(Measured {
            case: case.into(),
            memory,
            per_second: over(&|run| run.per_second)?,
            p50_us: over(&|run| run.p50_us)?,
            p99_us: over(&|run| run.p99_us)?,
            price_per_million: over(&|run| cost::price_per_million(run, scale))?,
        })
    }
}

/// Returns the runs of a case.
pub fn of_case<'a>(runs: &'a [Run], case: &str, memory: Memory) -> impl Iterator<Item = &'a Run> {
    let is_of = move |run: &&Run| run.case == case && run.memory == Some(memory);
    // The closure may not borrow the name beyond the call.
    runs.iter().filter(is_of).collect::<Vec<_>>().into_iter()
}

/// The throughput of one case against another: a change for each repeat.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Over all repeats, %.
    pub percent: Figure,
    /// Number of repeats.
    pub repeats: usize,
    /// Whether the ranges of the two overlap.
    pub overlaps: bool,
}

/// A change below it is small, %.
pub const SMALL_PERCENT: f64 = 5.0;

impl Change {
    /// Returns the change from `theirs` to `ours`; `None` without a repeat of both.
    pub fn of(runs: &[Run], memory: Memory, ours: &str, theirs: &str) -> Option<Change> {
        let rates = |case| {
            let runs = of_case(runs, case, memory);
            runs.map(|run| (run.repeat, run.per_second))
                .collect::<Vec<_>>()
        };
        let (ours, theirs) = (rates(ours), rates(theirs));
        let change = |(repeat, rate): &(u32, f64)| {
            let (_, other) = theirs.iter().find(|(of, _)| of == repeat)?;
            Some((rate / other - 1.0) * 100.0)
        };
        let changes: Vec<f64> = ours.iter().filter_map(change).collect();
        let range = |rates: &[(u32, f64)]| {
            Figure::of(&rates.iter().map(|(_, rate)| *rate).collect::<Vec<_>>())
        };
        let (our_range, their_range) = (range(&ours)?, range(&theirs)?);
        Some(Change {
            percent: Figure::of(&changes)?,
            repeats: changes.len(),
            overlaps: our_range.least <= their_range.most && their_range.least <= our_range.most,
        })
    }

    /// Returns whether the change is more than noise: the ranges of several repeats lie apart.
    pub fn exceeds_spread(&self) -> bool {
        self.repeats > 1 && !self.overlaps
    }

    /// Returns whether the change is small in every repeat.
    pub fn is_small(&self) -> bool {
        self.percent.least > -SMALL_PERCENT && self.percent.most < SMALL_PERCENT
    }

    /// Returns whether the change is more than noise, and more than small.
    pub fn is_large(&self) -> bool {
        self.exceeds_spread() && self.percent.median.abs() >= SMALL_PERCENT
    }

    /// Returns how many times as many requests there are, as median.
    pub fn times(&self) -> f64 {
        1.0 + self.percent.median / 100.0
    }

    /// Returns the change in words: `-62.0 % [-65.1..-58.9]`.
    pub fn text(&self) -> String {
        let Figure {
            median,
            least,
            most,
        } = self.percent;
        match self.repeats {
            1 => format!("{median:+.1} %"),
            _ => format!("{median:+.1} % [{least:+.1}..{most:+.1}]"),
        }
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

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns a run of a case that answered so many requests a second.
    pub fn run(case: &str, memory: Memory, repeat: u32, per_second: f64) -> Run {
        Run {
            case: case.into(),
            memory: Some(memory),
            repeat,
            requests: per_second as u64,
            per_second,
            ..Run::default()
        }
    }

    #[test]
    fn a_change_counts_only_where_the_ranges_lie_apart() {
        let memory = Memory::Fits;
        let of = |case, rates: [f64; 3]| {
            let runs = (0..).zip(rates);
            runs.map(move |(repeat, rate)| run(case, memory, repeat, rate))
        };
        let runs: Vec<Run> = of("D", [100.0, 110.0, 90.0])
            .chain(of("E", [300.0, 330.0, 280.0]))
            .chain(of("A", [99.0, 109.0, 89.0]))
            .collect();
        let change = Change::of(&runs, memory, "E", "D").unwrap();
        assert!(change.exceeds_spread() && change.is_large() && !change.is_small());
        assert_eq!(change.times(), 3.0);
        // Each repeat is slower by a percent, and drift is ten times as much.
        let change = Change::of(&runs, memory, "A", "D").unwrap();
        assert!(!change.is_large() && change.is_small());
        assert_eq!(change.text(), "-1.0 % [-1.1..-0.9]");
        assert!(Change::of(&runs, memory, "A", "Z").is_none());
        assert!(Change::of(&runs, Memory::Bounded, "A", "D").is_none());
        // A single repeat tells nothing.
        let once: Vec<Run> = runs.into_iter().filter(|run| run.repeat == 0).collect();
        assert!(
            !Change::of(&once, memory, "E", "D")
                .unwrap()
                .exceeds_spread()
        );
    }
}
