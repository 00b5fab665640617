//! Commands of block namespaces: reads and writes of whole blocks, in pieces, and flushes.
//!
//! Commands under way at one time take effect in any order, as on a disk. In a power-safe namespace
//! a write ends after a flush that was submitted when the write had completed. One flush serves all
//! writes that completed before it; those that complete meanwhile wait for the next.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use super::super::{Answer, Event, Failure, PIECE_BYTES};
use super::{Active, MAX_PIECES, Operation, Work, Worker};
use crate::Key;
use crate::block::{BLOCK_BYTES, Buffer, Extent, blocks_of};
use crate::device::{Part, Request};
use crate::format::namespace::Domain;

/// A command of blocks.
pub(super) struct State {
    kind: Kind,
    place: Extent,
    /// Place in the command's bytes of the next piece to be fetched.
    next: u32,
    /// Requests to the device in flight.
    moving: usize,
    pub(super) waits_for_buffer: bool,
    /// Whether the write waits for a flush, or the flush for its turn.
    is_flushing: bool,
}

enum Kind {
    Read {
        /// Pieces that were read before their turn.
        arrived: BTreeMap<u32, Buffer>,
        /// Place of the next piece to be handed out.
        next_piece: u32,
        /// Pieces that the caller has.
        with_caller: usize,
    },
    Write {
        /// Pieces that the caller fills: place and size.
        wanted: VecDeque<(u32, u32)>,
        /// Whether a flush comes before the end in any domain.
        is_durable: bool,
    },
    Flush,
}

/// The flushes of one namespace.
#[derive(Default)]
pub(super) struct Flushes {
    /// Commands whose writes have completed.
    waiting: Vec<u32>,
    is_running: bool,
}

impl State {
    fn new(kind: Kind, place: Extent) -> Self {
        State {
            kind,
            place,
            next: 0,
            moving: 0,
            waits_for_buffer: false,
            is_flushing: false,
        }
    }

    pub(super) fn read(place: Extent) -> Self {
        let kind = Kind::Read {
            arrived: BTreeMap::new(),
            next_piece: 0,
            with_caller: 0,
        };
        State::new(kind, place)
    }

    pub(super) fn write(place: Extent, is_durable: bool) -> Self {
        let wanted = VecDeque::new();
        State::new(Kind::Write { wanted, is_durable }, place)
    }

    pub(super) fn flush() -> Self {
        let place = Extent {
            start: 0,
            blocks: 0,
        };
        State::new(Kind::Flush, place)
    }

    fn bytes(&self) -> u32 {
        self.place.bytes() as u32
    }

    /// Returns the number of pieces under way.
    fn pieces(&self) -> usize {
        let with_caller = match &self.kind {
            Kind::Read {
                arrived,
                with_caller,
                ..
            } => arrived.len() + with_caller,
            Kind::Write { wanted, .. } => wanted.len(),
            Kind::Flush => 0,
        };
        self.moving + with_caller
    }

    /// Returns the part of the device where a piece lies.
    fn part(&self, offset: u32, bytes: u32) -> Vec<Part> {
        vec![Part {
            at: 0,
            bytes: bytes as usize,
            offset: self.place.offset() + u64::from(offset),
        }]
    }
}

impl Worker {
    fn blocks(&mut self, slot: u32) -> Option<&mut State> {
        match self.commands.get_mut(slot).map(|active| &mut active.work) {
            Some(Work::Blocks(state)) => Some(state),
            _ => None,
        }
    }

    /// Begins a command of the block namespace at position `at`.
    pub(super) fn begin_blocks(&mut self, tag: u64, at: usize, state: State) {
        let is_flush = matches!(state.kind, Kind::Flush);
        let slot = self.commands.add(Active {
            tag,
            namespace: at,
            key: Key::new(b"-").expect("one byte"),
            hash: 0,
            work: Work::Blocks(state),
            failure: None,
        });
        self.by_tag.insert(tag, slot);
        match is_flush {
            true => self.flush_blocks(slot),
            false => self.fetch_blocks(slot),
        }
    }

