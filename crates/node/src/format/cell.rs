//! Segments, and the cells in them: small values, each with its key.

use std::mem::offset_of;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::block::{BLOCK_BYTES, Buffer, Extent, blocks_of};
use crate::error::{Error, Result};
use crate::format::location::{
    CELL_ALIGNMENT_BYTES, CellLocation, INLINE_MAX, SEGMENT_BLOCKS, SEGMENT_BYTES,
};
use crate::format::sum::{self, Place};
use crate::format::{MAX_SEQUENCE, is_sequence, is_zero};
use crate::key::{Key, MAX_KEY_BYTES};

/// Bytes of a segment before its first cell.
pub const SEGMENT_HEADER_BYTES: usize = size_of::<SegmentHeader>();
/// Bytes of a cell before its value.
pub const CELL_HEAD_BYTES: usize = size_of::<CellHead>();

const MAGIC: U32 = U32::from_bytes(*b"TNSg");
const KIND: u8 = 1;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct SegmentHeader {
    checksum: U64,
    magic: U32,
    zeros: [u8; 4],
    sequence: U64,
    more_zeros: [u8; 40],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CellHead {
    checksum: U64,
    value_bytes: U32,
    key_bytes: u8,
    kind: u8,
    zeros: U16,
    sequence: U64,
    key: [u8; MAX_KEY_BYTES],
}

const _: () = assert!(size_of::<SegmentHeader>() == 64);
const _: () = assert!(offset_of!(SegmentHeader, sequence) == 16);
const _: () = assert!(size_of::<CellHead>() == 40);
const _: () = assert!(offset_of!(CellHead, kind) == 13);
const _: () = assert!(offset_of!(CellHead, sequence) == 16);
const _: () = assert!(offset_of!(CellHead, key) == 24);
const _: () = assert!(SEGMENT_HEADER_BYTES.is_multiple_of(CELL_ALIGNMENT_BYTES));

/// A small value and its key, as a segment holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    /// Where it lies.
    pub location: CellLocation,
    /// The key.
    pub key: Key,
    /// The sequence number of the store.
    pub sequence: u64,
    /// The value.
    pub value: &'a [u8],
}

/// Returns the bytes of a cell with a value of up to 2,048 bytes.
pub const fn cell_bytes(value_bytes: usize) -> usize {
    CELL_HEAD_BYTES + value_bytes.next_multiple_of(CELL_ALIGNMENT_BYTES)
}

/// Returns where a cell ends in its segment; none if no such cell can begin at `offset`.
pub(super) fn cell_end(offset: usize, value_bytes: usize) -> Option<usize> {
    let is_legal = offset >= SEGMENT_HEADER_BYTES && value_bytes <= INLINE_MAX;
    is_legal.then(|| offset + cell_bytes(value_bytes))
}

/// Returns the blocks that hold a cell, and the offset of its value in them.
pub fn cell_blocks(location: CellLocation, value_bytes: u32) -> (Extent, usize) {
    let first = location.offset() / BLOCK_BYTES;
    let at = location.offset() % BLOCK_BYTES;
    let extent = Extent {
        start: location.segment() + first as u64,
        blocks: blocks_of((at + cell_bytes(value_bytes as usize)) as u64),
    };
    (extent, at + CELL_HEAD_BYTES)
}

/// Reads the cell at `location` out of the blocks that [`cell_blocks`] names.
///
/// # Errors
/// There is no such cell, or it is damaged.
pub fn read_cell(blocks: &[u8], secret: u64, location: CellLocation) -> Result<Cell<'_>> {
    let bytes = blocks.get(location.offset() % BLOCK_BYTES..);
    let room = SEGMENT_BYTES - location.offset();
    let cell = decode_cell(bytes.unwrap_or_default(), secret, location);
    let cell = cell.filter(|cell| cell_bytes(cell.value.len()) <= room);
    cell.ok_or_else(|| Error::damaged(location.device_offset(), "a cell is damaged"))
}

