//! What a reader pins: the MemTables and the version of the levels, as of one moment.
//!
//! A pin is a count of references and nothing else. What was taken out of the present view stays as
//! long as a reader holds a view that lists it: a table's file until the last listing is dropped
//! (`levels::ObsoleteTables`), an arena's slot until its last MemTable is (`Region::recycle`). So
//! readers wait for nobody, and nobody waits for readers.

use std::sync::Arc;

use arc_swap::Guard;

use crate::SequenceNumber;
use crate::levels::Version;
use crate::sync::{ArcSwap, Mutex};
use crate::write_buffer::memtable::MemTable;

/// Everything there is to read. A reader loads it *before* it takes its number: then all versions
/// up to that number are in it, or in frames written after the reader began.
pub(crate) struct View {
    /// From the youngest (the active one, unless the store is read-only) to the oldest.
    pub(crate) memtables: Vec<Arc<MemTable>>,
    pub(crate) version: Arc<Version>,
    /// Every write up to this number is in `version`; those above it are in `memtables`.
    pub(crate) flushed_sequence: SequenceNumber,
    /// Room that the sealed MemTables were left with, in sixteenths of an arena: they never change,
    /// and writers ask at every group.
    sealed_free_sixteenths: u64,
}

impl View {
    pub(crate) fn new(
        memtables: Vec<Arc<MemTable>>,
        version: Arc<Version>,
        flushed_sequence: SequenceNumber,
    ) -> Self {
        let mut view = View {
            memtables,
            version,
            flushed_sequence,
            sealed_free_sixteenths: 0,
        };
        view.count_sealed();
        view
    }

    fn count_sealed(&mut self) {
        let sealed = self.memtables.iter().skip(1);
        self.sealed_free_sixteenths = sealed.map(|table| table.free_sixteenths()).sum();
    }

    /// Room for writes, in sixteenths of an arena, the active one having `active_sixteenths`. A
    /// sealed MemTable counts by what it holds: that is what a flush has to do before its arena is
    /// free again.
    pub(crate) fn free_sixteenths(&self, active_sixteenths: u64, max_arenas: usize) -> u64 {
        let unused = max_arenas.saturating_sub(self.memtables.len()) as u64;
        unused * 16 + self.sealed_free_sixteenths + active_sixteenths
    }
}

/// The view of now.
pub(crate) struct PresentView {
    view: ArcSwap<View>,
    /// Writers add MemTables while flushes and merges replace the version: each change begins with
    /// what the last one left.
    change: Mutex<()>,
}

impl PresentView {
    pub(crate) fn new(view: View) -> Self {
        PresentView {
            view: ArcSwap::new(Arc::new(view)),
            change: Mutex::new(()),
        }
    }

    /// Pins the view for a moment: without a lock, and as a rule without counting.
    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    /// Pins the view for long.
    pub(crate) fn load_full(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// Replaces the view by a changed one.
    pub(crate) fn change(&self, change: impl FnOnce(&mut View)) {
        let _one_at_a_time = self.change.lock();
        let present = self.view.load();
        let mut view = View {
            memtables: present.memtables.clone(),
            version: Arc::clone(&present.version),
            flushed_sequence: present.flushed_sequence,
            sealed_free_sixteenths: 0,
        };
        change(&mut view);
        view.count_sealed();
        self.view.store(Arc::new(view));
    }
}
