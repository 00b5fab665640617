//! Keys and values as pure functions of a seed: every store sees the same operations, and every
//! value read back can be told from every other.
//!
//! Row `n` of `rows` has a key that sorts as `n` does and a value that is a slice of one buffer of
//! random bytes, so that making a row costs a few nanoseconds within a timed loop.

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

use crate::Result;

pub const KEY_BYTES: usize = 16;

/// Values start at this many places of the buffer.
const VALUE_STARTS: u64 = 1 << 20;
/// The skew of YCSB.
const ZIPF_EXPONENT: f64 = 0.99;

/// A permutation of 64-bit numbers (the finaliser of MurmurHash3).
fn scatter(mut number: u64) -> u64 {
    number ^= number >> 33;
    number = number.wrapping_mul(0xff51_afd7_ed55_8ccd);
    number ^= number >> 33;
    number = number.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

/// The key of a row: its number, then eight bytes that do not compress.
pub fn key(row: u64) -> [u8; KEY_BYTES] {
    (u128::from(row) << 64 | u128::from(scatter(row))).to_be_bytes()
}

/// The row of a key, if it is one of ours.
pub fn row_of(bytes: &[u8]) -> Option<u64> {
    let number = u128::from_be_bytes(bytes.try_into().ok()?);
    let row = (number >> 64) as u64;
    (key(row) == bytes).then_some(row)
}

/// The values of all rows.
pub struct Values {
    buffer: Vec<u8>,
    value_bytes: usize,
}

impl Values {
    pub fn new(value_bytes: usize, seed: u64) -> Self {
        let mut buffer = vec![0; VALUE_STARTS as usize + value_bytes];
        SmallRng::seed_from_u64(seed).fill_bytes(&mut buffer);
        Values {
            buffer,
            value_bytes,
        }
    }

    pub fn of(&self, row: u64) -> &[u8] {
        let start = (scatter(!row) % VALUE_STARTS) as usize;
        &self.buffer[start..start + self.value_bytes]
    }
}

/// A random order of the numbers below `rows`: each once, computed, not stored.
///
/// A bijection of the next power of two is applied until it leads below `rows`.
pub struct Order {
    rows: u64,
    mask: u64,
    shift: u32,
    multipliers: [u64; 3],
}

impl Order {
    pub fn new(rows: u64, seed: u64) -> Self {
        let bits = u64::BITS - rows.max(2).saturating_sub(1).leading_zeros();
        let mut random = SmallRng::seed_from_u64(seed);
        Order {
            rows,
            mask: u64::MAX >> (u64::BITS - bits),
            shift: bits.div_ceil(2),
            multipliers: std::array::from_fn(|_| random.random::<u64>() | 1),
        }
    }

    /// The number at a place below `rows`.
    pub fn at(&self, place: u64) -> u64 {
        debug_assert!(place < self.rows);
        let mut number = place;
        loop {
            for multiplier in self.multipliers {
                number = number.wrapping_add(1).wrapping_mul(multiplier) & self.mask;
                number ^= number >> self.shift;
            }
            if number < self.rows {
                return number;
            }
        }
    }
}

/// Which rows are read, made before the clock runs.
#[derive(Clone, Copy, Debug)]
pub enum Choice {
    Uniform,
    /// Few rows are read often; which ones has nothing to do with their order.
    Zipfian,
}

impl Choice {
    pub fn rows(self, rows: u64, count: u64, seed: u64) -> Result<Vec<u64>> {
        let mut random = SmallRng::seed_from_u64(seed);
        Ok(match self {
            Choice::Uniform => (0..count).map(|_| random.random_range(0..rows)).collect(),
            Choice::Zipfian => {
                let (zipf, order) = (
                    Zipf::new(rows as f64, ZIPF_EXPONENT)?,
                    Order::new(rows, seed),
                );
                let mut rank = || (zipf.sample(&mut random) as u64).clamp(1, rows);
                (0..count).map(|_| order.at(rank() - 1)).collect()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_a_permutation_and_another_one_for_another_seed() {
        for rows in [1, 2, 3, 63, 64, 65, 1000] {
            let order = Order::new(rows, 1);
            let mut seen: Vec<u64> = (0..rows).map(|place| order.at(place)).collect();
            if rows == 1000 {
                assert_ne!(
                    seen,
                    (0..rows)
                        .map(|place| Order::new(rows, 2).at(place))
                        .collect::<Vec<_>>()
                );
                assert!(!seen.is_sorted());
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..rows).collect::<Vec<_>>());
        }
    }

    #[test]
    fn keys_sort_as_their_rows_and_name_them() {
        assert!((0..1000).map(key).is_sorted());
        assert_eq!(row_of(&key(77)), Some(77));
        assert_eq!(row_of(&[0; KEY_BYTES - 1]), None);
        assert_eq!(row_of(&(1u128 << 64).to_be_bytes()), None);
    }

    #[test]
    fn values_of_neighbours_differ_and_come_again() {
        let (one, other) = (Values::new(100, 1), Values::new(100, 1));
        for row in 0..100 {
            assert_eq!(one.of(row), other.of(row));
            assert_ne!(one.of(row), one.of(row + 1));
        }
    }

    #[test]
    fn zipfian_reads_are_skewed_and_scattered() {
        let rows = Choice::Zipfian.rows(1000, 10_000, 1).unwrap();
        let mut counts = vec![0; 1000];
        rows.iter().for_each(|row| counts[*row as usize] += 1);
        let most = counts.iter().max().unwrap();
        assert!(*most > 500, "{most}");
        assert_ne!(counts[0], *most);
    }
}
