//! The index: where the value of each key is. It is in memory and holds whole keys.
//!
//! A hash, seeded by a secret, chooses one of 64 partitions, each behind its own lock: the engine
//! looks and changes in one critical section. A partition has small hash tables of numbers of
//! entries, in the order of the hashes. The entries, of 32 bytes each, never move in their arena. A
//! key costs at most 48 bytes from some 100,000 keys on, however many come later. An insert moves
//! the numbers of one table at most: fewer than 1,024.
//!
//! The index has no bounds of its own. The engine keeps those of a namespace before it accepts a store.
//! A recovery passes them on its way.

mod arena;
mod entry;
mod partition;
mod side;
mod tables;
#[cfg(test)]
mod tests;
mod totals;
mod walk;

use std::sync::Arc;

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub use entry::Found;
pub use partition::{Full, Partition};
pub use walk::WalkCursor;

pub use crate::format::location::Place;

use crate::key::Key;
use tables::PARTITION_BITS;
use totals::Totals;

/// Number of partitions.
const PARTITIONS: usize = 1 << PARTITION_BITS;

/// Returns the number of the partition of a hash.
fn partition_of(hash: u64) -> usize {
    (hash >> (u64::BITS - PARTITION_BITS)) as usize
}

/// The keys of one namespace.
pub struct Index {
    secret: u64,
    partitions: Box<[Mutex<Partition>]>,
    totals: Arc<Totals>,
}

impl Index {
    /// Makes an empty index. `secret` seeds the hashes: without it, no host can choose keys that
    /// collide.
    pub fn new(secret: u64) -> Self {
        let totals = Arc::new(Totals::default());
        let partition = || Mutex::new(Partition::new(secret, Arc::clone(&totals)));
        Index {
            secret,
            partitions: (0..PARTITIONS).map(|_| partition()).collect(),
            totals,
        }
    }

    /// Returns the hash of a key.
    pub fn hash(&self, key: &Key) -> u64 {
        xxh3_64_with_seed(key.as_bytes(), self.secret)
    }

    /// Returns the partition of the keys of a hash.
    pub fn partition(&self, hash: u64) -> &Mutex<Partition> {
        &self.partitions[partition_of(hash)]
    }

    /// Returns the number of keys.
    pub fn len(&self) -> u64 {
        self.totals.keys()
    }

    /// Returns true if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the length of all values, in bytes.
    pub fn value_bytes(&self) -> u64 {
        self.totals.value_bytes()
    }

    /// Returns the number of extents of values that have several.
    pub fn extra_extents(&self) -> u64 {
        self.totals.extra_extents()
    }

    /// Returns the memory that the index allocated, in bytes, without the allocator's own.
    pub fn memory_bytes(&self) -> u64 {
        let partitions = self.partitions.iter();
        let inside = partitions.map(|partition| partition.lock().memory_bytes() as u64);
        let outside = size_of_val(&*self.partitions) + size_of::<Totals>();
        inside.sum::<u64>() + outside as u64
    }

    /// Returns the most entries that one insert has moved so far.
    pub fn most_moved(&self) -> usize {
        let partitions = self.partitions.iter();
        let moved = partitions.map(|partition| partition.lock().most_moved());
        moved.max().unwrap_or(0)
    }
}
