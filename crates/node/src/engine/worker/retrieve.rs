//! A retrieve: the value's pieces, verified, in order.

use std::collections::BTreeMap;
use std::io;

use super::super::namespace::part_of;
use super::super::{Answer, Event, Failure, PIECE_BYTES};
use super::{MAX_PIECES, Operation, Work, Worker, count};
use crate::block::{BLOCK_BYTES, Buffer, Extent, Extents, blocks_of};
use crate::device::{Request, parts_of};
use crate::format::cell::cell_blocks;
use crate::format::location::CellLocation;
use crate::format::trailer::Trailer;
use crate::format::value::{self, piece_checksum, pieces, trailer_bytes, value_checksum};
use crate::index::{Found, Place};

/// Bytes that have a checksum of their own.
const CHECKED_BYTES: u32 = value::PIECE_BYTES as u32;

/// A retrieve under way.
pub(super) struct State {
    max_bytes: u32,
    found: Option<Found>,
    /// Bytes to hand out.
    limit: u32,
    /// Checksums of the pieces of 64 KiB, once they are known.
    checks: Option<Vec<u64>>,
    /// Whether the trailer is being read.
    reads_trailer: bool,
    /// Place of the next piece to be read.
    next_read: u32,
    /// Place of the next piece to be handed out.
    next_piece: u32,
    /// Reads in flight.
    reading: usize,
    /// Pieces that were read before their turn: where they begin in their buffers.
    arrived: BTreeMap<u32, (Buffer, usize)>,
    /// Pieces that the caller has.
    pub(super) with_caller: usize,
    pub(super) waits_for_buffer: bool,
    is_pinned: bool,
}

/// The object of a retrieve's read.
pub(super) enum ReadOf {
    Trailer,
    /// The piece at this place; it begins at the second number in its buffer.
    Piece(u32, usize),
}

impl State {
    pub(super) fn new(max_bytes: u32) -> Self {
        State {
            max_bytes,
            found: None,
            limit: 0,
            checks: None,
            reads_trailer: false,
            next_read: 0,
            next_piece: 0,
            reading: 0,
            arrived: BTreeMap::new(),
            with_caller: 0,
            waits_for_buffer: false,
            is_pinned: false,
        }
    }

    fn needs_trailer(&self, found: &Found) -> bool {
        found.value_bytes > CHECKED_BYTES && self.checks.is_none()
    }

    /// Returns the place behind the last byte to be read: whole pieces of 64 KiB, to be verified.
    fn read_end(&self, found: &Found) -> u32 {
        let whole = self.limit.next_multiple_of(CHECKED_BYTES);
        whole.min(found.value_bytes)
    }
}

impl Worker {
    fn retrieve(&mut self, slot: u32) -> Option<&mut State> {
        match self.commands.get_mut(slot).map(|active| &mut active.work) {
            Some(Work::Retrieve(state)) => Some(state),
            _ => None,
        }
    }

    pub(super) fn begin_retrieve(&mut self, slot: u32) {
        let Some(active) = self.commands.get_mut(slot) else {
            return;
        };
        let (at, hash, key) = (active.namespace, active.hash, active.key);
        let Some(found) = self.node.key_namespaces()[at].find_pinned(hash, &key) else {
            return self.finish(slot, Err(Failure::NotFound));
        };
        if let Some(state) = self.retrieve(slot) {
            state.limit = state.max_bytes.min(found.value_bytes);
            state.found = Some(found);
            state.is_pinned = true;
        }
        self.read_pieces(slot);
    }

    /// Reads on, as long as there are buffers and the caller takes pieces.
    pub(super) fn read_pieces(&mut self, slot: u32) {
        loop {
            if self.has_failed(slot) {
                return self.settle_retrieve(slot);
            }
            let Some(state) = self.retrieve(slot) else {
                return;
            };
            let Some(found) = state.found.clone() else {
                return;
            };
            if state.waits_for_buffer || state.reads_trailer {
                return;
            }
            let end = state.read_end(&found);
            let under_way = state.reading + state.arrived.len() + state.with_caller;
            if state.next_read >= end || under_way >= MAX_PIECES {
                return self.settle_retrieve(slot);
            }
            let offset = state.next_read;
            let needs_trailer = state.needs_trailer(&found);
            let bytes = PIECE_BYTES.min(end - offset);
            let read = match &found.place {
                Place::Cell(location) => self.read_cell(slot, *location, found.value_bytes),
                Place::Extents(extents) if needs_trailer => {
                    self.read_trailer(slot, extents, found.value_bytes)
                }
                Place::Extents(extents) => self.read_piece(slot, extents, offset, bytes),
            };
            if !read {
                if let Some(state) = self.retrieve(slot) {
                    state.waits_for_buffer = true;
                }
                return self.buffer_waiters.push_back(slot);
            }
        }
    }

