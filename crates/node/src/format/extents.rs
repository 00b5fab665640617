//! The extents of a value: a list that is short, packed on the device, and checked against the data.

use zerocopy::little_endian::U64;

pub use crate::block::MAX_EXTENTS;
use crate::block::{Extent, Extents};
use crate::format::MAX_DEVICE_BLOCKS;
use crate::format::cell::cell_end;
use crate::format::location::{CellLocation, INLINE_MAX, SEGMENT_BYTES};
use crate::format::value::blocks_needed;

/// Bytes of a packed extent.
pub const PACKED_BYTES: usize = size_of::<U64>();

/// Bits of the number of blocks in a packed extent.
const BLOCKS_BITS: u32 = 24;
const BLOCKS_MASK: u64 = (1 << BLOCKS_BITS) - 1;

/// Packs an extent of up to 2^24 - 1 blocks.
pub fn pack(extent: Extent) -> u64 {
    debug_assert!(0 < extent.blocks && extent.blocks <= BLOCKS_MASK);
    debug_assert!(extent.start < MAX_DEVICE_BLOCKS);
    extent.start << BLOCKS_BITS | extent.blocks
}

/// Unpacks an extent; none if it has no block, or ends behind the largest device.
pub fn unpack(word: u64) -> Option<Extent> {
    let (start, blocks) = (word >> BLOCKS_BITS, word & BLOCKS_MASK);
    let extent = Extent { start, blocks };
    (blocks > 0 && extent.end() <= MAX_DEVICE_BLOCKS).then_some(extent)
}

/// Unpacks `count` extents from exactly `bytes`.
pub(super) fn decode(bytes: &[u8], count: usize) -> Option<Extents> {
    let (words, rest) = bytes.as_chunks::<PACKED_BYTES>();
    if words.len() != count || !rest.is_empty() || count > MAX_EXTENTS {
        return None;
    }
    let mut unpacked = words.iter().map(|word| unpack(u64::from_le_bytes(*word)));
    if count == 1 {
        return unpacked.next()?.map(Extents::one);
    }
    let extents: Option<Vec<Extent>> = unpacked.collect();
    Extents::new(&extents?)
}

/// Writes packed extents at the start of `bytes`.
pub(super) fn encode(extents: &Extents, bytes: &mut [u8]) {
    for (to, extent) in bytes.chunks_exact_mut(PACKED_BYTES).zip(extents.iter()) {
        to.copy_from_slice(&pack(extent).to_le_bytes());
    }
}

/// The limits of a namespace that locations of values must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The blocks where values may lie.
    pub data: Extent,
    /// The largest value.
    pub max_value_bytes: u32,
}

/// The fault of a location, in words.
pub(super) type Fault = &'static str;

impl Bounds {
    /// Checks a value of `value_bytes` in `extents`: they are in the data, do not overlap, and have
    /// as many blocks as the value needs.
    pub(super) fn check_extents(&self, extents: &Extents, value_bytes: u32) -> Result<(), Fault> {
        self.check_length(value_bytes)?;
        if value_bytes as usize <= INLINE_MAX {
            return Err("a value that belongs in a cell lies in extents");
        }
        let mut blocks = 0;
        for (index, extent) in extents.iter().enumerate() {
            if extent.start < self.data.start || extent.end() > self.data.end() {
                return Err("an extent is outside of the data");
            }
            if extents
                .iter()
                .take(index)
                .any(|other| other.overlaps(extent))
            {
                return Err("extents of a value overlap");
            }
            blocks += extent.blocks;
        }
        if blocks != blocks_needed(value_bytes, extents.len()) {
            return Err("the extents do not have the blocks that the value needs");
        }
        Ok(())
    }

