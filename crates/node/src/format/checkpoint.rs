//! Checkpoints: the header that makes one valid, and the space that one may need.

use std::mem::offset_of;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::block::{BLOCK_BYTES, Extent};
use crate::error::{Error, Result};
use crate::format::sum::{self, Place};
use crate::format::{MAX_SEQUENCE, is_zero};

mod content;
mod entry;

pub use content::{CheckpointReader, CheckpointWriter, Entries};
pub use entry::StoredEntry;

const HEADER_BYTES: usize = size_of::<HeaderBytes>();
const MAGIC: U32 = U32::from_bytes(*b"TNCp");

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct HeaderBytes {
    checksum: U64,
    magic: U32,
    zeros: U32,
    generation: U64,
    sequence: U64,
    journal_number: U64,
    journal_previous: U64,
    entries: U64,
    blocks: U64,
}

const _: () = assert!(HEADER_BYTES == 64);
const _: () = assert!(offset_of!(HeaderBytes, generation) == 16);
const _: () = assert!(offset_of!(HeaderBytes, journal_previous) == 40);

/// The bytes of entries that each block of a slot takes at least: it may leave a rest that is too
/// short for the longest entry.
const LEAST_USED_BYTES: u64 =
    (content::ENTRIES_BYTES + size_of::<U64>() - entry::MAX_ENTRY_BYTES) as u64;

/// Returns the bytes of entries, of any lengths, that a slot has room for.
pub(crate) const fn slot_bytes(blocks: u64) -> u64 {
    blocks.saturating_sub(1).saturating_mul(LEAST_USED_BYTES)
}

/// Returns the blocks of a slot for `max_keys` keys, header included. One key in eight may have one
/// more extent.
pub const fn slot_blocks(max_keys: u64) -> u64 {
    let extra_extents = (max_keys / 8).saturating_mul(size_of::<U64>() as u64);
    let entries = max_keys.saturating_mul(entry::ENTRY_BYTES as u64);
    1 + entries
        .saturating_add(extra_extents)
        .div_ceil(LEAST_USED_BYTES)
}

/// The header of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointHeader {
    /// Number of the checkpoint, never 0; the larger of two is the younger.
    pub generation: u64,
    /// The last sequence number that was given, or 0.
    pub sequence: u64,
    /// The journal block where replay begins.
    pub journal_number: u64,
    /// The checksum of the journal block before that.
    pub journal_previous: u64,
    /// The number of entries.
    pub entries: u64,
    /// The number of content blocks.
    pub blocks: u64,
}

impl CheckpointHeader {
    /// Writes the header to `block`, the first one of `slot`.
    ///
    /// # Panics
    /// If `block` does not have the length of a block.
    pub fn encode(&self, block: &mut [u8], secret: u64, slot: Extent) {
        let header = HeaderBytes {
            checksum: U64::ZERO,
            magic: MAGIC,
            zeros: U32::ZERO,
            generation: self.generation.into(),
            sequence: self.sequence.into(),
            journal_number: self.journal_number.into(),
            journal_previous: self.journal_previous.into(),
            entries: self.entries.into(),
            blocks: self.blocks.into(),
        };
        assert_eq!(block.len(), BLOCK_BYTES, "a header is one block");
        let (to_header, zeros) = block.split_at_mut(HEADER_BYTES);
        to_header.copy_from_slice(header.as_bytes());
        zeros.fill(0);
        sum::seal(block, |rest| header_sum(secret, slot, rest));
    }

    /// Reads the first block of `slot`; none if no checkpoint was completed there. A checkpoint beside
    /// stores may have more entries than the namespace may have keys.
    ///
    /// # Errors
    /// The header is whole, and its values are impossible.
    pub fn decode(block: &[u8], secret: u64, slot: Extent) -> Result<Option<CheckpointHeader>> {
        let block = block.get(..BLOCK_BYTES).unwrap_or_default();
        let is_whole = sum::checked(block, |rest| header_sum(secret, slot, rest)).is_some();
        let Ok((header, zeros)) = HeaderBytes::ref_from_prefix(block) else {
            return Ok(None);
        };
        if !is_whole || header.magic != MAGIC {
            return Ok(None);
        }
        let decoded = CheckpointHeader {
            generation: header.generation.into(),
            sequence: header.sequence.into(),
            journal_number: header.journal_number.into(),
            journal_previous: header.journal_previous.into(),
            entries: header.entries.into(),
            blocks: header.blocks.into(),
        };
        let fault = if header.zeros != 0 || !is_zero(zeros) {
            Some("the padding of a checkpoint's header is not zero")
        } else {
            decoded.fault(slot)
        };
        match fault {
            Some(what) => Err(Error::damaged(slot.offset(), what)),
            None => Ok(Some(decoded)),
        }
    }

    /// Returns the value of the header that is impossible, in words.
    fn fault(&self, slot: Extent) -> Option<&'static str> {
        let numbers = [self.generation, self.sequence, self.journal_number];
        if self.generation == 0 || numbers.iter().any(|&number| number > MAX_SEQUENCE) {
            return Some("a checkpoint has an illegal number");
        }
        if self.blocks >= slot.blocks {
            return Some("a checkpoint is larger than its slot");
        }
        let most = (content::ENTRIES_BYTES / entry::ENTRY_BYTES) as u64;
        if self.blocks > self.entries || self.entries > self.blocks.saturating_mul(most) {
            return Some("a checkpoint has another number of entries than its blocks can have");
        }
        None
    }
}

fn header_sum(secret: u64, slot: Extent, bytes: &[u8]) -> u64 {
    Place::CheckpointHeader { slot: slot.start }.sum(secret, bytes)
}

#[cfg(test)]
mod tests;
