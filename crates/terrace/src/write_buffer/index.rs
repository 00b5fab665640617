//! The index of a MemTable: which records there are, by key and in order. The records themselves
//! lie elsewhere, in an arena.
//!
//! Goals: an insert that costs little more than one cache miss, and gets that take no lock. No reader
//! waits for a writer. Memory is counted, bounded and freed as a whole.
//!
//! Points are found by hash (`hash_table`): it leads to the newest version of a key, and each entry
//! (`entries`) names the next older one. Order is made only when a reader asks for it (`order`): a
//! flush, once, and iterators over a MemTable that is still written to. Each iterator sorts the
//! entries that came since the last one.
//!
//! Entries are numbered as they are inserted, and sequence numbers follow each other in an arena
//! (recovery takes no frame behind a gap). So entry n has the first entry's sequence number plus n,
//! which is stored nowhere.
//!
//! Nothing is ever removed. There is one inserter at a time, [`Inserter`]. Gets find its entries by
//! key at once, and they are in the order when it is dropped. All memory is atomic words without a
//! line of `unsafe`: a relaxed atomic load is a plain load on every machine we support.

mod entries;
mod hash_table;
mod order;
mod run;

use std::sync::Arc;

use terrace_lsm::cursor::count_step;
use terrace_lsm::key::{InternalKey, Tag};
use terrace_lsm::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use terrace_lsm::sync::{Mutex, MutexGuard};

use crate::SequenceNumber;
use crate::write_buffer::record::Record;
use entries::Entries;
use hash_table::{Filling, HashTable, Spot};
use order::Order;

pub(crate) use order::Runs;
pub(crate) use run::{Place, Run};

/// Maximum memory of an entry, its place in the run that a flush sorts included. A chunk of entries
/// and the first tables come on top once. Runs that a merge replaced stay, beside this bound, while
/// readers hold them; [`Index::memory_bytes`] has them, too.
pub(crate) const MAX_ENTRY_BYTES: u64 = 8 + hash_table::MAX_ENTRY_BYTES + size_of::<Place>() as u64;

/// Number of versions of a key that a get walks before it looks for a shorter way.
const STEPS: usize = 8;
/// Number of steps that take as long as sorting one entry.
const SORTED_IN_STEPS: u64 = 4;

/// The source of records: the arena's image.
pub(crate) trait RecordBytes {
    /// Returns the published bytes from `offset` on.
    fn bytes_from(&self, offset: u32) -> &[u8];

    /// Returns the record at `offset`, where an insert found one.
    #[inline]
    fn entry(&self, offset: u32, sequence: SequenceNumber) -> Option<Entry> {
        let record = Record::decode(self.bytes_from(offset))?;
        Some(Entry {
            keyspace: record.keyspace,
            tag: Tag::new(sequence, record.kind),
            key_offset: offset + record.key_offset as u32,
            key_bytes: record.key_bytes as u32,
            value_bytes: record.value_bytes as u32,
        })
    }

    /// Returns the key of the record at `offset`.
    #[inline]
    fn key(&self, offset: u32) -> &[u8] {
        self.keyspace_and_key(offset).1
    }

    /// Returns the keyspace of the record at `offset`, and whether it is of one key. A deleted
    /// range is not.
    #[inline]
    fn keyspace_of_key(&self, offset: u32) -> (u32, bool) {
        Record::decode(self.bytes_from(offset))
            .map(|record| (record.keyspace, !record.kind.is_of_range()))
            .unwrap_or_default()
    }

    /// Returns keyspace and key of the record at `offset`. 0 and empty where none was inserted, or where
    /// the bytes under a mapping have changed since they were checked.
    #[inline]
    fn keyspace_and_key(&self, offset: u32) -> (u32, &[u8]) {
        let bytes = self.bytes_from(offset);
        Record::decode(bytes)
            .and_then(|record| {
                let key = bytes.get(record.key_offset..record.key_offset + record.key_bytes)?;
                Some((record.keyspace, key))
            })
            .unwrap_or_default()
    }
}

