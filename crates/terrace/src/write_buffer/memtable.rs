//! One arena and its index.
//!
//! The arena holds the records, the index makes them findable. Readers share both without locks: a
//! record is in the arena before its entry is in the index, and neither ever changes afterwards.
//!
//! A deleted range is a record like any other, and at the range's very start a tombstone like any
//! other. For the keys behind the start there is [`RangeDeletes`] beside the index.

use std::sync::Arc;

use terrace_lsm::debug_expect::DebugExpect;
use terrace_lsm::key::{InternalKey, Kind, MAX_KEY_BYTES, Tag};
use terrace_lsm::range_tombstones::RangeTombstone;
use terrace_lsm::sync::atomic::{AtomicU64, Ordering};
use terrace_lsm::table::key_hash;
use terrace_region::Arena;

use crate::write_buffer::cursor::MemTableCursor;
use crate::write_buffer::index::{Entry, Index, MAX_ENTRY_BYTES, Place, RecordBytes, Refused, Run};
use crate::write_buffer::range_deletes::{RangeDeletes, Sets};
use crate::write_buffer::record::{Record, Records};
use crate::{Error, KeyspaceId, Result, SequenceNumber};

/// The writes of one arena, in key order.
pub(crate) struct MemTable {
    arena: Arc<Arena>,
    index: Index,
    range_deletes: RangeDeletes,
    index_budget_bytes: u64,
    /// Seed of the store, so that one hash of a key serves indexes and filters.
    hash_seed: u64,
    /// The highest sequence number inserted, 0 if none.
    last_sequence: AtomicU64,
}

/// A record of a frame on its way into the index: gets find it, cursors when the frame is complete.
pub(crate) struct Inserted<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) kind: Kind,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// The key's [`key_hash`] under the store's seed.
    pub(crate) hash: u64,
    pub(crate) sequence: SequenceNumber,
}

/// A record by its number.
pub(crate) struct Numbered<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) kind: Kind,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl<'a> Inserted<'a> {
    #[inline(always)]
    pub(crate) fn new(
        payload: &'a [u8],
        record: &Record,
        sequence: SequenceNumber,
        hash_seed: u64,
    ) -> Self {
        let bytes = record.key_offset..record.key_offset + record.key_bytes + record.value_bytes;
        let bytes = payload.get(bytes);
        let bytes = bytes.debug_expect("a decoded record lies in its payload");
        let (key, value) = bytes.split_at(record.key_bytes);
        Inserted {
            keyspace: KeyspaceId::from_number(record.keyspace),
            kind: record.kind,
            key,
            value,
            hash: key_hash(key, hash_seed),
            sequence,
        }
    }
}

impl RecordBytes for Arena {
    #[inline]
    fn bytes_from(&self, offset: u32) -> &[u8] {
        let offset = offset as usize;
        self.read(offset, self.end_bytes().saturating_sub(offset))
            .debug_expect("the index holds only places below the published end")
    }
}

impl MemTable {
    /// Makes an empty table. `hash_seed` is that of the hashes which [`MemTable::get`] is given.
    pub(crate) fn new(arena: Arc<Arena>, index_budget_bytes: u64, hash_seed: u64) -> Self {
        MemTable {
            arena,
            index: Index::new(index_budget_bytes),
            range_deletes: RangeDeletes::default(),
            index_budget_bytes,
            hash_seed,
            last_sequence: AtomicU64::new(0),
        }
    }

    /// Returns an index budget that is sure to take this many records in an empty index.
    pub(crate) const fn index_bytes_for(records: u64) -> u64 {
        records.saturating_mul(MAX_ENTRY_BYTES)
    }

    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Returns whether `payload_bytes` in `records` records fit the arena and the index, and all of
    /// it the memory that an arena stands for: of small records the index is a good part. An empty
    /// table takes all that its arena and index can hold.
    pub(crate) fn has_room(&self, payload_bytes: usize, records: u64) -> bool {
        let index_bytes = self.index_bytes_with(records);
        let payload_room_bytes = self.arena.remaining_payload_bytes() as u64;
        let memory_bytes = payload_bytes as u64 + index_bytes;
        payload_bytes as u64 <= payload_room_bytes
            && index_bytes <= self.index_budget_bytes
            && (self.is_empty() || memory_bytes <= payload_room_bytes)
    }

