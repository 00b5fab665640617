//! The bytes that merges still have to write until every level is within its target: a pure
//! function of the levels' sizes. Here is that of the leveled policy; others count for themselves.
//!
//! What is over a level's target goes down and drags its share of the next level along, and what
//! arrives there counts against that level's own target. Level 0 goes down as a whole once it has
//! as many sub-levels as start a merge, with all of level 1, but no more than a ratio's worth: the
//! policy merges level 0 in itself before that. Moves cost nothing and are not foreseen, so the debt
//! of rising keys is estimated too high.

use crate::levels::{KeyspaceLevels, Version};

/// The targets of the levels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Targets {
    pub(crate) level0_merge: usize,
    pub(crate) level1_bytes: u64,
    pub(crate) level_ratio: u64,
}

/// The debt of a keyspace whose levels are to have these targets.
pub(crate) fn debt_bytes(levels: &KeyspaceLevels, targets: Targets) -> u64 {
    let level0_sub_levels = levels
        .levels
        .first()
        .map_or(0, |level| level.sub_levels.len());
    let sizes: Vec<u64> = levels
        .levels
        .iter()
        .map(|level| level.size_bytes())
        .collect();
    debt_of_sizes(level0_sub_levels, &sizes, targets)
}

/// The debt of all keyspaces, given that of one, and the most sub-levels that any of them has in
/// level 0.
pub(crate) fn backlog(
    version: &Version,
    debt_bytes: impl Fn(&KeyspaceLevels) -> u64,
) -> (u64, usize) {
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

fn debt_of_sizes(level0_sub_levels: usize, sizes: &[u64], targets: Targets) -> u64 {
    let Some((&level0_bytes, below)) = sizes.split_first() else {
        return 0;
    };
    let mut debt = 0u128;
    // What comes down from the level above.
    let mut arriving = 0u128;
    if level0_sub_levels >= targets.level0_merge {
        arriving = u128::from(level0_bytes);
        let level1_bytes = u128::from(below.first().copied().unwrap_or(0));
        debt += arriving + level1_bytes.min(arriving * u128::from(targets.level_ratio));
    }
    let mut target = u128::from(targets.level1_bytes);
    for pair in below.windows(2) {
        let &[bytes, next_bytes] = pair else { break };
        let bytes = u128::from(bytes) + arriving;
        arriving = bytes.saturating_sub(target);
        // Its share of the next level. No quotient of zero: bytes are over a target.
        let dragged = arriving.saturating_mul(u128::from(next_bytes)) / bytes.max(1);
        debt = debt.saturating_add(arriving + dragged);
        target = target.saturating_mul(u128::from(targets.level_ratio));
    }
    u64::try_from(debt).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::golden::check_script;

    const TARGETS: Targets = Targets {
        level0_merge: 4,
        level1_bytes: 256,
        level_ratio: 10,
    };

    /// tests/golden/debt.txt: the sub-levels of level 0, then the bytes of levels 0, 1, 2, ...;
    /// `TERRACE_BLESS=1` writes the answers anew.
    #[test]
    fn the_script_is_answered_as_it_was() {
        check_script("debt.txt", 10, |levels| {
            let numbers = levels.split_whitespace();
            let mut numbers = numbers.map(|number| number.parse().unwrap());
            let sub_levels = numbers.next().unwrap() as usize;
            let sizes: Vec<u64> = numbers.collect();
            debt_of_sizes(sub_levels, &sizes, TARGETS).to_string()
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
            let before = debt_of_sizes(sub_levels, &sizes, TARGETS);
            let mut grown = sizes.clone();
            grown[level] += more;
            prop_assert!(debt_of_sizes(sub_levels, &grown, TARGETS) >= before);
            prop_assert!(debt_of_sizes(sub_levels + 1, &sizes, TARGETS) >= before);
        }
    }

    #[test]
    fn no_size_is_too_large_to_be_answered() {
        let all = [u64::MAX; 7];
        assert_eq!(debt_of_sizes(usize::MAX, &all, TARGETS), u64::MAX);
        assert_eq!(debt_of_sizes(4, &[], TARGETS), 0);
    }
}