/// Returns the cell at the start of `bytes` if it is whole.
fn decode_cell(bytes: &[u8], secret: u64, location: CellLocation) -> Option<Cell<'_>> {
    let (head, rest) = CellHead::ref_from_prefix(bytes).ok()?;
    let value_bytes = head.value_bytes.get() as usize;
    if head.kind != KIND || head.zeros != 0 || value_bytes > INLINE_MAX {
        return None;
    }
    let whole = bytes.get(..cell_bytes(value_bytes))?;
    let place = Place::Cell {
        location: location.word(),
    };
    sum::checked(whole, |covered| place.sum(secret, covered))?;
    let key = Key::from_padded(head.key, head.key_bytes)?;
    let sequence = head.sequence.get();
    let padding = whole.get(CELL_HEAD_BYTES + value_bytes..)?;
    let is_legal = is_sequence(sequence) && is_zero(padding);
    let value = rest.get(..value_bytes)?;
    is_legal.then_some(Cell {
        location,
        key,
        sequence,
        value,
    })
}

/// Writes a segment's header to its start.
fn encode_header(segment: &mut [u8], secret: u64, start: u64, sequence: u64) {
    let header = SegmentHeader {
        checksum: U64::ZERO,
        magic: MAGIC,
        zeros: [0; 4],
        sequence: sequence.into(),
        more_zeros: [0; 40],
    };
    let bytes = &mut segment[..SEGMENT_HEADER_BYTES];
    bytes.copy_from_slice(header.as_bytes());
    sum::seal(bytes, |covered| {
        Place::Segment { start }.sum(secret, covered)
    });
}

/// Writes a cell to `bytes`, which have its length.
fn encode_cell(
    bytes: &mut [u8],
    secret: u64,
    location: CellLocation,
    key: &Key,
    sequence: u64,
    value: &[u8],
) {
    let head = CellHead {
        checksum: U64::ZERO,
        value_bytes: U32::new(value.len() as u32),
        key_bytes: key.len() as u8,
        kind: KIND,
        zeros: U16::ZERO,
        sequence: sequence.into(),
        key: *key.padded(),
    };
    let (to_head, to_value) = bytes.split_at_mut(CELL_HEAD_BYTES);
    to_head.copy_from_slice(head.as_bytes());
    to_value.fill(0);
    to_value[..value.len()].copy_from_slice(value);
    let place = Place::Cell {
        location: location.word(),
    };
    sum::seal(bytes, |covered| place.sum(secret, covered));
}

/// A segment that is being filled.
#[derive(Debug)]
pub struct SegmentBuilder {
    secret: u64,
    start: u64,
    buffer: Buffer,
    used: usize,
}

impl SegmentBuilder {
    /// Begins the segment whose first block is `start`.
    pub fn new(secret: u64, start: u64, sequence: u64) -> Self {
        let mut buffer = Buffer::zeroed(SEGMENT_BLOCKS as usize);
        encode_header(&mut buffer, secret, start, sequence);
        SegmentBuilder {
            secret,
            start,
            buffer,
            used: SEGMENT_HEADER_BYTES,
        }
    }

    /// Adds a cell and returns its place; none if the value is too long for the rest of the segment.
    pub fn push(&mut self, key: &Key, sequence: u64, value: &[u8]) -> Option<CellLocation> {
        let end = cell_end(self.used, value.len())?;
        let location = CellLocation::new(self.start, self.used)?;
        let bytes = self.buffer.get_mut(self.used..end)?;
        encode_cell(bytes, self.secret, location, key, sequence, value);
        self.used = end;
        Some(location)
    }

    /// Returns the number of the segment's first block.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the 64 KiB of the segment, as far as it is filled; zeros behind that.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Returns the bytes that are filled.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Returns the bytes that are left for cells.
    pub fn remaining(&self) -> usize {
        SEGMENT_BYTES - self.used
    }

    /// Returns the segment's memory, to be written.
    pub fn into_buffer(self) -> Buffer {
        self.buffer
    }
}

/// A segment that was read, whose missing cells are put back.
#[derive(Debug)]
pub struct SegmentImage {
    secret: u64,
    start: u64,
    buffer: Buffer,
    is_changed: bool,
}

impl SegmentImage {
    /// Takes any bytes of the segment that begins at `start`.
    ///
    /// # Panics
    /// If `buffer` does not have the length of a segment.
    pub fn new(buffer: Buffer, secret: u64, start: u64) -> Self {
        assert_eq!(buffer.len(), SEGMENT_BYTES, "an image is one segment");
        SegmentImage {
            secret,
            start,
            buffer,
            is_changed: false,
        }
    }

