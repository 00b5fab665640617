//! Many blocks with one read, for cursors that walk a table in order.
//!
//! A block is read alone until the cursor has shown that it goes on: it asks for the block behind
//! the one before, twice where the page cache answers. Then each read takes in twice as much of what follows as the last, so that what
//! a short scan reads in vain stays below what it used. From the page cache a read of 64 KiB costs
//! less than six of 4 KiB; from a device the difference is larger.
//!
//! What was read ahead is bytes, not yet blocks: a block is checked when the cursor comes to it,
//! and only then, if at all, put into the cache.

use terrace_storage::Purpose;

use super::block::Block;
use super::format::{self, BlockHandle};
use super::index_block::IndexBlock;
use super::source::BlockSource;
use crate::Result;

/// So many blocks are read alone; fewer where each waits for the device, which takes about as long for
/// four.
const BLOCKS_ALONE: u32 = 2;
const BLOCKS_ALONE_DIRECT: u32 = 1;
/// The first read of more than a block, and the longest ones, in bytes.
const FIRST_WINDOW_BYTES: u64 = 16 << 10;
const LONGEST_SCAN_WINDOW_BYTES: u64 = 64 << 10;
/// A merge reads its inputs to the end.
const MERGE_WINDOW_BYTES: u64 = 256 << 10;

/// Where a cursor reads, and what it has read already. Memory is held only while it walks in order.
#[derive(Default)]
pub(super) struct ReadAhead {
    /// The end of the block asked for last.
    expected: u64,
    /// How many blocks were asked for in order before.
    run: u32,
    window_bytes: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl ReadAhead {
    /// The block at position `at` of a partition, which lies at `handle`.
    pub(super) fn block(
        &mut self,
        source: &BlockSource,
        partition: &IndexBlock,
        at: usize,
        handle: BlockHandle,
        purpose: Purpose,
    ) -> Result<Block> {
        self.follow(handle, purpose);
        if self.held(handle).is_none() {
            self.bytes.clear();
            let alone = if source.file.is_direct() {
                BLOCKS_ALONE_DIRECT
            } else {
                BLOCKS_ALONE
            };
            let end = self.window_end(partition, at, handle, alone);
            if end > handle.offset + handle.length_bytes {
                let length = (end - handle.offset) as usize;
                match source.file.read_vec_at(length, handle.offset, purpose) {
                    Ok(bytes) => (self.start, self.bytes) = (handle.offset, bytes),
                    // A merge needs every block, and its failures are to be seen.
                    Err(error) if purpose == Purpose::Compaction => return Err(error.into()),
                    // A user may stop before the fault: it is met again by who gets there.
                    Err(_) => {}
                }
            }
        }
        match self.held(handle) {
            Some(stored) => source.block_of(handle, stored.to_vec()),
            None => source.read_block(handle, purpose),
        }
    }

    /// Notes that a block was asked for, found in the cache or not.
    pub(super) fn follow(&mut self, handle: BlockHandle, purpose: Purpose) {
        let end = handle.offset + handle.length_bytes;
        if end == self.expected {
            return;
        }
        if format::follows(self.expected, handle.offset) {
            self.run = self.run.saturating_add(1);
        } else {
            (self.run, self.bytes) = (0, Vec::new());
        }
        self.expected = end;
        if self.run == 0 {
            self.window_bytes = match purpose {
                Purpose::Compaction => MERGE_WINDOW_BYTES,
                _ => FIRST_WINDOW_BYTES,
            };
        }
    }

    /// How far to read from a block on: to the end of the last whole block within the window. Doubles
    /// the next window.
    fn window_end(
        &mut self,
        partition: &IndexBlock,
        at: usize,
        handle: BlockHandle,
        alone: u32,
    ) -> u64 {
        let mut end = handle.offset + handle.length_bytes;
        if self.run < alone {
            return end;
        }
        let limit = handle.offset.saturating_add(self.window_bytes);
        self.window_bytes = (self.window_bytes * 2).clamp(
            FIRST_WINDOW_BYTES,
            LONGEST_SCAN_WINDOW_BYTES.max(self.window_bytes),
        );
        let following = (at + 1..).map_while(|at| partition.child(at));
        for next in following {
            let next_end = next.offset.saturating_add(next.length_bytes);
            if !format::follows(end, next.offset) || next_end > limit {
                break;
            }
            end = next_end;
        }
        end
    }

    /// The stored bytes of a block, if they have been read.
    fn held(&self, handle: BlockHandle) -> Option<&[u8]> {
        let start = usize::try_from(handle.offset.checked_sub(self.start)?).ok()?;
        let length = usize::try_from(handle.length_bytes).ok()?;
        self.bytes.get(start..start.checked_add(length)?)
    }
}
