//! Blocks, extents, and memory that a device can be read into.

use std::fmt;
use std::ops::{Deref, DerefMut};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The unit of space: a device is read and written in whole blocks.
pub const BLOCK_BYTES: usize = 4096;

/// Returns the number of blocks that hold `bytes`.
pub const fn blocks_of(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES as u64)
}

/// Blocks of a device that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// Number of the first block, counted from the start of the device.
    pub start: u64,
    /// Number of blocks; never 0.
    pub blocks: u64,
}

impl Extent {
    /// Returns the number of the first block behind the extent.
    pub const fn end(self) -> u64 {
        self.start + self.blocks
    }

    /// Returns the place of the first byte on the device.
    pub const fn offset(self) -> u64 {
        self.start * BLOCK_BYTES as u64
    }

    /// Returns the size in bytes.
    pub const fn bytes(self) -> u64 {
        self.blocks * BLOCK_BYTES as u64
    }

    /// Returns true if the two have a block in common.
    pub const fn overlaps(self, other: Extent) -> bool {
        self.start < other.end() && other.start < self.end()
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blocks {} to {}", self.start, self.end() - 1)
    }
}

/// The most extents that one value may lie in.
pub const MAX_EXTENTS: usize = 64;

/// The extents of one value, in the order of its bytes: 1 to 64 of them. One needs no allocation.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Extents(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    One(Extent),
    Several(Box<[Extent]>),
}

impl Extents {
    /// Makes the list of one extent.
    pub const fn one(extent: Extent) -> Self {
        Extents(Repr::One(extent))
    }

    /// Makes a list; none if there are no extents or more than 64 of them.
    pub fn new(extents: &[Extent]) -> Option<Self> {
        match extents {
            [extent] => Some(Extents::one(*extent)),
            several if (1..=MAX_EXTENTS).contains(&several.len()) => {
                Some(Extents(Repr::Several(several.into())))
            }
            _ => None,
        }
    }

    /// Returns the extents.
    pub fn as_slice(&self) -> &[Extent] {
        match &self.0 {
            Repr::One(extent) => std::slice::from_ref(extent),
            Repr::Several(extents) => extents,
        }
    }

    /// Iterates over the extents.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Extent> + '_ {
        self.as_slice().iter().copied()
    }

    /// Returns the number of blocks of all extents.
    pub fn blocks(&self) -> u64 {
        self.iter().map(|extent| extent.blocks).sum()
    }

    /// Returns the first extent.
    pub fn first(&self) -> Extent {
        match &self.0 {
            Repr::One(extent) => *extent,
            Repr::Several(extents) => extents[0],
        }
    }

    /// Returns the last extent.
    pub fn last(&self) -> Extent {
        match &self.0 {
            Repr::One(extent) => *extent,
            Repr::Several(extents) => extents[extents.len() - 1],
        }
    }

    /// Divides the list: one of `blocks` blocks, and the rest.
    ///
    /// # Panics
    /// If the list has fewer blocks, or `blocks` is 0.
    pub fn split(&self, blocks: u64) -> (Extents, Option<Extents>) {
        let (mut kept, mut rest, mut left) = (Vec::new(), Vec::new(), blocks);
        for extent in self.iter() {
            let taken = left.min(extent.blocks);
            left -= taken;
            let (start, blocks) = (extent.start, taken);
            if taken > 0 {
                kept.push(Extent { start, blocks });
            }
            if taken < extent.blocks {
                rest.push(Extent {
                    start: start + taken,
                    blocks: extent.blocks - taken,
                });
            }
        }
        assert_eq!(left, 0, "the list has the blocks that are kept");
        let kept = Extents::new(&kept).expect("at least one block is kept");
        (kept, Extents::new(&rest))
    }

    /// Returns the number of extents.
    #[expect(clippy::len_without_is_empty, reason = "a list is never empty")]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }
}

impl From<Extent> for Extents {
    fn from(extent: Extent) -> Self {
        Extents::one(extent)
    }
}

impl fmt::Debug for Extents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One block, aligned as direct I/O needs it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK_BYTES]);

/// Memory of whole blocks, aligned for direct I/O. Its owner may read and write it; a request to a
/// device takes it away until the request has completed.
#[derive(Default)]
pub struct Buffer {
    blocks: Vec<Block>,
}

impl Buffer {
    /// Makes a zeroed buffer.
    pub fn zeroed(blocks: usize) -> Self {
        Buffer {
            blocks: vec![Block([0; BLOCK_BYTES]); blocks],
        }
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.blocks.as_slice().as_bytes()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.blocks.as_mut_slice().as_mut_bytes()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer of {} blocks", self.blocks.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_and_zeroed() {
        let mut buffer = Buffer::zeroed(3);
        assert_eq!(buffer.len(), 3 * BLOCK_BYTES);
        assert_eq!(buffer.as_ptr().align_offset(BLOCK_BYTES), 0);
        assert!(buffer.iter().all(|&byte| byte == 0));
        buffer[BLOCK_BYTES] = 7;
        assert_eq!(buffer[BLOCK_BYTES], 7);
    }

    #[test]
    fn extents_overlap_if_they_share_a_block() {
        let extent = |start, blocks| Extent { start, blocks };
        assert!(extent(2, 3).overlaps(extent(4, 1)));
        assert!(!extent(2, 3).overlaps(extent(5, 1)));
        assert_eq!(extent(2, 3).to_string(), "blocks 2 to 4");
    }

    #[test]
    fn a_list_has_one_to_sixty_four_extents() {
        let extents: Vec<_> = (0..65)
            .map(|number| Extent {
                start: 10 * number,
                blocks: 2,
            })
            .collect();
        assert!(Extents::new(&[]).is_none());
        assert!(Extents::new(&extents).is_none());
        let list = Extents::new(&extents[..64]).unwrap();
        assert_eq!(
            (list.len(), list.blocks(), list.first()),
            (64, 128, extents[0])
        );
        assert!(list.iter().eq(extents[..64].iter().copied()));
        assert_eq!(
            Extents::new(&extents[..1]).unwrap(),
            Extents::one(extents[0])
        );
    }
}
