//! Entries of a checkpoint: a key and where its value is.

use std::mem::offset_of;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::extents::{self, Bounds, Fault, MAX_EXTENTS, PACKED_BYTES};
use crate::format::location::{CellLocation, Place};
use crate::key::{Key, MAX_KEY_BYTES};

const EXTENTS: u8 = 1;
const CELL: u8 = 2;

const HEAD_BYTES: usize = size_of::<Head>();
/// Bytes of an entry with one extent, or with a cell.
pub(super) const ENTRY_BYTES: usize = HEAD_BYTES + PACKED_BYTES;
/// Bytes of the longest entry.
pub(super) const MAX_ENTRY_BYTES: usize = HEAD_BYTES + MAX_EXTENTS * PACKED_BYTES;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    key: [u8; MAX_KEY_BYTES],
    key_bytes: u8,
    kind: u8,
    extents: U16,
    value_bytes: U32,
    check: U32,
    zeros: U32,
}

const _: () = assert!(HEAD_BYTES == 32);
const _: () = assert!(offset_of!(Head, extents) == 18);
const _: () = assert!(offset_of!(Head, check) == 24);

/// A key as a checkpoint lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// The key.
    pub key: Key,
    /// Bytes of the value.
    pub value_bytes: u32,
    /// Low half of the value's checksum.
    pub check: u32,
    /// Where the value lies.
    pub place: Place,
}

impl StoredEntry {
    /// Returns the bytes of the entry in a block.
    pub fn encoded_len(&self) -> usize {
        match &self.place {
            Place::Extents(extents) => HEAD_BYTES + extents.len() * PACKED_BYTES,
            Place::Cell(_) => ENTRY_BYTES,
        }
    }

    /// Appends the entry to those of a block.
    pub(super) fn encode(&self, entries: &mut Vec<u8>) {
        let (kind, extents) = match &self.place {
            Place::Extents(extents) => (EXTENTS, extents.len()),
            Place::Cell(_) => (CELL, 0),
        };
        let head = Head {
            key: *self.key.padded(),
            key_bytes: self.key.len() as u8,
            kind,
            extents: U16::new(extents as u16),
            value_bytes: self.value_bytes.into(),
            check: self.check.into(),
            zeros: U32::ZERO,
        };
        let start = entries.len();
        entries.extend_from_slice(head.as_bytes());
        match &self.place {
            Place::Extents(extents) => {
                entries.resize(start + self.encoded_len(), 0);
                extents::encode(extents, &mut entries[start + HEAD_BYTES..]);
            }
            Place::Cell(cell) => entries.extend_from_slice(&cell.word().to_le_bytes()),
        }
    }

    /// Takes the entry at the start of `bytes`, and returns the bytes after it.
    pub(super) fn decode<'a>(bytes: &'a [u8], bounds: &Bounds) -> Result<(Self, &'a [u8]), Fault> {
        let (head, rest) = Head::ref_from_prefix(bytes).map_err(|_| "an entry is cut off")?;
        let key =
            Key::from_padded(head.key, head.key_bytes).ok_or("an entry has an illegal key")?;
        let (value_bytes, count) = (head.value_bytes.get(), usize::from(head.extents.get()));
        if head.zeros != 0 {
            return Err("the padding of an entry is not zero");
        }
        let words = match (head.kind, count) {
            (EXTENTS, 1..=MAX_EXTENTS) => count,
            (CELL, 0) => 1,
            (EXTENTS | CELL, _) => return Err("an entry has an illegal number of extents"),
            _ => return Err("an entry has an unknown kind"),
        };
        let (packed, rest) = rest
            .split_at_checked(words * PACKED_BYTES)
            .ok_or("an entry is cut off in its locations")?;
        let place = if head.kind == EXTENTS {
            let extents = extents::decode(packed, count);
            let extents = extents.ok_or("an entry has illegal extents")?;
            bounds.check_extents(&extents, value_bytes)?;
            Place::Extents(extents)
        } else {
            let word = U64::read_from_bytes(packed).map_err(|_| "an entry is cut off")?;
            let cell = CellLocation::from_word(word.get());
            let cell = cell.ok_or("the location of a cell is illegal")?;
            bounds.check_cell(cell, value_bytes)?;
            Place::Cell(cell)
        };
        let entry = StoredEntry {
            key,
            value_bytes,
            check: head.check.into(),
            place,
        };
        Ok((entry, rest))
    }
}
