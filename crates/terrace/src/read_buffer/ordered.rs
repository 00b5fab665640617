//! One balanced tree under one lock: the ordered structure, to compare the hash with.
//!
//! Eviction is a clock whose hand walks over the keys in their order: an entry that was read since
//! the hand passed stays. Readers and fills that find the lock taken go away.
//!
//! Keys share stripes by hash. Stripes are raised and compared under the lock.

use std::collections::BTreeMap;
use std::ops::Bound;

use terrace_lsm::sync::Mutex;
use terrace_lsm::sync::atomic::{AtomicU64, Ordering};

use super::structure::{Counts, Fill, Found, Key, Structure, Version};
use crate::SequenceNumber;

const STRIPES: usize = 1 << 12;
/// Bytes of an entry beside its key and value: its place in a node, half as many again that are
/// free, and the two allocations' own.
const BOOKKEEPING_BYTES: u64 = 112;

/// See the head of the file.
pub(super) struct OrderedBuffer {
    capacity_bytes: u64,
    fixed_bytes: u64,
    tree: Mutex<Tree>,
    memory_bytes: AtomicU64,
    misses: AtomicU64,
}

struct Tree {
    entries: BTreeMap<Box<[u8]>, Entry>,
    entries_bytes: u64,
    /// The key at which the clock's hand stands.
    hand: Box<[u8]>,
    stripes: Vec<SequenceNumber>,
    counts: Counts,
}

struct Entry {
    sequence: SequenceNumber,
    value: Option<Box<[u8]>>,
    used: bool,
}

/// Returns the keyspace and the key, so that one order serves all.
fn full_key(key: &Key<'_>) -> Box<[u8]> {
    [&key.keyspace.to_be_bytes(), key.bytes].concat().into()
}

fn entry_bytes(full_key: &[u8], value: Option<&[u8]>) -> u64 {
    (full_key.len() + value.map_or(0, <[u8]>::len)) as u64 + BOOKKEEPING_BYTES
}

impl OrderedBuffer {
    pub(super) fn new(capacity_bytes: u64) -> Self {
        let fixed_bytes = (STRIPES * 8) as u64;
        OrderedBuffer {
            capacity_bytes: capacity_bytes.saturating_sub(fixed_bytes),
            fixed_bytes,
            tree: Mutex::new(Tree {
                entries: BTreeMap::new(),
                entries_bytes: 0,
                hand: Box::default(),
                stripes: vec![0; STRIPES],
                counts: Counts::default(),
            }),
            memory_bytes: AtomicU64::new(fixed_bytes),
            misses: AtomicU64::new(0),
        }
    }
}

impl Tree {
    fn stripe(&mut self, key: &Key<'_>) -> Option<&mut SequenceNumber> {
        self.stripes.get_mut(key.hash as usize % STRIPES)
    }

    fn raise_stripe(&mut self, key: &Key<'_>, sequence: SequenceNumber) {
        if let Some(stripe) = self.stripe(key) {
            *stripe = sequence.max(*stripe);
        }
    }

    /// Stores a version of a key, if it fits at all.
    fn insert(&mut self, key: Box<[u8]>, version: Version<'_>, capacity_bytes: u64) -> bool {
        self.remove(&key);
        let bytes = entry_bytes(&key, version.value);
        if bytes > capacity_bytes / 16 {
            return false;
        }
        while self.entries_bytes + bytes > capacity_bytes {
            self.evict();
        }
        let entry = Entry {
            sequence: version.sequence,
            value: version.value.map(Into::into),
            used: false,
        };
        self.entries_bytes += bytes;
        self.entries.insert(key, entry);
        true
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(entry) = self.entries.remove(key) {
            self.entries_bytes -= entry_bytes(key, entry.value.as_deref());
        }
    }

    /// Moves the hand to the next entry that was not read since it passed, and removes that entry.
    fn evict(&mut self) {
        loop {
            let behind = (Bound::Excluded(&*self.hand), Bound::Unbounded);
            match self.entries.range_mut::<[u8], _>(behind).next() {
                Some((key, entry)) => {
                    self.hand.clone_from(key);
                    if !std::mem::take(&mut entry.used) {
                        break;
                    }
                }
                // No key is empty: each begins with its keyspace.
                None => self.hand = Box::default(),
            }
        }
        let evicted = std::mem::take(&mut self.hand);
        self.remove(&evicted);
        self.counts.evictions += 1;
        self.hand = evicted;
    }
}

impl OrderedBuffer {
    fn count_memory(&self, tree: &Tree) {
        let bytes = self.fixed_bytes + tree.entries_bytes;
        self.memory_bytes.fetch_max(bytes, Ordering::Relaxed);
    }
}

impl Structure for OrderedBuffer {
    fn get(&self, key: &Key<'_>, floor: SequenceNumber, snapshot: SequenceNumber) -> Option<Found> {
        let found = self.tree.try_lock().and_then(|mut tree| {
            let entry = tree.entries.get_mut(&full_key(key))?;
            if entry.sequence < floor || entry.sequence > snapshot {
                return None;
            }
            entry.used = true;
            let found = match &entry.value {
                Some(value) => Found::Value(value.clone()),
                None => Found::Absent,
            };
            tree.counts.hits += 1;
            tree.counts.absent_hits += u64::from(found == Found::Absent);
            Some(found)
        });
        if found.is_none() {
            self.misses.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    fn forward(&self, key: &Key<'_>, version: Version<'_>, insert: bool) -> bool {
        let mut tree = self.tree.lock();
        tree.raise_stripe(key, version.sequence);
        let full_key = full_key(key);
        match tree.entries.get(&full_key) {
            Some(entry) if entry.sequence > version.sequence => return false,
            None if !insert => return false,
            _ => {}
        }
        let stored = tree.insert(full_key, version, self.capacity_bytes);
        self.count_memory(&tree);
        stored
    }

    fn invalidate(&self, key: &Key<'_>, sequence: SequenceNumber) {
        let mut tree = self.tree.lock();
        tree.raise_stripe(key, sequence);
        tree.remove(&full_key(key));
    }

    fn fill(&self, key: &Key<'_>, version: Version<'_>, read_at: SequenceNumber) -> Fill {
        let Some(mut tree) = self.tree.try_lock() else {
            return Fill::NotWanted;
        };
        let full_key = full_key(key);
        if tree.stripe(key).is_none_or(|stripe| *stripe > read_at) {
            return Fill::Outdated;
        }
        let held = tree.entries.get(&full_key).map(|entry| entry.sequence);
        // An older entry is from before a floor.
        if held.is_some_and(|held| held >= version.sequence)
            || !tree.insert(full_key, version, self.capacity_bytes)
        {
            return Fill::NotWanted;
        }
        self.count_memory(&tree);
        Fill::Taken
    }

    fn clear(&self) {
        let mut tree = self.tree.lock();
        tree.entries.clear();
        tree.entries_bytes = 0;
        self.memory_bytes.store(self.fixed_bytes, Ordering::Relaxed);
    }

    /// Does nothing: freed memory stays with the allocator, so a smaller tree would free none.
    fn limit(&self, _bytes: u64) {}

    fn shrink(&self, _bytes: u64) {}

    fn least_bytes(&self) -> u64 {
        u64::MAX
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    fn counts(&self) -> Counts {
        let misses = self.misses.load(Ordering::Relaxed);
        Counts {
            misses,
            ..self.tree.lock().counts
        }
    }
}
