//! One arena and its index.
//!
//! The arena holds the records, the index their order. Readers share both without locks: a record
//! is in the arena before its entry is in the index, and neither ever changes afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_region::Arena;

use crate::cursor::Cursor;
use crate::key::{InternalKey, MAX_SEQUENCE, Tag};
use crate::write_buffer::index::{Entry, Index, KeyBytes, MAX_ENTRY_BYTES, Node, Target};
use crate::write_buffer::record::Records;
use crate::{Error, KeyspaceId, Result, SequenceNumber};

/// The writes of one arena, in key order.
pub(crate) struct MemTable {
    arena: Arc<Arena>,
    index: Index,
    index_budget_bytes: u64,
    /// The highest sequence number inserted, 0 if none.
    last_sequence: AtomicU64,
    entries: AtomicU64,
}

impl KeyBytes for Arena {
    #[inline]
    fn key_bytes(&self, offset: u32, length: u32) -> &[u8] {
        // The index holds only what was read below the published end, so this never is `None`.
        self.read(offset as usize, length as usize)
            .unwrap_or_default()
    }
}

impl MemTable {
    pub(crate) fn new(arena: Arc<Arena>, index_budget_bytes: u64) -> Self {
        MemTable {
            arena,
            index: Index::new(index_budget_bytes),
            index_budget_bytes,
            last_sequence: AtomicU64::new(0),
            entries: AtomicU64::new(0),
        }
    }

    /// The index budget that is sure to take this many records in an empty index: entries do not
    /// straddle chunks, so that a little of each chunk is lost.
    pub(crate) const fn index_bytes_for(records: u64) -> u64 {
        let entry_bytes = records.saturating_mul(MAX_ENTRY_BYTES);
        entry_bytes
            .saturating_add(entry_bytes / 1024)
            .saturating_add(512)
    }

    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Whether `payload_bytes` in `records` records fit the arena and the index.
    pub(crate) fn has_room(&self, payload_bytes: usize, records: u64) -> bool {
        let index_bytes = self
            .index
            .entry_bytes()
            .saturating_add(Self::index_bytes_for(records));
        payload_bytes <= self.arena.remaining_payload_bytes()
            && index_bytes <= self.index_budget_bytes
    }

    /// Room that is left, in arena or index, whichever has less; in sixteenths, rounded down.
    pub(crate) fn free_sixteenths(&self) -> u64 {
        let in_arena = self.arena.remaining_payload_bytes() as u64 * 16;
        let index_bytes = self
            .index_budget_bytes
            .saturating_sub(self.index.entry_bytes());
        let in_arena = in_arena / self.arena.capacity_bytes().max(1);
        in_arena.min(index_bytes * 16 / self.index_budget_bytes.max(1))
    }

    /// Makes a frame's records findable. They begin at `payload_offset` in the arena; the first has
    /// number `first_sequence`.
    pub(crate) fn insert_frame(
        &self,
        payload_offset: usize,
        payload_bytes: usize,
        first_sequence: SequenceNumber,
    ) -> Result<()> {
        let payload = self
            .arena
            .read(payload_offset, payload_bytes)
            .unwrap_or_default();
        let mut sequence = first_sequence;
        for record in Records::new(payload) {
            let record = record.map_err(|at| self.damaged(payload_offset + at, "not a record"))?;
            let entry = Entry {
                keyspace: record.keyspace,
                tag: Tag::new(sequence, record.kind),
                key_offset: (payload_offset + record.key_offset) as u32,
                key_bytes: record.key_bytes as u32,
                value_bytes: record.value_bytes as u32,
            };
            self.index
                .insert(entry, &*self.arena)
                .map_err(|_| self.damaged(payload_offset, "more records than its header says"))?;
            sequence += 1;
        }
        self.entries
            .fetch_add(sequence - first_sequence, Ordering::Relaxed);
        self.last_sequence
            .fetch_max(sequence.saturating_sub(1), Ordering::Relaxed);
        Ok(())
    }

    fn damaged(&self, offset: usize, detail: &str) -> Error {
        Error::corruption(self.arena.file(), offset as u64, detail)
    }

