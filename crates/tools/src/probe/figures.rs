//! Samples as figures: percentiles of each round, and their spread among rounds.

use std::time::Duration;

/// Maximum number of rounds that the samples of a phase are divided into.
const MAX_ROUNDS: usize = 8;

/// A figure of several rounds: the least, the middle and the greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The middle; of an even number the lower of two.
    pub median: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of some values; `None` if there are none.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        Some(Spread {
            min: *values.first()?,
            median: percentile(&values, 0.5)?,
            max: *values.last()?,
        })
    }
}

/// Times of requests in microseconds. The spreads are those among rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// Median time.
    pub p50_us: Spread,
    /// Time that 99 of 100 requests stay within; in a round of fewer than 100 the longest.
    pub p99_us: Spread,
    /// Number of requests.
    pub requests: u64,
}

impl Latency {
    /// Returns the figures of requests in the order of time; `None` if there are none. A round has at least
    /// `min_round` requests, if there are so many.
    pub(super) fn of(times: &[Duration], min_round: usize) -> Option<Latency> {
        let mut rounds: Vec<Vec<f64>> = rounds(times, min_round)
            .map(|round| round.iter().map(|time| time.as_secs_f64() * 1e6).collect())
            .collect();
        for round in &mut rounds {
            round.sort_by(f64::total_cmp);
        }
        let spread = |share| {
            let values = rounds.iter().filter_map(|round| percentile(round, share));
            Spread::of(values.collect())
        };
        Some(Latency {
            p50_us: spread(0.5)?,
            p99_us: spread(0.99)?,
            requests: times.len() as u64,
        })
    }
}

/// Divides samples into rounds of like lengths.
fn rounds<T>(samples: &[T], min_round: usize) -> impl Iterator<Item = &[T]> {
    let count = (samples.len() / min_round.max(1)).clamp(1, MAX_ROUNDS);
    (0..count).map(move |round| {
        let end = |round| samples.len() * round / count;
        samples.get(end(round)..end(round + 1)).unwrap_or_default()
    })
}

/// Returns the least of the sorted values that a share of all do not exceed (the nearest rank).
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_percentile_is_the_value_at_the_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 0.5), Some(50.0));
        assert_eq!(percentile(&hundred, 0.99), Some(99.0));
        assert_eq!(percentile(&hundred, 1.0), Some(100.0));
        assert_eq!(percentile(&[7.0], 0.0), Some(7.0));
        assert_eq!(percentile(&[1.0, 2.0, 3.0], 0.5), Some(2.0));
        assert_eq!(percentile(&[1.0, 2.0], 0.99), Some(2.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn a_spread_knows_no_order_of_its_values() {
        let spread = Spread::of(vec![5.0, 1.0, 9.0, 3.0]).unwrap();
        let wanted = Spread {
            min: 1.0,
            median: 3.0,
            max: 9.0,
        };
        assert_eq!(spread, wanted);
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn rounds_are_as_many_as_have_enough_samples() {
        let lengths = |samples, min_round| {
            let samples = vec![0; samples];
            let lengths = rounds(&samples, min_round).map(<[i32]>::len);
            lengths.collect::<Vec<_>>()
        };
        assert_eq!(lengths(800, 100), [100; 8]);
        assert_eq!(lengths(80_000, 100), [10_000; 8]);
        assert_eq!(lengths(250, 100), [125, 125]);
        assert_eq!(lengths(99, 100), [99]);
        assert_eq!(lengths(1, 100), [1]);
        assert_eq!(lengths(5, 0), [1, 1, 1, 1, 1]);
    }

    /// A device that becomes slower in the middle shows it in the spread, and not in one number.
    #[test]
    fn latencies_are_those_of_rounds() {
        let times = (0..800).map(|sample| match (sample % 100, sample / 100) {
            (98.., _) => Duration::from_micros(900),
            (_, ..6) => Duration::from_micros(70),
            (_, _) => Duration::from_micros(300),
        });
        let latency = Latency::of(&times.collect::<Vec<_>>(), 100).unwrap();
        let p50_us = Spread {
            min: 70.0,
            median: 70.0,
            max: 300.0,
        };
        assert_eq!((latency.p50_us, latency.requests), (p50_us, 800));
        assert_eq!(latency.p99_us.min, 900.0);
        assert_eq!(Latency::of(&[], 100), None);
    }

    proptest! {
        #[test]
        fn every_sample_is_in_one_round(samples in 0usize..3000, min_round in 0usize..200) {
            let samples: Vec<usize> = (0..samples).collect();
            let joined: Vec<usize> = rounds(&samples, min_round).flatten().copied().collect();
            prop_assert_eq!(joined, samples);
        }

        #[test]
        fn a_percentile_splits_the_values(mut values in prop::collection::vec(0f64..1e6, 1..300), share in 0f64..1.0) {
            values.sort_by(f64::total_cmp);
            let found = percentile(&values, share).unwrap();
            let up_to = values.iter().filter(|value| **value <= found).count() as f64;
            let below = values.iter().filter(|value| **value < found).count() as f64;
            prop_assert!(up_to >= share * values.len() as f64);
            prop_assert!(below <= share * values.len() as f64);
        }
    }
}
