//! The journal: a ring of blocks that holds every change since the last checkpoint.
//!
//! Records gather in an open group. A loop that finds no group being written closes it and writes
//! it; the records that arrive meanwhile make the next one. So one flush serves all commands in
//! flight. A group begins at a block of its own: no block that holds durable records is written again.

use super::share::Share;
use super::worker::Waiter;
use crate::Key;
use crate::block::{BLOCK_BYTES, Buffer, Extent, Extents};
use crate::device::Part;
use crate::format::checkpoint::CheckpointHeader;
use crate::format::journal::{BlockBuilder, Change, RECORDS_BYTES, Record};
use crate::format::location::CellLocation;

/// The most blocks of one group.
const MAX_GROUP_BLOCKS: u64 = 64;
/// The ring's share that is kept for the corrections of a recovery: one part in this many.
const KEPT_PART: u64 = 4;

/// A change that waits to be durable.
pub(super) struct Member {
    pub(super) key: Key,
    pub(super) hash: u64,
    pub(super) sequence: u64,
    pub(super) value_bytes: u32,
    pub(super) checksum: u64,
    pub(super) change: Pending,
    /// Given back once the index has the change.
    pub(super) share: Share,
    /// The command that gets the outcome.
    pub(super) waiter: Option<Waiter>,
}

/// The change of a member.
pub(super) enum Pending {
    /// The value lies in extents of its own.
    Extents(Extents),
    /// The value is at the start of the buffer, and staged at `home`.
    Inline {
        /// Where it will lie.
        home: CellLocation,
        /// The memory that holds it until the group is written.
        buffer: Buffer,
    },
    /// The value lies in a cell that was written before.
    Cell(CellLocation),
    /// There is no value any more.
    Delete,
}

impl Member {
    fn record(&self) -> Record<'_> {
        Record {
            key: self.key,
            sequence: self.sequence,
            value_bytes: self.value_bytes,
            checksum: self.checksum,
            what: match &self.change {
                Pending::Extents(extents) => Change::Extents(extents.clone()),
                Pending::Inline { home, buffer } => Change::Inline {
                    home: *home,
                    value: &buffer[..self.value_bytes as usize],
                },
                Pending::Cell(location) => Change::Cell(*location),
                Pending::Delete => Change::Delete,
            },
        }
    }
}

/// A group that is being written.
pub(super) struct Group {
    pub(super) members: Vec<Member>,
    /// Number of the first block behind the group.
    pub(super) end: u64,
}

/// Where the journal of a namespace stands.
pub(super) struct Journal {
    secret: u64,
    ring: Extent,
    /// Number of the next block.
    pub(super) next: u64,
    /// Checksum of the block before it.
    pub(super) previous: u64,
    /// Number behind the last block whose write has completed.
    pub(super) written: u64,
    /// All blocks below this number are durable, and the values of their records.
    pub(super) durable: u64,
    /// A recovery knows all blocks below this number to be durable.
    pub(super) marked: u64,
    /// Number of the first block that a recovery needs.
    pub(super) tail: u64,
    /// Changes that are in no group yet.
    pub(super) open: Vec<Member>,
    /// Whether a group is being written.
    pub(super) is_writing: bool,
    /// Whether some loop makes a checkpoint.
    pub(super) checkpoint_runs: bool,
    /// Generation of the last durable checkpoint.
    pub(super) generation: u64,
    /// Checkpoints that failed since.
    pub(super) failed_checkpoints: u32,
    /// Number of the next block when a checkpoint had no room for the index. Another one has no more
    /// until the journal goes on.
    pub(super) outgrown: Option<u64>,
}

impl Journal {
    /// Makes the journal behind the checkpoint `header`, whose next block is `next`, after one with the
    /// checksum `previous`.
    pub(super) fn new(
        secret: u64,
        ring: Extent,
        header: &CheckpointHeader,
        next: u64,
        previous: u64,
    ) -> Self {
        Journal {
            secret,
            ring,
            next,
            previous,
            written: next,
            durable: next,
            marked: 0,
            tail: header.journal_number,
            generation: header.generation,
            failed_checkpoints: 0,
            outgrown: None,
            open: Vec::new(),
            is_writing: false,
            checkpoint_runs: false,
        }
    }

    /// Returns true once the ring is half full, and the groups before are shown: a checkpoint is due.
    pub(super) fn wants_checkpoint(&self) -> bool {
        let is_half_full = (self.next - self.tail) * 2 >= self.ring.blocks;
        let may_have_room = self.outgrown != Some(self.next);
        is_half_full && may_have_room && !self.checkpoint_runs && !self.is_writing
    }

    /// Returns true if records wait for a checkpoint for which no slot has room.
    pub(super) fn is_stuck(&self) -> bool {
        let is_full = self.next - self.tail >= self.ring.blocks - self.ring.blocks / KEPT_PART;
        let is_outgrown = self.outgrown == Some(self.next);
        is_full && is_outgrown && !self.is_writing && !self.open.is_empty()
    }

