//! From the hash of a key to the newest entry of that key.
//!
//! Open addressing with linear probing over words: the upper half of the hash, then the entry's
//! number plus one; 0 is empty. Nothing is ever removed. A word suffices to place it in a larger
//! table, so growing reads no keys. Since a place is the hash scaled to the table's length, growing
//! reads and writes both tables from one end to the other.
//!
//! The low bits of the hash choose one of [`PARTS`] tables that grow by themselves: no insert waits
//! for more than a small part of all words to move.
//!
//! Invariants: (1) one inserter at a time, which holds [`Filling`]. (2) a word is stored with
//! release after the entry it names, and loaded with acquire. (3) a table is published after all
//! words of the one before it were copied, and then that one never changes again: a reader that
//! still holds it finds all entries that were inserted before it began.

use std::sync::Arc;

use terrace_lsm::debug_expect::DebugExpect;
use terrace_lsm::sync::ArcSwap;
use terrace_lsm::sync::atomic::{AtomicU64, Ordering};

/// Tables that grow separately.
const PARTS: usize = 64;
const LEAST_SLOTS: usize = 16;

/// Maximum memory of an entry here: a table that has just grown is four ninths full.
pub(super) const MAX_ENTRY_BYTES: u64 = 18;

/// A hash as the table uses it.
#[derive(Clone, Copy)]
pub(super) struct Spot(u64);

impl Spot {
    /// Makes a spot. `hash` is that of the user key: keyspaces are told apart here.
    pub(super) fn new(keyspace: u32, hash: u64) -> Self {
        Spot(hash ^ u64::from(keyspace).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn part(self) -> usize {
        self.0 as usize % PARTS
    }

    fn stored(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

struct Part {
    slots: Box<[AtomicU64]>,
}

impl Part {
    fn new(slots: usize) -> Self {
        Part {
            slots: (0..slots).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns the slots from a hash's place on, all of them once.
    #[inline]
    fn probe(&self, stored: u32) -> impl Iterator<Item = &AtomicU64> {
        let start = (u64::from(stored) * self.slots.len() as u64) >> 32;
        let (before, after) = self
            .slots
            .split_at_checked(start as usize)
            .debug_expect("a hash has its slot in the part");
        after.iter().chain(before)
    }

    fn memory_bytes(&self) -> u64 {
        self.slots.len() as u64 * 8
    }
}

/// The tables as readers see them.
pub(super) struct HashTable {
    parts: Box<[ArcSwap<Part>]>,
    memory_bytes: AtomicU64,
}

/// The tables as the inserter sees them.
pub(super) struct Filling {
    parts: Vec<(Arc<Part>, usize)>,
}

impl HashTable {
    pub(super) fn new() -> (Self, Filling) {
        let empty = Arc::new(Part::new(0));
        let table = HashTable {
            parts: (0..PARTS)
                .map(|_| ArcSwap::new(Arc::clone(&empty)))
                .collect(),
            memory_bytes: AtomicU64::new(0),
        };
        let parts = vec![(empty, 0); PARTS];
        (table, Filling { parts })
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Returns the newest entry of the key that `is_key` knows.
    #[inline]
    pub(super) fn get(&self, spot: Spot, is_key: impl Fn(u32) -> bool) -> Option<u32> {
        let part = self.parts.get(spot.part())?.load();
        for slot in part.probe(spot.stored()) {
            let word = slot.load(Ordering::Acquire);
            let number = (word as u32).checked_sub(1)?;
            if (word >> 32) as u32 == spot.stored() && is_key(number) {
                return Some(number);
            }
        }
        None
    }

    /// Makes `number` the newest entry of its key. `prepare` gets the entry that was the newest
    /// before, and completes the new one.
    #[inline]
    pub(super) fn insert(
        &self,
        filling: &mut Filling,
        spot: Spot,
        number: u32,
        is_key: impl Fn(u32) -> bool,
        prepare: impl FnOnce(Option<u32>),
    ) {
        let (Some(published), Some((part, used))) = (
            self.parts.get(spot.part()),
            filling.parts.get_mut(spot.part()),
        ) else {
            return;
        };
        if (*used + 1) * 3 > part.slots.len() * 2 {
            *part = self.grow(published, part);
        }
        let word = u64::from(spot.stored()) << 32 | u64::from(number + 1);
        for slot in part.probe(spot.stored()) {
            let present = slot.load(Ordering::Relaxed);
            let newest = (present as u32).checked_sub(1);
            let same_key = (present >> 32) as u32 == spot.stored() && newest.is_some_and(&is_key);
            if newest.is_none() || same_key {
                prepare(newest);
                // Release: whoever finds the number finds its entry (invariant 2).
                slot.store(word, Ordering::Release);
                *used += usize::from(newest.is_none());
                return;
            }
        }
    }

    fn grow(&self, published: &ArcSwap<Part>, part: &Part) -> Arc<Part> {
        // Growth is by half: a table that has just doubled takes 24 bytes an entry, this one 18.
        let slots = part.slots.len() + part.slots.len() / 2;
        let larger = Arc::new(Part::new(slots.max(LEAST_SLOTS)));
        for slot in &part.slots {
            let word = slot.load(Ordering::Relaxed);
            if word != 0 {
                let mut places = larger.probe((word >> 32) as u32);
                if let Some(free) = places.find(|slot| slot.load(Ordering::Relaxed) == 0) {
                    free.store(word, Ordering::Relaxed);
                }
            }
        }
        let grown_bytes = larger.memory_bytes() - part.memory_bytes();
        self.memory_bytes.fetch_add(grown_bytes, Ordering::Relaxed);
        published.store(Arc::clone(&larger));
        larger
    }
}
