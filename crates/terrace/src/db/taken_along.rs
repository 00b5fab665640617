//! Tiny tables that a flush merges with its output.

use std::sync::Arc;

use terrace_lsm::compaction::claim::Claim;
use terrace_lsm::compaction::drop_rules::{DropRules, Keys};
use terrace_lsm::compaction::legality::{check_legal, older_elsewhere};
use terrace_lsm::compaction::merge::merge;
use terrace_lsm::compaction::policy::Choice;
use terrace_lsm::compaction::slices::Slice;
use terrace_lsm::compaction::table_ends::TableEnds;
use terrace_lsm::compaction::tiny_tables::{most_bytes_taken_along, taken_along};
use terrace_lsm::cursor::Cursor;
use terrace_lsm::cursor::MergingCursor;
use terrace_lsm::levels::{KeyRange, TableMeta, TableRemoved, Version};
use terrace_lsm::range_tombstones::{RangeTombstone, RangeTombstones};
use terrace_lsm::sync::atomic::{AtomicBool, Ordering};
use terrace_storage::Purpose;

use crate::db::Store;
use crate::db::jobs::Reserved;
use crate::db::keyspaces::live;
use crate::db::table_files::{Expected, NewFiles};
use crate::event::EventKind;
use crate::write_buffer::arena_size::in_tables;
use crate::write_buffer::memtable::MemTable;
use crate::{KeyspaceId, Result, SequenceNumber};

/// Tables of one keyspace, with a reservation that keeps merges from touching them until the flush
/// is installed.
pub(crate) struct TakenAlong<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) choice: Choice,
    version: Arc<Version>,
    _reserved: Reserved<'a>,
}

/// The tables that a flush has taken along, and the bytes that it may still take, over all keyspaces.
pub(crate) struct Along<'a> {
    pub(crate) taken: Vec<TakenAlong<'a>>,
    left_bytes: u64,
}

impl Along<'_> {
    pub(crate) fn new(most_bytes: u64) -> Self {
        Along {
            taken: Vec::new(),
            left_bytes: most_bytes,
        }
    }
}

impl<'a> Along<'a> {
    fn take(&mut self, taken: TakenAlong<'a>) {
        let inputs = taken.choice.inputs.iter();
        let bytes: u64 = inputs.map(|input| input.table.size_bytes).sum();
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        self.taken.push(taken);
    }
}

impl TakenAlong<'_> {
    /// Takes the tables off the list.
    pub(crate) fn removed(&self) -> impl Iterator<Item = TableRemoved> {
        let keyspace = self.keyspace;
        let inputs = self.choice.inputs.iter();
        inputs.map(move |input| TableRemoved {
            keyspace,
            number: input.table.number,
        })
    }
}

impl Store {
    /// Returns the bytes of tables that a flush takes along at most. Its outputs lie beside these
    /// tables until the edit, so none go where that space is not free beside the tables of all
    /// arenas. None go at a close: no thread would delete their files.
    pub(crate) fn most_bytes_along(&self, oldest_bytes: u64, to_flush_bytes: u64) -> u64 {
        let most_bytes = most_bytes_taken_along(self.options.arena_bytes, oldest_bytes);
        if most_bytes == 0 || self.lifecycle.closing.load(Ordering::Acquire) {
            return 0;
        }
        let flushed_bytes = in_tables(to_flush_bytes).max(self.unflushed_table_bytes());
        let needed_bytes = flushed_bytes.saturating_add(most_bytes);
        let free_bytes = self.files.directory.free_space_bytes().unwrap_or(0);
        if free_bytes >= needed_bytes {
            most_bytes
        } else {
            0
        }
    }