    /// Puts a cell at its place, if it is not there. The location was checked: the cell lies within
    /// the segment.
    pub fn put(&mut self, location: CellLocation, key: &Key, sequence: u64, value: &[u8]) {
        debug_assert_eq!(location.segment(), self.start);
        let first = location.offset() / BLOCK_BYTES * BLOCK_BYTES;
        let is_there = read_cell(&self.buffer[first..], self.secret, location)
            .is_ok_and(|cell| cell.key == *key && cell.value == value);
        let end = cell_end(location.offset(), value.len());
        let Some(bytes) = end.and_then(|end| self.buffer.get_mut(location.offset()..end)) else {
            debug_assert!(false, "a cell lies within its segment");
            return;
        };
        if !is_there {
            encode_cell(bytes, self.secret, location, key, sequence, value);
            self.is_changed = true;
        }
    }

    /// Returns the blocks of the segment.
    pub fn extent(&self) -> Extent {
        Extent {
            start: self.start,
            blocks: SEGMENT_BLOCKS,
        }
    }

    /// Returns the bytes, if they are to be written. Then the segment's header is whole, too.
    pub fn changed(mut self, sequence: u64) -> Option<Buffer> {
        if !self.is_changed {
            return None;
        }
        encode_header(&mut self.buffer, self.secret, self.start, sequence);
        Some(self.buffer)
    }
}

/// A segment that was read: its header is whole.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Sequence number when the segment was begun.
    pub sequence: u64,
    bytes: &'a [u8],
    secret: u64,
    start: u64,
}

impl<'a> Segment<'a> {
    /// Reads the header of the segment whose first block is `start`; none if there is no segment.
    pub fn read(bytes: &'a [u8], secret: u64, start: u64) -> Option<Self> {
        let bytes = bytes.get(..SEGMENT_BYTES)?;
        let (header, _) = SegmentHeader::ref_from_prefix(bytes).ok()?;
        let covered = bytes.get(..SEGMENT_HEADER_BYTES)?;
        sum::checked(covered, |rest| Place::Segment { start }.sum(secret, rest))?;
        let is_legal = header.magic == MAGIC
            && is_zero(&header.zeros)
            && is_zero(&header.more_zeros)
            && header.sequence.get() <= MAX_SEQUENCE;
        is_legal.then_some(Segment {
            sequence: header.sequence.get(),
            bytes,
            secret,
            start,
        })
    }

    /// Returns the cells.
    pub fn cells(&self) -> Cells<'a> {
        cells(self.bytes, self.secret, self.start)
    }
}

/// Returns the cells of a segment, even with a damaged header. In place of damaged cells there is
/// one error; the cells behind them follow. A recovery puts back live cells only, so zeros may lie
/// between cells: they are skipped.
pub fn cells(segment: &[u8], secret: u64, start: u64) -> Cells<'_> {
    Cells {
        bytes: segment.get(..SEGMENT_BYTES).unwrap_or(segment),
        secret,
        start,
        at: SEGMENT_HEADER_BYTES,
        is_lost: false,
    }
}

/// The cells of a segment, in order.
#[derive(Clone, Debug)]
pub struct Cells<'a> {
    bytes: &'a [u8],
    secret: u64,
    start: u64,
    at: usize,
    /// Damage was met, and no cell since then.
    is_lost: bool,
}

impl<'a> Iterator for Cells<'a> {
    type Item = Result<Cell<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.bytes.get(self.at..)?;
            // A cell begins with its checksum, which is zero by a chance in 2^64 only.
            let first = rest.get(..CELL_ALIGNMENT_BYTES)?;
            if is_zero(first) {
                self.at += CELL_ALIGNMENT_BYTES;
                continue;
            }
            let location = CellLocation::new(self.start, self.at)?;
            if let Some(cell) = decode_cell(rest, self.secret, location) {
                self.at += cell_bytes(cell.value.len());
                self.is_lost = false;
                return Some(Ok(cell));
            }
            self.at += CELL_ALIGNMENT_BYTES;
            if !self.is_lost {
                self.is_lost = true;
                let offset = location.device_offset();
                return Some(Err(Error::damaged(offset, "a cell is damaged")));
            }
        }
    }
}

#[cfg(test)]
mod tests;
