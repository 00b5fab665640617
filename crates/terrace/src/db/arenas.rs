//! The making of the next arena.
//!
//! A spare is ready once a quarter of the active arena is full, so that a rollover costs a writer no
//! I/O. It is four times as large as the active one, up to `arena_bytes`
//! ([`arena_size`](crate::write_buffer::arena_size)). The smallest free slot that is large enough
//! serves as it is; smaller slots are removed. A new file takes long to make where flushes and merges
//! keep the medium busy, and takes space for good. So while writers are being slowed down, the spare
//! waits for the slot of the running flush. A file is made only if the active arena nears its end before
//! that.
//!
//! An arena is prepared in this order, because a generation must never be used twice and a frame of
//! an unknown generation must never exist: the slot's file is made, the manifest issues the
//! generation, the arena's header takes it; only then may a frame be stored.

use std::collections::VecDeque;
use std::sync::Arc;

use terrace_lsm::levels::{ArenaIssued, Edit};
use terrace_region::{Arena, Slot, capacity_for_payload};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::db::Store;
use crate::db::ledger::{Ledger, Unused};
use crate::db::owners::Writes;
use crate::write_buffer::arena_size::{
    SPARE_BELOW_SIXTEENTHS, ever_smaller, next_arena_bytes, smallest_arena_bytes,
};
use crate::write_buffer::memtable::MemTable;
use crate::{Error, Result};

/// Arenas that are ready for their first frame, in the order of their generations.
#[derive(Default)]
pub(crate) struct Arenas {
    /// A spare stays here until the view lists it. Else there would seem to be neither a spare nor
    /// one more arena, and a file would be made.
    pub(crate) spares: VecDeque<Arc<Arena>>,
    /// Whether the next arena is needed soon, even if its slot must be created for it.
    urgent: bool,
}

impl Arenas {
    /// Returns the size of the next one, if it is ready.
    fn spare_bytes(&self) -> Option<u64> {
        self.spares.front().map(|spare| spare.capacity_bytes())
    }

    pub(crate) fn all_spare_bytes(&self) -> u64 {
        let spares = self.spares.iter();
        spares.map(|spare| spare.capacity_bytes()).sum()
    }
}

/// Room of the active arena below which the next one is urgent. Writers of small batches are slowed
/// down so much by then that they take seconds to fill it.
const URGENT_SIXTEENTHS: u64 = 4;

impl Store {
    /// Returns the size of the spare, or of the arena that is to become the spare.
    pub(crate) fn spare_or_next_bytes(&self) -> u64 {
        let spare_bytes = self.writes.arenas.lock().spare_bytes();
        spare_bytes.unwrap_or_else(|| self.next_arena_bytes())
    }

    /// Returns whether the next arena, empty, takes the frame.
    pub(crate) fn fits_next_arena(&self, payload_bytes: usize, records: u32) -> bool {
        let next_bytes = self.spare_or_next_bytes();
        let capacity_bytes = capacity_for_payload(payload_bytes as u64);
        capacity_bytes.is_some_and(|capacity_bytes| capacity_bytes <= next_bytes)
            && MemTable::index_bytes_for(u64::from(records)) <= self.options.arena_index_bytes()
    }

    /// Returns the size of the arena after the active one, if no larger one is free.
    pub(crate) fn next_arena_bytes(&self) -> u64 {
        let view = self.reads.view.load();
        let active = view.memtables.first();
        let (last_bytes, free_sixteenths) = active.map_or((0, 0), |table| {
            (table.arena().capacity_bytes(), table.free_sixteenths())
        });
        next_arena_bytes(last_bytes, free_sixteenths, self.options.arena_bytes)
    }

    /// Returns whether a frame that does not fit the active arena can be written at once. Asks for the
    /// spare if only that is missing.
    pub(crate) fn is_next_arena_ready(&self, payload_bytes: usize, records: u32) -> bool {
        if !self
            .reads
            .view
            .load()
            .takes_another(self.spare_or_next_bytes())
        {
            return false;
        }
        let needs_spare = self.fits_next_arena(payload_bytes, records);
        if needs_spare && self.writes.make_urgent() {
            self.lifecycle.background.spare_wanted(self);
            return !self.writes.arenas.lock().spares.is_empty();
        }
        true
    }

