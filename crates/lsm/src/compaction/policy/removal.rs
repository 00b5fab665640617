//! Tables that go by an edit alone: younger deleted ranges hide all that they hold, and no snapshot is
//! old enough to see it.
//!
//! A removal reads and writes nothing, so it goes before everything else: on a full disk it makes
//! room. (Pebble calls it a delete-only compaction.) The ranges stay until a merge finds nothing
//! below them.

use crate::SequenceNumber;
use crate::compaction::claim::Claim;
use crate::compaction::policy::candidate::{Candidate, Measure, Standing};
use crate::compaction::policy::inputs::{listed, neighbours};
use crate::compaction::policy::tombstones::Seen;
use crate::compaction::policy::{Choice, ChoiceKind, Reason, unless_claimed};
use crate::levels::{KeyRange, KeyspaceLevels, Table};
use crate::range_tombstones::RangeTombstones;

/// Returns the number from which on readers see nothing of an older table: that of the youngest of the
/// ranges over it, within the bounds of their own table. `None` if they leave some of its keys.
pub fn hidden_from(
    ranges: &RangeTombstones,
    bounds: &KeyRange,
    older: &Table,
) -> Option<SequenceNumber> {
    if !bounds.encloses(&older.bounds) {
        return None;
    }
    let (mut key, end) = (older.bounds.smallest.as_slice(), older.bounds.end());
    let mut from = 0;
    while key < end.as_slice() {
        let newest = ranges.newest_covering(key, u64::MAX)?;
        from = newest.sequence.max(from);
        key = newest.end;
    }
    // The numbers of a narrowed table are those of its whole file, the merged part included.
    let is_younger = from > older.max_sequence;
    debug_assert!(
        is_younger || older.narrowed,
        "ranges are younger than what they hide"
    );
    is_younger.then_some(from)
}

/// Returns the first removal that may begin beside the merges under way.
pub fn pick(levels: &KeyspaceLevels, under_way: &[Claim], seen: &Seen) -> Option<Choice> {
    let mut choices = removals(levels, seen);
    choices.find_map(|choice| unless_claimed(choice, under_way))
}

/// Returns every removal, begun or not.
pub(super) fn candidates(
    levels: &KeyspaceLevels,
    under_way: &[Claim],
    seen: &Seen,
) -> Vec<Candidate> {
    let candidate = |choice: Choice| Candidate {
        measure: Measure::Hidden {
            level: choice.output.level,
            tables: choice.inputs.len(),
        },
        standing: unless_claimed(choice, under_way).map_or(Standing::Waits, Standing::Ready),
    };
    removals(levels, seen).map(candidate).collect()
}

/// Groups neighbouring hidden tables of a sub-level. Tables that are not neighbours go one by one: a
/// claim on all keys between them would wait for merges there.
fn removals<'a>(levels: &'a KeyspaceLevels, seen: &'a Seen) -> impl Iterator<Item = Choice> {
    let all = neighbours(levels, |table| seen.hides(table));
    all.map(|(place, run)| Choice {
        reason: Reason::Hidden { tables: run.len() },
        kind: ChoiceKind::Removal,
        inputs: listed(place, run),
        output: place,
        predicted: None,
    })
}

impl Seen {
    /// Returns true if no reader sees an entry of the table from now on.
    fn hides(&self, table: &Table) -> bool {
        let from: Option<&SequenceNumber> = self.hidden_from.get(&table.number);
        from.is_some_and(|from| *from <= self.oldest_snapshot)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::levels::testing::{added, flush_place, levels, sub_level_place, version};

    fn seen(hidden_from: &[(u64, u64)], oldest_snapshot: u64) -> Seen {
        Seen {
            hidden_from: Arc::new(hidden_from.iter().copied().collect()),
            oldest_snapshot,
            ..Seen::default()
        }
    }

    fn picked(levels: &KeyspaceLevels, under_way: &[Claim], seen: &Seen) -> Option<Vec<u64>> {
        let choice = pick(levels, under_way, seen)?;
        assert_eq!(choice.kind, ChoiceKind::Removal);
        let numbers = choice.inputs.iter().map(|input| input.table.number);
        Some(numbers.collect())
    }

    #[test]
    fn neighbours_that_ranges_hide_go_together_once_no_snapshot_sees_them() {
        let below = sub_level_place(1, 1);
        let version = version(vec![
            added(flush_place(9), 10, "a", "z"),
            added(below, 1, "a", "b"),
            added(below, 2, "c", "d"),
            added(below, 3, "e", "f"),
            added(below, 4, "g", "h"),
        ]);
        let levels = levels(&version);
        let hidden = [(1, 90), (2, 90), (4, 95)];
        assert_eq!(picked(levels, &[], &seen(&[], 99)), None);
        assert_eq!(
            picked(levels, &[], &seen(&hidden, 89)),
            None,
            "a snapshot sees them"
        );
        assert_eq!(picked(levels, &[], &seen(&hidden, 90)), Some(vec![1, 2]));
        let all = candidates(levels, &[], &seen(&hidden, 99));
        assert_eq!(all.len(), 2, "{all:?}");
        // The inputs of a merge stay until its end; other tables do not wait for it.
        let merge = Choice {
            kind: ChoiceKind::Merge,
            ..pick(levels, &[], &seen(&hidden, 99)).unwrap()
        };
        let claims = [Claim::of(&merge).unwrap()];
        assert_eq!(picked(levels, &claims, &seen(&hidden, 99)), Some(vec![4]));
    }
}
