//! A block of entries: prefix-compressed, with restart points, searched without decoding it whole.
//!
//! An entry stores how much of its *user key* it shares with its predecessor's, then the rest of
//! the user key and the whole tag. The tag is never shared, so a search compares entry by entry
//! without rebuilding a single key, see [`Block::find`].
//!
//! At each restart point the whole user key is stored, so the restart points can be searched by
//! bisection. Offsets and counts are checked once, in [`Block::new`]. Entries are checked as they
//! are decoded, for a checksum proves only that the bytes are those that were written.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use super::format::Malformed;
pub(super) use crate::block_value::Block;
use crate::block_value::TableValue;
use crate::coding::Decoder;
use crate::debug_expect::DebugExpect;
use crate::key::{InternalKey, Tag};
use crate::key_prefixes::common_length;

const TAG_BYTES: usize = 8;
const RESTART_BYTES: usize = 4;

/// One entry where it lies in its block.
struct Entry<'a> {
    shared: usize,
    user_suffix: &'a [u8],
    tag: Tag,
    value: Range<usize>,
}

/// The entry that a search stopped at.
pub(super) struct Found {
    pub(super) tag: Tag,
    pub(super) same_user_key: bool,
    pub(super) value: Range<usize>,
}

impl Block {
    pub(super) fn new(contents: Vec<u8>) -> Result<Self, Malformed> {
        let end = contents.len();
        let parse = || {
            let (rest, count) = contents.split_last_chunk::<RESTART_BYTES>()?;
            let restart_count = u32::from_le_bytes(*count) as usize;
            let entries_end = rest
                .len()
                .checked_sub(restart_count.checked_mul(RESTART_BYTES)?)?;
            Some((entries_end, restart_count))
        };
        let (entries_end, restart_count) = parse().ok_or(Malformed::new(
            end,
            "the restart points do not fit the block",
        ))?;
        let block = Block {
            contents,
            entries_end,
            restart_count,
        };
        let mut expected = 0..1;
        for index in 0..restart_count {
            let restart = block.stored_restart(index);
            if !expected.contains(&restart) || restart >= entries_end {
                let position = entries_end + index * RESTART_BYTES;
                return Err(Malformed::new(position, "a restart point is out of place"));
            }
            expected = restart + 1..entries_end;
        }
        if restart_count == 0 {
            return Err(Malformed::new(0, "the block is empty"));
        }
        Ok(block)
    }

