//! Number of distinct keys among neighbouring writes of a load. It is a pure function of the load,
//! and the one thing about contents that a simulation needs to know.
//!
//! For each key, the sub-levels that it lies in hold spans of time that follow one another: the
//! order of ages means this. So a table's contents are the last versions among the writes of a
//! span, in its range of keys, and a merge makes one span of several. No sets have to be united,
//! and it does not matter that some keys are written more often than others.
//!
//! Keys are of *classes*, those of one class being as likely to be written as one another. How many keys
//! of a class are missing in a span follows from the chance of one draw.

use std::cell::RefCell;
use std::collections::HashMap;

use super::description::{KeyDistribution, Simulation};

/// Neighbouring writes, by their numbers: those behind `from`, up to `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Span {
    /// Returns the span of both, between which there is nothing.
    pub(crate) fn with(self, other: Span) -> Span {
        Span {
            from: self.from.min(other.from),
            to: self.to.max(other.to),
        }
    }
}

/// A load, by the known facts of its keys.
#[derive(Debug)]
pub(crate) struct Load {
    keys: f64,
    /// Writes that write each key once, and come first.
    filling: f64,
    /// Writes after them.
    updates: f64,
    delete_share: f64,
    classes: Classes,
    /// By the bits of both ends: policies ask for the same runs again and again.
    known: RefCell<HashMap<(u64, u64), f64>>,
}

/// Maximum number of spans that are remembered.
const MOST_KNOWN: usize = 1 << 16;

#[derive(Debug)]
enum Classes {
    /// Keys, and the chance of one of them at each write.
    Drawn(Vec<(f64, f64)>),
    /// Keys, and how often each is written in all.
    Counted(Vec<(f64, f64)>),
}

impl Load {
    pub(crate) fn of(simulation: &Simulation) -> Load {
        let keys = simulation.keys as f64;
        let filling = if simulation.fill_first { keys } else { 0.0 };
        Load {
            keys,
            filling,
            updates: simulation.writes as f64 - filling,
            delete_share: simulation.delete_share,
            classes: match simulation.distribution {
                KeyDistribution::Uniform => Classes::Drawn(vec![(keys, 1.0 / keys)]),
                KeyDistribution::Zipfian { exponent } => Classes::Drawn(zipfian(keys, exponent)),
                KeyDistribution::Shuffled => {
                    Classes::Counted(shuffled(keys, simulation.writes as f64 / keys))
                }
            },
            known: RefCell::default(),
        }
    }

    /// Estimates the distinct keys among the writes of a span.
    pub(crate) fn distinct_keys(&self, span: Span) -> f64 {
        let ends = (span.from.to_bits(), span.to.to_bits());
        if let Some(known) = self.known.borrow().get(&ends) {
            return *known;
        }
        let distinct = self.count(span);
        let mut known = self.known.borrow_mut();
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(ends, distinct);
        distinct
    }

    fn count(&self, span: Span) -> f64 {
        let filled = span.to.min(self.filling) - span.from.min(self.filling);
        let unfilled = 1.0 - filled / self.keys;
        let updates = span.to.max(self.filling) - span.from.max(self.filling);
        let present = match &self.classes {
            Classes::Drawn(classes) => present_of(classes, |chance| {
                unfilled * (updates * (-chance).ln_1p()).exp()
            }),
            Classes::Counted(classes) => {
                let others = (1.0 - updates / self.updates).max(0.0);
                present_of(classes, |times| unfilled * others.powf(times))
            }
        };
        // No more than there are writes, however they are rounded.
        present.min(span.to - span.from).max(0.0)
    }

    /// Returns the writes of the whole load.
    pub(crate) fn writes(&self) -> f64 {
        self.filling + self.updates
    }

    /// Estimates the keys of which the last write in a span, if it is none of the filling, is a
    /// deletion.
    pub(crate) fn tombstones(&self, span: Span) -> f64 {
        if self.delete_share == 0.0 {
            return 0.0;
        }
        let updates = Span {
            from: span.from.max(self.filling),
            to: span.to.max(self.filling),
        };
        self.delete_share * self.distinct_keys(updates)
    }
}

fn present_of(classes: &[(f64, f64)], missing_share: impl Fn(f64) -> f64) -> f64 {
    let present = |&(keys, of_one): &(f64, f64)| keys * (1.0 - missing_share(of_one));
    classes.iter().map(present).sum()
}

/// Makes a class of each of the first keys, then of ever more of them. One key is written at most a
/// fifth more often than another one of its class.
fn zipfian(keys: f64, exponent: f64) -> Vec<(f64, f64)> {
    const ALONE: f64 = 32.0;
    const RATIO: f64 = 1.2;
    let mut classes = Vec::new();
    let mut first = 1.0;
    while first <= keys {
        let next = if first < ALONE {
            first + 1.0
        } else {
            (first * RATIO).floor()
        };
        let next = next.min(keys + 1.0);
        // The sum over the ranks as an integral, each rank being the middle of a step.
        let (from, to) = (first - 0.5, next - 0.5);
        let weight = match (exponent - 1.0).abs() < 1e-9 {
            true => (to / from).ln(),
            false => (to.powf(1.0 - exponent) - from.powf(1.0 - exponent)) / (1.0 - exponent),
        };
        let weight = if next - first < 1.5 {
            first.powf(-exponent)
        } else {
            weight
        };
        classes.push((next - first, weight));
        first = next;
    }
    let all: f64 = classes.iter().map(|(_, weight)| weight).sum();
    for (keys, weight) in &mut classes {
        // Below 1, which a single key would have.
        *weight = (*weight / all / *keys).min(1.0 - 1e-12);
    }
    classes
}

