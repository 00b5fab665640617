//! Distributions, exactly as their sources define them: pure, and the same on every machine from the
//! same seed.
//!
//! Randomness comes from one fast generator with a fixed algorithm. A small generator "of the
//! platform's choice" would make other streams on other machines.

mod clustered;
mod hash;
mod key_ranges;
mod pareto;
mod permutation;
mod zipfian;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

pub use clustered::Clustered;
pub use hash::{fnv_64, mix_64, seed_of, unmix_64};
pub use key_ranges::{KeyRanges, KeyRangesShape};
pub use pareto::Pareto;
pub use permutation::Permutation;
pub use zipfian::{Latest, ScrambledZipfian, YCSB_THETA, Zipfian};

/// The generator behind all draws.
pub type Random = Xoshiro256PlusPlus;

/// Returns the generator of one client: unlike those of other clients and of other seeds.
pub fn random(seed: u64, client: u64) -> Random {
    Random::seed_from_u64(mix_64(seed ^ mix_64(client.wrapping_add(1))))
}

/// Draws a number in 0..`below`, each alike; 0 if `below` is 0.
pub fn uniform(random: &mut Random, below: u64) -> u64 {
    scale(random.random(), below)
}

/// Draws a number in [0, 1), of 53 bits.
pub fn unit(random: &mut Random) -> f64 {
    random.random()
}

/// Brings a hash to 0..`below` without a division. The bias is at most `below` in 2^64.
pub fn scale(hash: u64, below: u64) -> u64 {
    ((u128::from(hash) * u128::from(below)) >> 64) as u64
}

/// Returns a hash as a number in [0, 1), of 53 bits.
pub fn unit_of(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests;