/// A version of a key. Offsets are in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) keyspace: u32,
    pub(crate) tag: Tag,
    pub(crate) key_offset: u32,
    pub(crate) key_bytes: u32,
    pub(crate) value_bytes: u32,
}

impl Entry {
    pub(crate) fn value_offset(&self) -> u32 {
        self.key_offset + self.key_bytes
    }
}

/// The reason why an entry was not inserted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The index memory has reached its bound.
    Full,
    /// Its sequence number does not follow that of the entry before.
    Gap,
}

/// See the head of the file.
pub(crate) struct Index {
    entries: Entries,
    table: HashTable,
    order: Order,
    /// The sequence number of entry 0.
    first_sequence: AtomicU64,
    /// Number of entries that are in the order.
    count: AtomicU32,
    filling: Mutex<(u32, Filling)>,
    /// Steps of gets at older snapshots since entries were sorted for one.
    walked: AtomicU64,
}

impl Index {
    /// Makes an index that takes at most `budget_bytes` (rounded up to a chunk of entries) for its
    /// entries.
    pub(crate) fn new(budget_bytes: u64) -> Self {
        let (table, filling) = HashTable::new();
        Index {
            entries: Entries::new(budget_bytes / MAX_ENTRY_BYTES),
            table,
            order: Order::default(),
            first_sequence: AtomicU64::new(0),
            count: AtomicU32::new(0),
            filling: Mutex::new((0, filling)),
            walked: AtomicU64::new(0),
        }
    }