    /// Returns the bytes of the index with this many records more, deleted ranges included. Deleted
    /// ranges of the records to come are counted when they are there, and may go over the budget
    /// once.
    fn index_bytes_with(&self, records: u64) -> u64 {
        Self::index_bytes_for(u64::from(self.index.len()).saturating_add(records))
            .saturating_add(self.range_deletes.memory_bytes())
    }

    /// Returns the room left in arena or index, whichever has less; in sixteenths, rounded down.
    pub(crate) fn free_sixteenths(&self) -> u64 {
        let index_bytes = self.index_bytes_with(0);
        let sixteenths = |free_bytes: u64, of_bytes: u64| free_bytes * 16 / of_bytes.max(1);
        let in_arena = (self.arena.remaining_payload_bytes() as u64).saturating_sub(index_bytes);
        let in_index = self.index_budget_bytes.saturating_sub(index_bytes);
        sixteenths(in_arena, self.arena.capacity_bytes())
            .min(sixteenths(in_index, self.index_budget_bytes))
    }

    /// Makes a frame's records findable, and gives each to `inserted`, in order. They begin at
    /// `payload_offset` in the arena; the first has number `first_sequence`. The caller makes none visible
    /// before this returns.
    pub(crate) fn insert_frame(
        &self,
        payload_offset: usize,
        payload_bytes: usize,
        first_sequence: SequenceNumber,
        mut inserted: impl FnMut(&Inserted<'_>),
    ) -> Result<()> {
        let payload = self
            .arena
            .read(payload_offset, payload_bytes)
            .debug_expect("a frame is readable before its records are inserted");
        let mut sequence = first_sequence;
        let mut inserter = self.index.inserter();
        let mut deleted = Vec::new();
        for record in Records::new(payload) {
            let record = record.map_err(|at| self.damaged(payload_offset + at, "not a record"))?;
            let found = Inserted::new(payload, &record, sequence, self.hash_seed);
            let offset = payload_offset + record.offset;
            inserter
                .insert(offset as u32, found.hash, sequence, &*self.arena)
                .map_err(|refused| match refused {
                    Refused::Full => self.damaged(offset, "more records than the index takes"),
                    Refused::Gap => self.damaged(offset, "a gap in the sequence numbers"),
                })?;
            if record.kind.is_of_range() {
                let tombstone = range_tombstone(&record, payload, sequence);
                let malformed = || self.damaged(offset, "a range delete without a range");
                deleted.push((found.keyspace, tombstone.ok_or_else(malformed)?));
            }
            inserted(&found);
            sequence += 1;
        }
        self.range_deletes.add(deleted);
        self.last_sequence
            .fetch_max(sequence.saturating_sub(1), Ordering::Relaxed);
        Ok(())
    }

    fn damaged(&self, offset: usize, detail: &str) -> Error {
        Error::corruption(self.arena.file(), offset as u64, detail)
    }

    /// Returns the newest version of a key at or below `snapshot`, and its value. `hash` is the
    /// key's [`key_hash`] under the store's seed. A deleted range is a version of every key in it,
    /// of kind [`Kind::RangeDelete`].
    pub(crate) fn get(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        hash: u64,
        snapshot: SequenceNumber,
    ) -> Option<(Tag, ValuePlace)> {
        let found = self
            .index
            .get(keyspace.number(), key, hash, snapshot, &*self.arena);
        let found = found.map(|entry| (entry.tag, ValuePlace::of(&entry)));
        if self.range_deletes.is_empty() {
            return found;
        }
        self.newest_of(found, keyspace, key, snapshot)
    }

    /// Returns the newer of a version found and the newest deleted range around its key.
    #[cold]
    fn newest_of(
        &self,
        found: Option<(Tag, ValuePlace)>,
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: SequenceNumber,
    ) -> Option<(Tag, ValuePlace)> {
        match self.range_deletes.newest_covering(keyspace, key, snapshot) {
            Some(number) if found.is_none_or(|(tag, _)| tag.sequence() < number) => {
                Some((Tag::new(number, Kind::RangeDelete), ValuePlace::NOTHING))
            }
            _ => found,
        }
    }

    /// Returns the records above a number and up to another one, in the order of their numbers; `None` for
    /// one that cannot be read.
    pub(crate) fn numbered(
        &self,
        above: SequenceNumber,
        up_to: SequenceNumber,
    ) -> impl Iterator<Item = Option<Numbered<'_>>> {
        let count = u64::from(self.index.len());
        let position = |sequence: SequenceNumber| self.index.entry_position(sequence).min(count);
        let positions = position(above.saturating_add(1))..position(up_to.saturating_add(1));
        positions.map(|number| {
            let entry = self.index.inserted(number as u32, &*self.arena)?;
            Some(Numbered {
                keyspace: KeyspaceId::from_number(entry.keyspace),
                kind: entry.tag.kind()?,
                key: self.key(&entry),
                value: self.value(ValuePlace::of(&entry)),
            })
        })
    }

