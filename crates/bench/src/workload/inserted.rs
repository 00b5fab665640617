//! New records, shared by the clients of a phase.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Gives out the numbers of new records, and says which may be read: all before the first one that
/// the store has not yet acknowledged, as YCSB does.
#[derive(Debug)]
pub struct Inserted {
    next: AtomicU64,
    readable: AtomicU64,
    /// Acknowledged ones that older ones still keep from being read: at most one a client.
    early: Mutex<BinaryHeap<Reverse<u64>>>,
}

impl Inserted {
    /// Makes the counts after records 0..loaded.
    pub fn new(loaded: u64) -> Inserted {
        Inserted {
            next: AtomicU64::new(loaded),
            readable: AtomicU64::new(loaded),
            early: Mutex::default(),
        }
    }

    /// Returns the number of a new record, given out only once.
    pub fn reserve(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes note that the store has acknowledged this new record.
    pub fn acknowledged(&self, record: u64) {
        // Nothing can panic half-way: the guarded heap is whole.
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.push(Reverse(record));
        let mut readable = self.readable.load(Ordering::Relaxed);
        while early.peek() == Some(&Reverse(readable)) {
            early.pop();
            readable += 1;
        }
        // A reader of the new count must find the record in the store.
        self.readable.store(readable, Ordering::Release);
    }

    /// Returns the end of the readable records: 0..readable may be read.
    pub fn readable(&self) -> u64 {
        self.readable.load(Ordering::Acquire)
    }
}