    /// Returns true if changes are on their way to be durable.
    pub(super) fn is_busy(&self) -> bool {
        self.is_writing || !self.open.is_empty()
    }

    /// Returns true if many records are not known to be durable: a flush is due.
    pub(super) fn is_behind(&self) -> bool {
        self.written - self.durable >= (self.ring.blocks / KEPT_PART / 2).max(1)
    }

    /// Closes a group of a recovery's corrections, in the room that is kept for them.
    pub(super) fn close_correction(&mut self) -> Option<(Group, Buffer, Vec<Part>)> {
        self.close(self.ring.blocks - (self.next - self.tail))
    }

    /// Makes a group without records, whose flush mark covers all blocks before it. Returns none if the
    /// ring is full, a group is under way, or the last mark covers everything.
    pub(super) fn close_mark(&mut self) -> Option<(Group, Buffer, Vec<Part>)> {
        let is_quiet = self.open.is_empty() && !self.is_writing;
        let has_room = self.next - self.tail < self.ring.blocks;
        if !is_quiet || !has_room || self.marked == self.next || self.durable < self.next {
            return None;
        }
        Some(self.write_group(Vec::new(), 1))
    }

    /// Closes the open group, or as much of it as there is room for. Returns none if there is nothing
    /// to write, a group is being written, or the ring is full.
    pub(super) fn close_group(&mut self) -> Option<(Group, Buffer, Vec<Part>)> {
        let kept = self.ring.blocks / KEPT_PART;
        let used = self.next - self.tail;
        let unsettled = self.next - self.durable;
        self.close(
            (self.ring.blocks - kept)
                .saturating_sub(used)
                .min(kept.saturating_sub(unsettled)),
        )
    }

    fn close(&mut self, room: u64) -> Option<(Group, Buffer, Vec<Part>)> {
        if self.is_writing || self.open.is_empty() {
            return None;
        }
        let (members, blocks) = self.fitting(room.min(MAX_GROUP_BLOCKS));
        if members == 0 {
            return None;
        }
        let rest = self.open.split_off(members);
        let members = std::mem::replace(&mut self.open, rest);
        Some(self.write_group(members, blocks))
    }

    /// Fills the next `blocks` blocks of the ring with a group.
    fn write_group(&mut self, members: Vec<Member>, blocks: u64) -> (Group, Buffer, Vec<Part>) {
        let mut buffer = Buffer::zeroed(blocks as usize);
        let first = self.next;
        self.encode(&members, &mut buffer);
        debug_assert_eq!(
            self.next,
            first + blocks,
            "the group fills the blocks counted for it"
        );
        self.is_writing = true;
        let parts = self.parts(first, blocks);
        let end = self.next;
        (Group { members, end }, buffer, parts)
    }

    /// Returns how many members fit into `max_blocks` blocks, and into how many.
    fn fitting(&self, max_blocks: u64) -> (usize, u64) {
        let (mut blocks, mut room) = (0, 0);
        for (at, member) in self.open.iter().enumerate() {
            let bytes = member.record().encoded_len();
            if bytes > room {
                if blocks == max_blocks {
                    return (at, blocks);
                }
                blocks += 1;
                room = RECORDS_BYTES;
            }
            room -= bytes;
        }
        (self.open.len(), blocks)
    }

    /// Writes the members into the blocks of `buffer`, and moves the end of the journal.
    fn encode(&mut self, members: &[Member], buffer: &mut Buffer) {
        let is_mark = members.is_empty();
        let mut members = members.iter().peekable();
        for block in buffer.chunks_exact_mut(BLOCK_BYTES) {
            let mut builder =
                BlockBuilder::new(self.secret, self.next, self.previous, self.durable);
            while let Some(member) = members.peek() {
                if !builder.push(&member.record()) {
                    break;
                }
                members.next();
            }
            self.previous = builder.finish(block);
            self.next += 1;
        }
        debug_assert!(
            members.next().is_none(),
            "a block was counted for each record"
        );
        // A block without records leaves nothing in doubt itself.
        self.marked = match is_mark {
            true => self.next,
            false => self.durable,
        };
    }

    /// Returns where blocks of the ring lie.
    fn parts(&self, first: u64, blocks: u64) -> Vec<Part> {
        let at = first % self.ring.blocks;
        let before_end = blocks.min(self.ring.blocks - at);
        let part = |skip: u64, at: u64, blocks: u64| Part {
            at: skip as usize * BLOCK_BYTES,
            bytes: blocks as usize * BLOCK_BYTES,
            offset: (self.ring.start + at) * BLOCK_BYTES as u64,
        };
        let mut parts = vec![part(0, at, before_end)];
        if before_end < blocks {
            parts.push(part(before_end, 0, blocks - before_end));
        }
        parts
    }
}
