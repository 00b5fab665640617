//! A sketch folded to a kibibyte, which is kept of every table in memory. It counts the keys of
//! some tables again and again without reading their files.
//!
//! 2^10 registers count to 3.2 % (one standard deviation). One register is made of 16 of the large
//! sketch, which differ in the last four bits of their index. These bits are the first of its rank.
//! So it is the very sketch that the keys would have made.

use super::{HIGHEST_RANK as HIGHEST_LARGE, INDEX_BITS as LARGE_INDEX_BITS, Sketch, estimate};

const INDEX_BITS: u32 = 10;
const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of an index that become bits of a rank.
const FOLDED_BITS: u32 = LARGE_INDEX_BITS - INDEX_BITS;
const HIGHEST_RANK: u8 = HIGHEST_LARGE + FOLDED_BITS as u8;

/// A count of distinct keys.
#[derive(Clone, PartialEq, Eq)]
pub struct SmallSketch {
    registers: Box<[u8]>,
}

impl Default for SmallSketch {
    fn default() -> Self {
        SmallSketch {
            registers: vec![0; REGISTERS].into_boxed_slice(),
        }
    }
}

impl From<&Sketch> for SmallSketch {
    fn from(large: &Sketch) -> Self {
        let group = |ranks: &[u8]| {
            let ranks = ranks.iter().zip(0u32..).filter(|&(&rank, _)| rank > 0);
            let folded = ranks.map(|(&rank, index)| match index {
                0 => rank + FOLDED_BITS as u8,
                _ => (index.leading_zeros() - (u32::BITS - FOLDED_BITS) + 1) as u8,
            });
            folded.max().unwrap_or(0)
        };
        let groups = large.registers.chunks_exact(1 << FOLDED_BITS);
        SmallSketch {
            registers: groups.map(group).collect(),
        }
    }
}

impl SmallSketch {
    /// Counts the keys of the other, too.
    pub fn unite(&mut self, other: &SmallSketch) {
        for (register, other) in self.registers.iter_mut().zip(&other.registers) {
            *register = (*register).max(*other);
        }
    }

    pub fn memory_bytes(&self) -> u64 {
        self.registers.len() as u64
    }

    /// Returns about how many different keys were counted.
    pub fn estimate(&self) -> f64 {
        let mut with_rank = [0u32; HIGHEST_RANK as usize + 1];
        for &rank in &self.registers {
            if let Some(count) = with_rank.get_mut(usize::from(rank)) {
                *count += 1;
            }
        }
        estimate(&with_rank, REGISTERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::key_hash;

    fn hashes(keys: std::ops::Range<u64>, seed: u64) -> impl Iterator<Item = u64> {
        keys.map(move |key| key_hash(&key.to_be_bytes(), seed))
    }

    fn folded(keys: std::ops::Range<u64>, seed: u64) -> SmallSketch {
        let mut sketch = Sketch::default();
        hashes(keys, seed).for_each(|hash| sketch.add(hash));
        SmallSketch::from(&sketch)
    }

    #[test]
    fn it_is_the_sketch_that_the_keys_would_have_made() {
        for (keys, seed) in [(3, 1), (500, 2), (100_000, 3)] {
            let mut made = SmallSketch::default();
            for hash in hashes(0..keys, seed) {
                let rest_bits = u64::BITS - INDEX_BITS;
                let rank = (hash << INDEX_BITS).leading_zeros().min(rest_bits) + 1;
                let register = &mut made.registers[(hash >> rest_bits) as usize];
                *register = (*register).max(rank as u8);
            }
            assert!(folded(0..keys, seed) == made, "{keys} keys");
        }
    }

    #[test]
    fn it_counts_to_a_tenth_and_few_keys_to_a_few() {
        for keys in [10, 100, 1_000, 300_000] {
            let is_off = |seed| {
                let error = (folded(0..keys, seed).estimate() - keys as f64).abs();
                error > (keys as f64 * 0.1).max(2.0)
            };
            assert!((0..20).filter(|&seed| is_off(seed)).count() <= 1, "{keys}");
        }
        let mut united = folded(0..500, 9);
        united.unite(&folded(300..800, 9));
        assert!(united == folded(0..800, 9));
        assert_eq!(SmallSketch::default().estimate(), 0.0);
    }
}