    /// Checks a value of `value_bytes` in a cell: the segment is in the data, the cell in the segment.
    pub(super) fn check_cell(&self, cell: CellLocation, value_bytes: u32) -> Result<(), Fault> {
        self.check_length(value_bytes)?;
        if value_bytes as usize > INLINE_MAX {
            return Err("a value that belongs in extents lies in a cell");
        }
        let segment = cell.segment_extent();
        if segment.start < self.data.start || segment.end() > self.data.end() {
            return Err("a segment is outside of the data");
        }
        let end = cell_end(cell.offset(), value_bytes as usize);
        if end.is_none_or(|end| end > SEGMENT_BYTES) {
            return Err("a cell does not lie within its segment");
        }
        Ok(())
    }

    fn check_length(&self, value_bytes: u32) -> Result<(), Fault> {
        if value_bytes > self.max_value_bytes {
            return Err("a value is larger than the namespace allows");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        data: Extent {
            start: 100,
            blocks: 100,
        },
        max_value_bytes: 1 << 20,
    };

    fn extent(start: u64, blocks: u64) -> Extent {
        Extent { start, blocks }
    }

    #[test]
    fn extents_are_packed_in_one_word() {
        assert_eq!(
            pack(extent(0x12_3456_789a, 0xbc_def0)),
            0x1234_5678_9abc_def0
        );
        assert_eq!(
            unpack(0x1234_5678_9abc_def0),
            Some(extent(0x12_3456_789a, 0xbc_def0))
        );
        assert_eq!(unpack(5 << 24), None);
        assert_eq!(unpack(u64::MAX), None);
    }

    #[test]
    fn a_packed_list_has_one_to_64_extents() {
        for count in [1, 2, 64] {
            let list = Extents::new(&vec![extent(7, 9); count]).unwrap();
            let mut bytes = vec![0; count * 8];
            encode(&list, &mut bytes);
            assert_eq!(decode(&bytes, count), Some(list));
            assert_eq!(decode(&bytes, count + 1), None);
        }
        assert_eq!(decode(&[], 0), None);
        assert_eq!(decode(&[0xff; 65 * 8], 65), None);
    }

    #[test]
    fn extents_are_checked_against_the_data() {
        let check = |extents: &[Extent], value_bytes| {
            BOUNDS.check_extents(&Extents::new(extents).unwrap(), value_bytes)
        };
        let fault = |extents: &[Extent], value_bytes| check(extents, value_bytes).unwrap_err();
        assert_eq!(check(&[extent(100, 100)], 409_000), Ok(()));
        assert_eq!(check(&[extent(199, 1), extent(100, 1)], 5000), Ok(()));
        assert!(fault(&[extent(99, 2)], 5000).contains("outside"));
        assert!(fault(&[extent(199, 2)], 5000).contains("outside"));
        assert!(fault(&[extent(150, 1), extent(150, 1)], 5000).contains("overlap"));
        assert!(fault(&[extent(150, 3)], 5000).contains("needs"));
        assert!(fault(&[extent(150, 1)], 4096 - 64).contains("needs"));
        assert!(fault(&[extent(150, 1)], 2048).contains("cell"));
        assert!(fault(&[extent(150, 1)], (1 << 20) + 1).contains("larger"));
    }

    #[test]
    fn cells_are_checked_against_the_data() {
        let check = |segment, offset, value_bytes| {
            BOUNDS.check_cell(CellLocation::new(segment, offset).unwrap(), value_bytes)
        };
        assert_eq!(check(184, 65_536 - 40 - 2048, 2048), Ok(()));
        assert_eq!(check(100, 64, 0), Ok(()));
        assert!(check(99, 64, 0).unwrap_err().contains("outside"));
        assert!(check(185, 64, 0).unwrap_err().contains("outside"));
        assert!(check(100, 56, 0).unwrap_err().contains("within"));
        assert!(
            check(100, 65_536 - 40 - 2048, 2049)
                .unwrap_err()
                .contains("extents")
        );
        assert!(check(100, 65_536 - 40, 1).unwrap_err().contains("within"));
    }
}
