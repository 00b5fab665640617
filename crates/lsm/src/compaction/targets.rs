//! The bytes that each level is to hold: a pure function of the bytes below level 0.
//!
//! Targets are counted from below, as RocksDB does with `level_compaction_dynamic_level_bytes`: the deepest
//! level takes the rest of the others, and each one above a ratio's part of the one below it. So about a
//! ninth of a store stands above its deepest level at any size, where targets that are fixed from above
//! leave up to half of it there.
//!
//! - They go by the *sum* of the listed tables, merges under way included. By the deepest level's own bytes
//!   they would collapse while a new deepest level fills.
//! - A level whose target is below a quarter of `level1_bytes` is not used. Level 0 goes to the
//!   first one that is.
//! - Where only one level stands above the deepest, it keeps `level1_bytes` until its target is
//!   about as large.
//! - Nothing is skipped while the first level that is used holds far more than its target, as in a
//!   store of an older release: level 0 would have to be merged with all of it.
//! - A deeper level begins once level 1 would still be used with it.
//!
//! Targets that are fixed from above, as releases before this rule had them, still rank levels. A
//! level that is over the one from below alone goes down behind everything else, and no writer is
//! held back for it. So a store of such a release is opened as it is.

use crate::keyspace_options::KeyspaceOptions;
use crate::levels::{KeyspaceLevels, LEVELS};

/// The deepest level of all.
const LOWEST: u8 = LEVELS as u8 - 1;
/// The level that is the deepest of a small store.
const LEAST_DEEPEST: u8 = 2;

/// The part of `level1_bytes` that a target must be, so that the level is used. The smaller, the
/// earlier a deeper level begins: merges of level 0 rewrite a large level 1 again and again.
/// Simulated, a quarter and a third write least around the crossings, a half up to a tenth more.
const LEAST_PART: (u128, u128) = (1, 4);
/// The same where one level stands above the deepest. It always is used, and has `level1_bytes`
/// where it would have less than this.
const LEAST_PART_OF_SMALL: (u128, u128) = (3, 4);

/// Levels are skipped while the first one used has, with all levels above it, at most this many
/// times its target.
const MOST_TIMES_OF_FIRST: u64 = 2;

/// How much of a ratio larger the deepest level is than the one above it. A whole ratio would save two
/// hundredths of space and write an eighth more.
const PART_OF_RATIO: (u128, u128) = (4, 5);

/// The options of the sizes of levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub level1_bytes: u64,
    /// Bytes of a level for each of the one above it.
    pub level_ratio: u64,
}

impl Shape {
    pub fn of(form: &KeyspaceOptions) -> Shape {
        Shape {
            level1_bytes: form.level1_bytes,
            level_ratio: form.level_ratio,
        }
    }

    /// Returns the target of a level below level 0 that is fixed from above: level 1 holds `level1_bytes`,
    /// and each level a ratio more than the one before.
    pub(crate) fn fixed_bytes(self, level: u8) -> u64 {
        let above = u32::from(level.saturating_sub(1));
        let times = self.level_ratio.saturating_pow(above);
        self.level1_bytes.saturating_mul(times)
    }

    /// Returns how many times as large as level 1 all levels are together, if this one is the deepest.
    fn times_of_all(self, deepest: u8) -> u128 {
        let ratio = u128::from(self.level_ratio);
        let (parts, of) = PART_OF_RATIO;
        let mut level: u128 = 1;
        let mut all: u128 = 0;
        for _ in 1..deepest {
            all = all.saturating_add(level);
            level = level.saturating_mul(ratio);
        }
        all.saturating_add(level.saturating_mul(parts) / of)
    }

    /// Returns the bytes of all levels with which this one is no longer the deepest.
    pub(crate) fn most_bytes_down_to(self, deepest: u8) -> u64 {
        if deepest < LEAST_DEEPEST {
            return self.level1_bytes;
        }
        let (parts, of) = LEAST_PART;
        let least = u128::from(self.level1_bytes) * parts;
        let most = least
            .saturating_mul(self.times_of_all(deepest + 1))
            .div_ceil(of);
        u64::try_from(most).unwrap_or(u64::MAX)
    }

