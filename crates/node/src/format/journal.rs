//! Blocks of the journal: a chain, each of them written once.

use std::mem::offset_of;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::block::BLOCK_BYTES;
use crate::error::{Error, Result};
use crate::format::extents::Bounds;
use crate::format::is_zero;
use crate::format::sum::{self, Place};

mod record;

pub use record::{Change, Record};

/// Bytes for the records of a block.
pub const RECORDS_BYTES: usize = BLOCK_BYTES - HEADER_BYTES;

const HEADER_BYTES: usize = size_of::<Header>();
const MAGIC: U32 = U32::from_bytes(*b"TNJr");

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    checksum: U64,
    magic: U32,
    used: U16,
    count: U16,
    number: U64,
    previous: U64,
    durable: U64,
}

const _: () = assert!(size_of::<Header>() == 40);
const _: () = assert!(offset_of!(Header, used) == 12);
const _: () = assert!(offset_of!(Header, number) == 16);
const _: () = assert!(offset_of!(Header, durable) == 32);

/// A journal block that is being filled.
#[derive(Debug)]
pub struct BlockBuilder {
    secret: u64,
    number: u64,
    previous: u64,
    durable: u64,
    count: u16,
    /// The records, at most [`RECORDS_BYTES`].
    records: Vec<u8>,
}

impl BlockBuilder {
    /// Begins the block `number` behind one with the checksum `previous`. All blocks below `durable`
    /// are durable, and so are the values of their records.
    pub fn new(secret: u64, number: u64, previous: u64, durable: u64) -> Self {
        debug_assert!(durable <= number);
        BlockBuilder {
            secret,
            number,
            previous,
            durable,
            count: 0,
            records: Vec::with_capacity(RECORDS_BYTES),
        }
    }

    /// Returns the number of records.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Returns the bytes that are left for records.
    pub fn remaining(&self) -> usize {
        RECORDS_BYTES - self.records.len()
    }

    /// Adds a record; false if it does not fit.
    pub fn push(&mut self, record: &Record<'_>) -> bool {
        if record.encoded_len() > self.remaining() {
            return false;
        }
        record.encode(&mut self.records);
        self.count += 1;
        true
    }

    /// Writes the block and returns its checksum.
    ///
    /// # Panics
    /// If `block` does not have the length of a block.
    pub fn finish(self, block: &mut [u8]) -> u64 {
        let header = Header {
            checksum: U64::ZERO,
            magic: MAGIC,
            used: U16::new(self.records.len() as u16),
            count: self.count.into(),
            number: self.number.into(),
            previous: self.previous.into(),
            durable: self.durable.into(),
        };
        assert_eq!(block.len(), BLOCK_BYTES, "a journal block is one block");
        let (to_header, to_records) = block.split_at_mut(HEADER_BYTES);
        to_header.copy_from_slice(header.as_bytes());
        let (to_records, zeros) = to_records.split_at_mut(self.records.len());
        to_records.copy_from_slice(&self.records);
        zeros.fill(0);
        let number = self.number;
        sum::seal(block, |rest| {
            Place::Journal { number }.sum(self.secret, rest)
        })
    }
}

/// A journal block that was read: its checksum and its number are right.
#[derive(Clone, Copy, Debug)]
pub struct JournalBlock<'a> {
    /// The number.
    pub number: u64,
    /// The checksum of the block before it.
    pub previous: u64,
    /// All blocks below this one, and the values of their records, were durable.
    pub durable: u64,
    /// The checksum of this block.
    pub checksum: u64,
    /// The number of records.
    pub count: usize,
    secret: u64,
    records: &'a [u8],
    /// Place of the first record on the device.
    offset: u64,
}

/// Reads the block `number`, which lies at byte `offset` of the device; none if that block is not
/// there. The caller checks by `previous` whether it continues the chain.
///
/// # Errors
/// The block is whole, and its header contradicts itself.
pub fn read_block(
    block: &[u8],
    secret: u64,
    number: u64,
    offset: u64,
) -> Result<Option<JournalBlock<'_>>> {
    let Some(block) = block.get(..BLOCK_BYTES) else {
        return Ok(None);
    };
    let checksum = sum::checked(block, |rest| Place::Journal { number }.sum(secret, rest));
    let (Some(checksum), Ok((header, records))) = (checksum, Header::ref_from_prefix(block)) else {
        return Ok(None);
    };
    if header.magic != MAGIC || header.number != number {
        return Ok(None);
    }
    let (used, zeros) = records
        .split_at_checked(header.used.get().into())
        .ok_or_else(|| Error::damaged(offset, "a journal block says that it is larger"))?;
    if header.durable.get() > number {
        return Err(Error::damaged(
            offset,
            "a journal block has a flush mark above its number",
        ));
    }
    if !is_zero(zeros) {
        return Err(Error::damaged(
            offset,
            "a journal block has bytes behind its records",
        ));
    }
    Ok(Some(JournalBlock {
        number,
        previous: header.previous.into(),
        durable: header.durable.into(),
        checksum,
        count: header.count.get().into(),
        secret,
        records: used,
        offset: offset.saturating_add(HEADER_BYTES as u64),
    }))
}

/// Reads a block under the number that it says itself; none if it is not whole.
pub fn read_any_block(block: &[u8], secret: u64) -> Option<JournalBlock<'_>> {
    let (header, _) = Header::ref_from_prefix(block).ok()?;
    read_block(block, secret, header.number.get(), 0).ok()?
}

impl<'a> JournalBlock<'a> {
    /// Returns the records, checked. Behind an error there is none.
    pub fn records(&self, bounds: &Bounds) -> Records<'a> {
        Records {
            rest: self.records,
            left: self.count,
            secret: self.secret,
            offset: self.offset,
            bounds: *bounds,
        }
    }
}

/// The records of a journal block.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    left: usize,
    secret: u64,
    offset: u64,
    bounds: Bounds,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 && self.rest.is_empty() {
            return None;
        }
        let decoded = match self.left.checked_sub(1) {
            None => Err("a journal block has more bytes than its records"),
            Some(left) => {
                self.left = left;
                Record::decode(self.rest, self.secret, &self.bounds)
            }
        };
        Some(match decoded {
            Ok((record, rest)) => {
                self.offset += (self.rest.len() - rest.len()) as u64;
                self.rest = rest;
                Ok(record)
            }
            Err(what) => {
                (self.rest, self.left) = (&[], 0);
                Err(Error::damaged(self.offset, what))
            }
        })
    }
}

#[cfg(test)]
mod tests;
