//! How far merges are behind the promise of a policy: a pure function of the levels and of the
//! merges under way.
//!
//! Level 0 and the bytes that merges owe hold writers back by themselves. Neither sees that the
//! levels fill with stale versions while the merge that would drop the last ones still runs. A load
//! that outruns its merges would make the space a multiple of that which was asked for. So the
//! versions and sub-levels that wait for a merge are compared with those that make one due: 1 is a
//! merge that should begin now.

use std::ops::RangeInclusive;

use crate::compaction::claim::Claim;
use crate::compaction::estimates::{Duplicates, Estimates};
use crate::compaction::run::Run;
use crate::levels::{KeyspaceLevels, LEVELS, Place, SubLevel, Table};

/// All but level 0.
const BELOW_LEVEL0: RangeInclusive<u8> = 1..=LEVELS as u8 - 1;

/// Lateness for which a merge of the largest sub-level counts while it is under way: when half of
/// the versions that make the next one due have come since, writers feel it.
const UNDER_WAY: f64 = 0.5;

/// Returns the lateness if merges are due when they would drop `due` versions for each key that
/// stays.
///
/// While a merge below level 0 is under way, sub-levels that have come since wait for the next one,
/// all but the largest, by which everything else is measured. Otherwise some level may be due, and
/// no worker is there to begin.
pub(crate) fn by_duplicates(
    levels: &KeyspaceLevels,
    under_way: &[Claim],
    estimates: &dyn Estimates,
    due: f64,
) -> f64 {
    let keys = |run: &Run| estimates.keys(levels, run).map(|keys| keys.max(1.0));
    let Some(all) = Run::of_levels(levels, BELOW_LEVEL0) else {
        return 0.0;
    };
    if all
        .tables()
        .any(|table| under_way.iter().any(|claim| claim.takes(table.number)))
    {
        let largest = all.sub_levels().iter().max_by_key(|(_, s)| s.size_bytes());
        let largest = largest.map(|(place, _)| place);
        let waiting = all.sub_levels().iter();
        let waiting =
            waiting.filter(|(place, s)| Some(place) != largest && waits(*place, s, under_way));
        let versions: u64 = waiting.map(|(_, s)| versions(s)).sum();
        return keys(&all).map_or(0.0, |keys| UNDER_WAY + versions as f64 / keys / due);
    }
    let by_level = BELOW_LEVEL0.filter_map(|number| {
        let of_level = Run::of_level(levels, number)?;
        // No merge would drop versions that snapshots keep, that a setback puts off, or that are
        // not known: no writer is to wait for them.
        let at_most = estimates.merged(levels, &of_level)?;
        let is_due = |known: &Duplicates| known.rate() - 1.0 >= due;
        let now = match is_due(&at_most) {
            true => estimates.merged_now(levels, &of_level, at_most)?,
            false => at_most,
        };
        Some((now.rate() - 1.0) / due)
    });
    by_level.fold(0.0, f64::max)
}

/// Returns the lateness if a level is to go down when it has `most` sub-levels.
pub(crate) fn by_sub_levels(levels: &KeyspaceLevels, under_way: &[Claim], most: usize) -> f64 {
    let waiting = BELOW_LEVEL0.filter_map(|number| {
        let run = Run::of_level(levels, number)?;
        let sub_levels = run.sub_levels().iter();
        Some(
            sub_levels
                .filter(|(place, s)| waits(*place, s, under_way))
                .count(),
        )
    });
    waiting.max().unwrap_or(0) as f64 / most.max(1) as f64
}

/// Returns whether a sub-level neither takes part in a merge nor gets the outputs of one.
fn waits(place: Place, sub_level: &SubLevel, under_way: &[Claim]) -> bool {
    let mut claims = under_way.iter();
    !claims.any(|claim| {
        let takes = |table: &std::sync::Arc<Table>| claim.takes(table.number);
        claim.output().sub_level == place.sub_level || sub_level.tables.iter().any(takes)
    })
}

