//! A namespace of blocks: its part that all event loops share.

use super::Failure;
use super::poison::Poison;
use crate::block::BLOCK_BYTES;
use crate::block::Extent;
use crate::format::namespace::Description;
use crate::format::value::MAX_VALUE_BYTES;

/// The most blocks of one command: those of the largest value.
const MAX_BLOCKS: u32 = MAX_VALUE_BYTES / BLOCK_BYTES as u32;

pub(super) struct BlockNamespace {
    pub(super) description: Description,
    pub(super) poison: Poison,
}

impl BlockNamespace {
    pub(super) fn new(description: Description) -> Self {
        BlockNamespace {
            description,
            poison: Poison::default(),
        }
    }

    /// Returns the place of `blocks` blocks from `first` on, counted from the start of the namespace.
    pub(super) fn place(&self, first: u64, blocks: u32) -> Result<Extent, Failure> {
        let data = self.description.data;
        let is_inside = first
            .checked_add(blocks.into())
            .is_some_and(|end| end <= data.blocks);
        if blocks == 0 || blocks > MAX_BLOCKS || !is_inside {
            return Err(Failure::OutOfRange);
        }
        Ok(Extent {
            start: data.start + first,
            blocks: blocks.into(),
        })
    }
}