    /// Fetches pieces from the device or the caller, as long as there are buffers.
    pub(super) fn fetch_blocks(&mut self, slot: u32) {
        loop {
            let Some(active) = self.commands.get_mut(slot) else {
                return;
            };
            let (tag, has_failed) = (active.tag, active.failure.is_some());
            let Some(state) = self.blocks(slot) else {
                return;
            };
            let is_fetched = state.next >= state.bytes() || has_failed;
            if is_fetched || state.waits_for_buffer || state.pieces() >= MAX_PIECES {
                return self.settle_blocks(slot);
            }
            let offset = state.next;
            let bytes = PIECE_BYTES.min(state.bytes() - offset);
            let Some(buffer) = self.buffers.take(blocks_of(bytes.into()) as usize) else {
                if let Some(state) = self.blocks(slot) {
                    state.waits_for_buffer = true;
                }
                return self.buffer_waiters.push_back(slot);
            };
            let Some(state) = self.blocks(slot) else {
                return;
            };
            state.next += bytes;
            if let Kind::Write { wanted, .. } = &mut state.kind {
                wanted.push_back((offset, bytes));
                self.events.push(Event::Want {
                    tag,
                    offset,
                    bytes,
                    buffer,
                });
                continue;
            }
            state.moving += 1;
            let parts = state.part(offset, bytes);
            let operation = Operation::Blocks(slot, offset);
            self.request(operation, Request::Read { buffer, parts });
        }
    }

    /// Writes a piece that the caller has filled.
    pub(super) fn blocks_supplied(&mut self, slot: u32, buffer: Buffer) {
        let has_failed = self.has_failed(slot);
        let Some(state) = self.blocks(slot) else {
            return self.buffers.put(buffer);
        };
        let piece = match &mut state.kind {
            Kind::Write { wanted, .. } => wanted.pop_front(),
            Kind::Read { .. } | Kind::Flush => None,
        };
        let Some((offset, bytes)) = piece.filter(|_| !has_failed) else {
            self.buffers.put(buffer);
            return self.settle_blocks(slot);
        };
        state.moving += 1;
        let parts = state.part(offset, bytes);
        let operation = Operation::Blocks(slot, offset);
        self.request(operation, Request::Write { buffer, parts });
        self.fetch_blocks(slot);
    }

    /// Takes note that the caller has done with a piece. One that was to be filled ends its write.
    pub(super) fn blocks_given_back(&mut self, slot: u32) {
        let Some(state) = self.blocks(slot) else {
            return;
        };
        match &mut state.kind {
            Kind::Read { with_caller, .. } => {
                *with_caller = with_caller.saturating_sub(1);
                self.fetch_blocks(slot);
            }
            Kind::Write { wanted, .. } => {
                wanted.pop_front();
                self.fail_blocks(slot, Failure::Aborted);
            }
            Kind::Flush => {}
        }
    }

    /// A piece was read or written.
    pub(super) fn blocks_moved(
        &mut self,
        slot: u32,
        offset: u32,
        buffer: Buffer,
        result: io::Result<()>,
    ) {
        let has_failed = self.has_failed(slot);
        let Some(state) = self.blocks(slot) else {
            return self.buffers.put(buffer);
        };
        state.moving -= 1;
        let is_read = matches!(state.kind, Kind::Read { .. });
        if let Err(error) = result {
            self.buffers.put(buffer);
            let failure = match is_read {
                true => Failure::Unrecovered(error.to_string()),
                false => Failure::WriteFailed(error.to_string()),
            };
            return self.fail_blocks(slot, failure);
        }
        match &mut state.kind {
            Kind::Read { arrived, .. } if !has_failed => {
                arrived.insert(offset, buffer);
                self.hand_out_blocks(slot);
            }
            _ => self.buffers.put(buffer),
        }
        self.fetch_blocks(slot);
    }