fn versions(sub_level: &SubLevel) -> u64 {
    sub_level.tables.iter().map(|table| table.entries).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::estimates::Duplicates;
    use crate::compaction::policy::{Choice, ChoiceKind, Input, Reason};
    use crate::levels::testing::{added, flush_place, levels, sub_level_place, version};

    /// There are 100 keys, and each sub-level has random ones.
    struct HundredKeys;

    impl Estimates for HundredKeys {
        fn merged(&self, levels: &KeyspaceLevels, run: &Run) -> Option<Duplicates> {
            Some(Duplicates::new(run.versions(), self.keys(levels, run)?, 0))
        }
        fn merged_now(
            &self,
            _: &KeyspaceLevels,
            _: &Run,
            at_most: Duplicates,
        ) -> Option<Duplicates> {
            Some(at_most)
        }
        fn keys(&self, _: &KeyspaceLevels, run: &Run) -> Option<f64> {
            Some((run.versions() as f64).min(100.0))
        }
    }

    /// Measures sub-levels with as many versions, beside a merge of those with these numbers into
    /// the place of the last, if there is one.
    fn overdue(sub_levels: &[(Place, u64)], merged: &[u64]) -> (f64, f64) {
        let listed = (1u64..).zip(sub_levels).map(|(number, &(place, entries))| {
            let mut added = added(place, number, "a", "z");
            (added.table.entries, added.table.size_bytes) = (entries, entries);
            added
        });
        let version = version(listed.collect());
        let levels = levels(&version);
        let inputs = merged.iter().map(|&number| {
            let (place, table) = levels.find(number).unwrap();
            Input::new(place, table)
        });
        let inputs: Vec<Input> = inputs.collect();
        let claim = inputs.last().map(|oldest| Choice {
            reason: Reason::AskedFor,
            kind: ChoiceKind::Merge,
            output: oldest.place,
            inputs: inputs.clone(),
            predicted: None,
        });
        let under_way: Vec<Claim> = claim.iter().filter_map(Claim::of).collect();
        (
            by_duplicates(levels, &under_way, &HundredKeys, 0.2),
            by_sub_levels(levels, &under_way, 4),
        )
    }

    #[test]
    fn what_is_due_and_not_begun_counts_as_far_as_it_is_over() {
        let (young, old) = (sub_level_place(2, 5), sub_level_place(2, 3));
        assert_eq!(overdue(&[], &[]), (0.0, 0.0));
        assert_eq!(overdue(&[(young, 10), (old, 90)], &[]), (0.0, 0.5));
        let (stale, _) = overdue(&[(young, 20), (old, 100)], &[]);
        assert!((stale - 1.0).abs() < 1e-9, "{stale}");
        let (stale, _) = overdue(&[(young, 40), (old, 100)], &[]);
        assert!((stale - 2.0).abs() < 1e-9, "{stale}");
        assert_eq!(
            overdue(&[(flush_place(9), 500)], &[]),
            (0.0, 0.0),
            "level 0"
        );
    }

    #[test]
    fn while_a_merge_is_under_way_what_comes_waits_for_the_next() {
        let place = |level, flush| sub_level_place(level, flush);
        let merged = [(place(1, 9), 0), (place(2, 5), 40), (place(2, 3), 100)];
        assert_eq!(overdue(&merged, &[2, 3]).0, 0.5);
        let arrived = [(place(1, 9), 10), (place(2, 5), 40), (place(2, 3), 100)];
        assert_eq!(overdue(&arrived, &[2, 3]), (1.0, 0.25));
        // The largest one, which waits, does not count.
        let above = [
            (place(1, 9), 10),
            (place(1, 8), 10),
            (place(1, 7), 10),
            (place(2, 3), 100),
        ];
        assert_eq!(overdue(&above, &[2, 3]).0, 1.0);
    }
}