    /// Returns whether a target, given as a fraction, is worth a level.
    fn is_worth_a_level(self, numerator: u128, denominator: u128, deepest: u8) -> bool {
        let (parts, of) = match deepest {
            LEAST_DEEPEST => LEAST_PART_OF_SMALL,
            _ => LEAST_PART,
        };
        let least = u128::from(self.level1_bytes) * parts;
        numerator.saturating_mul(of) >= least.saturating_mul(denominator)
    }
}

/// The targets of a keyspace's levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Targets {
    shape: Shape,
    deepest: u8,
    /// Of level 0 there is none. A level that is not used has 0.
    bytes: [u64; LEVELS],
    /// The bytes that levels of a crossing lack of half of their target.
    missing_bytes: [u64; LEVELS],
}

impl Targets {
    /// Returns the targets for levels as they are listed.
    pub fn of(levels: &KeyspaceLevels, shape: Shape) -> Targets {
        let mut sizes = [0; LEVELS];
        for (size, level) in sizes.iter_mut().zip(&levels.levels) {
            *size = level.size_bytes();
        }
        Targets::of_sizes(&sizes, shape)
    }

    /// Returns the targets for levels of these bytes, level 0 first.
    pub(crate) fn of_sizes(sizes: &[u64; LEVELS], shape: Shape) -> Targets {
        let below_level0 = || (1u8..).zip(sizes.iter().skip(1));
        let sum = below_level0().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let listed = below_level0().filter(|(_, bytes)| **bytes > 0).last();
        let mut targets = Targets::of_sum(sum, listed.map_or(0, |(level, _)| level), shape);
        let first_used = targets.first_used();
        let passed = below_level0().take(usize::from(first_used));
        let passed = passed.fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        if targets.is_over(first_used, passed / MOST_TIMES_OF_FIRST) {
            targets.skip_none_above(first_used);
        }
        if targets.deepest > LEAST_DEEPEST {
            let missing = targets
                .missing_bytes
                .iter_mut()
                .zip(sizes.iter().zip(targets.bytes));
            for (missing_bytes, (bytes, target)) in missing.skip(usize::from(LEAST_DEEPEST)) {
                *missing_bytes = (target / 2).saturating_sub(*bytes);
            }
        }
        targets
    }

    /// Gives the levels above the first used one their targets from above. Level 0 would have to be
    /// merged with all that is too much there.
    fn skip_none_above(&mut self, first_used: u8) {
        for level in 1..first_used {
            if let Some(target) = self.bytes.get_mut(usize::from(level)) {
                *target = self.shape.fixed_bytes(level);
            }
        }
    }

    /// Returns the targets for `sum` bytes below level 0, of which some are in a level as deep as
    /// this.
    pub fn of_sum(sum: u64, deepest_listed: u8, shape: Shape) -> Targets {
        let mut wanted = LEAST_DEEPEST..LOWEST;
        let wanted = wanted.find(|deepest| sum < shape.most_bytes_down_to(*deepest));
        let deepest = wanted.unwrap_or(LOWEST).max(deepest_listed);
        let all = shape.times_of_all(deepest);
        let mut bytes = [0u64; LEVELS];
        let mut share = u128::from(sum);
        let mut left = sum;
        let above_deepest = bytes.iter_mut().take(usize::from(deepest)).skip(1);
        for target in above_deepest {
            if shape.is_worth_a_level(share, all, deepest) {
                // No more than the sum.
                *target = u64::try_from(share / all).unwrap_or(u64::MAX);
            } else if deepest == LEAST_DEEPEST {
                *target = shape.level1_bytes;
            }
            left = left.saturating_sub(*target);
            share = share.saturating_mul(u128::from(shape.level_ratio));
        }
        if let Some(target) = bytes.get_mut(usize::from(deepest)) {
            *target = left;
        }
        Targets {
            shape,
            deepest,
            bytes,
            missing_bytes: [0; LEVELS],
        }
    }

    /// Returns the bytes that a level is to hold, 0 for one that is not used.
    pub fn bytes(&self, level: u8) -> u64 {
        self.bytes.get(usize::from(level)).copied().unwrap_or(0)
    }

    /// Returns whether tables from above may end in a level.
    pub(crate) fn is_used(&self, level: u8) -> bool {
        level >= self.deepest || self.bytes(level) > 0
    }