    /// Bytes of memory that the block takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.contents.capacity() + size_of::<Self>()
    }

    /// Returns the address in memory at which its contents begin.
    pub(super) fn address(&self) -> usize {
        self.contents.as_ptr().addr()
    }

    pub(super) fn contents_bytes(&self) -> usize {
        self.contents.len()
    }

    /// Returns the position of a restart point; the end of the entries for an index past the last.
    ///
    /// The first is the beginning. To look that up would be to touch the other end of the block.
    /// That costs a cache miss, and a block of large values has no other one.
    fn restart(&self, index: usize) -> usize {
        match index {
            0 => 0,
            _ => self.stored_restart(index),
        }
    }

    fn stored_restart(&self, index: usize) -> usize {
        let start = self.entries_end + index * RESTART_BYTES;
        match self.contents.get(start..start + RESTART_BYTES) {
            Some(&[a, b, c, d]) if index < self.restart_count => {
                u32::from_le_bytes([a, b, c, d]) as usize
            }
            _ => self.entries_end,
        }
    }

    #[inline]
    fn entry_at(&self, position: usize) -> Result<Entry<'_>, Malformed> {
        let parse = || {
            let mut decoder = Decoder::new(self.contents.get(position..self.entries_end)?);
            let shared = usize::try_from(decoder.varint()?).ok()?;
            let unshared = usize::try_from(decoder.varint()?).ok()?;
            let value_length = usize::try_from(decoder.varint()?).ok()?;
            let (user_suffix, tag) = decoder.take(unshared)?.split_last_chunk::<TAG_BYTES>()?;
            let value_start = self.entries_end - decoder.rest().len();
            decoder.take(value_length)?;
            Some(Entry {
                shared,
                user_suffix,
                tag: Tag(u64::from_le_bytes(*tag)),
                value: value_start..value_start + value_length,
            })
        };
        parse().ok_or(Malformed::new(position, "an entry does not fit the block"))
    }

    /// Returns every entry of a block in which none shares anything with its predecessor: its
    /// position, key and value. Index blocks are such, and those of range tombstones.
    pub(super) fn whole_entries(
        &self,
    ) -> impl Iterator<Item = Result<(usize, InternalKey<'_>, &[u8]), Malformed>> {
        let mut position = 0;
        std::iter::from_fn(move || {
            (position < self.entries_end).then(|| {
                let at = position;
                // After an error there is nothing to go on from.
                position = self.entries_end;
                let entry = self.entry_at(at)?;
                if entry.shared != 0 {
                    return Err(Malformed::new(at, "an entry of the index shares a prefix"));
                }
                position = entry.value.end;
                let key = InternalKey {
                    user_key: entry.user_suffix,
                    tag: entry.tag,
                };
                Ok((at, key, self.bytes(entry.value)))
            })
        })
    }

    /// Checks that every restart point is an entry that shares nothing. A search relies on it, but
    /// looks at no more restart points than it needs.
    pub(super) fn check_restarts(&self) -> Result<(), Malformed> {
        let mut index = 0;
        let mut position = 0;
        while position < self.entries_end {
            let entry = self.entry_at(position)?;
            if position == self.restart(index) {
                self.entry_at_restart(index)?;
                index += 1;
            }
            position = entry.value.end;
        }
        if index != self.restart_count {
            let position = self.entries_end + index * RESTART_BYTES;
            return Err(Malformed::new(position, NO_ENTRY));
        }
        Ok(())
    }

    /// Returns the entry at a restart point, which shares nothing.
    fn entry_at_restart(&self, index: usize) -> Result<Entry<'_>, Malformed> {
        let position = self.restart(index);
        let entry = self.entry_at(position)?;
        if entry.shared != 0 {
            return Err(Malformed::new(position, "a restart point shares a prefix"));
        }
        Ok(entry)
    }

    /// Returns the last restart point before `target`, or the first: the scan for `target` begins
    /// there.
    fn restart_before(&self, target: InternalKey<'_>) -> Result<usize, Malformed> {
        // Restart points below `low` are before the target, those from `high` on are not. Where the first
        // is makes no difference.
        let (mut low, mut high) = (1, self.restart_count);
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = self.entry_at_restart(middle)?;
            let key = InternalKey {
                user_key: entry.user_suffix,
                tag: entry.tag,
            };
            if key < target {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low.saturating_sub(1))
    }

    /// Returns the first entry at or after `target`.
    ///
    /// It rebuilds no key. While entries are before the target, one number is enough: the bytes of
    /// the user key that the last one had in common with it. An entry that shares more than that
    /// with its predecessor differs from the target where the predecessor did, so it is before the
    /// target too. Otherwise the bytes to compare are all in the entry.
    pub(super) fn find(&self, target: InternalKey<'_>) -> Result<Option<Found>, Malformed> {
        let mut position = self.restart(self.restart_before(target)?);
        let mut previous_length = 0;
        let mut matched = 0;
        while position < self.entries_end {
            let entry = self.entry_at(position)?;
            if entry.shared > previous_length {
                return Err(Malformed::new(position, SHARES_TOO_MUCH));
            }
            previous_length = entry.shared + entry.user_suffix.len();
            if entry.shared <= matched {
                let rest = target
                    .user_key
                    .get(entry.shared..)
                    .debug_expect("the target has what it matched");
                let common = common_length(entry.user_suffix, rest);
                matched = entry.shared + common;
                let order = match (entry.user_suffix.get(common), rest.get(common)) {
                    (None, None) => target.tag.cmp(&entry.tag),
                    (ours, theirs) => ours.cmp(&theirs),
                };
                if order != Ordering::Less {
                    return Ok(Some(Found {
                        tag: entry.tag,
                        same_user_key: common == entry.user_suffix.len() && common == rest.len(),
                        value: entry.value,
                    }));
                }
            }
            position = entry.value.end;
        }
        Ok(None)
    }
}

const SHARES_TOO_MUCH: &str = "an entry shares more than its predecessor has";
const DOES_NOT_ASCEND: &str = "keys do not ascend";
const NO_ENTRY: &str = "a restart point is not an entry";
/// Sorts before every key, with the empty user key.
const BEFORE_ALL: Tag = Tag(u64::MAX);

/// A position in a block, or none. Holds the block.
///
/// Keys ascend strictly from one position to the next, for any bytes: each entry is
/// compared with its predecessor as it is decoded.
#[derive(Debug)]
pub(super) struct BlockCursor {
    block: Arc<Block>,
    /// The restart point from which the entries up to this one were read.
    restart: usize,
    /// Of the entry under the cursor; the end of the entries if there is none.
    position: usize,
    user_key: Vec<u8>,
    tag: Tag,
    value: Range<usize>,
}

impl BlockCursor {
    pub(super) fn new(block: Arc<Block>) -> Self {
        let end = block.entries_end;
        BlockCursor {
            block,
            restart: 0,
            position: end,
            user_key: Vec::new(),
            tag: Tag(0),
            value: end..end,
        }
    }

    /// Puts the cursor on another block, at no entry; keeps its buffer.
    pub(super) fn reset(&mut self, block: Arc<Block>) {
        self.block = block;
        self.value = self.block.entries_end..self.block.entries_end;
        self.invalidate();
    }

    pub(super) fn invalidate(&mut self) {
        self.position = self.block.entries_end;
    }