    /// Hands out the pieces whose turn it is.
    fn hand_out_blocks(&mut self, slot: u32) {
        loop {
            let Some(active) = self.commands.get_mut(slot) else {
                return;
            };
            let tag = active.tag;
            let Some(state) = self.blocks(slot) else {
                return;
            };
            let end = state.bytes();
            let Kind::Read {
                arrived,
                next_piece,
                with_caller,
            } = &mut state.kind
            else {
                return;
            };
            let offset = *next_piece;
            let Some(buffer) = arrived.remove(&offset) else {
                return;
            };
            let bytes = PIECE_BYTES.min(end - offset);
            *next_piece += bytes;
            *with_caller += 1;
            self.events.push(Event::Piece {
                tag,
                offset,
                at: 0,
                bytes,
                is_last: offset + bytes == end,
                buffer,
            });
        }
    }

    /// Ends a command as soon as nothing of it is under way. A write whose flush runs goes on.
    pub(super) fn fail_blocks(&mut self, slot: u32, failure: Failure) {
        if self.blocks(slot).is_none_or(|state| state.is_flushing) {
            return;
        }
        if let Some(active) = self.commands.get_mut(slot) {
            active.failure.get_or_insert(failure);
        }
        let arrived = match self.blocks(slot).map(|state| &mut state.kind) {
            Some(Kind::Read { arrived, .. }) => std::mem::take(arrived),
            _ => BTreeMap::new(),
        };
        for buffer in arrived.into_values() {
            self.buffers.put(buffer);
        }
        self.settle_blocks(slot);
    }

    /// Goes on once nothing of a command is under way: to its flush, or to its end.
    fn settle_blocks(&mut self, slot: u32) {
        let Some(active) = self.commands.get_mut(slot) else {
            return;
        };
        let (at, failure) = (active.namespace, active.failure.clone());
        let Some(state) = self.blocks(slot) else {
            return;
        };
        let bytes = state.bytes();
        let is_at_end = failure.is_some() || state.next >= bytes;
        let answer = match &state.kind {
            Kind::Read {
                arrived,
                next_piece,
                ..
            } => {
                let is_handed_out = failure.is_some() || *next_piece >= bytes;
                if !is_handed_out || state.moving > 0 || !arrived.is_empty() {
                    return;
                }
                Answer::Read
            }
            Kind::Write { wanted, is_durable } => {
                let is_busy = state.moving > 0 || !wanted.is_empty();
                if !is_at_end || is_busy || state.is_flushing {
                    return;
                }
                let is_durable = *is_durable;
                let domain = self.node.block_namespaces()[at].description.domain;
                let needs_flush = is_durable || domain == Domain::PowerSafe;
                if failure.is_none() && needs_flush {
                    return self.flush_blocks(slot);
                }
                Answer::Written
            }
            Kind::Flush => return,
        };
        self.finish(slot, failure.map_or(Ok(answer), Err));
    }

    /// Has a command wait for a flush.
    fn flush_blocks(&mut self, slot: u32) {
        let Some(at) = self.commands.get_mut(slot).map(|active| active.namespace) else {
            return;
        };
        if let Some(state) = self.blocks(slot) {
            state.is_flushing = true;
        }
        self.block_flushes[at].waiting.push(slot);
        self.next_block_flush(at);
    }

    /// Flushes for all that wait, unless a flush runs: it may be older than their writes.
    fn next_block_flush(&mut self, at: usize) {
        let flushes = &mut self.block_flushes[at];
        if flushes.is_running || flushes.waiting.is_empty() {
            return;
        }
        flushes.is_running = true;
        let served = std::mem::take(&mut flushes.waiting);
        self.request(Operation::BlockFlush(at, served), Request::Flush);
    }

    pub(super) fn blocks_flushed(&mut self, at: usize, served: Vec<u32>, result: io::Result<()>) {
        self.block_flushes[at].is_running = false;
        if let Err(error) = result {
            self.node.poison(&format!("a flush failed: {error}"));
        }
        // If another flush failed meanwhile, these writes may be the lost ones.
        let failure = self.node.block_namespaces()[at].poison.check().err();
        for slot in served {
            let answer = match self.blocks(slot).map(|state| &state.kind) {
                Some(Kind::Flush) => Answer::Flushed,
                _ => Answer::Written,
            };
            self.finish(slot, failure.clone().map_or(Ok(answer), Err));
        }
        self.next_block_flush(at);
    }
}

const _: () = assert!((PIECE_BYTES as usize).is_multiple_of(BLOCK_BYTES));