    /// Claims the tables that the flush of the oldest MemTable takes along in a keyspace: none where a
    /// merge of level 0 is due, which takes them.
    fn take_along(
        &self,
        memtable: &Arc<MemTable>,
        keyspace: KeyspaceId,
        most_bytes: u64,
    ) -> Option<TakenAlong<'_>> {
        if most_bytes == 0 {
            return None;
        }
        let written = range_of(memtable, keyspace)?;
        let choose = |claims: &[Claim]| {
            // After the board: claimed tables may be listed at two places, never at none.
            let version = Arc::clone(&self.reads.view.load().version);
            let levels = version.keyspace(keyspace)?;
            let level0 = levels.sub_levels().filter(|(place, _)| place.level == 0);
            if level0.count() >= self.options.level0_merge {
                return None;
            }
            let lost = self.files.claims_of_lost(levels);
            let claims: Vec<Claim> = claims.iter().cloned().chain(lost).collect();
            let choice = taken_along(levels, &claims, most_bytes)?;
            check_legal(levels, &choice).ok()?;
            let inputs = choice.inputs.iter();
            let bounds = inputs.clone().map(|input| &input.table.bounds);
            let claim = Claim::new(
                KeyRange::hull(bounds.chain([&written]))?,
                // The flush is younger than all listed tables.
                u64::MAX,
                choice.output,
                inputs.map(|input| input.table.number),
                [],
            );
            Some((claim, (choice, version)))
        };
        let ((choice, version), reserved) = self.compactor.jobs.reserve_chosen(keyspace, choose)?;
        Some(TakenAlong {
            keyspace,
            choice,
            version,
            _reserved: reserved,
        })
    }

    /// Writes a MemTable's part of a keyspace together with tiny tables, if some go along. `None` if
    /// none do: also if they cannot be read, for a flush must not depend on them.
    ///
    /// # Errors
    /// A full disk: the whole flush is repeated without them.
    pub(crate) fn write_along<'a>(
        &'a self,
        memtable: &Arc<MemTable>,
        keyspace: KeyspaceId,
        snapshots: &[SequenceNumber],
        along: &mut Along<'a>,
    ) -> Result<Option<(Vec<TableMeta>, NewFiles)>> {
        let Some(taken) = self.take_along(memtable, keyspace, along.left_bytes) else {
            return Ok(None);
        };
        match self.write_with(memtable, &taken, snapshots) {
            Ok(written) => {
                along.take(taken);
                Ok(Some(written))
            }
            Err(error) if error.is_no_space() => Err(error),
            Err(error) => {
                self.metrics.events.record(EventKind::StepFailed {
                    worker: "terrace-flush".to_owned(),
                    error,
                });
                Ok(None)
            }
        }
    }

    /// Writes the entries of a MemTable and of the tables that go along. The files are settled if
    /// it fails.
    fn write_with(
        &self,
        memtable: &Arc<MemTable>,
        taken: &TakenAlong<'_>,
        snapshots: &[SequenceNumber],
    ) -> Result<(Vec<TableMeta>, NewFiles)> {
        let (choice, keyspace) = (&taken.choice, taken.keyspace);
        let levels = live(&taken.version, keyspace)?;
        let older = |keys: Keys<'_>| older_elsewhere(levels, choice, keys);
        let mut ranges = memtable.range_list(keyspace);
        let of_tables = self.files.input_ranges(choice, &Slice::ALL)?;
        ranges.extend(of_tables.iter().map(RangeTombstone::from));
        let ranges = RangeTombstones::new(ranges);
        let rules = DropRules::new(snapshots, &older, &ranges);
        let tables = self.files.inputs(choice, &Slice::ALL, &rules);
        let sources: Vec<Box<dyn Cursor + Send + '_>> =
            vec![Box::new(memtable.cursor(keyspace)), Box::new(tables)];
        let mut versions = MergingCursor::new(sources);
        let now = self.lifecycle.clock.unix_seconds();
        let oldest_tombstone = self.lifecycle.oldest_tombstone(choice.inputs.iter());
        let along = choice.inputs.iter().map(|input| input.table.size_bytes);
        let table_bytes = self.files.flushed_table_bytes();
        let bytes = memtable.arena().end_bytes() as u64 + along.sum::<u64>();
        let expected = Expected::of_flush(bytes, table_bytes);
        let mut sink = self
            .table_files(levels, choice.output, Purpose::Flush, expected)
            .with_oldest_tombstone(Some(oldest_tombstone.map_or(now, |then| then.min(now))));
        let merged = merge(
            &mut versions,
            &Slice::ALL,
            rules,
            TableEnds::at_size(table_bytes),
            &AtomicBool::new(false),
            &mut sink,
        );
        let files = sink.into_files();
        match merged {
            Ok(tables) => Ok((tables, files)),
            Err(error) => self.settle_files(files, Err(error)),
        }
    }
}

/// Returns the key range of a MemTable in a keyspace; `None` if it has none there, or cannot be
/// read.
fn range_of(memtable: &Arc<MemTable>, keyspace: KeyspaceId) -> Option<KeyRange> {
    let mut cursor = memtable.cursor(keyspace);
    cursor.seek_to_first().ok()?;
    let first = cursor.valid().then(|| cursor.key().user_key.to_vec());
    cursor.seek_to_last().ok()?;
    let last = cursor.valid().then(|| cursor.key().user_key.to_vec());
    let points = first
        .zip(last)
        .map(|(first, last)| KeyRange::inclusive(first, last));
    let ranges = memtable.range_list(keyspace);
    let deleted: Vec<KeyRange> = ranges
        .into_iter()
        .map(|range| KeyRange::half_open(range.start, range.end))
        .collect();
    KeyRange::hull(deleted.iter().chain(&points))
}
