//! Memory that readers keep alive after its flush.

use std::sync::{Arc, Weak};

use terrace_lsm::sync::Mutex;
use terrace_lsm::sync::atomic::{AtomicBool, Ordering};

use crate::write_buffer::memtable::MemTable;

/// Counts the flushed MemTables that values and iterators still hold, against a budget.
pub(crate) struct Pins {
    flushed: Mutex<Vec<Weak<MemTable>>>,
    budget_bytes: u64,
    over_budget: AtomicBool,
}

impl Pins {
    pub(crate) fn new(budget_bytes: u64) -> Self {
        Pins {
            flushed: Mutex::default(),
            budget_bytes,
            over_budget: AtomicBool::new(false),
        }
    }

    /// Counts a MemTable that is in tables now; readers that still hold it pin it.
    pub(crate) fn flushed(&self, table: &Arc<MemTable>) {
        self.flushed.lock().push(Arc::downgrade(table));
        self.pinned();
    }

    /// Returns whether readers may pin more. Cheap while they may.
    pub(crate) fn within_budget(&self) -> bool {
        !self.over_budget.load(Ordering::Relaxed) || {
            self.pinned();
            !self.over_budget.load(Ordering::Relaxed)
        }
    }

    /// Returns the number of arenas held, and their bytes with their indexes.
    pub(crate) fn pinned(&self) -> (usize, u64) {
        let mut flushed = self.flushed.lock();
        flushed.retain(|table| table.strong_count() > 0);
        let bytes = flushed
            .iter()
            .filter_map(Weak::upgrade)
            .map(|table| table.memory_bytes())
            .sum();
        self.over_budget
            .store(bytes > self.budget_bytes, Ordering::Relaxed);
        (flushed.len(), bytes)
    }
}
