//! The slots of a region and their uses: the free list.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::arena::Arena;
use crate::device::DeviceSlot;

/// The use of a slot.
#[derive(Debug)]
pub(crate) enum Use {
    /// It was there when the region was opened, or its activation failed: its header may not be
    /// durable.
    Found,
    /// Handed out, or being created or removed.
    Reserved,
    /// Under an arena.
    Active(Weak<Arena>),
    /// It was there when the region was opened, and its frames were looked for.
    Recovered,
    /// The same, under an arena that holds its frames.
    Resumed(Weak<Arena>),
    /// Free, once no reader is left of the arena that it held.
    Free(Weak<Arena>),
}

#[derive(Debug)]
struct Entry {
    length_bytes: u64,
    held: Use,
    /// The header is durable: a power cut brings no earlier one back.
    has_durable_header: bool,
}

impl Entry {
    /// Returns whether the slot is free and no reader is left.
    fn is_free(&self) -> bool {
        matches!(&self.held, Use::Free(readers) if readers.strong_count() == 0)
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
                has_durable_header: false,
            };
            (slot.number, entry)
        });
        Slots {
            entries: entries.collect(),
        }
    }

    /// Returns the smallest free slot of at least this size that has no reader left, and its size.
    /// The smallest, because an opening after a kill searches the whole arena, full or not.
    pub(crate) fn smallest_free(&self, least_bytes: u64) -> Option<(u64, u64)> {
        let entries = self.entries.iter();
        entries
            .filter(|(_, entry)| entry.is_free() && entry.length_bytes >= least_bytes)
            .map(|(number, entry)| (*number, entry.length_bytes))
            .min_by_key(|&(_, length_bytes)| length_bytes)
    }

    /// Reserves that slot.
    pub(crate) fn take_free(&mut self, least_bytes: u64) -> Option<(u64, u64)> {
        let (number, length_bytes) = self.smallest_free(least_bytes)?;
        self.take(number);
        Some((number, length_bytes))
    }

    /// Reserves the free slots below this size that have no reader left, and returns them with
    /// their sizes.
    pub(crate) fn take_free_below(&mut self, length_bytes: u64) -> Vec<(u64, u64)> {
        let entries = self.entries.iter_mut();
        let small =
            entries.filter(|(_, entry)| entry.is_free() && entry.length_bytes < length_bytes);
        small
            .map(|(number, entry)| {
                entry.held = Use::Reserved;
                (*number, entry.length_bytes)
            })
            .collect()
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
            has_durable_header: true,
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
        let has_durable_header = self.has_durable_header(number);
        let entry = Entry {
            length_bytes,
            held,
            has_durable_header,
        };
        self.entries.insert(number, entry);
    }

    /// Returns whether a power cut leaves the header as it is.
    pub(crate) fn has_durable_header(&self, number: u64) -> bool {
        let entry = self.entries.get(&number);
        entry.is_some_and(|entry| entry.has_durable_header)
    }

    /// Notes whether a power cut leaves the header as it is.
    pub(crate) fn set_durable_header(&mut self, number: u64, is_durable: bool) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.has_durable_header = is_durable;
        }
    }

    /// Takes a slot out of its use, leaving it reserved; returns its size and that use.
    pub(crate) fn take(&mut self, number: u64) -> Option<(u64, Use)> {
        let entry = self.entries.get_mut(&number)?;
        let held = std::mem::replace(&mut entry.held, Use::Reserved);
        Some((entry.length_bytes, held))
    }

    /// Returns whether the slot was there when the region was opened and its frames were looked for.
    pub(crate) fn is_recovered(&self, number: u64) -> bool {
        let entry = self.entries.get(&number);
        entry.is_some_and(|entry| matches!(entry.held, Use::Recovered))
    }

    /// Returns the number of arenas that were recycled and are still read.
    pub(crate) fn pinned(&self) -> usize {
        let pinned = |entry: &&Entry| matches!(&entry.held, Use::Free(readers) if readers.strong_count() > 0);
        self.entries.values().filter(pinned).count()
    }
}

/// Returns the readers that keep a slot from being used again.
pub(crate) fn readers(arena: Option<&Arc<Arena>>, reads_in_place: bool) -> Weak<Arena> {
    match arena {
        Some(arena) if reads_in_place => Arc::downgrade(arena),
        _ => Weak::new(),
    }
}
