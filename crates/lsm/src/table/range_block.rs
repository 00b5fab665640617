//! The range tombstones of a table: one block, behind the filter, and its summary in the footer.
//!
//! A tombstone is an entry whose key is the range's start with a tag of kind range delete, and whose
//! value is the range's end. The entries share nothing with each other, as those of the index, so
//! that the decoded tombstones take no more keys than the block has bytes. They are read and checked
//! when the table is opened and stay in memory, as the filter does.
//!
//! Data blocks hold none of them. A merge cuts ranges at the ends of tables and slices and leaves
//! out hidden ones, and a second copy would have to follow.

use std::ops::RangeInclusive;

use super::block::Block;
use super::block_builder::BlockBuilder;
use super::format::{BlockHandle, Malformed};
use super::index_builder::INDEX_RESTART_INTERVAL;
use crate::Error;
use crate::coding::{Decoder, put_bytes, put_varint};
use crate::key::{InternalKey, Kind, MAX_KEY_BYTES, SequenceNumber, Tag};
use crate::range_tombstones::{RangeTombstone, RangeTombstones};

/// The footer's summary of the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSummary {
    pub(super) handle: BlockHandle,
    pub count: u64,
    /// The smallest start.
    pub start: Vec<u8>,
    /// The largest end.
    pub end: Vec<u8>,
}

impl RangeSummary {
    pub(super) fn encode_into(&self, out: &mut Vec<u8>) {
        self.handle.encode_into(out);
        put_varint(out, self.count);
        put_bytes(out, &self.start);
        put_bytes(out, &self.end);
    }

    /// Decodes a summary; `None` unless `bytes` is one and nothing else, of at least one range.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(bytes);
        let summary = RangeSummary {
            handle: BlockHandle {
                offset: decoder.varint()?,
                length_bytes: decoder.varint()?,
            },
            count: decoder.varint()?,
            start: decoder.bytes()?.to_vec(),
            end: decoder.bytes()?.to_vec(),
        };
        let is_range = summary.start < summary.end && summary.end.len() <= MAX_KEY_BYTES;
        (decoder.is_empty() && summary.count > 0 && is_range).then_some(summary)
    }
}

/// The tombstones of a table being written, in the order of the block.
pub(super) struct RangeBuilder {
    block: BlockBuilder,
    count: u64,
    start: Vec<u8>,
    end: Vec<u8>,
    pub(super) smallest_sequence: SequenceNumber,
    pub(super) largest_sequence: SequenceNumber,
}

impl Default for RangeBuilder {
    fn default() -> Self {
        RangeBuilder {
            block: BlockBuilder::new(INDEX_RESTART_INTERVAL),
            count: 0,
            start: Vec::new(),
            end: Vec::new(),
            smallest_sequence: SequenceNumber::MAX,
            largest_sequence: 0,
        }
    }
}

impl RangeBuilder {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn length_bytes(&self) -> usize {
        if self.is_empty() {
            0
        } else {
            self.block.length_bytes()
        }
    }

    /// Adds a tombstone that comes after the last one: by start, then from the newest.
    pub(super) fn add(
        &mut self,
        start: &[u8],
        end: &[u8],
        sequence: SequenceNumber,
    ) -> crate::Result<()> {
        let key = InternalKey {
            user_key: start,
            tag: Tag::new(sequence, Kind::RangeDelete),
        };
        let in_order = self.is_empty() || self.block.last_key() < key;
        if start >= end || end.len() > MAX_KEY_BYTES || !in_order {
            return Err(Error::invalid(format!(
                "a table cannot take {key:?} up to {}",
                end.escape_ascii()
            )));
        }
        if self.is_empty() {
            self.start = start.to_vec();
        }
        if end > self.end.as_slice() {
            self.end = end.to_vec();
        }
        self.smallest_sequence = self.smallest_sequence.min(sequence);
        self.largest_sequence = self.largest_sequence.max(sequence);
        self.count += 1;
        self.block.add(key, end);
        Ok(())
    }

    /// Hands the block to `write`; the summary, if there are any tombstones.
    pub(super) fn finish(
        &mut self,
        write: impl FnOnce(&[u8]) -> BlockHandle,
    ) -> Option<RangeSummary> {
        (!self.is_empty()).then(|| RangeSummary {
            handle: self.block.finish(write),
            count: self.count,
            start: std::mem::take(&mut self.start),
            end: std::mem::take(&mut self.end),
        })
    }
}

/// Decodes the tombstones in a block, which must be those of the summary, numbered within
/// `sequences`.
pub(super) fn decode(
    block: &Block,
    summary: &RangeSummary,
    sequences: RangeInclusive<SequenceNumber>,
) -> Result<RangeTombstones, Malformed> {
    let set = decode_any(block, sequences)?;
    let start = set.iter().map(|tombstone| tombstone.start).min();
    let end = set.iter().map(|tombstone| tombstone.end).max();
    let described = set.len() as u64 == summary.count
        && start == Some(&*summary.start)
        && end == Some(&*summary.end);
    if !described {
        let detail = "the footer says otherwise of the range tombstones";
        return Err(Malformed::new(0, detail));
    }
    Ok(set)
}

/// Decodes the tombstones in a block, numbered within `sequences`.
pub(super) fn decode_any(
    block: &Block,
    sequences: RangeInclusive<SequenceNumber>,
) -> Result<RangeTombstones, Malformed> {
    let mut list: Vec<RangeTombstone> = Vec::new();
    let mut last: Option<InternalKey<'_>> = None;
    for entry in block.whole_entries() {
        let (position, key, end) = entry?;
        let fault = |detail| Err(Malformed::new(position, detail));
        if !key.tag.kind().is_some_and(Kind::is_of_range) || key.user_key >= end {
            return fault("an entry is not a range tombstone");
        }
        if last.is_some_and(|last| last >= key) {
            return fault("range tombstones do not ascend");
        }
        if end.len() > MAX_KEY_BYTES || !sequences.contains(&key.sequence()) {
            return fault("a range tombstone is not one that the footer allows");
        }
        last = Some(key);
        list.push(RangeTombstone {
            start: key.user_key.to_vec(),
            end: end.to_vec(),
            sequence: key.sequence(),
        });
    }
    Ok(RangeTombstones::new(list))
}
