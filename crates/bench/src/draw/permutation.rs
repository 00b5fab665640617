//! A random order of numbers, without a table of them.

use super::mix_64;

const ROUNDS: usize = 4;

/// A bijection of 0..count from a seed.
///
/// A Feistel network permutes the next power of four. Numbers from outside the range are permuted
/// again until they fall inside (fewer than four times on average), which is a bijection still.
#[derive(Clone, Debug)]
pub struct Permutation {
    count: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Makes a permutation of 0..count.
    pub fn new(count: u64, seed: u64) -> Permutation {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let mut key = mix_64(seed);
        Permutation {
            count,
            half_bits: bits.div_ceil(2).max(1),
            keys: [0; ROUNDS].map(|_| {
                key = mix_64(key);
                key
            }),
        }
    }

    /// Returns the number at a place in the order. A place outside is its own number.
    pub fn at(&self, place: u64) -> u64 {
        self.walk(place, |halves, key| self.round(halves, key), false)
    }

    /// Returns the place of a number: the inverse of [`at`](Self::at).
    pub fn place_of(&self, number: u64) -> u64 {
        self.walk(number, |halves, key| self.round_back(halves, key), true)
    }

    fn walk(
        &self,
        from: u64,
        round: impl Fn((u64, u64), u64) -> (u64, u64),
        backwards: bool,
    ) -> u64 {
        if from >= self.count {
            return from;
        }
        let mut number = from;
        loop {
            let halves = (number >> self.half_bits, number & self.mask());
            let (left, right) = if backwards {
                self.keys.iter().rev().fold(halves, |h, key| round(h, *key))
            } else {
                self.keys.iter().fold(halves, |h, key| round(h, *key))
            };
            number = left << self.half_bits | right;
            if number < self.count {
                return number;
            }
        }
    }

    fn round(&self, (left, right): (u64, u64), key: u64) -> (u64, u64) {
        (right, left ^ (mix_64(right ^ key) & self.mask()))
    }

    fn round_back(&self, (left, right): (u64, u64), key: u64) -> (u64, u64) {
        (right ^ (mix_64(left ^ key) & self.mask()), left)
    }

    fn mask(&self) -> u64 {
        (1 << self.half_bits) - 1
    }
}
