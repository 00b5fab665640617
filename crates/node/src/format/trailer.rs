//! The trailer of a value in extents: it names key and place, and ends with the value's last block.

use std::mem::offset_of;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::block::Extents;
use crate::block::{BLOCK_BYTES, Extent};
use crate::error::{Error, Result};
use crate::format::extents::{self, Bounds, Fault, MAX_EXTENTS, PACKED_BYTES};
use crate::format::sum::Place;
use crate::format::value::{blocks_needed, pieces, trailer_bytes, value_checksum};
use crate::format::{is_sequence, is_zero};
use crate::key::{Key, MAX_KEY_BYTES};

/// Bytes of the tail, with which a trailer ends.
pub const TAIL_BYTES: usize = size_of::<TailBytes>();

const MAGIC: U32 = U32::from_bytes(*b"TNTr");
const KIND: u8 = 1;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct TailBytes {
    checksum: U64,
    magic: U32,
    kind: u8,
    key_bytes: u8,
    extents: U16,
    value_bytes: U32,
    pieces: U32,
    sequence: U64,
    key: [u8; MAX_KEY_BYTES],
    value_checksum: U64,
    zeros: [u8; 8],
}

const _: () = assert!(size_of::<TailBytes>() == 64);
const _: () = assert!(offset_of!(TailBytes, magic) == 8);
const _: () = assert!(offset_of!(TailBytes, extents) == 14);
const _: () = assert!(offset_of!(TailBytes, sequence) == 24);
const _: () = assert!(offset_of!(TailBytes, key) == 32);
const _: () = assert!(offset_of!(TailBytes, value_checksum) == 48);
// The scan finds all extents in the block that the tail is in.
const _: () = assert!(MAX_EXTENTS * PACKED_BYTES + TAIL_BYTES <= BLOCK_BYTES);

/// The trailer behind a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// The key.
    pub key: Key,
    /// The sequence number of the store.
    pub sequence: u64,
    /// Bytes of the value.
    pub value_bytes: u32,
    /// Checksum of the value.
    pub value_checksum: u64,
    /// Checksums of the pieces, as many as the value has.
    pub pieces: Vec<u64>,
    /// Where the value lies.
    pub extents: Extents,
}

/// A place that may be the end of a value: its trailer is plausible, but not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Bytes of the value.
    pub value_bytes: u32,
    /// Bytes of the trailer, from its beginning to the end of the last block.
    pub trailer_bytes: usize,
    /// Where the value lies; the trailer's blocks are the last of these.
    pub extents: Extents,
}

impl Trailer {
    /// Writes the trailer to the end of `tail`, which ends with the value's last block, and returns
    /// its length. The zeros between value and trailer are the caller's.
    ///
    /// # Panics
    /// If `tail` is shorter than the trailer.
    pub fn encode_into(&self, tail: &mut [u8], secret: u64, last_block: u64) -> usize {
        debug_assert_eq!(self.pieces.len(), pieces(self.value_bytes));
        let length = trailer_bytes(self.value_bytes, self.extents.len());
        let start = tail.len() - length;
        let (arrays, tail) = tail[start..].split_at_mut(length - TAIL_BYTES);
        let (sums, extents) = arrays.split_at_mut(self.pieces.len() * size_of::<u64>());
        for (to, piece) in sums.chunks_exact_mut(size_of::<u64>()).zip(&self.pieces) {
            to.copy_from_slice(&piece.to_le_bytes());
        }
        extents::encode(&self.extents, extents);
        let mut head = TailBytes {
            checksum: U64::ZERO,
            magic: MAGIC,
            kind: KIND,
            key_bytes: self.key.len() as u8,
            extents: U16::new(self.extents.len() as u16),
            value_bytes: self.value_bytes.into(),
            pieces: U32::new(self.pieces.len() as u32),
            sequence: self.sequence.into(),
            key: *self.key.padded(),
            value_checksum: self.value_checksum.into(),
            zeros: [0; 8],
        };
        head.checksum = sum(arrays, &head, secret, last_block).into();
        tail.copy_from_slice(head.as_bytes());
        length
    }