    /// Returns the level that level 0 goes to.
    pub(crate) fn first_used(&self) -> u8 {
        let mut levels = 1..self.deepest;
        levels
            .find(|level| self.is_used(*level))
            .unwrap_or(self.deepest)
    }

    /// Returns the bytes beyond which a level has some that go down; of the deepest those with
    /// which a deeper one begins.
    pub(crate) fn most_bytes(&self, level: u8) -> u64 {
        if level != self.deepest {
            return self.bytes(level);
        }
        let above = (1..level).map(|above| self.bytes(above));
        let above = above.fold(0, u64::saturating_add);
        let most = self.shape.most_bytes_down_to(level);
        most.saturating_sub(above).max(self.bytes(level))
    }

    /// Returns whether a level of `bytes` has some that are to go down.
    pub(crate) fn is_over(&self, level: u8, bytes: u64) -> bool {
        level < self.deepest && bytes > self.bytes(level)
    }

    /// Returns the bytes from which a level is urgent, and counts as debt.
    pub fn urgent_bytes(&self, level: u8) -> u64 {
        if level >= self.deepest {
            return u64::MAX;
        }
        self.bytes(level).max(self.shape.fixed_bytes(level))
    }

    /// Returns whether a crossing left a level with less than half of its target: a deeper level
    /// has begun, and the level above goes down by moves.
    pub(crate) fn is_beginning(&self, level: u8) -> bool {
        let missing = self.missing_bytes.get(usize::from(level));
        missing.is_some_and(|bytes| *bytes > 0)
    }