    /// The newest version of a key at or below `snapshot`, and its value.
    pub(crate) fn get(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: SequenceNumber,
    ) -> Option<(Tag, ValuePlace)> {
        let target = Target {
            keyspace: keyspace.number(),
            key,
            tag: Tag::seek(snapshot),
        };
        let entry = self.index.entry(self.index.seek(&target, &*self.arena)?);
        let found = entry.keyspace == keyspace.number()
            && self.arena.key_bytes(entry.key_offset, entry.key_bytes) == key;
        found.then_some((entry.tag, ValuePlace::of(&entry)))
    }

    /// The bytes at a place that [`MemTable::get`] gave.
    pub(crate) fn value(&self, place: ValuePlace) -> &[u8] {
        self.arena.key_bytes(place.offset, place.length_bytes)
    }

    /// The keyspaces that have entries, in order.
    pub(crate) fn keyspaces(&self) -> Vec<KeyspaceId> {
        let mut found = Vec::new();
        let mut node = self.index.first();
        while let Some(at) = node {
            let keyspace = self.index.entry(at).keyspace;
            found.push(KeyspaceId(keyspace));
            node = keyspace.checked_add(1).and_then(|keyspace| {
                let target = Target {
                    keyspace,
                    key: &[],
                    tag: Tag::seek(MAX_SEQUENCE),
                };
                self.index.seek(&target, &*self.arena)
            });
        }
        found
    }

    /// A cursor over the versions of one keyspace.
    pub(crate) fn cursor(self: &Arc<Self>, keyspace: KeyspaceId) -> MemTableCursor {
        MemTableCursor {
            table: Arc::clone(self),
            keyspace: keyspace.number(),
            at: None,
        }
    }

    pub(crate) fn last_sequence(&self) -> SequenceNumber {
        self.last_sequence.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.load(Ordering::Relaxed) == 0
    }

    /// Memory held: the arena's image and the index.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.arena.capacity_bytes() + self.index.memory_bytes()
    }

    pub(crate) fn index_memory_bytes(&self) -> u64 {
        self.index.memory_bytes()
    }
}

/// Where a value stands in its arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValuePlace {
    pub(crate) offset: u32,
    pub(crate) length_bytes: u32,
}

impl ValuePlace {
    fn of(entry: &Entry) -> Self {
        ValuePlace {
            offset: entry.value_offset(),
            length_bytes: entry.value_bytes,
        }
    }
}

/// A position among the versions of one keyspace in a MemTable.
pub(crate) struct MemTableCursor {
    table: Arc<MemTable>,
    keyspace: u32,
    at: Option<(Node, Entry)>,
}

impl MemTableCursor {
    fn place(&mut self, node: Option<Node>) -> Result<()> {
        self.at = node
            .map(|node| (node, self.table.index.entry(node)))
            .filter(|(_, entry)| entry.keyspace == self.keyspace);
        Ok(())
    }

    fn seek_before(&mut self, keyspace: u32, key: &[u8], tag: Tag) -> Result<()> {
        let target = Target { keyspace, key, tag };
        let node = self.table.index.seek_before(&target, &*self.table.arena);
        self.place(node)
    }
}

