//! The content blocks of a checkpoint, written and read one after another.

use std::mem::offset_of;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{CheckpointHeader, StoredEntry};
use crate::block::{BLOCK_BYTES, Extent};
use crate::error::{Error, Result};
use crate::format::extents::Bounds;
use crate::format::is_zero;
use crate::format::sum::{self, Place};

/// Bytes for the entries of a block.
pub(super) const ENTRIES_BYTES: usize = BLOCK_BYTES - CONTENT_BYTES;

const CONTENT_BYTES: usize = size_of::<Content>();

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Content {
    checksum: U64,
    used: U16,
    count: U16,
    zeros: U32,
}

const _: () = assert!(CONTENT_BYTES == 16);
const _: () = assert!(offset_of!(Content, used) == 8);
const _: () = assert!(offset_of!(Content, zeros) == 12);

/// Writes the content of a checkpoint, block by block.
#[derive(Debug)]
pub struct CheckpointWriter {
    secret: u64,
    generation: u64,
    /// Entries of the blocks that are finished.
    entries: u64,
    /// Blocks that are finished.
    blocks: u64,
    count: u16,
    /// The entries of the block that is being filled.
    bytes: Vec<u8>,
}

impl CheckpointWriter {
    /// Begins the checkpoint of this generation.
    pub fn new(secret: u64, generation: u64) -> Self {
        CheckpointWriter {
            secret,
            generation,
            entries: 0,
            blocks: 0,
            count: 0,
            bytes: Vec::with_capacity(ENTRIES_BYTES),
        }
    }

    /// Adds an entry to the present block; false if it does not fit, and the block has to be finished.
    pub fn push(&mut self, entry: &StoredEntry) -> bool {
        if self.bytes.len() + entry.encoded_len() > ENTRIES_BYTES {
            return false;
        }
        entry.encode(&mut self.bytes);
        self.count += 1;
        true
    }

    /// Returns whether the present block has no entry. An empty block is not written.
    pub fn is_block_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of blocks that are finished: the index of the present one.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Writes the present block to `block`, and begins the next.
    ///
    /// # Panics
    /// If `block` does not have the length of a block.
    pub fn finish_block(&mut self, block: &mut [u8]) {
        debug_assert!(!self.is_block_empty());
        let header = Content {
            checksum: U64::ZERO,
            used: U16::new(self.bytes.len() as u16),
            count: self.count.into(),
            zeros: U32::ZERO,
        };
        assert_eq!(block.len(), BLOCK_BYTES, "a content block is one block");
        let (to_header, to_entries) = block.split_at_mut(CONTENT_BYTES);
        to_header.copy_from_slice(header.as_bytes());
        let (to_entries, zeros) = to_entries.split_at_mut(self.bytes.len());
        to_entries.copy_from_slice(&self.bytes);
        zeros.fill(0);
        let place = Place::CheckpointContent {
            generation: self.generation,
            index: self.blocks,
        };
        sum::seal(block, |rest| place.sum(self.secret, rest));
        self.entries += u64::from(self.count);
        self.blocks += 1;
        self.count = 0;
        self.bytes.clear();
    }

    /// Returns the header for the finished blocks.
    pub fn header(
        &self,
        sequence: u64,
        journal_number: u64,
        journal_previous: u64,
    ) -> CheckpointHeader {
        debug_assert!(self.is_block_empty());
        CheckpointHeader {
            generation: self.generation,
            sequence,
            journal_number,
            journal_previous,
            entries: self.entries,
            blocks: self.blocks,
        }
    }
}

/// Reads the content of a checkpoint, block by block.
#[derive(Debug)]
pub struct CheckpointReader {
    header: CheckpointHeader,
    secret: u64,
    slot: Extent,
    bounds: Bounds,
    /// Index of the next block.
    index: u64,
    /// Entries of the blocks to come.
    left: u64,
}

impl CheckpointReader {
    /// Begins with the first content block of `slot`, whose header was decoded.
    pub fn new(header: &CheckpointHeader, secret: u64, slot: Extent, bounds: Bounds) -> Self {
        CheckpointReader {
            header: *header,
            secret,
            slot,
            bounds,
            index: 0,
            left: header.entries,
        }
    }

    /// Returns the number of blocks that are still to be read.
    pub fn blocks_left(&self) -> u64 {
        self.header.blocks - self.index
    }

    /// Takes the next content block and returns its entries.
    ///
    /// # Errors
    /// The block is damaged, or there is no next one.
    pub fn read<'a>(&mut self, block: &'a [u8]) -> Result<Entries<'a>> {
        let blocks_before = self.slot.start.saturating_add(1).saturating_add(self.index);
        let offset = blocks_before.saturating_mul(BLOCK_BYTES as u64);
        let damaged = |what| Error::damaged(offset, what);
        let place = Place::CheckpointContent {
            generation: self.header.generation,
            index: self.index,
        };
        let block = block.get(..BLOCK_BYTES).unwrap_or_default();
        let is_whole = sum::checked(block, |rest| place.sum(self.secret, rest)).is_some();
        let content = Content::ref_from_prefix(block).ok();
        let (content, entries) = content
            .filter(|_| is_whole && self.index < self.header.blocks)
            .ok_or_else(|| damaged("a content block of the checkpoint is damaged"))?;
        let (used, zeros) = entries
            .split_at_checked(content.used.get().into())
            .ok_or_else(|| damaged("a content block says that it is larger"))?;
        if content.zeros != 0 || !is_zero(zeros) {
            return Err(damaged("a content block has bytes behind its entries"));
        }
        let count = content.count.get();
        let is_last = self.index + 1 == self.header.blocks;
        let left = self.left.checked_sub(count.into());
        let left = left.filter(|&left| count > 0 && is_last == (left == 0));
        self.left = left.ok_or_else(|| damaged("a checkpoint has another number of entries"))?;
        self.index += 1;
        Ok(Entries {
            rest: used,
            left: count,
            offset: offset.saturating_add(CONTENT_BYTES as u64),
            bounds: self.bounds,
        })
    }
}

/// The entries of a content block, checked. Behind an error there is none.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
    left: u16,
    offset: u64,
    bounds: Bounds,
}

impl Iterator for Entries<'_> {
    type Item = Result<StoredEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 && self.rest.is_empty() {
            return None;
        }
        let decoded = match self.left.checked_sub(1) {
            None => Err("a content block has more bytes than its entries"),
            Some(left) => {
                self.left = left;
                StoredEntry::decode(self.rest, &self.bounds)
            }
        };
        Some(match decoded {
            Ok((entry, rest)) => {
                self.offset += (self.rest.len() - rest.len()) as u64;
                self.rest = rest;
                Ok(entry)
            }
            Err(what) => {
                (self.rest, self.left) = (&[], 0);
                Err(Error::damaged(self.offset, what))
            }
        })
    }
}
