//! Tables that deleted ranges in arenas hide.
//!
//! A deleted range gives space back once it is in a table. On a full disk there may be no room for that
//! table, nor for the arena that lets the present one be flushed. So where space is short the ranges in
//! arenas count as well, and the tables that they hide go by an edit alone.
//!
//! A removed table is gone for good, so its range must survive a power cut before: the arenas are
//! persisted first, and the edit promises them (`persisted_until`). A state of the tables alone, as a
//! checkpoint has it, must hold the range too; [`Writes::is_without_arena_ranges`] says whether it does.
//!
//! An arena may be damaged later, and a repair goes on without the range. Then rows that were deleted may
//! be gone, but no older version may come back. So a table waits until no older one overlaps it.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_lsm::levels::{KeyspaceLevels, Table};
use terrace_lsm::range_tombstones::{RangeTombstone, RangeTombstones};
use terrace_lsm::sync::atomic::Ordering;

use crate::db::Store;
use crate::db::owners::Writes;
use crate::db::view::View;
use crate::{Result, SequenceNumber};

/// For each table number, the number from which on readers see nothing of the table.
pub(crate) type HiddenFrom = BTreeMap<u64, SequenceNumber>;

/// How the ranges in arenas count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangesInArenas {
    /// The arenas are persisted before: tables may go for them.
    Persisted,
    /// For a question: nothing changes.
    AsTheyAre,
}

/// Returns the number from which on readers see nothing of a table. `None` if the ranges leave a key, or
/// are not younger than all that it holds.
fn hidden_from(ranges: &RangeTombstones, table: &Table) -> Option<SequenceNumber> {
    let (mut key, end) = (table.bounds.smallest.as_slice(), table.bounds.end());
    let mut from = 0;
    while key < end.as_slice() {
        let newest = ranges.newest_covering(key, u64::MAX)?;
        if newest.sequence <= table.max_sequence {
            return None;
        }
        from = newest.sequence.max(from);
        key = newest.end;
    }
    Some(from)
}

/// Returns whether no older table overlaps one of an age.
fn is_oldest(levels: &KeyspaceLevels, age: u64, table: &Table) -> bool {
    let mut older = levels.sub_levels().filter(|(place, _)| place.age < age);
    older.all(|(_, sub_level)| sub_level.overlapping(&table.bounds).is_empty())
}

/// Returns the tables that the ranges in the arenas of a view, up to a number, hide.
fn hidden_in(view: &View, until: SequenceNumber, oldest_snapshot: SequenceNumber) -> HiddenFrom {
    let ranges_of = |levels: &KeyspaceLevels| {
        let memtables = view.memtables.iter();
        let lists = memtables.map(|table| table.range_list(levels.id));
        let list: Vec<RangeTombstone> = lists
            .flatten()
            .filter(|range| range.sequence <= until)
            .collect();
        RangeTombstones::new(list)
    };
    let mut hidden = HiddenFrom::new();
    for levels in view.version.keyspaces.values() {
        let ranges = ranges_of(levels);
        if ranges.is_empty() {
            continue;
        }
        for (place, table) in levels.tables() {
            let from = hidden_from(&ranges, table).filter(|from| *from <= oldest_snapshot);
            if let Some(from) = from
                && is_oldest(levels, place.age, table)
            {
                hidden.insert(table.number, from);
            }
        }
    }
    hidden
}

impl Store {
    /// Notes that the disk was full: deletes pass for a while, and tables that ranges in arenas
    /// hide may go.
    pub(crate) fn met_full_disk(&self) {
        self.files.reserve.met_full_disk();
        self.lifecycle.background.compaction_wanted(self);
    }

    /// Returns the tables that ranges in arenas hide, where space is short and the ranges can be
    /// made to survive a power cut.
    pub(crate) fn hidden_by_arenas(
        &self,
        oldest_snapshot: SequenceNumber,
        arenas: RangesInArenas,
    ) -> HiddenFrom {
        if !self.files.reserve.deletes_skip_waiting() || self.check_can_persist().is_err() {
            return HiddenFrom::new();
        }
        // Before the view: each write up to this number is in its arenas or in its tables.
        let until = self.reads.visible();
        let view = self.reads.view.load_full();
        let hidden = hidden_in(&view, until, oldest_snapshot);
        match arenas {
            RangesInArenas::AsTheyAre => hidden,
            // A failed persist has poisoned the store: every later write reports it.
            RangesInArenas::Persisted => self
                .persist_for(&view, until, &hidden)
                .map(|()| hidden)
                .unwrap_or_default(),
        }
    }

