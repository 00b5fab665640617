//! Many blocks with one read, for cursors that walk a table in order.
//!
//! A block is read alone until the cursor has shown that it goes on: it asks for the block behind
//! the one before, twice. Then each read takes in twice as many of the bytes that follow as the
//! last. So the bytes that a short scan reads in vain stay below those it used. From the page cache
//! a read of 64 KiB costs less than six of 4 KiB.
//!
//! From a device it costs as much as two (122 us and 54). There a cursor need not first show that
//! it goes on. Its first read takes in somewhat more than cursors of this table went on for lately.
//! Behind that windows begin small again and double. A cursor that walks backwards has nothing read
//! ahead.
//!
//! Bytes that were read ahead are not yet blocks. A block is checked when the cursor comes to it,
//! and only then, if at all, put into the cache.

use std::sync::atomic::{AtomicU32, Ordering};

use terrace_storage::Purpose;

use super::block::Block;
use super::block_bounds::Contents;
use super::format::{self, BlockHandle};
use super::index_block::IndexBlock;
use super::source::BlockSource;
use crate::Result;

/// Number of blocks that are read alone where the page cache answers.
const BLOCKS_ALONE: u32 = 2;
/// The first read of more than a block, and the longest ones, in bytes.
const FIRST_WINDOW_BYTES: u64 = 16 << 10;
const LONGEST_SCAN_WINDOW_BYTES: u64 = 64 << 10;
/// A merge reads its inputs to the end.
const MERGE_WINDOW_BYTES: u64 = 256 << 10;

/// How far cursors of a table go on from where they were put: a mean that forgets, by an eighth with
/// each.
#[derive(Debug, Default)]
pub(super) struct Runs {
    usual_bytes: AtomicU32,
}

impl Runs {
    /// Returns half as much again as the mean. If all lengths up to some limit are alike, the reads
    /// of a run then take 150 us altogether. With the mean they take 167, with half of it 188.
    fn first_window_bytes(&self) -> u64 {
        let usual_bytes = u64::from(self.usual_bytes.load(Ordering::Relaxed));
        (usual_bytes + usual_bytes / 2).min(LONGEST_SCAN_WINDOW_BYTES)
    }

    /// Threads that are here at the same time may forget one another's.
    fn learn(&self, run_bytes: u64) {
        let run_bytes = run_bytes.min(LONGEST_SCAN_WINDOW_BYTES) as u32;
        let usual_bytes = self.usual_bytes.load(Ordering::Relaxed);
        let usual_bytes = usual_bytes - usual_bytes / 8 + run_bytes / 8;
        self.usual_bytes.store(usual_bytes, Ordering::Relaxed);
    }
}

/// How a cursor came to a block.
#[derive(Clone, Copy)]
pub(super) struct Walk {
    /// By a seek or from the block before it.
    pub(super) onwards: bool,
    pub(super) purpose: Purpose,
}

/// The place where a cursor reads, with the bytes read already. Memory is held until the cursor
/// goes elsewhere.
#[derive(Default)]
pub(super) struct ReadAhead {
    /// The beginning of the block that the run began with, and the end of the one asked for last.
    began: u64,
    expected: u64,
    /// Whether the run shows how far cursors go.
    is_learned_from: bool,
    /// How many blocks were asked for in order before.
    run: u32,
    window_bytes: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl ReadAhead {
    /// Returns the block at position `at` of a partition, which lies at `handle`.
    pub(super) fn block(
        &mut self,
        source: &BlockSource,
        partition: &IndexBlock,
        at: usize,
        handle: BlockHandle,
        walk: Walk,
    ) -> Result<Block> {
        let purpose = walk.purpose;
        self.follow(source, handle, walk);
        if self.held(handle).is_none() {
            self.bytes.clear();
            let window_bytes = self.next_window_bytes(source, walk);
            let end = window_end(partition, at, handle, window_bytes);
            if end > handle.offset + handle.length_bytes {
                let length = (end - handle.offset) as usize;
                match source.read_bytes(length, handle.offset, purpose) {
                    Ok(bytes) => (self.start, self.bytes) = (handle.offset, bytes),
                    // A merge needs every block, and its failures are to be seen.
                    Err(error) if purpose == Purpose::Compaction => return Err(error.into()),
                    // A user may stop before the fault: a reader that gets there meets it again.
                    Err(_) => {}
                }
            }
        }
        match self.held(handle) {
            Some(stored) => source.block_of(handle, stored.to_vec()),
            None => source.read_block(handle, Contents::Data, purpose),
        }
    }

    /// Notes that a block was asked for, found in the cache or not.
    pub(super) fn follow(&mut self, source: &BlockSource, handle: BlockHandle, walk: Walk) {
        let end = handle.offset + handle.length_bytes;
        if end == self.expected {
            return;
        }
        if format::follows(self.expected, handle.offset) {
            self.run = self.run.saturating_add(1);
        } else {
            self.end_run(source);
        }
        self.expected = end;
        if self.run == 0 {
            self.began = handle.offset;
            self.is_learned_from = walk.onwards && walk.purpose != Purpose::Compaction;
            self.window_bytes = match walk.purpose {
                Purpose::Compaction => MERGE_WINDOW_BYTES,
                _ => FIRST_WINDOW_BYTES,
            };
        }
    }

    /// Returns the bytes that the next read takes in; 0 for the block alone.
    fn next_window_bytes(&mut self, source: &BlockSource, walk: Walk) -> u64 {
        let is_direct = source.file.is_direct() && walk.purpose != Purpose::Compaction;
        match self.run {
            _ if !walk.onwards => return 0,
            0 if is_direct => return source.runs.first_window_bytes(),
            run if run < BLOCKS_ALONE && !is_direct => return 0,
            _ => {}
        }
        let window_bytes = self.window_bytes;
        self.window_bytes = (window_bytes * 2).clamp(
            FIRST_WINDOW_BYTES,
            LONGEST_SCAN_WINDOW_BYTES.max(window_bytes),
        );
        window_bytes
    }

    /// Ends the run: the cursor goes elsewhere, or away.
    pub(super) fn end_run(&mut self, source: &BlockSource) {
        if self.is_learned_from && source.file.is_direct() {
            source.runs.learn(self.expected - self.began);
        }
        *self = ReadAhead::default();
    }

    /// Returns the stored bytes of a block, if they have been read.
    fn held(&self, handle: BlockHandle) -> Option<&[u8]> {
        let start = usize::try_from(handle.offset.checked_sub(self.start)?).ok()?;
        let length = usize::try_from(handle.length_bytes).ok()?;
        self.bytes.get(start..start.checked_add(length)?)
    }
}

/// Returns how far to read from a block on: to the end of the last whole block within the window.
/// It is at least the end of this block.
fn window_end(partition: &IndexBlock, at: usize, handle: BlockHandle, window_bytes: u64) -> u64 {
    let mut end = handle.offset + handle.length_bytes;
    let limit = handle.offset.saturating_add(window_bytes);
    for next in (at + 1..).map_while(|at| partition.child(at)) {
        let next_end = next.offset.saturating_add(next.length_bytes);
        if !format::follows(end, next.offset) || next_end > limit {
            break;
        }
        end = next_end;
    }
    end
}