    /// Returns the deleted ranges of a keyspace that are visible now, perhaps more.
    pub(crate) fn range_tombstones(&self, keyspace: KeyspaceId) -> Sets {
        self.range_deletes.sets(keyspace)
    }

    /// Returns the range tombstones of a keyspace, one by one.
    pub(crate) fn range_list(&self, keyspace: KeyspaceId) -> Vec<RangeTombstone> {
        let sets = self.range_tombstones(keyspace);
        let ranges = sets.iter().flat_map(|set| set.iter());
        ranges.map(RangeTombstone::from).collect()
    }

    /// Returns the bytes at a place that [`MemTable::get`] gave.
    pub(crate) fn value(&self, place: ValuePlace) -> &[u8] {
        self.bytes(place.offset, place.length_bytes)
    }

    /// Returns the keyspaces that have entries, in order.
    pub(crate) fn keyspaces(&self) -> Vec<KeyspaceId> {
        let runs = self.index.runs(&*self.arena);
        runs.keyspaces().map(KeyspaceId::from_number).collect()
    }

    /// Returns a cursor over the versions of one keyspace that are in the table now, perhaps more.
    pub(crate) fn cursor(self: &Arc<Self>, keyspace: KeyspaceId) -> MemTableCursor {
        MemTableCursor::new(self, &self.index.runs(&*self.arena), keyspace)
    }

    /// Returns the entry at a place in one of the index's runs.
    #[inline]
    pub(super) fn entry(&self, place: &Place) -> Option<Entry> {
        self.index.entry(place, &*self.arena)
    }

    #[inline]
    pub(super) fn key(&self, entry: &Entry) -> &[u8] {
        self.bytes(entry.key_offset, entry.key_bytes)
    }

    /// Returns the first position in a run at or after `target`.
    pub(super) fn lower_bound(&self, run: &Run, target: InternalKey<'_>) -> usize {
        run.lower_bound(target.user_key, target.tag, &*self.arena, |place| {
            self.entry(place).map_or(Tag(0), |entry| entry.tag)
        })
    }

    /// Returns the first position in a run from `from` on whose sequence number is not below `below`.
    pub(super) fn next_from(&self, run: &Run, from: usize, below: SequenceNumber) -> Option<usize> {
        run.next_from(from, self.index.entry_position(below))
    }

    /// Returns the last position in a run before `before` whose sequence number is not below `below`.
    pub(super) fn last_before(
        &self,
        run: &Run,
        before: usize,
        below: SequenceNumber,
    ) -> Option<usize> {
        run.last_before(before, self.index.entry_position(below))
    }

    fn bytes(&self, offset: u32, length: u32) -> &[u8] {
        self.arena
            .read(offset as usize, length as usize)
            .debug_expect("the index holds only places below the published end")
    }

    pub(crate) fn last_sequence(&self) -> SequenceNumber {
        self.last_sequence.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.index.len() == 0
    }

