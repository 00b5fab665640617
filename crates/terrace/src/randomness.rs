//! The random numbers that a store gives to its tables and openings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random numbers. Clones of a seeded source draw from one sequence, so that two
/// openings with the same options get different numbers and a test run repeats.
#[derive(Clone, Debug, Default)]
pub struct Randomness {
    /// `None` draws from the thread's generator, which the operating system seeds.
    seeded: Option<Arc<Sequence>>,
}

#[derive(Debug)]
struct Sequence {
    seed: u64,
    drawn: AtomicU64,
}

impl Randomness {
    /// Returns the source of every store that is no test's.
    pub fn from_os() -> Self {
        Randomness::default()
    }

    /// Returns a source whose numbers follow from `seed`.
    pub fn seeded(seed: u64) -> Self {
        Randomness {
            seeded: Some(Arc::new(Sequence {
                seed,
                drawn: AtomicU64::new(0),
            })),
        }
    }

    /// Draws 64 bits.
    pub fn u64(&self) -> u64 {
        match &self.seeded {
            None => rand::random(),
            Some(sequence) => {
                let position = sequence.drawn.fetch_add(1, Ordering::Relaxed);
                mix(sequence.seed, position)
            }
        }
    }

    /// Draws 128 bits.
    pub fn bytes16(&self) -> [u8; 16] {
        let number = u128::from(self.u64()) << 64 | u128::from(self.u64());
        number.to_le_bytes()
    }
}

/// Returns the number at a position of a SplitMix64 sequence (Steele, Lea, Flood: Fast Splittable
/// Pseudorandom Number Generators, 2014).
fn mix(seed: u64, position: u64) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let state = seed.wrapping_add(STEP.wrapping_mul(position.wrapping_add(1)));
    let state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ state >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seeded_source_repeats_and_its_clones_share_one_sequence() {
        let source = Randomness::seeded(7);
        let clone = source.clone();
        let drawn = [source.u64(), clone.u64(), source.u64()];
        let again = Randomness::seeded(7);
        assert_eq!(drawn, [again.u64(), again.u64(), again.u64()]);
        assert!(drawn[0] != drawn[1] && drawn[1] != drawn[2]);
        assert_ne!(Randomness::seeded(8).u64(), drawn[0]);
        assert_ne!(source.bytes16(), clone.bytes16());
    }

    #[test]
    fn numbers_of_the_operating_system_differ() {
        let source = Randomness::from_os();
        assert_ne!(source.bytes16(), source.bytes16());
    }
}
