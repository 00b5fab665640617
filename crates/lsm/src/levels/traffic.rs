//! Bytes that went to and from each level since the store was opened.
//!
//! A total never goes back. A table that leaves a level, or is removed, leaves its counts behind: its
//! reads were added to the level's when they were made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::LEVELS;
use super::edit::{Edit, TableAdded};
use super::version::Version;
use crate::table::{DeviceReads, LevelReads};

/// The traffic of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelTraffic {
    /// Reads of its tables.
    pub reads: DeviceReads,
    /// Bytes of the tables that flushes made in it.
    pub flushed_bytes: u64,
    /// Bytes of the tables that bulk loads made in it.
    pub loaded_bytes: u64,
    /// Bytes of the tables that compactions made in it.
    pub compacted_bytes: u64,
    /// Bytes of its tables that went to another tier.
    pub migrated_bytes: u64,
}

/// Counters of all levels.
#[derive(Debug)]
pub(super) struct Traffic {
    reads: Arc<LevelReads>,
    written: [Written; LEVELS],
}

#[derive(Debug, Default)]
struct Written {
    flushed_bytes: AtomicU64,
    loaded_bytes: AtomicU64,
    compacted_bytes: AtomicU64,
    migrated_bytes: AtomicU64,
}

impl Default for Traffic {
    fn default() -> Self {
        Traffic {
            reads: Arc::new(LevelReads::new(LEVELS)),
            written: Default::default(),
        }
    }
}

impl Traffic {
    /// Returns the counters that tables share.
    pub(super) fn reads(&self) -> &Arc<LevelReads> {
        &self.reads
    }

