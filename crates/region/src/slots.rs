//! Which slots there are and what each is used for: the free list.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::arena::Arena;
use crate::device::DeviceSlot;

/// What a slot is used for.
#[derive(Debug)]
pub(crate) enum Use {
    /// It was there when the region was opened; nobody has said yet what it is.
    Found,
    /// Handed out, or being created or removed.
    Reserved,
    /// Under an arena.
    Active(Weak<Arena>),
    /// Under an arena that was there when the region was opened.
    Recovered(Weak<Arena>),
    /// Free, once nobody reads the arena that it held.
    Free(Weak<Arena>),
}

#[derive(Debug)]
struct Entry {
    length_bytes: u64,
    held: Use,
}

impl Entry {
    fn is_free(&self, length_bytes: u64) -> bool {
        self.length_bytes == length_bytes
            && matches!(&self.held, Use::Free(readers) if readers.strong_count() == 0)
    }
}

/// All slots of a region.
#[derive(Debug)]
pub(crate) struct Slots {
    entries: BTreeMap<u64, Entry>,
}

impl Slots {
    pub(crate) fn found(list: &[DeviceSlot]) -> Self {
        let entries = list.iter().map(|slot| {
            let entry = Entry {
                length_bytes: slot.length_bytes,
                held: Use::Found,
            };
            (slot.number, entry)
        });
        Slots {
            entries: entries.collect(),
        }
    }

    /// Whether there is a free slot of this size that nobody reads any more.
    pub(crate) fn has_free(&self, length_bytes: u64) -> bool {
        self.entries
            .values()
            .any(|entry| entry.is_free(length_bytes))
    }

    /// Reserves a free slot of this size that nobody reads any more.
    pub(crate) fn take_free(&mut self, length_bytes: u64) -> Option<u64> {
        let mut entries = self.entries.iter_mut();
        let (number, entry) = entries.find(|(_, entry)| entry.is_free(length_bytes))?;
        entry.held = Use::Reserved;
        Some(*number)
    }

    /// Reserves a number that no slot has.
    pub(crate) fn add(&mut self, length_bytes: u64) -> u64 {
        let mut number = 1;
        for used in self.entries.keys().skip_while(|used| **used == 0) {
            if *used != number {
                break;
            }
            number += 1;
        }
        let entry = Entry {
            length_bytes,
            held: Use::Reserved,
        };
        self.entries.insert(number, entry);
        number
    }

    /// Forgets a slot that does not exist any more.
    pub(crate) fn forget(&mut self, number: u64) {
        self.entries.remove(&number);
    }

    /// Puts a slot to a use. Unknown slots (recovered without having been listed) are added.
    pub(crate) fn put(&mut self, number: u64, length_bytes: u64, held: Use) {
        self.entries.insert(number, Entry { length_bytes, held });
    }

    /// Takes a slot out of its use, leaving it reserved; returns its size and that use.
    pub(crate) fn take(&mut self, number: u64) -> Option<(u64, Use)> {
        let entry = self.entries.get_mut(&number)?;
        let held = std::mem::replace(&mut entry.held, Use::Reserved);
        Some((entry.length_bytes, held))
    }

    /// How many arenas were recycled and are still read.
    pub(crate) fn pinned(&self) -> usize {
        let pinned = |entry: &&Entry| matches!(&entry.held, Use::Free(readers) if readers.strong_count() > 0);
        self.entries.values().filter(pinned).count()
    }
}

/// The readers that keep a slot from being used again.
pub(crate) fn readers(arena: Option<&Arc<Arena>>, reads_in_place: bool) -> Weak<Arena> {
    match arena {
        Some(arena) if reads_in_place => Arc::downgrade(arena),
        _ => Weak::new(),
    }
}