    /// Reads a small value, from memory or from the device. Returns false without a buffer.
    fn read_cell(&mut self, slot: u32, location: CellLocation, value_bytes: u32) -> bool {
        let (extent, offset) = cell_blocks(location, value_bytes);
        let Some(mut buffer) = self.buffers.take(extent.blocks as usize) else {
            return false;
        };
        let Some(at) = self.commands.get_mut(slot).map(|active| active.namespace) else {
            return true;
        };
        let Some(state) = self.retrieve(slot) else {
            return true;
        };
        state.next_read = value_bytes;
        let range = offset..offset + value_bytes as usize;
        if self.node.key_namespaces()[at]
            .segments
            .read(location, &mut buffer[range])
        {
            self.piece_read(slot, 0, offset, buffer);
            return true;
        }
        self.read(slot, ReadOf::Piece(0, offset), buffer, &[extent]);
        true
    }

    fn read_trailer(&mut self, slot: u32, extents: &Extents, value_bytes: u32) -> bool {
        let blocks = blocks_of(trailer_bytes(value_bytes, extents.len()) as u64);
        let Some(buffer) = self.buffers.take(blocks as usize) else {
            return false;
        };
        if let Some(state) = self.retrieve(slot) {
            state.reads_trailer = true;
        }
        let places = part_of(extents, extents.blocks() - blocks, blocks);
        self.read(slot, ReadOf::Trailer, buffer, &places);
        true
    }

    fn read_piece(&mut self, slot: u32, extents: &Extents, offset: u32, bytes: u32) -> bool {
        let blocks = blocks_of(u64::from(bytes));
        let Some(buffer) = self.buffers.take(blocks as usize) else {
            return false;
        };
        if let Some(state) = self.retrieve(slot) {
            state.next_read += bytes;
        }
        let places = part_of(extents, u64::from(offset) / BLOCK_BYTES as u64, blocks);
        self.read(slot, ReadOf::Piece(offset, 0), buffer, &places);
        true
    }

    fn read(&mut self, slot: u32, what: ReadOf, buffer: Buffer, places: &[Extent]) {
        if let Some(state) = self.retrieve(slot) {
            state.reading += 1;
        }
        let parts = parts_of(places);
        self.request(Operation::Read(slot, what), Request::Read { buffer, parts });
    }

    pub(super) fn read_done(
        &mut self,
        slot: u32,
        what: ReadOf,
        buffer: Buffer,
        result: io::Result<()>,
    ) {
        if let Some(state) = self.retrieve(slot) {
            state.reading -= 1;
        }
        if let Err(error) = result {
            self.buffers.put(buffer);
            return self.fail_retrieve(slot, Failure::Unrecovered(error.to_string()));
        }
        match what {
            ReadOf::Trailer => self.trailer_read(slot, buffer),
            ReadOf::Piece(offset, begin) => self.piece_read(slot, offset, begin, buffer),
        }
    }

    fn trailer_read(&mut self, slot: u32, buffer: Buffer) {
        let Some(active) = self.commands.get_mut(slot) else {
            return self.buffers.put(buffer);
        };
        let description = &self.node.key_namespaces()[active.namespace].description;
        let (key, secret, bounds) = (active.key, description.secret, description.bounds());
        let Some(found) = self.retrieve(slot).and_then(|state| state.found.clone()) else {
            return self.buffers.put(buffer);
        };
        let checks = match &found.place {
            Place::Extents(extents) => {
                let blocks = blocks_of(trailer_bytes(found.value_bytes, extents.len()) as u64);
                let bytes = &buffer[..blocks as usize * BLOCK_BYTES];
                Trailer::decode(bytes, secret, extents.last().end() - 1, &bounds)
                    .ok()
                    .filter(|trailer| {
                        trailer.key == key && trailer.value_bytes == found.value_bytes
                    })
                    .map(|trailer| trailer.pieces)
                    .filter(|checks| value_checksum(secret, checks) as u32 == found.check)
            }
            Place::Cell(_) => None,
        };
        self.buffers.put(buffer);
        let Some(checks) = checks else {
            return self.damaged(slot, "its trailer");
        };
        if let Some(state) = self.retrieve(slot) {
            state.reads_trailer = false;
            state.checks = Some(checks);
        }
        self.read_pieces(slot);
    }

