//! Places that do not fit into an entry: several extents, and one out of the usual range.

use crate::block::{Extent, Extents};
use crate::format::location::Place;

enum Slot {
    Free(u32),
    Used(Place),
}

/// The side table of one partition.
pub(super) struct Side {
    slots: Vec<Slot>,
    free: u32,
    /// Allocations behind the slots, in bytes.
    list_bytes: usize,
}

const NONE: u32 = u32::MAX;

impl Default for Side {
    fn default() -> Self {
        Side {
            slots: Vec::new(),
            free: NONE,
            list_bytes: 0,
        }
    }
}

/// Returns the extents by which a place in a side table counts against the bound.
pub(super) fn cost(place: &Place) -> u64 {
    match place {
        Place::Extents(extents) => extents.len() as u64,
        Place::Cell(_) => 1,
    }
}

fn list_bytes(place: &Place) -> usize {
    match place {
        Place::Extents(extents) if extents.len() > 1 => extents.len() * size_of::<Extent>(),
        _ => 0,
    }
}

impl Side {
    pub(super) fn insert(&mut self, place: Place) -> u32 {
        self.list_bytes += list_bytes(&place);
        let number = self.free;
        match self.slots.get_mut(number as usize) {
            Some(slot) => {
                if let Slot::Free(next) = *slot {
                    self.free = next;
                }
                *slot = Slot::Used(place);
                number
            }
            None => {
                self.slots.push(Slot::Used(place));
                self.slots.len() as u32 - 1
            }
        }
    }

    pub(super) fn get(&self, number: u32) -> &Place {
        match &self.slots[number as usize] {
            Slot::Used(place) => place,
            Slot::Free(_) => unreachable!("entries name used slots of the side table"),
        }
    }

    /// Takes a place away from the table.
    pub(super) fn remove(&mut self, number: u32) -> Place {
        let slot = std::mem::replace(&mut self.slots[number as usize], Slot::Free(self.free));
        let Slot::Used(place) = slot else {
            unreachable!("entries name used slots of the side table")
        };
        self.free = number;
        self.list_bytes -= list_bytes(&place);
        place
    }

    /// Returns true if a block of the place is in `range`. A cell has no blocks of its own.
    pub(super) fn overlaps(&self, number: u32, range: Extent) -> bool {
        match self.get(number) {
            Place::Extents(extents) => Extents::iter(extents).any(|extent| extent.overlaps(range)),
            Place::Cell(_) => false,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.list_bytes
    }
}