    /// Returns the bytes that levels below this one take by moves, because they are beginning.
    pub(crate) fn bytes_to_move_below(&self, level: u8) -> u64 {
        let below = self.missing_bytes.iter().skip(usize::from(level) + 1);
        below.fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    pub fn deepest(&self) -> u8 {
        self.deepest
    }

    pub(crate) fn level_ratio(&self) -> u64 {
        self.shape.level_ratio
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of write buffers.
    const SHAPE: Shape = Shape {
        level1_bytes: 8000,
        level_ratio: 10,
    };

    /// Returns the targets of levels 1, 2, ... down to the deepest.
    fn of(sum: u64, deepest_listed: u8) -> Vec<u64> {
        let targets = Targets::of_sum(sum, deepest_listed, SHAPE);
        (1..=targets.deepest())
            .map(|level| targets.bytes(level))
            .collect()
    }

    fn of_sizes(below: &[u64]) -> Targets {
        let mut sizes = [0; LEVELS];
        for (size, bytes) in sizes.iter_mut().skip(1).zip(below) {
            *size = *bytes;
        }
        Targets::of_sizes(&sizes, SHAPE)
    }

    #[test]
    fn targets_are_counted_from_below() {
        assert_eq!(of(0, 0), [8000, 0]);
        assert_eq!(of(53_999, 2), [8000, 45_999]);
        assert_eq!(of(54_000, 2), [6000, 48_000]);
        assert_eq!(of(90_000, 2), [10_000, 80_000]);
        assert_eq!(of(181_999, 2), [20_222, 161_777]);
        assert_eq!(of(182_000, 2), [2000, 20_000, 160_000]);
        assert_eq!(of(910_000, 3), [10_000, 100_000, 800_000]);
        assert_eq!(of(1_822_000, 3), [2000, 20_000, 200_000, 1_600_000]);
    }

    #[test]
    fn a_store_that_shrank_leaves_levels_unused() {
        assert_eq!(of(90_000, 3), [0, 9890, 80_110]);
        assert_eq!(of(9000, 3), [0, 0, 9000]);
        assert_eq!(Targets::of_sum(90_000, 3, SHAPE).first_used(), 2);
        assert_eq!(Targets::of_sum(9000, 3, SHAPE).first_used(), 3);
        assert_eq!(Targets::of_sum(9000, 6, SHAPE).first_used(), 6);
    }

    #[test]
    fn nothing_is_skipped_above_a_level_with_far_too_much() {
        let targets = of_sizes(&[8000, 80_000, 12_000]);
        assert_eq!(targets.first_used(), 1);
        assert_eq!([1, 2].map(|level| targets.bytes(level)), [8000, 10_989]);
        assert_eq!(of_sizes(&[1000, 18_000, 71_000]).first_used(), 2);
        // As after an ingestion: a file lies far below all others.
        let ingested = of_sizes(&[8000, 80_000, 212_000, 0, 0, 1]);
        assert_eq!(ingested.first_used(), 1);
        assert_eq!([1, 2].map(|level| ingested.bytes(level)), [8000, 80_000]);
    }

    #[test]
    fn a_level_begins_while_it_has_less_than_half_of_its_target() {
        let targets = of_sizes(&[20_222, 161_778]);
        assert!(targets.is_beginning(3));
        assert_eq!(
            [0, 2, 3].map(|level| targets.bytes_to_move_below(level)),
            [80_000, 80_000, 0]
        );
        assert!(!targets.is_beginning(2));
        let moved = of_sizes(&[20_222, 1778, 160_000]);
        assert!(moved.is_beginning(2) && !moved.is_beginning(3));
        let over = of_sizes(&[2000, 20_000, 160_000]);
        assert_eq!(over.bytes_to_move_below(0), 0);
        // Where one level stands above the deepest nothing crosses.
        assert_eq!(of_sizes(&[16_000]).bytes_to_move_below(0), 0);
    }

    #[test]
    fn what_an_older_release_allowed_is_not_urgent() {
        let targets = of_sizes(&[8000, 80_000, 12_000]);
        assert!(targets.is_over(2, 80_000));
        assert_eq!(
            [1, 2, 3].map(|level| targets.urgent_bytes(level)),
            [8000, 80_000, u64::MAX]
        );
        let large = of_sizes(&[15_000, 135_000]);
        assert_eq!(large.urgent_bytes(1), 16_666);
    }

    #[test]
    fn the_deepest_has_so_much_that_a_deeper_one_begins() {
        let targets = of_sizes(&[10_000, 80_000]);
        assert_eq!(targets.most_bytes(1), 10_000);
        assert_eq!(targets.most_bytes(2), 172_000);
    }

    fn shape() -> impl Strategy<Value = Shape> {
        (1u64..1 << 50, 2u64..1000).prop_map(|(level1_bytes, level_ratio)| Shape {
            level1_bytes,
            level_ratio,
        })
    }

    proptest! {
        #[test]
        fn no_shape_and_no_sum_is_too_large(shape in shape(), sum: u64, listed in 0..=LOWEST) {
            let targets = Targets::of_sum(sum, listed, shape);
            prop_assert!(targets.deepest() >= listed.max(LEAST_DEEPEST));
            let first = targets.first_used();
            prop_assert!((1..=targets.deepest()).contains(&first));
            let used = (first..targets.deepest()).map(|level| targets.bytes(level));
            let used: Vec<u64> = used.collect();
            prop_assert!(used.is_sorted());
            let above: u128 = used.iter().map(|bytes| u128::from(*bytes)).sum();
            let all = above + u128::from(targets.bytes(targets.deepest()));
            prop_assert!(all == u128::from(sum) || all == u128::from(shape.level1_bytes));
        }

        #[test]
        fn no_levels_are_too_large(shape in shape(), sizes: [u64; LEVELS]) {
            let targets = Targets::of_sizes(&sizes, shape);
            for (level, bytes) in (1..=LOWEST).zip(sizes.into_iter().skip(1)) {
                prop_assert!(targets.most_bytes(level) >= targets.bytes(level));
                prop_assert!(targets.urgent_bytes(level) >= targets.bytes(level));
                prop_assert!(!targets.is_over(level, bytes) || level < targets.deepest());
            }
        }

        #[test]
        fn targets_move_by_no_more_than_the_sum_but_where_a_level_begins(
            shape in shape(),
            sum in 1u64..1 << 60,
            more_permille in 0u64..1000,
            listed in 0..=LOWEST,
        ) {
            let more = sum / 1000 * more_permille;
            let before = Targets::of_sum(sum, listed, shape);
            let after = Targets::of_sum(sum + more, listed, shape);
            if before.deepest() == after.deepest() {
                for level in before.first_used().max(after.first_used())..before.deepest() {
                    let (before, after) = (before.bytes(level), after.bytes(level));
                    prop_assert!(after <= before.saturating_mul(2) + 1);
                    // Level 1 falls from `level1_bytes` to its share where it is the only one.
                    prop_assert!(after >= before / 4 * 3);
                }
            } else {
                prop_assert!(after.deepest() > before.deepest());
            }
        }
    }
}
