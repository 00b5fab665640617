//! The view that a reader pins: the MemTables and the version of the levels, as of one moment.
//!
//! A pin is a count of references and nothing else. A part that was taken out of the present view
//! stays as long as a reader holds a view that lists it. A table's file stays until the last
//! listing is dropped (`levels::ObsoleteTables`), an arena's slot until its last MemTable is
//! (`Region::recycle`). So readers wait for no thread, and no thread waits for readers.

use std::sync::Arc;

use arc_swap::Guard;
use terrace_lsm::levels::Version;
use terrace_lsm::sync::ArcSwap;

use crate::SequenceNumber;
use crate::db::lock_order::{OrderedMutex, place};
use crate::write_buffer::memtable::MemTable;
use crate::write_buffer::room::{Room, Unflushed};

/// Everything there is to read. A reader loads it *before* it takes its number: then all versions
/// up to that number are in it, or in frames written after the reader began.
pub(crate) struct View {
    /// From the youngest (the active one, unless the store is read-only) to the oldest.
    pub(crate) memtables: Vec<Arc<MemTable>>,
    pub(crate) version: Arc<Version>,
    /// Every write up to this number is in `version`; those above it are in `memtables`.
    pub(crate) flushed_sequence: SequenceNumber,
    room: Room,
    /// Room that the sealed MemTables take. It never changes, and writers ask for it at every
    /// group.
    sealed_taken_bytes: u64,
}

impl View {
    pub(crate) fn new(
        memtables: Vec<Arc<MemTable>>,
        version: Arc<Version>,
        flushed_sequence: SequenceNumber,
        room: Room,
    ) -> Self {
        let mut view = View {
            memtables,
            version,
            flushed_sequence,
            room,
            sealed_taken_bytes: 0,
        };
        view.count_sealed();
        view
    }

    /// Returns whether each MemTable's arena is younger than the next one's.
    fn is_in_order(&self) -> bool {
        let generation = |table: &Arc<MemTable>| table.arena().generation();
        self.memtables
            .is_sorted_by(|younger, older| generation(younger) > generation(older))
    }

    fn count_sealed(&mut self) {
        let sealed = self.memtables.iter().skip(1);
        let taken = sealed.map(|table| self.taken_bytes(table, table.free_sixteenths()));
        self.sealed_taken_bytes = taken.sum();
    }

    fn taken_bytes(&self, table: &MemTable, free_sixteenths: u64) -> u64 {
        let bytes = self.room.counted_bytes(table.arena().capacity_bytes());
        bytes * 16_u64.saturating_sub(free_sixteenths) / 16
    }

    /// Returns the room for writes, in sixteenths of a full arena; `active` has `active_sixteenths`
    /// of its own left. A sealed MemTable counts by its contents: a flush has to write these before
    /// its arena is free again.
    pub(crate) fn free_sixteenths(&self, active: &MemTable, active_sixteenths: u64) -> u64 {
        let active_bytes = self.taken_bytes(active, active_sixteenths);
        self.room
            .free_sixteenths(self.sealed_taken_bytes + active_bytes)
    }

    /// Returns the arenas that hold unflushed writes.
    pub(crate) fn unflushed(&self) -> Unflushed {
        self.count(&self.memtables)
    }

    /// Returns the arenas among them that take no more writes.
    pub(crate) fn sealed(&self) -> Unflushed {
        self.count(self.memtables.get(1..).unwrap_or_default())
    }

    fn count(&self, tables: &[Arc<MemTable>]) -> Unflushed {
        let sizes = tables.iter().map(|table| table.arena().capacity_bytes());
        Unflushed {
            arenas: tables.len(),
            bytes: sizes.map(|bytes| self.room.counted_bytes(bytes)).sum(),
        }
    }

    /// Returns whether one more arena, of this size, may hold unflushed writes.
    pub(crate) fn takes_another(&self, capacity_bytes: u64) -> bool {
        self.room.takes_another(self.unflushed(), capacity_bytes)
    }

    /// Returns whether writers are held back from the first frame in the active arena on.
    pub(crate) fn slows_writers_down(&self) -> bool {
        self.room.slows_writers_down(self.sealed())
    }
}

/// The view of now.
pub(crate) struct PresentView {
    view: ArcSwap<View>,
    /// Writers add MemTables while flushes and merges replace the version: each change begins with
    /// the result of the last one.
    change: OrderedMutex<{ place::VIEW }, ()>,
}

impl PresentView {
    pub(crate) fn new(view: View) -> Self {
        PresentView {
            view: ArcSwap::new(Arc::new(view)),
            change: OrderedMutex::new(()),
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
            room: present.room,
            sealed_taken_bytes: 0,
        };
        change(&mut view);
        debug_assert!(
            view.is_in_order() && present.flushed_sequence <= view.flushed_sequence,
            "arenas are not in the order of their age, or flushed writes come back"
        );
        view.count_sealed();
        self.view.store(Arc::new(view));
    }
}
