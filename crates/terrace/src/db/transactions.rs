//! The transactions of a store: their number, their ages, and their memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_lsm::sync::atomic::{AtomicU64, Ordering};
use terrace_lsm::sync::{Instant, Mutex};
use terrace_lsm::table::BlockCache;
use terrace_storage::ForkMark;

use crate::db::statistics::TransactionStatistics;
use crate::options::Options;
use crate::{Error, Result};

/// Transactions take memory of the budget by this much. Less than that is in the reserve beside it.
const STEP_BYTES: u64 = 64 << 10;

/// The transactions that are open, and counts of those that ended.
#[derive(Debug)]
pub(crate) struct Transactions {
    /// The begin of each open one. Lower numbers began earlier, but for a moment.
    open: Mutex<BTreeMap<u64, Instant>>,
    begun: AtomicU64,
    committed: AtomicU64,
    conflicts: AtomicU64,
    /// Bytes of the budget that all together hold, and may hold.
    held_bytes: AtomicU64,
    max_held_bytes: u64,
    mark: ForkMark,
}

/// An open transaction in the list of its store.
#[derive(Debug)]
pub(crate) struct Listed {
    list: Arc<Transactions>,
    number: u64,
}

/// Memory of one transaction, its writes or its reads, as a store that bounds its memory counts it.
#[derive(Debug)]
pub(crate) struct Held {
    list: Arc<Transactions>,
    blocks: Arc<BlockCache>,
    bytes: u64,
}

impl Transactions {
    pub(crate) fn new(options: &Options, mark: ForkMark) -> Self {
        Transactions {
            open: Mutex::default(),
            begun: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
            held_bytes: AtomicU64::new(0),
            max_held_bytes: options.max_transactions_bytes(),
            mark,
        }
    }

    /// Adds a transaction that begins now.
    pub(crate) fn begin(self: &Arc<Self>) -> Listed {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(number, Instant::now());
        Listed {
            list: Arc::clone(self),
            number,
        }
    }

    /// Begins to count a transaction's memory.
    pub(crate) fn hold(self: &Arc<Self>, blocks: &Arc<BlockCache>) -> Held {
        Held {
            list: Arc::clone(self),
            blocks: Arc::clone(blocks),
            bytes: 0,
        }
    }

    /// Counts a commit that wrote.
    pub(crate) fn committed(&self) {
        self.committed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a commit that was refused for the writes of others.
    pub(crate) fn refused(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn statistics(&self) -> TransactionStatistics {
        let open = self.open.lock();
        let oldest = open.first_key_value();
        TransactionStatistics {
            open: open.len() as u64,
            oldest_s: oldest.map(|(_, began)| began.elapsed().as_secs_f64()),
            committed: self.committed.load(Ordering::Relaxed),
            conflicts: self.conflicts.load(Ordering::Relaxed),
        }
    }
}

impl Held {
    /// Takes memory of the budget, as much as `bytes` need beyond the memory that is held. It is held until
    /// this is dropped.
    #[inline]
    pub(crate) fn cover(&mut self, bytes: u64) -> Result<()> {
        match bytes < self.bytes + STEP_BYTES {
            true => Ok(()),
            false => self.take(bytes / STEP_BYTES * STEP_BYTES),
        }
    }

    #[cold]
    fn take(&mut self, bytes: u64) -> Result<()> {
        let (more_bytes, max_bytes) = (bytes - self.bytes, self.list.max_held_bytes);
        let within =
            |held_bytes: u64| Some(held_bytes + more_bytes).filter(|all| *all <= max_bytes);
        let held_bytes = &self.list.held_bytes;
        let taken = held_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within);
        if let Err(held_bytes) = taken {
            return Err(Error::TransactionTooLarge {
                bytes: held_bytes + more_bytes,
                max_bytes,
            });
        }
        self.blocks.hold(more_bytes);
        self.bytes = bytes;
        Ok(())
    }
}

impl Clone for Held {
    /// Takes as much once more, above the maximum if need be: the caller copies what is held.
    fn clone(&self) -> Self {
        if self.bytes > 0 {
            let held_bytes = &self.list.held_bytes;
            held_bytes.fetch_add(self.bytes, Ordering::Relaxed);
            self.blocks.hold(self.bytes);
        }
        Held {
            list: Arc::clone(&self.list),
            blocks: Arc::clone(&self.blocks),
            bytes: self.bytes,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // As of `Listed`.
        if self.bytes > 0 && !self.list.mark.is_inherited() {
            self.blocks.release(self.bytes);
            self.list
                .held_bytes
                .fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        // In a forked child no thread uses the list, and its lock may be held for ever.
        if !self.list.mark.is_inherited() {
            self.list.open.lock().remove(&self.number);
        }
    }
}