    /// Reads the trailer at the end of `tail`: whole blocks, the last of them the value's last one,
    /// and as many as a [`Candidate`] says.
    ///
    /// # Errors
    /// The trailer is damaged, or there is none.
    pub fn decode(tail: &[u8], secret: u64, last_block: u64, bounds: &Bounds) -> Result<Trailer> {
        let fault = |what| damaged(last_block, what);
        let candidate = plausible(tail, last_block, bounds).map_err(fault)?;
        let (value_bytes, length) = (candidate.value_bytes, candidate.trailer_bytes);
        let start = tail.len().checked_sub(length);
        let trailer = start.and_then(|start| tail.get(start..));
        let (arrays, head) = trailer
            .and_then(|bytes| TailBytes::ref_from_suffix(bytes).ok())
            .ok_or_else(|| fault("there are too few bytes for a value's trailer"))?;
        if head.checksum != sum(arrays, head, secret, last_block) {
            return Err(fault("the checksum of a value's trailer is wrong"));
        }
        let key = Key::from_padded(head.key, head.key_bytes);
        let key = key.ok_or_else(|| fault("the key of a value's trailer is illegal"))?;
        if !is_sequence(head.sequence.get()) {
            return Err(fault("the sequence number of a value's trailer is illegal"));
        }
        let (words, _) = arrays.as_chunks::<{ size_of::<u64>() }>();
        let sums = words.iter().take(pieces(value_bytes));
        let sums: Vec<u64> = sums.map(|word| u64::from_le_bytes(*word)).collect();
        if head.value_checksum != value_checksum(secret, &sums) {
            return Err(fault("the checksum of a value is not that of its pieces"));
        }
        Ok(Trailer {
            key,
            sequence: head.sequence.into(),
            value_bytes,
            value_checksum: head.value_checksum.into(),
            pieces: sums,
            extents: candidate.extents,
        })
    }
}

/// Returns the value that the block `last_block` says ends with it; none if none does.
/// [`Trailer::decode`] checks it once the trailer's blocks are at hand.
pub fn tail_of(block: &[u8], last_block: u64, bounds: &Bounds) -> Option<Candidate> {
    plausible(block, last_block, bounds).ok()
}

/// Checks all of a tail that needs no checksum. `bytes` end with the tail's block.
fn plausible(
    bytes: &[u8],
    last_block: u64,
    bounds: &Bounds,
) -> std::result::Result<Candidate, Fault> {
    let (before, head) =
        TailBytes::ref_from_suffix(bytes).map_err(|_| "there are too few bytes for a tail")?;
    if head.magic != MAGIC || head.kind != KIND || !is_zero(&head.zeros) {
        return Err("no value ends here");
    }
    let (value_bytes, count) = (head.value_bytes.get(), usize::from(head.extents.get()));
    if value_bytes > bounds.max_value_bytes || head.pieces != pieces(value_bytes) as u32 {
        return Err("the length of a value is illegal");
    }
    let extents = match count {
        0 => None,
        1 => single_extent(value_bytes, last_block).map(Extents::from),
        several => before
            .len()
            .checked_sub(several * PACKED_BYTES)
            .and_then(|start| before.get(start..))
            .and_then(|packed| extents::decode(packed, several)),
    };
    let extents = extents.ok_or("the extents of a value are illegal")?;
    bounds.check_extents(&extents, value_bytes)?;
    if extents.last().end() - 1 != last_block {
        return Err("the last extent of a value does not end here");
    }
    Ok(Candidate {
        value_bytes,
        trailer_bytes: trailer_bytes(value_bytes, count),
        extents,
    })
}

/// Returns the only extent of a value, which is not stored.
fn single_extent(value_bytes: u32, last_block: u64) -> Option<Extent> {
    let blocks = blocks_needed(value_bytes, 1);
    let start = last_block.checked_add(1)?.checked_sub(blocks)?;
    Some(Extent { start, blocks })
}

/// Returns the checksum of the arrays and of the tail behind its own checksum.
fn sum(arrays: &[u8], head: &TailBytes, secret: u64, last_block: u64) -> u64 {
    let covered = &head.as_bytes()[offset_of!(TailBytes, magic)..];
    Place::Trailer { last_block }.sum(secret, &[arrays, covered].concat())
}

/// Returns an error at the tail of the value that ends with `last_block`.
fn damaged(last_block: u64, what: &'static str) -> Error {
    let end = last_block
        .saturating_add(1)
        .saturating_mul(BLOCK_BYTES as u64);
    Error::damaged(end - TAIL_BYTES as u64, what)
}

#[cfg(test)]
mod tests;