    /// Returns the spare; waits for one if flushes are behind. Rolling over to it takes it away.
    ///
    /// # Errors
    /// The background's own failure, if it failed: there is no point in waiting for a full disk.
    pub(crate) fn take_spare(&self) -> Result<Arc<Arena>> {
        self.wait_for_room(self.spare_or_next_bytes())?;
        let mut failed = None;
        loop {
            if let Some(spare) = self.writes.arenas.lock().spares.front() {
                return Ok(Arc::clone(spare));
            }
            if let Some(error) = failed.take() {
                self.wait_for_space(error)?;
            }
            self.writes.make_urgent();
            failed = self.lifecycle.background.wait_for_spare(self).err();
            // Inline work tells listeners, and one may have forked.
            self.lifecycle.check_process()?;
            self.check_writable()?;
        }
    }

    /// Waits for the flush under way: it may give space to a spare that found none.
    ///
    /// # Errors
    /// Returns `error` if no flush is under way, and else the flush's own error.
    fn wait_for_space(&self, error: Error) -> Result<()> {
        let is_flushing = self.reads.view.load().memtables.len() > 1;
        if error.is_no_space() && is_flushing && self.lifecycle.background.wait_for_flush(self)? {
            return Ok(());
        }
        Err(error)
    }

    /// Waits until one more arena may hold unflushed writes.
    fn wait_for_room(&self, capacity_bytes: u64) -> Result<()> {
        while !self.reads.view.load().takes_another(capacity_bytes) {
            let waited = self.lifecycle.background.wait_for_flush(self);
            self.lifecycle.check_process()?;
            if !self.reads.view.load().takes_another(capacity_bytes) {
                waited?;
            }
            self.check_writable()?;
        }
        Ok(())
    }

    /// Asks for a spare; `active_sixteenths` of the active arena are free. A small rest justifies
    /// any cost, unless no frame could use the spare before the end of a flush. Returns the room
    /// below which to ask again.
    #[cold]
    pub(crate) fn ask_for_spare(&self, active_sixteenths: u64) -> u64 {
        if active_sixteenths >= URGENT_SIXTEENTHS {
            self.lifecycle.background.spare_wanted(self);
            return URGENT_SIXTEENTHS;
        }
        if !self
            .reads
            .view
            .load()
            .takes_another(self.spare_or_next_bytes())
        {
            return URGENT_SIXTEENTHS;
        }
        if self.writes.make_urgent() {
            self.lifecycle.background.spare_wanted(self);
        }
        0
    }

    /// Takes the spare worker's step: prepares a spare if there is none and it is time.
    pub(crate) fn prepare_spare(&self) -> Result<bool> {
        self.check_poison()?;
        if !self.is_time_for_a_spare() {
            return Ok(false);
        }
        self.check_reserve()?;
        // Filling a new file takes long; no thread should wait for the ledger meanwhile.
        let spare_bytes = self.affordable(self.next_arena_bytes())?;
        self.keep_slots_from(spare_bytes)?;
        let slot = self.reserve(spare_bytes)?;
        let mut ledger = self.manifest_log.ledger.lock();
        let spare = self.new_arena(&mut ledger, slot)?;
        let mut arenas = self.writes.arenas.lock();
        arenas.spares.push_back(spare);
        arenas.urgent = false;
        Ok(true)
    }

    /// Removes free slots that have become too small. Files go by their names, so this runs only while
    /// the directory is this owner's: a copy restored into it would lose its arenas.
    pub(crate) fn keep_slots_from(&self, smallest_bytes: u64) -> Result<()> {
        let ledger = self.manifest_log.ledger.lock();
        let manifest = ledger.manifest.as_ref().ok_or(Error::Closed)?;
        self.check_ownership(manifest)?;
        self.writes.region.keep_from(smallest_bytes);
        Ok(())
    }

    /// Returns whether to make a spare. Every event that may turn this true asks the spare worker
    /// again: a rollover, the end of a flush, a writer in [`Store::ask_for_spare`]. (A reader that
    /// frees a slot does not: the next of these comes soon enough.)
    fn is_time_for_a_spare(&self) -> bool {
        let arenas = self.writes.arenas.lock();
        if !arenas.spares.is_empty() {
            return false;
        }
        let next_bytes = self.next_arena_bytes();
        let view = self.reads.view.load();
        // An arena that holds memory before its first frame would exceed the room, and no frame could
        // use it until the next flush.
        let holds_memory = !self.writes.region.stores_in_place();
        if holds_memory && !view.takes_another(next_bytes) {
            return false;
        }
        if arenas.urgent {
            return true;
        }
        if view.slows_writers_down() {
            return self.writes.region.has_free_slot(next_bytes);
        }
        // A store that takes few writes needs no second file, and pays for none when it is opened.
        let active = view.memtables.first();
        active.is_some_and(|table| table.free_sixteenths() < SPARE_BELOW_SIXTEENTHS)
    }

