//! The bytes that merges still have to write until every level is within its target: a pure
//! function of the levels' sizes. Here is that of the leveled policy; others count for themselves.
//!
//! Bytes over a level's target go down and drag their share of the next level along, and those that
//! arrive there count against that level's own target. Level 0 goes down as a whole once it has as
//! many sub-levels as start a merge. It drags all of level 1 along, but no more than a ratio's
//! worth: the policy merges level 0 in itself before that. Moves cost nothing and are not foreseen,
//! so the debt of rising keys is estimated too high.

use crate::compaction::targets::Targets;
use crate::levels::{KeyspaceLevels, Version};

/// Returns the debt of a keyspace whose levels are to have these targets.
pub(crate) fn debt_bytes(levels: &KeyspaceLevels, level0_merge: usize, targets: &Targets) -> u64 {
    let level0_sub_levels = levels
        .levels
        .first()
        .map_or(0, |level| level.sub_levels.len());
    let sizes: Vec<u64> = levels
        .levels
        .iter()
        .map(|level| level.size_bytes())
        .collect();
    debt_of_sizes(level0_sub_levels >= level0_merge, &sizes, targets)
}

/// Returns the debt of all keyspaces, given that of one, and the most sub-levels that any of them
/// has in level 0.
pub fn backlog(version: &Version, debt_bytes: impl Fn(&KeyspaceLevels) -> u64) -> (u64, usize) {
    let keyspaces = version.keyspaces.values();
    keyspaces.fold((0, 0), |(debt, sub_levels), levels| {
        let level0 = levels
            .levels
            .first()
            .map_or(0, |level| level.sub_levels.len());
        let debt = u64::saturating_add(debt, debt_bytes(levels));
        (debt, sub_levels.max(level0))
    })
}

fn debt_of_sizes(level0_is_due: bool, sizes: &[u64], targets: &Targets) -> u64 {
    let Some((&level0_bytes, below)) = sizes.split_first() else {
        return 0;
    };
    let first_used = targets.first_used();
    let mut debt = 0u128;
    // Bytes that come down from the level above.
    let mut arriving = 0u128;
    if level0_is_due {
        arriving = u128::from(level0_bytes);
        let dragged = below.iter().take(usize::from(first_used));
        let dragged: u128 = dragged.map(|&bytes| u128::from(bytes)).sum();
        debt += arriving + dragged.min(arriving * u128::from(targets.level_ratio()));
    }
    for (level, pair) in (1u8..).zip(below.windows(2)) {
        let &[bytes, next_bytes] = pair else { break };
        // Level 0 passes levels that are not used.
        let passing = if level < first_used { arriving } else { 0 };
        let bytes = u128::from(bytes) + arriving - passing;
        let over = bytes.saturating_sub(u128::from(targets.urgent_bytes(level)));
        // Moves write nothing.
        let over = over.saturating_sub(u128::from(targets.bytes_to_move_below(level)));
        // Its share of the next level. No quotient of zero: bytes are over a target.
        let dragged = over.saturating_mul(u128::from(next_bytes)) / bytes.max(1);
        debt = debt.saturating_add(over + dragged);
        arriving = passing + over;
    }
    u64::try_from(debt).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compaction::targets::Shape;
    use crate::golden::check_script;
    use crate::levels::LEVELS;

    const LEVEL0_MERGE: usize = 4;
    const SHAPE: Shape = Shape {
        level1_bytes: 256,
        level_ratio: 10,
    };

    fn targets_of(sizes: &[u64]) -> Targets {
        let mut all = [0; LEVELS];
        for (size, bytes) in all.iter_mut().zip(sizes) {
            *size = *bytes;
        }
        Targets::of_sizes(&all, SHAPE)
    }

    /// tests/golden/debt.txt: the sub-levels of level 0, then the bytes of levels 0, 1, 2, ...;
    /// `TERRACE_BLESS=1` writes the answers again.
    #[test]
    fn the_script_is_answered_as_it_was() {
        check_script(env!("CARGO_MANIFEST_DIR"), "debt.txt", 10, |levels| {
            let numbers = levels.split_whitespace();
            let mut numbers = numbers.map(|number| number.parse().unwrap());
            let sub_levels = numbers.next().unwrap() as usize;
            let sizes: Vec<u64> = numbers.collect();
            debt_of_sizes(sub_levels >= LEVEL0_MERGE, &sizes, &targets_of(&sizes)).to_string()
        });
    }

    proptest! {
        #[test]
        fn more_bytes_anywhere_never_lower_the_debt(
            sub_levels in 0..8usize,
            sizes in prop::collection::vec(0..100_000u64, 7),
            level in 0..7usize,
            more in 1..100_000u64,
        ) {
            let targets = targets_of(&sizes);
            let is_due = sub_levels >= LEVEL0_MERGE;
            let before = debt_of_sizes(is_due, &sizes, &targets);
            let mut grown = sizes.clone();
            grown[level] += more;
            prop_assert!(debt_of_sizes(is_due, &grown, &targets) >= before);
            prop_assert!(debt_of_sizes(true, &sizes, &targets) >= before);
        }
    }

    #[test]
    fn no_size_is_too_large_to_be_answered() {
        let all = [u64::MAX; 7];
        assert_eq!(debt_of_sizes(true, &all, &targets_of(&[])), u64::MAX);
        assert_eq!(debt_of_sizes(true, &[], &targets_of(&all)), 0);
    }
}