    /// Returns the bytes of memory in use, runs included.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.entries.memory_bytes(self.len())
            + self.table.memory_bytes()
            + self.order.memory_bytes()
    }

    /// Returns the number of entries in the order.
    pub(crate) fn len(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Takes the right to insert.
    pub(crate) fn inserter(&self) -> Inserter<'_> {
        let filling = self.filling.lock();
        Inserter {
            index: self,
            filling,
        }
    }

    /// Returns the newest version of a key at or below `snapshot`. `hash` is that of the key.
    #[inline]
    pub(crate) fn get(
        &self,
        keyspace: u32,
        key: &[u8],
        hash: u64,
        snapshot: SequenceNumber,
        records: &impl RecordBytes,
    ) -> Option<Entry> {
        let is_key = |number| self.is_key(number, keyspace, key, records);
        let mut number = self.table.get(Spot::new(keyspace, hash), is_key)?;
        for _ in 0..STEPS {
            let (offset, older) = self.entries.get(number)?;
            let sequence = self.sequence(number);
            if sequence <= snapshot {
                return records.entry(offset, sequence);
            }
            count_step();
            number = older?;
        }
        self.get_far_back(number, (keyspace, key), snapshot, records)
    }

    /// Gets the entry where many versions are newer than the snapshot; `number` is one of the
    /// key's. Before the entries that the snapshot sees are sorted, gets walk on from version to
    /// version. Their steps pay for the sorting.
    #[cold]
    fn get_far_back(
        &self,
        mut number: u32,
        (keyspace, key): (u32, &[u8]),
        snapshot: SequenceNumber,
        records: &impl RecordBytes,
    ) -> Option<Entry> {
        // All entries that the snapshot sees lie below. The present entry is newer, and in the
        // order or about to be.
        let seen = (snapshot + 1).checked_sub(self.first_sequence.load(Ordering::Relaxed))?;
        let seen = u32::try_from(seen).unwrap_or(u32::MAX).min(self.len());
        let price = u64::from(self.order.uncovered(seen)) * SORTED_IN_STEPS;
        let paid = self.walked.load(Ordering::Relaxed);
        for steps in 0..price.saturating_sub(paid) {
            let (offset, older) = self.entries.get(number)?;
            let sequence = self.sequence(number);
            let next = match older {
                Some(older) if sequence > snapshot => older,
                _ => {
                    self.walked.fetch_add(steps, Ordering::Relaxed);
                    let is_seen = sequence <= snapshot;
                    return is_seen.then(|| records.entry(offset, sequence)).flatten();
                }
            };
            count_step();
            number = next;
        }
        if price > 0 {
            self.walked.store(0, Ordering::Relaxed);
        }
        let runs = self.runs_of(seen, records);
        let newest = |run: &Arc<Run>| {
            let tag = InternalKey::seek(key, snapshot).tag;
            let tag_of = |place: &Place| self.entry(place, records).map_or(Tag(0), |e| e.tag);
            let at = run.lower_bound(key, tag, records, tag_of);
            count_step();
            let place = run.get(at)?;
            (records.key(place.record_offset) == key).then_some(*place)
        };
        let found = runs.of(keyspace).iter().filter_map(newest);
        self.entry(&found.max_by_key(|place| place.number)?, records)
    }

    /// Returns all entries that are in the order at the call, perhaps more, as sorted runs.
    pub(crate) fn runs(&self, records: &impl RecordBytes) -> Arc<Runs> {
        self.runs_of(self.len(), records)
    }

    /// Returns sorted runs over the first `count` entries at least.
    fn runs_of(&self, count: u32, records: &impl RecordBytes) -> Arc<Runs> {
        let record_offset = |number| Some(self.entries.get(number)?.0);
        self.order.runs(count, record_offset, records)
    }

    /// Returns the entry at a place in a run.
    #[inline]
    pub(crate) fn entry(&self, place: &Place, records: &impl RecordBytes) -> Option<Entry> {
        records.entry(place.record_offset, self.sequence(place.number))
    }

    /// Returns the entry with a number, in the order of insertion.
    pub(crate) fn inserted(&self, number: u32, records: &impl RecordBytes) -> Option<Entry> {
        let (record_offset, _) = self.entries.get(number)?;
        records.entry(record_offset, self.sequence(number))
    }

    /// Returns the number of the entry with a sequence number, or the number it would have.
    pub(crate) fn entry_position(&self, sequence: SequenceNumber) -> u64 {
        sequence.saturating_sub(self.first_sequence.load(Ordering::Relaxed))
    }

    fn sequence(&self, number: u32) -> SequenceNumber {
        self.first_sequence.load(Ordering::Relaxed) + u64::from(number)
    }

    #[inline]
    fn is_key(&self, number: u32, keyspace: u32, key: &[u8], records: &impl RecordBytes) -> bool {
        self.entries
            .get(number)
            .is_some_and(|(offset, _)| records.keyspace_and_key(offset) == (keyspace, key))
    }
}

/// The one inserter. Its entries enter the order when it is dropped.
pub(crate) struct Inserter<'a> {
    index: &'a Index,
    filling: MutexGuard<'a, (u32, Filling)>,
}

impl Inserter<'_> {
    /// Adds the record at `record_offset`. `hash` is that of its key.
    pub(crate) fn insert(
        &mut self,
        record_offset: u32,
        hash: u64,
        sequence: SequenceNumber,
        records: &impl RecordBytes,
    ) -> Result<(), Refused> {
        let index = self.index;
        let (next, filling) = &mut *self.filling;
        let number = *next;
        if number >= index.entries.capacity() {
            return Err(Refused::Full);
        }
        if number == 0 {
            index.first_sequence.store(sequence, Ordering::Relaxed);
        } else if index.sequence(number) != sequence {
            return Err(Refused::Gap);
        }
        let (keyspace, key) = records.keyspace_and_key(record_offset);
        index.table.insert(
            filling,
            Spot::new(keyspace, hash),
            number,
            |other| index.is_key(other, keyspace, key, records),
            |older| index.entries.set(number, record_offset, older),
        );
        *next += 1;
        Ok(())
    }
}

impl Drop for Inserter<'_> {
    fn drop(&mut self) {
        // Release: a thread that finds the count finds the entries below it.
        self.index.count.store(self.filling.0, Ordering::Release);
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