    /// Removes the tables that ranges hide whole, those in arenas included, and their files. Waits for
    /// removals under way and for no merge. Returns whether tables or files went.
    pub(crate) fn remove_all_hidden_tables(&self) -> Result<bool> {
        let removals = || self.metrics.counters.removals.load(Ordering::Relaxed);
        let before = removals();
        let version = Arc::clone(&self.reads.view.load().version);
        self.files.reserve.met_full_disk();
        for &keyspace in version.keyspaces.keys() {
            self.remove_hidden_tables(keyspace)?;
        }
        drop(version);
        let is_poisoned = || self.lifecycle.poisoned().is_some();
        let waited = self.compactor.jobs.wait_for_removals(is_poisoned);
        let files = self.delete_now();
        // Before the sync, btrfs gives nothing back.
        self.files.data.sync()?;
        Ok(waited || files > 0 || removals() > before)
    }

    /// Makes the ranges that hide tables survive a power cut, before any of these tables goes.
    fn persist_for(&self, view: &View, until: SequenceNumber, hidden: &HiddenFrom) -> Result<()> {
        let Some(youngest) = hidden.values().copied().max() else {
            return Ok(());
        };
        // The oldest first: a recovery ends at the first gap.
        for memtable in view.memtables.iter().rev() {
            let persisted = memtable.arena().persist();
            persisted.map_err(|error| self.persist_failed(error))?;
        }
        self.writes.persisted.fetch_max(until, Ordering::AcqRel);
        self.writes
            .removed_for
            .fetch_max(youngest, Ordering::AcqRel);
        Ok(())
    }
}

impl Writes {
    /// Returns whether tables that hold every write up to a number miss none that was removed for a
    /// range in an arena.
    pub(crate) fn is_without_arena_ranges(&self, flushed_sequence: SequenceNumber) -> bool {
        self.removed_for.load(Ordering::Acquire) <= flushed_sequence
    }
}

#[cfg(test)]
mod tests {
    use terrace_lsm::levels::testing::{added, levels, sub_level_place, version};
    use terrace_lsm::range_tombstones::testing::tombstone;

    use super::*;

    fn table_of(smallest: &str, largest: &str, max_sequence: SequenceNumber) -> Table {
        let mut meta = added(sub_level_place(1, 1), 1, smallest, largest).table;
        meta.max_sequence = max_sequence;
        let version = version(vec![terrace_lsm::levels::TableAdded {
            place: sub_level_place(1, 1),
            table: meta,
        }]);
        let tables = levels(&version).tables().next();
        Table::clone(tables.unwrap().1)
    }

    #[test]
    fn ranges_hide_what_they_cover_whole_and_what_is_older_only() {
        let ranges = RangeTombstones::new(vec![tombstone("a", "f", 50), tombstone("f", "m", 40)]);
        let hides =
            |smallest, largest, max| hidden_from(&ranges, &table_of(smallest, largest, max));
        assert_eq!(hides("b", "c", 30), Some(50));
        assert_eq!(hides("b", "k", 30), Some(50), "by both together");
        assert_eq!(hides("g", "k", 39), Some(40));
        assert_eq!(hides("b", "k", 45), None, "a part of it may be younger");
        assert_eq!(hides("b", "m", 30), None, "the last key is left");
    }

    /// A repair may lose the range. Versions below the removed table must stay hidden.
    #[test]
    fn a_table_waits_for_older_ones_that_overlap_it() {
        let version = version(vec![
            added(sub_level_place(1, 3), 1, "c", "d"),
            added(sub_level_place(1, 3), 2, "p", "q"),
            added(sub_level_place(2, 1), 3, "a", "k"),
        ]);
        let levels = levels(&version);
        let oldest = levels
            .tables()
            .filter(|(place, table)| is_oldest(levels, place.age, table));
        let mut numbers: Vec<u64> = oldest.map(|(_, table)| table.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [2, 3]);
    }
}
