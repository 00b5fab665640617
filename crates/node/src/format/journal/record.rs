//! Records of the journal: a store or a delete, and where the value is.

use std::mem::offset_of;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::block::Extents;
use crate::format::extents::{self, Bounds, Fault, PACKED_BYTES};
use crate::format::location::{CELL_ALIGNMENT_BYTES, CellLocation};
use crate::format::value::piece_checksum;
use crate::format::{is_sequence, is_zero};
use crate::key::{Key, MAX_KEY_BYTES};

const STORE: u8 = 1;
const STORE_INLINE: u8 = 2;
const STORE_CELL: u8 = 3;
const DELETE: u8 = 4;

const HEAD_BYTES: usize = size_of::<Head>();
const LOCATION_BYTES: usize = size_of::<U64>();

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    kind: u8,
    key_bytes: u8,
    extents: U16,
    value_bytes: U32,
    sequence: U64,
    checksum: U64,
    key: [u8; MAX_KEY_BYTES],
}

const _: () = assert!(size_of::<Head>() == 40);
const _: () = assert!(offset_of!(Head, value_bytes) == 4);
const _: () = assert!(offset_of!(Head, checksum) == 16);
const _: () = assert!(offset_of!(Head, key) == 24);

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The key.
    pub key: Key,
    /// The sequence number of the change.
    pub sequence: u64,
    /// Bytes of the value; 0 for a delete.
    pub value_bytes: u32,
    /// Checksum of the value; 0 for a delete.
    pub checksum: u64,
    /// The change.
    pub what: Change<'a>,
}

/// The effect of a record on its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The value lies in extents.
    Extents(Extents),
    /// The value is here; it is written to its home later.
    Inline {
        /// Where its cell will be.
        home: CellLocation,
        /// The value.
        value: &'a [u8],
    },
    /// The value lies in a cell.
    Cell(CellLocation),
    /// The key has no value.
    Delete,
}

impl<'a> Record<'a> {
    /// Returns the bytes of the record in a block.
    pub fn encoded_len(&self) -> usize {
        HEAD_BYTES
            + match &self.what {
                Change::Extents(extents) => extents.len() * PACKED_BYTES,
                Change::Inline { value, .. } => LOCATION_BYTES + padded(value.len()),
                Change::Cell(_) => LOCATION_BYTES,
                Change::Delete => 0,
            }
    }

    /// Appends the record to those of a block.
    pub(super) fn encode(&self, records: &mut Vec<u8>) {
        let (kind, extents) = match &self.what {
            Change::Extents(extents) => (STORE, extents.len()),
            Change::Inline { .. } => (STORE_INLINE, 0),
            Change::Cell(_) => (STORE_CELL, 0),
            Change::Delete => (DELETE, 0),
        };
        let head = Head {
            kind,
            key_bytes: self.key.len() as u8,
            extents: U16::new(extents as u16),
            value_bytes: self.value_bytes.into(),
            sequence: self.sequence.into(),
            checksum: self.checksum.into(),
            key: *self.key.padded(),
        };
        let start = records.len();
        records.extend_from_slice(head.as_bytes());
        match &self.what {
            Change::Extents(extents) => {
                let end = start + self.encoded_len();
                records.resize(end, 0);
                extents::encode(extents, &mut records[start + HEAD_BYTES..]);
            }
            Change::Inline { home, value } => {
                debug_assert_eq!(value.len(), self.value_bytes as usize);
                records.extend_from_slice(&home.word().to_le_bytes());
                records.extend_from_slice(value);
                records.resize(start + self.encoded_len(), 0);
            }
            Change::Cell(cell) => records.extend_from_slice(&cell.word().to_le_bytes()),
            Change::Delete => {}
        }
    }

    /// Takes the record at the start of `bytes`, and returns the bytes after it.
    pub(super) fn decode(
        bytes: &'a [u8],
        secret: u64,
        bounds: &Bounds,
    ) -> Result<(Self, &'a [u8]), Fault> {
        let (head, rest) = Head::ref_from_prefix(bytes).map_err(|_| "a record is cut off")?;
        let key = Key::from_padded(head.key, head.key_bytes);
        let mut record = Record {
            key: key.ok_or("a record has an illegal key")?,
            sequence: head.sequence.into(),
            value_bytes: head.value_bytes.into(),
            checksum: head.checksum.into(),
            what: Change::Delete,
        };
        if !is_sequence(record.sequence) {
            return Err("a record has an illegal sequence number");
        }
        if matches!(head.kind, STORE_INLINE | STORE_CELL | DELETE) && head.extents != 0 {
            return Err("a record without extents has a number of them");
        }
        let rest = match head.kind {
            STORE => record.take_extents(rest, head.extents.get().into(), bounds)?,
            STORE_INLINE => record.take_value(rest, secret, bounds)?,
            STORE_CELL => {
                let (cell, rest) = take_cell(rest, record.value_bytes, bounds)?;
                record.what = Change::Cell(cell);
                rest
            }
            DELETE if record.value_bytes == 0 && record.checksum == 0 => rest,
            DELETE => return Err("a delete has a value"),
            _ => return Err("a record has an unknown kind"),
        };
        Ok((record, rest))
    }

    fn take_extents(
        &mut self,
        bytes: &'a [u8],
        count: usize,
        bounds: &Bounds,
    ) -> Result<&'a [u8], Fault> {
        let (packed, rest) = bytes
            .split_at_checked(count * PACKED_BYTES)
            .ok_or("a record is cut off in its extents")?;
        let extents = extents::decode(packed, count).ok_or("a record has illegal extents")?;
        bounds.check_extents(&extents, self.value_bytes)?;
        self.what = Change::Extents(extents);
        Ok(rest)
    }

    fn take_value(
        &mut self,
        bytes: &'a [u8],
        secret: u64,
        bounds: &Bounds,
    ) -> Result<&'a [u8], Fault> {
        let (home, rest) = take_cell(bytes, self.value_bytes, bounds)?;
        let value_bytes = self.value_bytes as usize;
        let (value, rest) = rest
            .split_at_checked(padded(value_bytes))
            .ok_or("a record is cut off in its value")?;
        let (value, padding) = value.split_at(value_bytes);
        if !is_zero(padding) {
            return Err("the padding of a record is not zero");
        }
        if self.checksum != piece_checksum(secret, 0, value) {
            return Err("the value in a record does not match its checksum");
        }
        self.what = Change::Inline { home, value };
        Ok(rest)
    }
}

/// Takes the location of a cell for a value of `value_bytes`.
fn take_cell<'a>(
    bytes: &'a [u8],
    value_bytes: u32,
    bounds: &Bounds,
) -> Result<(CellLocation, &'a [u8]), Fault> {
    let (word, rest) = U64::read_from_prefix(bytes).map_err(|_| "a record is cut off")?;
    let cell = CellLocation::from_word(word.get()).ok_or("the location of a cell is illegal")?;
    bounds.check_cell(cell, value_bytes)?;
    Ok((cell, rest))
}

/// Returns the bytes of a value in a record, padding included.
fn padded(value_bytes: usize) -> usize {
    value_bytes.next_multiple_of(CELL_ALIGNMENT_BYTES)
}
