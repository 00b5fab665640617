//! How often the filters err, by the memory they have.
//!
//! The formulas are exact but for the rounding of small tables: the tests of `filter.rs` compare them
//! with filters.

use super::FilterKind;
use super::fuse::Shape;

impl FilterKind {
    /// Returns the chance that a filter of a table with `keys` keys admits one that is not among
    /// them.
    pub(crate) fn chance(self, bits_per_key: f64, keys: usize) -> f64 {
        match self {
            FilterKind::SplitBlock => split_block(bits_per_key),
            FilterKind::Fuse => {
                let slots_per_key = Shape::of(keys).slots() as f64 / keys.max(1) as f64;
                (-bits_per_key / slots_per_key).exp2()
            }
        }
    }
}

/// Returns the chance of split blocks. The keys of a block are Poisson-distributed; each sets one
/// of 32 bits in each of eight words. Blocks differ, which costs most where there are many bits. At
/// 20 a key they err four times as often as a Bloom filter without blocks.
fn split_block(bits_per_key: f64) -> f64 {
    if bits_per_key <= 0.0 {
        return 1.0;
    }
    let mean = 256.0 / bits_per_key;
    // Beyond this the words are full, and the terms of the sum would be too small for their form.
    if mean > 256.0 {
        return 1.0;
    }
    let most = (mean + 10.0 * mean.sqrt() + 10.0) as i32;
    let mut of_this_many = (-mean).exp();
    let mut chance = 0.0;
    for keys in 0..most {
        let bit_is_set = 1.0 - (31.0f64 / 32.0).powi(keys);
        chance += of_this_many * bit_is_set.powi(8);
        of_this_many *= mean / f64::from(keys + 1);
    }
    chance.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 8,000,000 keys that 400,000 others admitted: 1.263 %, 0.0414 % and 0.0036 %.
    #[test]
    fn blocks_err_more_often_than_the_classic_formula_says() {
        let percent = |bits| 100.0 * FilterKind::SplitBlock.chance(bits, 400_000);
        assert!((percent(10.0) - 1.263).abs() < 0.01);
        assert!((percent(20.0) - 0.0414).abs() < 0.001);
        assert!((percent(32.0) - 0.0036).abs() < 0.0001);
        assert_eq!(percent(0.0), 100.0);
        assert!(percent(0.5) <= 100.0 && percent(1.0) > 99.0);
    }

    #[test]
    fn fuse_filters_of_small_tables_take_more_memory() {
        let percent = |keys| 100.0 * FilterKind::Fuse.chance(10.0, keys);
        assert!((percent(1_000_000) - 0.16).abs() < 0.005);
        assert!(percent(60_000) > 0.2 && percent(1000) > 0.6);
    }
}
