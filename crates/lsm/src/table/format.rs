//! The frame of a table file: header, trailer, block handles, and the trailer of every block.
//!
//! docs/formats.md is the specification; the constants here are its numbers.

use terrace_region::{FRONT_BYTES, Front};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::coding::{Decoder, put_varint};

/// First and last eight bytes of every table.
pub(super) const MAGIC: [u8; 8] = *b"TerTable";
pub(super) const VERSION: u32 = 2;
/// The header is a front and nothing else.
pub(super) const HEADER: Front = Front {
    magic: MAGIC,
    version: VERSION,
};
pub(super) const HEADER_BYTES: usize = FRONT_BYTES;
pub(super) const TRAILER_BYTES: usize = 32;
/// The least that a device reads. A table that is read past the page cache has its blocks within
/// these, where that costs little.
pub(super) const PAGE_BYTES: u64 = 4096;
/// The most zeros between two data blocks.
const LONGEST_PADDING_BYTES: u64 = PAGE_BYTES / 16 - 1;
/// The largest value that a table takes.
pub const MAX_VALUE_BYTES: u64 = 1 << 30;
/// The largest size at which a block ends: it is longer by its last entry.
pub const MAX_BLOCK_BYTES: u64 = 16 << 20;
/// Compression type, uncompressed length, checksum.
pub(super) const BLOCK_TRAILER_BYTES: usize = 1 + 4 + 8;

/// The fault in bytes that were read, and its place in them; the reader adds the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) position: usize,
    pub(super) detail: &'static str,
}

impl Malformed {
    pub(super) fn new(position: usize, detail: &'static str) -> Self {
        Malformed { position, detail }
    }
}

/// Where a block lies in its file. The length counts the block's trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHandle {
    pub(crate) offset: u64,
    pub(crate) length_bytes: u64,
}

impl BlockHandle {
    pub(super) fn encode_into(&self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, self.length_bytes);
    }

    /// Decodes a handle; `None` unless `bytes` is one handle and nothing else.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(bytes);
        let offset = decoder.varint()?;
        let length_bytes = decoder.varint()?;
        decoder.is_empty().then_some(BlockHandle {
            offset,
            length_bytes,
        })
    }

    /// Returns the offset behind the block, or `None` if there is no such offset.
    pub(super) fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.length_bytes)
    }
}

/// Blocks in the order in which they lie, so that no index makes a file longer than it is.
#[derive(Default)]
pub(super) struct Ascending {
    end: u64,
}

impl Ascending {
    /// Takes the block if it lies behind all that were taken before it, and returns whether.
    pub(super) fn takes(&mut self, handle: BlockHandle) -> bool {
        let ascends = handle.offset >= self.end;
        if ascends {
            self.end = handle.offset.saturating_add(handle.length_bytes);
        }
        ascends
    }
}

/// Returns the number of zeros that may lie between a data block that ends at `end` and the next
/// one. They fill the page, if its rest is little.
pub(super) fn padding_behind(end: u64) -> u64 {
    let left = end.wrapping_neg() % PAGE_BYTES;
    if left <= LONGEST_PADDING_BYTES {
        left
    } else {
        0
    }
}

/// Returns whether a data block at `offset` may be the next one after that which ends at `end`.
pub(super) fn follows(end: u64, offset: u64) -> bool {
    let between = offset.checked_sub(end);
    between == Some(0) || between == Some(padding_behind(end))
}

/// Returns the last bytes of a table: where its footer is, under a checksum. It also covers the
/// place of the trailer itself, so that neither a longer nor a shorter file passes.
pub(super) fn encode_trailer(footer: BlockHandle, trailer_offset: u64) -> Vec<u8> {
    let mut trailer = Vec::with_capacity(TRAILER_BYTES);
    trailer.extend_from_slice(&footer.offset.to_le_bytes());
    trailer.extend_from_slice(&(footer.length_bytes as u32).to_le_bytes());
    trailer.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = xxh3_64_with_seed(&trailer, trailer_offset);
    trailer.extend_from_slice(&checksum.to_le_bytes());
    trailer.extend_from_slice(&MAGIC);
    trailer
}

/// Why the last bytes of a file are not the trailer of a table that this release reads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TrailerFault {
    Malformed(Malformed),
    /// The trailer is whole: another release wrote the table.
    UnknownVersion(u32),
}

/// Returns where the footer is. The version is believed only under the trailer's checksum.
pub(super) fn decode_trailer(
    trailer: &[u8; TRAILER_BYTES],
    trailer_offset: u64,
) -> Result<BlockHandle, TrailerFault> {
    let malformed = |position, detail| TrailerFault::Malformed(Malformed::new(position, detail));
    let parse = || {
        let mut decoder = Decoder::new(trailer);
        let covered = decoder.take(16)?;
        let checksum = decoder.u64()?;
        let magic = decoder.rest();
        let mut decoder = Decoder::new(covered);
        let footer = BlockHandle {
            offset: decoder.u64()?,
            length_bytes: u64::from(decoder.u32()?),
        };
        Some((covered, checksum, magic, footer, decoder.u32()?))
    };
    let (covered, checksum, magic, footer, version) =
        parse().ok_or(malformed(0, "the trailer is short"))?;
    if magic != MAGIC {
        return Err(malformed(24, "the file does not end as a table does"));
    }
    if checksum != xxh3_64_with_seed(covered, trailer_offset) {
        return Err(malformed(16, "the trailer's checksum does not match"));
    }
    if version != VERSION {
        return Err(TrailerFault::UnknownVersion(version));
    }
    if footer.end() != Some(trailer_offset) {
        return Err(malformed(0, "the footer does not end at the trailer"));
    }
    Ok(footer)
}
