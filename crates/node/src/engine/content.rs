//! The content of a checkpoint, made batch by batch while the index changes.

use std::collections::VecDeque;

use crate::block::{BLOCK_BYTES, Buffer, Extent};
use crate::format::checkpoint::{CheckpointHeader, CheckpointWriter, StoredEntry};
use crate::index::{Index, WalkCursor};

/// Blocks of one batch.
const BATCH_BLOCKS: usize = 64;
/// The most entries that are copied under one lock.
const MAX_ENTRIES: usize = 1024;

/// A slot that has no room for the index.
#[derive(Debug)]
pub(super) struct Outgrown;

/// A checkpoint in the making.
pub(super) struct Content {
    writer: CheckpointWriter,
    /// The journal's next block when it began, and the checksum of the one before.
    start: (u64, u64),
    cursor: WalkCursor,
    walked_all: bool,
    /// Entries that wait for a block.
    entries: VecDeque<StoredEntry>,
}

impl Content {
    /// Begins a checkpoint. `start` is the journal's next block, and the checksum of the one before.
    pub(super) fn new(secret: u64, generation: u64, start: (u64, u64)) -> Self {
        Content {
            writer: CheckpointWriter::new(secret, generation),
            start,
            cursor: WalkCursor::default(),
            walked_all: false,
            entries: VecDeque::new(),
        }
    }

    /// Returns the next blocks, and where in `slot` they go; none at the end.
    ///
    /// # Errors
    /// The slot has no room for them: while it was walked, more keys came than it has room for, or the
    /// index is beyond the bounds of the namespace.
    pub(super) fn next(
        &mut self,
        index: &Index,
        slot: Extent,
    ) -> Result<Option<(Buffer, Extent)>, Outgrown> {
        let mut buffer = Buffer::zeroed(BATCH_BLOCKS);
        let first = self.writer.blocks();
        for block in buffer.chunks_exact_mut(BLOCK_BYTES) {
            self.walk_on(index);
            while self
                .entries
                .front()
                .is_some_and(|entry| self.writer.push(entry))
            {
                self.entries.pop_front();
                self.walk_on(index);
            }
            if self.writer.is_block_empty() {
                break;
            }
            // One block is the header's.
            if self.writer.blocks() + 1 >= slot.blocks {
                return Err(Outgrown);
            }
            self.writer.finish_block(block);
        }
        let blocks = self.writer.blocks() - first;
        let place = Extent {
            start: slot.start + 1 + first,
            blocks,
        };
        Ok((blocks > 0).then_some((buffer, place)))
    }

    /// Returns the journal's next block when it began.
    pub(super) fn start(&self) -> u64 {
        self.start.0
    }

    /// Returns the header, once the content is complete.
    pub(super) fn header(&self, sequence: u64) -> CheckpointHeader {
        self.writer.header(sequence, self.start.0, self.start.1)
    }

    /// Copies more entries if there are none.
    fn walk_on(&mut self, index: &Index) {
        while self.entries.is_empty() && !self.walked_all {
            let entries = &mut self.entries;
            self.walked_all = index.walk(&mut self.cursor, MAX_ENTRIES, |key, found| {
                entries.push_back(StoredEntry {
                    key: *key,
                    value_bytes: found.value_bytes,
                    check: found.check,
                    place: found.place.clone(),
                });
            });
        }
    }
}

/// Returns the block of a slot's header.
pub(super) fn first_of(slot: Extent) -> Extent {
    Extent {
        start: slot.start,
        blocks: 1,
    }
}