    /// Returns the memory held: the arena's image and the index.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.arena.capacity_bytes() + self.index_memory_bytes()
    }

    pub(crate) fn index_memory_bytes(&self) -> u64 {
        self.index.memory_bytes() + self.range_deletes.memory_bytes()
    }
}

/// Returns the range that a record deletes; `None` if that is none or its end is too long.
fn range_tombstone(
    record: &Record,
    payload: &[u8],
    sequence: SequenceNumber,
) -> Option<RangeTombstone> {
    let end_offset = record.key_offset + record.key_bytes;
    let start = payload.get(record.key_offset..end_offset)?;
    let end = payload.get(end_offset..end_offset + record.value_bytes)?;
    (start < end && end.len() <= MAX_KEY_BYTES).then(|| RangeTombstone {
        start: start.to_vec(),
        end: end.to_vec(),
        sequence,
    })
}

/// The place of a value in its arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValuePlace {
    pub(crate) offset: u32,
    pub(crate) length_bytes: u32,
}

impl ValuePlace {
    /// The place of an empty value.
    const NOTHING: ValuePlace = ValuePlace {
        offset: 0,
        length_bytes: 0,
    };

    pub(super) fn of(entry: &Entry) -> Self {
        ValuePlace {
            offset: entry.value_offset(),
            length_bytes: entry.value_bytes,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use terrace_lsm::cursor::Cursor;
    use terrace_region::{Frame, Region};

    use super::*;
    use crate::write_buffer::batch::WriteBatch;

    pub(crate) const SEED: u64 = 7;

    pub(crate) fn memtable(batches: &[WriteBatch]) -> Arc<MemTable> {
        let region = Region::volatile(1 << 20).unwrap();
        let slot = region.reserve(1 << 20).unwrap();
        let arena = region.activate(slot, 1).unwrap();
        let table = Arc::new(MemTable::new(arena, 1 << 20, SEED));
        for batch in batches {
            insert(&table, batch);
        }
        table
    }

    /// Appends a batch and indexes it.
    pub(crate) fn insert(table: &MemTable, batch: &WriteBatch) {
        let first_sequence = table.last_sequence() + 1;
        let frame = Frame {
            first_sequence,
            record_count: batch.records(),
            persisted_until: 0,
            payload: &[batch.payload()],
        };
        let at = table.arena.append(&frame).unwrap();
        table
            .insert_frame(at.payload_offset, at.payload_bytes, first_sequence, |_| {})
            .unwrap();
    }

    #[test]
    fn a_frame_that_has_room_always_fits_the_index() {
        let region = Region::volatile(1 << 20).unwrap();
        let mut batch = WriteBatch::new();
        for number in 0..3000u32 {
            batch.put(number.to_be_bytes(), b"").unwrap();
        }
        let arena = region
            .activate(region.reserve(1 << 20).unwrap(), 1)
            .unwrap();
        let table = MemTable::new(arena, 600 << 10, SEED);
        while table.has_room(batch.size_bytes(), 3000) {
            insert(&table, &batch);
        }
        // As a flush does.
        assert_eq!(table.keyspaces(), [KeyspaceId::DEFAULT]);
        // One chunk of entries and the smallest tables come on top of the bytes counted by entry.
        let bound = (600 << 10) + (64 << 10) + 64 * 128;
        assert!(table.last_sequence() > 3000 && table.index_memory_bytes() <= bound);
    }

    #[test]
    fn snapshots_and_keyspaces_are_told_apart() {
        let mut first = WriteBatch::new();
        first.put(b"k", b"old").unwrap();
        first
            .push(Kind::Put, KeyspaceId::from_number(7), b"k", b"other")
            .unwrap();
        let mut second = WriteBatch::new();
        second.delete(b"k").unwrap();
        let table = memtable(&[first, second]);
        let get = |keyspace, snapshot| {
            table
                .get(keyspace, b"k", key_hash(b"k", SEED), snapshot)
                .map(|(tag, place)| (tag, table.value(place)))
        };
        let default = KeyspaceId::DEFAULT;
        assert_eq!(get(default, 2), Some((Tag::new(1, Kind::Put), &b"old"[..])));
        assert_eq!(get(default, 3), Some((Tag::new(3, Kind::Delete), &b""[..])));
        assert_eq!(get(default, 0), None);
        assert_eq!(
            get(KeyspaceId::from_number(7), 9),
            Some((Tag::new(2, Kind::Put), &b"other"[..]))
        );
        assert_eq!(
            table
                .get(KeyspaceId::from_number(8), b"k", key_hash(b"k", SEED), 9)
                .map(|found| found.0),
            None
        );
        assert_eq!(table.keyspaces(), [default, KeyspaceId::from_number(7)]);
        assert_eq!(table.last_sequence(), 3);
    }

    #[test]
    fn a_cursor_stays_in_its_keyspace_both_ways() {
        let mut batch = WriteBatch::new();
        for keyspace in [1, 2, 3] {
            for key in [b"a", b"b"] {
                batch
                    .push(Kind::Put, KeyspaceId::from_number(keyspace), key, b"")
                    .unwrap();
            }
        }
        let table = memtable(&[batch]);
        let mut cursor = table.cursor(KeyspaceId::from_number(2));
        cursor.seek_to_first().unwrap();
        assert_eq!(cursor.key().user_key, b"a");
        cursor.next().unwrap();
        assert_eq!(
            (cursor.key().user_key, cursor.key().sequence()),
            (&b"b"[..], 4)
        );
        cursor.next().unwrap();
        assert!(!cursor.valid());
        cursor.seek_to_last().unwrap();
        assert_eq!(cursor.key().user_key, b"b");
        cursor.prev().unwrap();
        assert_eq!(cursor.key().sequence(), 3);
        cursor.prev().unwrap();
        assert!(!cursor.valid());
    }

    #[test]
    fn a_deleted_range_is_the_newest_version_of_its_keys() {
        let mut batch = WriteBatch::new();
        batch.put(b"b", b"old").unwrap();
        batch.delete_range(b"a", b"c").unwrap();
        batch.put(b"bb", b"new").unwrap();
        batch
            .push_range_delete(KeyspaceId::from_number(7), b"b", b"z")
            .unwrap();
        let before = memtable(&[]).index_memory_bytes();
        let table = memtable(&[batch]);
        let newest = |keyspace, key: &[u8], snapshot| {
            let found = table.get(
                KeyspaceId::from_number(keyspace),
                key,
                key_hash(key, SEED),
                snapshot,
            );
            found.map(|(tag, _)| (tag.sequence(), tag.kind().unwrap()))
        };
        let deleted = Some((2, Kind::RangeDelete));
        assert_eq!(newest(1, b"b", 1), Some((1, Kind::Put)));
        assert_eq!(
            [newest(1, b"a", 9), newest(1, b"b", 9), newest(1, b"az", 2)],
            [deleted; 3]
        );
        assert_eq!(newest(1, b"bb", 9), Some((3, Kind::Put)));
        assert_eq!((newest(1, b"bb", 2), newest(1, b"c", 9)), (deleted, None));
        assert_eq!(newest(7, b"y", 9), Some((4, Kind::RangeDelete)));
        assert_eq!(table.range_tombstones(KeyspaceId::from_number(7)).len(), 1);
        assert!(table.index_memory_bytes() > before);
    }

    #[test]
    fn a_range_delete_without_a_range_is_damage() {
        for (from, to) in [("b", "b"), ("b", "a")] {
            let mut batch = WriteBatch::new();
            let (from, to) = (from.as_bytes(), to.as_bytes());
            batch
                .push(Kind::RangeDelete, KeyspaceId::from_number(1), from, to)
                .unwrap();
            let table = memtable(&[]);
            let frame = Frame {
                first_sequence: 1,
                record_count: 1,
                persisted_until: 0,
                payload: &[batch.payload()],
            };
            let at = table.arena.append(&frame).unwrap();
            let inserted = table.insert_frame(at.payload_offset, at.payload_bytes, 1, |_| {});
            assert!(matches!(inserted, Err(Error::Corruption { .. })));
        }
    }
}
