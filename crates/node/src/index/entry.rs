//! An entry of the index, and its packed form of 32 bytes.

use crate::block::{BLOCK_BYTES, Extent};
use crate::format::location::{CELL_ALIGNMENT_BYTES, CellLocation, Place};
use crate::index::side;
use crate::key::{Key, MAX_KEY_BYTES};

/// Length, check and place of a key's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Length of the value, in bytes.
    pub value_bytes: u32,
    /// The low half of the value's checksum.
    pub check: u32,
    /// Where the value is.
    pub place: Place,
}

impl Found {
    /// Returns the extents by which the value counts against the bound of its namespace: none if its
    /// place fits into an entry.
    pub fn extra_extents(&self) -> u64 {
        match pack(&self.place, self.value_bytes) {
            Some(_) => 0,
            None => side::cost(&self.place),
        }
    }
}

/// Returns the packed form of a place; none for one that needs the side table.
pub(super) fn pack(place: &Place, value_bytes: u32) -> Option<Packed> {
    match place {
        Place::Extents(extents) if extents.len() == 1 => {
            let Extent { start, blocks } = extents.first();
            let spare = blocks.checked_sub(least_blocks(value_bytes))?;
            let fits = start < 1 << START_BITS && spare < 1 << SPARE_BITS;
            fits.then_some(Packed::Extent(start << SPARE_BITS | spare))
        }
        Place::Extents(_) => None,
        Place::Cell(cell) => {
            let place = cell.word() / CELL_ALIGNMENT_BYTES as u64;
            (place < 1 << PLACE_BITS).then_some(Packed::Cell(place))
        }
    }
}

/// Returns the location that was packed.
pub(super) fn cell_at(place: u64) -> CellLocation {
    let location = CellLocation::from_word(place * CELL_ALIGNMENT_BYTES as u64);
    location.expect("only legal locations are packed")
}

/// An extent of `value_bytes` has at least this many blocks. Only the difference is stored.
fn least_blocks(value_bytes: u32) -> u64 {
    u64::from(value_bytes).div_ceil(BLOCK_BYTES as u64).max(1)
}

/// A place in 50 bits and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packed {
    /// Start, and number of blocks above the least.
    Extent(u64),
    /// Location in units of 8 bytes.
    Cell(u64),
    /// Number in the side table.
    Side(u32),
}

const START_BITS: u32 = 40;
const SPARE_BITS: u32 = 10;
const PLACE_BITS: u32 = START_BITS + SPARE_BITS;

// The word of an entry, from the lowest bit: last use 8, length of the key less one 4, kind 2, place 50.
const LEN_SHIFT: u32 = 8;
const KIND_SHIFT: u32 = 12;
const PLACE_SHIFT: u32 = 14;
const FREE: u64 = 0;
const EXTENT: u64 = 1;
const CELL: u64 = 2;
const SIDE: u64 = 3;

/// One slot of an arena: a key and its `Found`, or a member of the list of free slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    key: [u8; MAX_KEY_BYTES],
    pub(super) value_bytes: u32,
    pub(super) check: u32,
    word: u64,
}

const _: () = assert!(size_of::<Entry>() == 32);
const _: () = assert!(LEN_SHIFT + 6 + PLACE_BITS == u64::BITS);

impl Entry {
    pub(super) fn new(key: &Key, value_bytes: u32, check: u32, packed: Packed, age: u8) -> Self {
        let (kind, place) = match packed {
            Packed::Extent(place) => (EXTENT, place),
            Packed::Cell(place) => (CELL, place),
            Packed::Side(number) => (SIDE, u64::from(number)),
        };
        let len = key.len() as u64 - 1;
        Entry {
            key: *key.padded(),
            value_bytes,
            check,
            word: u64::from(age) | len << LEN_SHIFT | kind << KIND_SHIFT | place << PLACE_SHIFT,
        }
    }

    /// Makes a free slot that names the next one of the list.
    pub(super) fn free(next: u32) -> Self {
        Entry {
            key: [0; MAX_KEY_BYTES],
            value_bytes: 0,
            check: 0,
            word: u64::from(next) << PLACE_SHIFT,
        }
    }

    fn kind(&self) -> u64 {
        self.word >> KIND_SHIFT & 3
    }

    pub(super) fn is_free(&self) -> bool {
        self.kind() == FREE
    }

    /// Returns the next free slot, if this one is free.
    pub(super) fn next_free(&self) -> u32 {
        (self.word >> PLACE_SHIFT) as u32
    }

    fn len(&self) -> u8 {
        (self.word >> LEN_SHIFT & 15) as u8 + 1
    }

    /// Compares with a key, without making one.
    pub(super) fn is(&self, key: &Key) -> bool {
        self.key == *key.padded() && usize::from(self.len()) == key.len()
    }

    /// Returns the bytes of the key.
    pub(super) fn key_bytes(&self) -> &[u8] {
        &self.key[..usize::from(self.len())]
    }

    pub(super) fn key(&self) -> Key {
        Key::from_padded(self.key, self.len()).expect("an entry was made from a key")
    }

    pub(super) fn age(&self) -> u8 {
        self.word as u8
    }

    pub(super) fn set_age(&mut self, age: u8) {
        self.word = self.word & !0xFF | u64::from(age);
    }

    pub(super) fn packed(&self) -> Packed {
        let place = self.word >> PLACE_SHIFT;
        match self.kind() {
            CELL => Packed::Cell(place),
            SIDE => Packed::Side(place as u32),
            _ => Packed::Extent(place),
        }
    }

    /// Returns the one extent of a place that was packed as such.
    pub(super) fn extent(&self, place: u64) -> Extent {
        Extent {
            start: place >> SPARE_BITS,
            blocks: least_blocks(self.value_bytes) + place % (1 << SPARE_BITS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(value_bytes: u32, place: Place) -> Option<Place> {
        let key = Key::new(b"a\0").unwrap();
        let packed = pack(&place, value_bytes)?;
        let mut entry = Entry::new(&key, value_bytes, u32::MAX, packed, 0);
        entry.set_age(255);
        entry.set_age(7);
        assert!(entry.is(&key) && !entry.is(&Key::new(b"a").unwrap()));
        assert_eq!((entry.key(), entry.age(), entry.is_free()), (key, 7, false));
        assert_eq!((entry.value_bytes, entry.check), (value_bytes, u32::MAX));
        Some(match entry.packed() {
            Packed::Extent(place) => Place::Extents(entry.extent(place).into()),
            Packed::Cell(place) => Place::Cell(cell_at(place)),
            Packed::Side(_) => panic!("{place:?} needs no side table"),
        })
    }

    #[test]
    fn places_are_packed_or_refused_but_never_changed() {
        let extent = |start, blocks| Place::Extents(Extent { start, blocks }.into());
        let cell = |segment, offset| Place::Cell(CellLocation::new(segment, offset).unwrap());
        for (value_bytes, place, fits) in [
            (0, extent(0, 1), true),
            (1 << 28, extent((1 << 40) - 1, 65_545), true),
            (u32::MAX, extent(1, (1 << 20) + 1_023), true),
            (4096, extent(5, 1_024), true),
            (4096, extent(5, 1_025), false),
            (4097, extent(5, 1), false),
            (4096, extent(1 << 40, 1), false),
            (2048, cell(0, 8), true),
            (2048, cell((1 << 37) - 1, 65_528), true),
            (2048, cell(1 << 37, 8), false),
        ] {
            let expected = fits.then(|| place.clone());
            assert_eq!(there_and_back(value_bytes, place), expected);
        }
    }
}