impl Cursor for MemTableCursor {
    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.seek(InternalKey {
            user_key: &[],
            tag: Tag::seek(MAX_SEQUENCE),
        })
    }

    fn seek_to_last(&mut self) -> Result<()> {
        match self.keyspace.checked_add(1) {
            Some(keyspace) => self.seek_before(keyspace, &[], Tag(u64::MAX)),
            None => Err(Error::invalid("keyspace numbers end before 2^32 - 1")),
        }
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        let target = Target {
            keyspace: self.keyspace,
            key: target.user_key,
            tag: target.tag,
        };
        let node = self.table.index.seek(&target, &*self.table.arena);
        self.place(node)
    }

    fn next(&mut self) -> Result<()> {
        let node = self.at.and_then(|(node, _)| self.table.index.next(node));
        self.place(node)
    }

    fn prev(&mut self) -> Result<()> {
        let Some((_, entry)) = self.at else {
            return Ok(());
        };
        let table = Arc::clone(&self.table);
        let key = table.arena.key_bytes(entry.key_offset, entry.key_bytes);
        self.seek_before(self.keyspace, key, entry.tag)
    }

    fn key(&self) -> InternalKey<'_> {
        match &self.at {
            Some((_, entry)) => InternalKey {
                user_key: self
                    .table
                    .arena
                    .key_bytes(entry.key_offset, entry.key_bytes),
                tag: entry.tag,
            },
            None => InternalKey {
                user_key: &[],
                tag: Tag(0),
            },
        }
    }

    fn value(&self) -> &[u8] {
        match &self.at {
            Some((_, entry)) => self.table.value(ValuePlace::of(entry)),
            None => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use terrace_region::{Frame, Region};

    use super::*;
    use crate::key::Kind;
    use crate::write_buffer::batch::WriteBatch;

    fn memtable(batches: &[WriteBatch]) -> Arc<MemTable> {
        let region = Region::volatile(1 << 20).unwrap();
        let slot = region.reserve(1 << 20).unwrap();
        let table = MemTable::new(region.activate(slot, 1).unwrap(), 1 << 20);
        let mut first_sequence = 1;
        for batch in batches {
            let frame = Frame {
                first_sequence,
                record_count: batch.records(),
                persisted_until: 0,
                payload: &[batch.payload()],
            };
            let at = table.arena.append(&frame).unwrap();
            table
                .insert_frame(at.payload_offset, at.payload_bytes, first_sequence)
                .unwrap();
            first_sequence += u64::from(batch.records());
        }
        Arc::new(table)
    }

    #[test]
    fn a_frame_that_has_room_always_fits_the_index() {
        let region = Region::volatile(1 << 20).unwrap();
        let mut batch = WriteBatch::new();
        for number in 0..3000u32 {
            batch.put(&number.to_be_bytes(), b"").unwrap();
        }
        let arena = region
            .activate(region.reserve(1 << 20).unwrap(), 1)
            .unwrap();
        let table = MemTable::new(arena, 600 << 10);
        let mut first_sequence = 1;
        while table.has_room(batch.size_bytes(), 3000) {
            let payload = &[batch.payload()][..];
            let frame = Frame {
                first_sequence,
                record_count: 3000,
                persisted_until: 0,
                payload,
            };
            let at = table.arena.append(&frame).unwrap();
            table
                .insert_frame(at.payload_offset, at.payload_bytes, first_sequence)
                .unwrap();
            first_sequence += 3000;
        }
        assert!(first_sequence > 3000 && table.index_memory_bytes() <= 768 << 10);
    }

    #[test]
    fn snapshots_and_keyspaces_are_told_apart() {
        let mut first = WriteBatch::new();
        first.put(b"k", b"old").unwrap();
        first
            .push(Kind::Put, KeyspaceId(7), b"k", b"other")
            .unwrap();
        let mut second = WriteBatch::new();
        second.delete(b"k").unwrap();
        let table = memtable(&[first, second]);
        let get = |keyspace, snapshot| {
            table
                .get(keyspace, b"k", snapshot)
                .map(|(tag, place)| (tag, table.value(place)))
        };
        let default = KeyspaceId::DEFAULT;
        assert_eq!(get(default, 2), Some((Tag::new(1, Kind::Put), &b"old"[..])));
        assert_eq!(get(default, 3), Some((Tag::new(3, Kind::Delete), &b""[..])));
        assert_eq!(get(default, 0), None);
        assert_eq!(
            get(KeyspaceId(7), 9),
            Some((Tag::new(2, Kind::Put), &b"other"[..]))
        );
        assert_eq!(table.get(KeyspaceId(8), b"k", 9).map(|found| found.0), None);
        assert_eq!(table.keyspaces(), [default, KeyspaceId(7)]);
        assert_eq!(table.last_sequence(), 3);
    }

    #[test]
    fn a_cursor_stays_in_its_keyspace_both_ways() {
        let mut batch = WriteBatch::new();
        for keyspace in [1, 2, 3] {
            for key in [b"a", b"b"] {
                batch
                    .push(Kind::Put, KeyspaceId(keyspace), key, b"")
                    .unwrap();
            }
        }
        let table = memtable(&[batch]);
        let mut cursor = table.cursor(KeyspaceId(2));
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
}