/// Each number of writes from 1 to twice the mean less 1 as often; where the mean is no whole number, the
/// two next to it in turn.
fn shuffled(keys: f64, mean_writes: f64) -> Vec<(f64, f64)> {
    let lower = mean_writes.floor().max(1.0);
    let upper_share = mean_writes - lower;
    let mut classes = Vec::new();
    for (mean, share) in [(lower, 1.0 - upper_share), (lower + 1.0, upper_share)] {
        let most = 2 * mean as u64 - 1;
        let each = keys * share / most as f64;
        if share > 0.0 {
            classes.extend((1..=most).map(|times| (each, times as f64)));
        }
    }
    classes
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn span(from: f64, to: f64) -> Span {
        Span { from, to }
    }

    fn load(distribution: KeyDistribution, fill_first: bool) -> Load {
        Load::of(&Simulation {
            keys: 10_000,
            writes: 100_000,
            distribution,
            fill_first,
            ..Simulation::default()
        })
    }

    /// Draws of ranks by their weights, the slow way.
    fn drawn(weights: &[f64], writes: usize) -> usize {
        let mut sums = Vec::new();
        let all = weights.iter().fold(0.0, |sum, weight| {
            sums.push(sum + weight);
            sum + weight
        });
        let mut random = SmallRng::seed_from_u64(1);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..writes {
            let at: f64 = random.random_range(0.0..all);
            seen.insert(sums.partition_point(|sum| *sum <= at));
        }
        seen.len()
    }

    #[test]
    fn as_many_keys_are_distinct_as_if_they_were_drawn() {
        let uniform = vec![1.0; 10_000];
        let zipfian: Vec<f64> = (1..=10_000)
            .map(|rank| f64::from(rank).powf(-0.99))
            .collect();
        let exponent = 0.99;
        for writes in [100, 1_000, 20_000] {
            for (distribution, weights) in [
                (KeyDistribution::Uniform, &uniform),
                (KeyDistribution::Zipfian { exponent }, &zipfian),
            ] {
                let expected = drawn(weights, writes) as f64;
                let found =
                    load(distribution, false).distinct_keys(span(500.0, 500.0 + writes as f64));
                let off = (found / expected - 1.0).abs();
                // A few draws differ from others.
                let most = 0.03 + 0.6 / (writes as f64).sqrt();
                assert!(off < most, "{distribution:?} {writes}: {found}, {expected}");
            }
        }
    }

    #[test]
    fn a_shuffled_load_writes_every_key_and_no_more_than_its_writes() {
        let load = load(KeyDistribution::Shuffled, false);
        let all = load.distinct_keys(span(0.0, 100_000.0));
        assert!((all - 10_000.0).abs() < 1e-6, "{all}");
        let one = load.distinct_keys(span(3.0, 4.0));
        assert!((one - 1.0).abs() < 1e-3, "{one}");
        // Of 19 classes, half of the writes miss 2^-k of class k.
        let half = load.distinct_keys(span(0.0, 50_000.0));
        let missed: f64 = (1..=19).map(|k| 0.5f64.powi(k) / 19.0).sum();
        assert!((half - 10_000.0 * (1.0 - missed)).abs() < 1e-6, "{half}");
    }

    #[test]
    fn what_fills_is_written_once() {
        let load = load(KeyDistribution::Uniform, true);
        assert_eq!(load.distinct_keys(span(1_000.0, 4_000.0)), 3_000.0);
        assert_eq!(load.distinct_keys(span(0.0, 60_000.0)), 10_000.0);
        let both = load.distinct_keys(span(9_000.0, 11_000.0));
        assert!((1_850.0..1_910.0).contains(&both), "{both}");
        assert_eq!(load.tombstones(span(0.0, 11_000.0)), 0.0);
    }

    #[test]
    fn classes_hold_every_key_and_every_write() {
        for (keys, exponent) in [(1.0, 0.99), (40.0, 1.0), (1e12, 0.99), (1e6, 2.0)] {
            let classes = zipfian(keys, exponent);
            let held: f64 = classes.iter().map(|(keys, _)| keys).sum();
            let written: f64 = classes.iter().map(|(keys, chance)| keys * chance).sum();
            assert_eq!(held, keys);
            assert!((written - 1.0).abs() < 1e-9, "{written}");
            assert!(classes.len() < 200);
        }
        let classes = shuffled(1000.0, 2.5);
        let written: f64 = classes.iter().map(|(keys, times)| keys * times).sum();
        assert!((written - 2500.0).abs() < 1e-6);
    }
}