    /// Returns the traffic of levels 0, 1, 2, ...
    pub(super) fn of_levels(&self) -> Vec<LevelTraffic> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let levels = self.reads.of_levels().zip(&self.written);
        let traffic = levels.map(|(reads, written)| LevelTraffic {
            reads,
            flushed_bytes: count(&written.flushed_bytes),
            loaded_bytes: count(&written.loaded_bytes),
            compacted_bytes: count(&written.compacted_bytes),
            migrated_bytes: count(&written.migrated_bytes),
        });
        traffic.collect()
    }

    fn written_to(&self, level: u8) -> Option<&Written> {
        self.written.get(usize::from(level))
    }

    /// Counts a new table. Only flushes and bulk loads raise the number up to which writes are in tables.
    fn count_added(&self, edit: &Edit, TableAdded { place, table }: &TableAdded) {
        let Some(written) = self.written_to(place.level) else {
            return;
        };
        let counter = match (edit.flushed_sequence, table.assigned) {
            (None, _) => &written.compacted_bytes,
            (Some(_), true) => &written.loaded_bytes,
            (Some(_), false) => &written.flushed_bytes,
        };
        counter.fetch_add(table.size_bytes, Ordering::Relaxed);
    }

    fn count_migrated(&self, level: u8, bytes: u64) {
        if let Some(written) = self.written_to(level) {
            written.migrated_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl Version {
    /// Has every table count its reads for its level. To be called on the version of an opening, whose
    /// tables came from edits that were replayed.
    pub fn settle_levels(&self) {
        self.tables()
            .for_each(|(place, table)| table.enter_level(place.level));
    }

    /// Counts an edit that led to this version. To be called once the edit is durable.
    pub fn count_edit(&self, edit: &Edit) {
        let traffic = &self.obsolete().traffic;
        let added = edit.tables_added.iter();
        added.for_each(|added| traffic.count_added(edit, added));
        for migrated in &edit.tables_migrated {
            let levels = self.keyspace(migrated.keyspace);
            if let Some((place, table)) = levels.and_then(|levels| levels.find(migrated.number)) {
                traffic.count_migrated(place.level, table.size_bytes);
            }
        }
        for moved in &edit.tables_moved {
            let levels = self.keyspace(moved.keyspace);
            if let Some((place, table)) = levels.and_then(|levels| levels.find(moved.number)) {
                table.enter_level(place.level);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use terrace_storage::{Operation, Purpose};

    use super::*;
    use crate::key::KeyspaceId;
    use crate::levels::testing::{added, flush_place, moved, removed, version};
    use crate::levels::tiers::TableMigrated;
    use crate::levels::{Place, Table};
    use crate::sync::Mutex;
    use crate::table::TableTimes;

    fn table(version: &Version, number: u64) -> Arc<Table> {
        let mut tables = version.tables();
        let found = tables.find(|(_, table)| table.number == number);
        Arc::clone(found.unwrap().1)
    }

    fn after(before: &Version, edit: &Edit) -> Version {
        let after = before.apply(edit).unwrap();
        after.count_edit(edit);
        after
    }

    fn read_bytes(version: &Version) -> Vec<u64> {
        let levels = version.obsolete().traffic().into_iter();
        levels.map(|level| level.reads.bytes).collect()
    }

    #[test]
    fn reads_count_where_the_table_is_and_stay_there() {
        let before = version(vec![added(flush_place(1), 1, "a", "z")]);
        table(&before, 1).count_read(10, Purpose::Read);
        let down = Edit {
            tables_moved: vec![moved(1, Place::base(2))],
            ..Edit::default()
        };
        // An edit that is thrown away changes nothing.
        drop(before.apply(&down).unwrap());
        table(&before, 1).count_read(1, Purpose::Read);
        let moved = after(&before, &down);
        table(&moved, 1).count_read(5, Purpose::Read);
        table(&moved, 1).count_read(7, Purpose::Compaction);
        table(&moved, 1).count_read(9, Purpose::Other);
        assert_eq!(read_bytes(&moved)[..3], [11, 0, 5]);

        let to_disk = Edit {
            tables_migrated: vec![TableMigrated {
                keyspace: KeyspaceId::DEFAULT,
                number: 1,
                tier: 2,
            }],
            ..Edit::default()
        };
        let migrated = after(&moved, &to_disk);
        // A reader of old holds the file in the tier that it left.
        table(&moved, 1).count_read(1, Purpose::Read);
        table(&migrated, 1).count_read(1, Purpose::Read);
        let reads = table(&migrated, 1).device_reads();
        assert_eq!((reads.operations, reads.bytes), (5, 18));
        assert_eq!(reads.compaction_bytes, 7);

        let gone = Edit {
            tables_removed: vec![removed(1)],
            ..Edit::default()
        };
        let emptied = after(&migrated, &gone);
        let of_level = emptied.obsolete().traffic()[2];
        assert_eq!((of_level.reads.operations, of_level.reads.bytes), (3, 7));
        assert_eq!(
            (of_level.migrated_bytes, of_level.compacted_bytes),
            (100, 0)
        );
    }

    #[derive(Debug, Default)]
    struct Timed(Mutex<Vec<(usize, Purpose)>>);

    impl TableTimes for Timed {
        fn record(&self, level: usize, operation: Operation, purpose: Purpose, _: Duration) {
            assert_eq!(operation, Operation::Read);
            self.0.lock().push((level, purpose));
        }
    }

    #[test]
    fn reads_are_timed_for_the_level_of_the_table_once_that_is_wanted() {
        let before = version(vec![added(flush_place(1), 1, "a", "z")]);
        let down = Edit {
            tables_moved: vec![moved(1, Place::base(2))],
            ..Edit::default()
        };
        table(&before, 1).count_read(10, Purpose::Read);
        let times = Arc::new(Timed::default());
        before.obsolete().time_reads(Arc::clone(&times) as _);
        table(&before, 1).count_read(10, Purpose::Read);
        let moved = after(&before, &down);
        table(&moved, 1).count_read(10, Purpose::Compaction);
        assert_eq!(
            *times.0.lock(),
            [(0, Purpose::Read), (2, Purpose::Compaction)]
        );
    }

    #[test]
    fn tables_count_for_the_work_that_made_them() {
        let empty = version(vec![]);
        let mut loaded = added(Place::base(3), 2, "m", "z");
        loaded.table = loaded.table.assigned(9);
        let flush = Edit {
            tables_added: vec![added(flush_place(1), 1, "a", "z"), loaded],
            flushed_sequence: Some(9),
            ..Edit::default()
        };
        let flushed = after(&empty, &flush);
        let compaction = Edit {
            tables_removed: vec![removed(1)],
            tables_added: vec![added(Place::base(1), 3, "a", "z")],
            ..Edit::default()
        };
        let traffic = after(&flushed, &compaction).obsolete().traffic();
        let bytes = |level: usize| {
            let level = traffic[level];
            [
                level.flushed_bytes,
                level.loaded_bytes,
                level.compacted_bytes,
            ]
        };
        assert_eq!(
            [bytes(0), bytes(1), bytes(3)],
            [[100, 0, 0], [0, 0, 100], [0, 100, 0]]
        );
    }
}
