//! Which slots there are and what each is used for: the free list.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::arena::Arena;
use crate::device::DeviceSlot;

/// What a slot is used for.
#[derive(Debug)]
pub(crate) enum Use {
    /// It was there when the region was opened, or its activation failed: what its header says may
    /// not be durable.
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
    /// The header is durable: a power cut brings no earlier one back.
    has_durable_header: bool,
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
                has_durable_header: false,
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

    /// Whether a power cut leaves the header as it is.
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
