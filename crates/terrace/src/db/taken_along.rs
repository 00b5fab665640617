//! Tiny tables that a flush merges with its output.

use std::sync::Arc;

use terrace_storage::Purpose;

use crate::compaction::claim::Claim;
use crate::compaction::drop_rules::{DropRules, Keys};
use crate::compaction::legality::{check_legal, older_elsewhere};
use crate::compaction::merge::merge;
use crate::compaction::merging::MergingCursor;
use crate::compaction::policy::Choice;
use crate::compaction::slices::Slice;
use crate::compaction::table_ends::TableEnds;
use crate::compaction::tiny_tables::{most_bytes_taken_along, taken_along};
use crate::cursor::Cursor;
use crate::db::Store;
use crate::db::jobs::Reserved;
use crate::db::keyspaces::live;
use crate::db::table_files::NewFiles;
use crate::levels::{KeyRange, TableMeta, TableRemoved, Version};
use crate::range_tombstones::{RangeTombstone, RangeTombstones};
use crate::sync::atomic::AtomicBool;
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
    /// Claims the tables that the flush of the oldest MemTable takes along in a keyspace.
    pub(crate) fn take_along(
        &self,
        memtable: &Arc<MemTable>,
        keyspace: KeyspaceId,
    ) -> Option<TakenAlong<'_>> {
        let flushed_bytes = memtable.arena().end_bytes() as u64;
        let most_bytes = most_bytes_taken_along(self.options.arena_bytes, flushed_bytes);
        if most_bytes == 0 {
            return None;
        }
        let written = range_of(memtable, keyspace)?;
        let choose = |claims: &[Claim]| {
            // After the board: claimed tables may be listed at two places, never at none.
            let version = Arc::clone(&self.view.load().version);
            let levels = version.keyspace(keyspace)?;
            let choice = taken_along(levels, claims, most_bytes)?;
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
        let ((choice, version), reserved) = self.jobs.reserve_chosen(keyspace, choose)?;
        Some(TakenAlong {
            keyspace,
            choice,
            version,
            _reserved: reserved,
        })
    }

    /// Writes the entries of a MemTable and of the tables that go along. The files are settled if
    /// it fails.
    pub(crate) fn write_with(
        &self,
        memtable: &Arc<MemTable>,
        taken: &TakenAlong<'_>,
        snapshots: &[SequenceNumber],
    ) -> Result<(Vec<TableMeta>, NewFiles)> {
        let (choice, keyspace) = (&taken.choice, taken.keyspace);
        let levels = live(&taken.version, keyspace)?;
        let older = |keys: Keys<'_>| older_elsewhere(levels, choice, keys);
        let sets = memtable.range_tombstones(keyspace);
        let of_memtable = sets.iter().flat_map(|set| set.iter());
        let mut ranges: Vec<RangeTombstone> = of_memtable.map(RangeTombstone::from).collect();
        let of_tables = self.input_ranges(choice, &Slice::ALL)?;
        ranges.extend(of_tables.iter().map(RangeTombstone::from));
        let ranges = RangeTombstones::new(ranges);
        let rules = DropRules::new(snapshots, &older, &ranges);
        let tables = self.inputs(choice, &Slice::ALL, &rules);
        let sources: Vec<Box<dyn Cursor + Send + '_>> =
            vec![Box::new(memtable.cursor(keyspace)), Box::new(tables)];
        let mut versions = MergingCursor::new(sources);
        let now = self.clock.unix_seconds();
        let oldest_tombstone = self.oldest_tombstone(choice.inputs.iter());
        let mut sink = self
            .table_files(levels, choice.output, Purpose::Flush)
            .with_oldest_tombstone(Some(oldest_tombstone.map_or(now, |then| then.min(now))));
        let merged = merge(
            &mut versions,
            &Slice::ALL,
            rules,
            TableEnds::at_size(u64::MAX),
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
    let first = cursor.valid().then(|| cursor.key().user_key.to_vec())?;
    cursor.seek_to_last().ok()?;
    let last = cursor.valid().then(|| cursor.key().user_key.to_vec())?;
    let points = KeyRange::inclusive(first, last);
    let sets = memtable.range_tombstones(keyspace);
    let deleted = sets.iter().flat_map(|set| set.iter());
    let deleted: Vec<KeyRange> = deleted
        .map(|range| {
            let range = RangeTombstone::from(range);
            KeyRange {
                smallest: range.start,
                largest: range.end,
                largest_excluded: true,
            }
        })
        .collect();
    KeyRange::hull(deleted.iter().chain([&points]))
}