    /// Verifies a piece and hands out all that are in order.
    fn piece_read(&mut self, slot: u32, offset: u32, begin: usize, buffer: Buffer) {
        let Some(active) = self.commands.get_mut(slot) else {
            return self.buffers.put(buffer);
        };
        let secret = self.node.key_namespaces()[active.namespace]
            .description
            .secret;
        let Some(state) = self.retrieve(slot) else {
            return self.buffers.put(buffer);
        };
        let Some(found) = state.found.clone() else {
            return self.buffers.put(buffer);
        };
        let bytes = PIECE_BYTES.min(state.read_end(&found) - offset) as usize;
        let value = &buffer[begin..begin + bytes];
        if !is_whole(secret, &found, state.checks.as_deref(), offset, value) {
            self.buffers.put(buffer);
            return self.damaged(slot, &format!("bytes from {offset} on"));
        }
        state.arrived.insert(offset, (buffer, begin));
        self.hand_out(slot);
    }

    fn hand_out(&mut self, slot: u32) {
        loop {
            let Some(tag) = self.commands.get_mut(slot).map(|active| active.tag) else {
                return;
            };
            let Some(state) = self.retrieve(slot) else {
                return;
            };
            let offset = state.next_piece;
            let Some((buffer, at)) = state.arrived.remove(&offset) else {
                return self.read_pieces(slot);
            };
            let bytes = PIECE_BYTES.min(state.limit - offset);
            state.next_piece += bytes;
            state.with_caller += 1;
            let is_last = offset + bytes == state.limit;
            self.events.push(Event::Piece {
                tag,
                offset,
                at,
                bytes,
                is_last,
                buffer,
            });
        }
    }

    fn damaged(&mut self, slot: u32, what: &str) {
        let Some(active) = self.commands.get_mut(slot) else {
            return;
        };
        let namespace = &self.node.key_namespaces()[active.namespace];
        count(&namespace.counters.damaged_reads);
        let place = self.retrieve(slot).and_then(|state| state.found.clone());
        let block = place.map_or(0, |found| found.place.first_block());
        let why = format!(
            "{what} at block {block} of the device do not match their checksum; store the value again"
        );
        self.fail_retrieve(slot, Failure::Unrecovered(why));
    }

    pub(super) fn fail_retrieve(&mut self, slot: u32, failure: Failure) {
        if let Some(active) = self.commands.get_mut(slot) {
            active.failure.get_or_insert(failure);
        }
        if let Some(state) = self.retrieve(slot) {
            state.reads_trailer = false;
            let arrived = std::mem::take(&mut state.arrived);
            for (buffer, _) in arrived.into_values() {
                self.buffers.put(buffer);
            }
        }
        self.settle_retrieve(slot);
    }

    /// Ends a retrieve once nothing of it is under way.
    fn settle_retrieve(&mut self, slot: u32) {
        let failed = self
            .commands
            .get_mut(slot)
            .and_then(|active| active.failure.clone());
        let Some(at) = self.commands.get_mut(slot).map(|active| active.namespace) else {
            return;
        };
        let Some(state) = self.retrieve(slot) else {
            return;
        };
        let is_complete = state.next_piece >= state.limit || failed.is_some();
        if state.reading > 0 || !is_complete {
            return;
        }
        let Some(found) = state.found.take() else {
            return;
        };
        if std::mem::take(&mut state.is_pinned) {
            self.node.key_namespaces()[at].unpin(found.place.first_block());
        }
        let result = failed.map_or(Ok(Answer::Retrieved(found.value_bytes)), Err);
        self.finish(slot, result);
    }
}

/// Returns true if the bytes from `offset` of a value on are as they were stored.
fn is_whole(secret: u64, found: &Found, checks: Option<&[u64]>, offset: u32, value: &[u8]) -> bool {
    let first = offset / CHECKED_BYTES;
    let Some(checks) = checks else {
        debug_assert!(
            pieces(found.value_bytes) <= 1,
            "a long value has its trailer read first"
        );
        let check = value_checksum(secret, &[piece_checksum(secret, 0, value)]);
        return value.len() == found.value_bytes as usize && check as u32 == found.check;
    };
    value
        .chunks(CHECKED_BYTES as usize)
        .zip(first..)
        .all(|(piece, at)| {
            checks.get(at as usize) == Some(&piece_checksum(secret, at as usize, piece))
        })
}