    /// Returns an arena for a batch that does not fit the next one: of the size that takes it, up to
    /// `arena_bytes` an ordinary one.
    ///
    /// # Errors
    /// [`Error::NoSpace`] also where the disk takes the arena and not its tables.
    pub(crate) fn arena_for_batch(&self, payload_bytes: usize, records: u32) -> Result<MemTable> {
        let capacity_bytes = capacity_for(payload_bytes)?.max(self.next_arena_bytes());
        self.wait_for_room(capacity_bytes)?;
        self.check_reserve()?;
        self.check_affordable(capacity_bytes)?;
        self.new_memtable(capacity_bytes, records)
    }

    /// Returns an arena for a frame of deletes on a full disk: the spare, if there is one that takes
    /// it, or the smallest.
    pub(crate) fn arena_for_deletes(&self, payload_bytes: usize, records: u32) -> Result<MemTable> {
        let spare = self.writes.arenas.lock().spares.front().cloned();
        match spare.filter(|_| self.fits_next_arena(payload_bytes, records)) {
            Some(spare) => {
                self.wait_for_room(spare.capacity_bytes())?;
                Ok(self.memtable(spare, records))
            }
            None => self.smallest_arena(payload_bytes, records),
        }
    }

    /// Returns the smallest arena that takes a frame, without asking for room in tables.
    pub(crate) fn smallest_arena(&self, payload_bytes: usize, records: u32) -> Result<MemTable> {
        let smallest_bytes = smallest_arena_bytes(self.options.arena_bytes);
        let payload_bytes = capacity_for(payload_bytes)?;
        let capacity_bytes = payload_bytes.max(smallest_bytes);
        self.wait_for_room(capacity_bytes)?;
        let slot_bytes = self.writes.region.free_slot_bytes(capacity_bytes);
        if slot_bytes.is_some_and(|slot_bytes| slot_bytes > capacity_bytes) {
            // Puts would find room in a larger arena, and its contents none in tables.
            self.remove_free_slots()?;
        }
        self.of_a_size_that_fits(capacity_bytes, payload_bytes, |bytes| {
            self.new_memtable(bytes, records)
        })
    }

    /// Makes an arena; on a full disk a smaller one that takes `least_bytes`. The reserve goes first.
    pub(crate) fn of_a_size_that_fits<T>(
        &self,
        first_bytes: u64,
        least_bytes: u64,
        make: impl Fn(u64) -> Result<T>,
    ) -> Result<T> {
        let mut made = self.with_reserve(|| make(first_bytes));
        for bytes in ever_smaller(first_bytes, least_bytes).skip(1) {
            if !made.as_ref().is_err_and(|error| error.is_no_space()) {
                break;
            }
            made = make(bytes);
        }
        made
    }

    /// Makes an arena that is written before any spare. So the spares' generations, which are older than
    /// its own, are given up by the same edit.
    fn new_memtable(&self, capacity_bytes: u64, records: u32) -> Result<MemTable> {
        let slot = self.reserve(capacity_bytes)?;
        let mut ledger = self.manifest_log.ledger.lock();
        let spares: Vec<_> = self.writes.arenas.lock().spares.drain(..).collect();
        ledger
            .unused
            .extend(spares.into_iter().map(Unused::Activated));
        let arena = self.new_arena(&mut ledger, slot)?;
        Ok(self.memtable(arena, records))
    }

    /// Returns a MemTable on an arena. Its index takes `records` at least.
    fn memtable(&self, arena: Arc<Arena>, records: u32) -> MemTable {
        let index_bytes = MemTable::index_bytes_for(u64::from(records));
        let index_bytes = index_bytes.max(self.options.arena_index_bytes());
        MemTable::new(arena, index_bytes, self.writes.hash_seed)
    }