    #[inline]
    pub(super) fn valid(&self) -> bool {
        self.position < self.block.entries_end
    }

    /// Returns the key under the cursor; that of the entry left last if there is none.
    #[inline]
    pub(super) fn key(&self) -> InternalKey<'_> {
        InternalKey {
            user_key: &self.user_key,
            tag: self.tag,
        }
    }

    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        self.block.bytes(self.value.clone())
    }

    pub(super) fn hold_value(&self, held: &mut Option<TableValue>) {
        TableValue::place(held, &self.block, self.value.clone());
    }

    /// Returns the position of the entry under the cursor within its block.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn seek_to_first(&mut self) -> Result<(), Malformed> {
        self.read_restart(0)
    }

    pub(super) fn seek_to_last(&mut self) -> Result<(), Malformed> {
        self.read_restart(self.block.restart_count.saturating_sub(1))?;
        self.read_up_to(self.block.entries_end)
    }

    /// Moves to the first entry at or after `target`.
    pub(super) fn seek(&mut self, target: InternalKey<'_>) -> Result<(), Malformed> {
        self.read_restart(self.block.restart_before(target)?)?;
        while self.valid() && self.key() < target {
            self.next()?;
        }
        // The restart point behind, if there is one, is not before the target.
        let behind = self.restart + 1;
        if behind < self.block.restart_count && self.position > self.block.restart(behind) {
            return Err(Malformed::new(self.position, NO_ENTRY));
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn next(&mut self) -> Result<(), Malformed> {
        match self.value.end {
            end if end < self.block.entries_end => self.read(end),
            _ => {
                self.invalidate();
                Ok(())
            }
        }
    }

    pub(super) fn prev(&mut self) -> Result<(), Malformed> {
        let current = self.position;
        if current == 0 {
            self.invalidate();
            return Ok(());
        }
        let (mut low, mut high) = (0, self.block.restart_count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.block.restart(middle) < current {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        // Entries behind a restart point were compared with their predecessors on the way here.
        let at_restart = self.block.restart(low) == current;
        let left = at_restart.then(|| (std::mem::take(&mut self.user_key), self.tag));
        // The way here may have led over restart points; only entries on it lead back.
        let before = low.saturating_sub(1);
        if self.restart < before {
            self.check_restarts_up_to(before)?;
        }
        self.read_restart(before)?;
        self.read_up_to(current)?;
        let left = left.as_ref().map(|(user_key, tag)| InternalKey {
            user_key,
            tag: *tag,
        });
        if left.is_some_and(|left| self.key() >= left) {
            return Err(Malformed::new(current, DOES_NOT_ASCEND));
        }
        Ok(())
    }

    /// Reads on from the entry under the cursor to the one that ends at `end`.
    fn read_up_to(&mut self, end: usize) -> Result<(), Malformed> {
        while self.value.end < end {
            self.read(self.value.end)?;
        }
        if self.value.end > end {
            return Err(Malformed::new(end, NO_ENTRY));
        }
        Ok(())
    }

    /// Checks that each restart point behind that of the cursor, up to `last`, is an entry.
    #[cold]
    fn check_restarts_up_to(&mut self, last: usize) -> Result<(), Malformed> {
        let from = self.restart;
        self.read_restart(from)?;
        (from + 1..=last).try_for_each(|index| self.read_up_to(self.block.restart(index)))
    }

    fn read_restart(&mut self, index: usize) -> Result<(), Malformed> {
        self.restart = index;
        self.user_key.clear();
        self.tag = BEFORE_ALL;
        self.read(self.block.restart(index))
    }

    #[inline(always)]
    fn read(&mut self, position: usize) -> Result<(), Malformed> {
        let entry = self.block.entry_at(position)?;
        // Mostly the first byte behind the common part decides the order.
        let order = match (self.user_key.get(entry.shared), entry.user_suffix.first()) {
            (Some(theirs), Some(ours)) if theirs < ours => Ok(()),
            _ => self.check_order(entry.shared, entry.user_suffix, entry.tag, position),
        };
        order?;
        self.user_key.truncate(entry.shared);
        self.user_key.extend_from_slice(entry.user_suffix);
        self.tag = entry.tag;
        self.value = entry.value;
        self.position = position;
        Ok(())
    }

    /// Checks that an entry's key is behind the one under the cursor, its predecessor's. Apart, so that
    /// a step stays short.
    #[inline(never)]
    fn check_order(
        &self,
        shared: usize,
        user_suffix: &[u8],
        tag: Tag,
        position: usize,
    ) -> Result<(), Malformed> {
        let Some(replaced) = self.user_key.get(shared..) else {
            return Err(Malformed::new(position, SHARES_TOO_MUCH));
        };
        let is_behind = match replaced.cmp(user_suffix) {
            Ordering::Equal => self.tag > tag,
            order => order == Ordering::Less,
        };
        if !is_behind {
            return Err(Malformed::new(position, DOES_NOT_ASCEND));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
