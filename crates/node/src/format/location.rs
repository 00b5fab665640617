//! Cells: where the small values lie.

use std::fmt;

use crate::block::{BLOCK_BYTES, Extent, Extents};
use crate::format::MAX_DEVICE_BLOCKS;

/// Blocks of a segment.
pub const SEGMENT_BLOCKS: u64 = 16;
/// Bytes of a segment.
pub const SEGMENT_BYTES: usize = SEGMENT_BLOCKS as usize * BLOCK_BYTES;
/// The largest value that lies in a cell.
pub const INLINE_MAX: usize = 2048;
/// Cells begin at multiples of this.
pub const CELL_ALIGNMENT_BYTES: usize = 8;

/// Bits of the offset in a location.
const OFFSET_BITS: u32 = 16;

const _: () = assert!(SEGMENT_BYTES == 1 << OFFSET_BITS);

/// The place of a cell: its segment's first block, and its offset in the segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellLocation(u64);

impl CellLocation {
    /// Makes a location; none if the segment's first block or the offset are out of range, or if no
    /// cell may begin at the offset.
    pub fn new(segment: u64, offset: usize) -> Option<Self> {
        let is_offset =
            offset < SEGMENT_BYTES && offset.is_multiple_of(CELL_ALIGNMENT_BYTES) && offset > 0;
        let is_legal = is_offset && segment < MAX_DEVICE_BLOCKS;
        is_legal.then_some(CellLocation(segment << OFFSET_BITS | offset as u64))
    }

    /// Makes a location of the number that is stored for it.
    pub fn from_word(word: u64) -> Option<Self> {
        Self::new(word >> OFFSET_BITS, (word as u16).into())
    }

    /// Returns the number that is stored: first block << 16 | offset.
    pub fn word(self) -> u64 {
        self.0
    }

    /// Returns the number of the segment's first block.
    pub fn segment(self) -> u64 {
        self.0 >> OFFSET_BITS
    }

    /// Returns the offset of the cell in its segment, in bytes.
    pub fn offset(self) -> usize {
        usize::from(self.0 as u16)
    }

    /// Returns the blocks of the segment.
    pub fn segment_extent(self) -> Extent {
        Extent {
            start: self.segment(),
            blocks: SEGMENT_BLOCKS,
        }
    }

    /// Returns the place of the cell on the device, in bytes.
    pub fn device_offset(self) -> u64 {
        self.segment_extent().offset() + self.offset() as u64
    }
}

impl fmt::Debug for CellLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (segment, offset) = (self.segment(), self.offset());
        write!(f, "byte {offset} of the segment at block {segment}")
    }
}

/// The place of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Blocks of its own.
    Extents(Extents),
    /// A cell of a segment.
    Cell(CellLocation),
}

impl Place {
    /// Returns the first block of the value, or of its segment.
    pub fn first_block(&self) -> u64 {
        match self {
            Place::Extents(extents) => extents.first().start,
            Place::Cell(location) => location.segment(),
        }
    }

    /// Returns the place where the value or its cell begins, in bytes.
    pub fn device_offset(&self) -> u64 {
        match self {
            Place::Extents(extents) => extents.first().offset(),
            Place::Cell(location) => location.device_offset(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_one_number() {
        let location = CellLocation::new(0x12_3456_789a, 0xfff8).unwrap();
        assert_eq!(location.word(), 0x12_3456_789a_fff8);
        assert_eq!(CellLocation::from_word(location.word()), Some(location));
        assert_eq!(location.segment(), 0x12_3456_789a);
        assert_eq!(location.offset(), 0xfff8);
        assert_eq!(location.device_offset(), 0x12_3456_789a * 4096 + 0xfff8);
    }

    #[test]
    fn no_cell_begins_elsewhere() {
        for (segment, offset) in [(0, 0), (1, 65), (1, SEGMENT_BYTES), (1 << 40, 64)] {
            assert_eq!(CellLocation::new(segment, offset), None);
        }
        assert_eq!(CellLocation::from_word(u64::MAX), None);
        assert_eq!(CellLocation::from_word(0), None);
    }
}