    /// Gives up an arena that will hold no frame after all.
    pub(crate) fn give_up(&self, table: &MemTable) {
        let arena = Arc::clone(table.arena());
        self.writes.spare_was_taken(&arena);
        self.manifest_log
            .ledger
            .lock()
            .unused
            .push(Unused::Activated(arena));
    }

    /// Returns a slot for an arena, its file and its name durable.
    pub(crate) fn reserve(&self, capacity_bytes: u64) -> Result<Slot> {
        self.writes.region.reserve(capacity_bytes).map_err(|error| {
            let error = self.region_error(error);
            if error.is_no_space() {
                Error::NoSpace {
                    path: self.manifest_log.arena_directory.path().to_path_buf(),
                    needed_bytes: capacity_bytes,
                }
            } else {
                error
            }
        })
    }

    /// Returns an empty arena under a new generation, durable in the manifest and in its header.
    pub(crate) fn new_arena(&self, ledger: &mut Ledger, slot: Slot) -> Result<Arc<Arena>> {
        let opening_bits = ledger.opening_bits.or(ledger.state.opening_bits);
        let next = ledger.state.next_generation;
        let generation = generation_from(
            next,
            self.writes.hash_seed,
            opening_bits.unwrap_or_default(),
        );
        let issued = ArenaIssued {
            generation,
            slot: slot.number(),
            capacity_bytes: slot.capacity_bytes(),
            replaced_generation: slot.replaced_generation(),
        };
        let edit = Edit {
            arenas_issued: vec![issued],
            next_generation: Some(generation.saturating_add(1)),
            ..Edit::default()
        };
        if let Err(error) = self.record(ledger, edit) {
            // Free, since the manifest does not name it, unless the manifest's state is unknown.
            if self.lifecycle.poisoned().is_none() {
                let _ = self.writes.region.recycle(slot.number());
            }
            return Err(error);
        }
        let number = slot.number();
        self.writes
            .region
            .activate(slot, generation)
            .map_err(|error| {
                ledger.unused.push(Unused::Reserved {
                    generation,
                    slot: number,
                });
                self.persist_failed(error)
            })
    }
}

impl Writes {
    /// Has a spare made if there is none; false if there is one.
    fn make_urgent(&self) -> bool {
        let mut arenas = self.arenas.lock();
        arenas.urgent = arenas.spares.is_empty();
        arenas.urgent
    }

    /// Removes a spare that became the active arena.
    pub(crate) fn spare_was_taken(&self, taken: &Arc<Arena>) {
        let mut arenas = self.arenas.lock();
        arenas.spares.retain(|spare| !Arc::ptr_eq(spare, taken));
        arenas.urgent = false;
    }
}

fn capacity_for(payload_bytes: usize) -> Result<u64> {
    capacity_for_payload(payload_bytes as u64)
        .ok_or_else(|| Error::invalid("the batch is larger than any arena"))
}

/// Returns a generation that was never used, from `next` on. Outsiders cannot guess the step: bytes
/// of a value must not pass as a frame of the generation that will use their slot next. Nor do two
/// copies of a store take the same steps, once each has been opened.
fn generation_from(next: u64, hash_seed: u64, opening_bits: u64) -> u64 {
    let from = u128::from(opening_bits) << 64 | u128::from(next);
    let step = xxh3_64_with_seed(&from.to_le_bytes(), hash_seed) & u64::from(u32::MAX);
    next.saturating_add(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Options};

    #[test]
    fn no_spare_is_made_for_a_store_that_takes_one_write() {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), Options::default()).unwrap();
        db.put(b"key", b"value").unwrap();
        // The worker may be faster or slower than this thread: either finds that it is time.
        assert!(!db.store().prepare_spare().unwrap());
        assert!(db.store().writes.arenas.lock().spares.is_empty());
    }

    #[test]
    fn copies_of_a_store_step_to_different_generations_once_each_has_been_opened() {
        let generations = |opening_bits| {
            let mut next = 1;
            let issued = (0..100).map(|_| {
                let generation = generation_from(next, 42, opening_bits);
                next = generation + 1;
                generation
            });
            issued.collect::<Vec<_>>()
        };
        assert_eq!(generations(7), generations(7));
        let (ones, others) = (generations(7), generations(8));
        assert!(ones.iter().all(|generation| !others.contains(generation)));
        assert!(ones.is_sorted() && others.is_sorted());
    }
}
