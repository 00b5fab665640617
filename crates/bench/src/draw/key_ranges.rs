//! Mixgraph's keys: ranges of them with weights from a two-term exponential, and within a range a
//! power law (RocksDB, `db_bench --benchmarks=mixgraph`).

use rand::RngExt;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::{Random, mix_64, random, uniform};

/// The numbers that describe it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyRangesShape {
    /// How many ranges.
    pub ranges: u64,
    /// Weight of range x in 1..=ranges: `a e^(b x) + c e^(d x)`.
    pub range_a: f64,
    /// See `range_a`.
    pub range_b: f64,
    /// See `range_a`.
    pub range_c: f64,
    /// See `range_a`.
    pub range_d: f64,
    /// Within a range: a quantile u picks the key that belongs to `(u/a)^(1/b)`.
    pub key_a: f64,
    /// See `key_a`.
    pub key_b: f64,
}

/// Weights below this count as none.
const LEAST_WEIGHT: f64 = 1e-16;

/// Draws records by ranges.
///
/// The source uses one random number for the range, for the key in it, for the kind of the query
/// and for sizes, which ties them to each other. Here each has its own.
#[derive(Clone, Debug)]
pub struct KeyRanges {
    shape: KeyRangesShape,
    /// Where each range ends, in shares of the least weight; in the order of keys.
    ends: Vec<u64>,
    records_per_range: u64,
}

impl KeyRanges {
    /// Makes the distribution over this many records; those beyond a multiple of the ranges are
    /// never drawn.
    pub fn new(records: u64, shape: KeyRangesShape) -> KeyRanges {
        let ranges = shape.ranges.clamp(1, records.max(1));
        let mut shares = shares(&shape, ranges);
        let total: u64 = shares.iter().sum();
        // Which ranges are hot depends on the shape alone, as in the source: every run and every
        // seed has them in the same places.
        shares.shuffle(&mut random(total, 0));
        let ends = shares.iter().scan(0, |end, share| {
            *end += share;
            Some(*end)
        });
        KeyRanges {
            shape,
            ends: ends.collect(),
            records_per_range: (records / ranges).max(1),
        }
    }

    /// Draws a record.
    pub fn next(&self, random: &mut Random) -> u64 {
        let share = uniform(random, self.ends.last().copied().unwrap_or(0));
        let range = self.ends.partition_point(|end| *end <= share) as u64;
        range * self.records_per_range + self.offset(random)
    }

    fn offset(&self, random: &mut Random) -> u64 {
        if self.shape.key_a == 0.0 || self.shape.key_b == 0.0 {
            return uniform(random, self.records_per_range);
        }
        let quantile: f64 = random.random();
        let rank = (quantile / self.shape.key_a).powf(1.0 / self.shape.key_b);
        // Any good hash does here: the source takes the first number of a Mersenne Twister.
        mix_64(rank.ceil() as u64) % self.records_per_range
    }
}

/// Returns integer shares of the ranges, the least one about 1, from the lightest range to the
/// heaviest.
fn shares(shape: &KeyRangesShape, ranges: u64) -> Vec<u64> {
    let weight = |range: u64| {
        let x = range as f64;
        let weight =
            shape.range_a * (shape.range_b * x).exp() + shape.range_c * (shape.range_d * x).exp();
        if weight < LEAST_WEIGHT { 0.0 } else { weight }
    };
    let weights: Vec<f64> = (1..=ranges).rev().map(weight).collect();
    let first = weights.iter().find(|weight| **weight > 0.0);
    let Some(amplify) = first.map(|weight| weight.recip().floor() + 1.0) else {
        return vec![1; weights.len()];
    };
    weights
        .iter()
        .map(|weight| (amplify * weight).floor() as u64)
        .collect()
}
