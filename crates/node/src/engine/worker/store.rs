//! A store command: admission, pieces, writes, and then its record.

use std::collections::VecDeque;
use std::io;

use super::super::journal::{Member, Pending};
use super::super::namespace::part_of;
use super::super::share::Share;
use super::super::{Answer, Condition, Event, Failure, PIECE_BYTES};
use super::{MAX_PIECES, Operation, Waiter, Work, Worker};
use crate::block::{BLOCK_BYTES, Buffer, Extents, blocks_of};
use crate::device::{Request, parts_of};
use crate::format::location::{CellLocation, INLINE_MAX};
use crate::format::trailer::Trailer;
use crate::format::value::{self, piece_checksum, value_checksum};

/// A store under way.
pub(super) struct State {
    value_bytes: u32,
    condition: Condition,
    /// Whether the command has its key.
    owns_key: bool,
    /// Kept for it until its record is in the journal's hands.
    share: Share,
    sequence: u64,
    place: Option<Extents>,
    /// The cell of a small value, once it is staged.
    cell: Option<CellLocation>,
    /// A small value that waits for a segment.
    held: Option<Buffer>,
    /// Place in the value of the next piece to be wanted.
    next_want: u32,
    /// Pieces that the caller has: place and size.
    pub(super) wanted: VecDeque<(u32, u32)>,
    /// Writes in flight.
    writing: usize,
    /// Checksums of the pieces so far.
    checks: Vec<u64>,
    pub(super) waits_for_buffer: bool,
    /// Whether it stands among those that wait for space: its slot is not free before it was woken.
    pub(super) waits_for_space: bool,
    /// Whether it was woken while its key is borrowed: it goes on when the key is back.
    pub(super) waits_for_borrower: bool,
    /// Whether its record is in the journal's hands.
    is_committing: bool,
}

impl State {
    pub(super) fn new(value_bytes: u32, condition: Condition) -> Self {
        State {
            value_bytes,
            condition,
            owns_key: false,
            share: Share::default(),
            sequence: 0,
            place: None,
            cell: None,
            held: None,
            next_want: 0,
            wanted: VecDeque::new(),
            writing: 0,
            checks: Vec::new(),
            waits_for_buffer: false,
            waits_for_space: false,
            waits_for_borrower: false,
            is_committing: false,
        }
    }

    pub(super) fn owns_key(&self) -> bool {
        self.owns_key
    }

    fn is_small(&self) -> bool {
        self.value_bytes as usize <= INLINE_MAX
    }
}

impl Worker {
    pub(super) fn store(&mut self, slot: u32) -> Option<&mut State> {
        match self.commands.get_mut(slot).map(|active| &mut active.work) {
            Some(Work::Store(state)) => Some(state),
            _ => None,
        }
    }

    /// Judges the store, now that no other command changes its key.
    pub(super) fn admit_store(&mut self, slot: u32) {
        let Some(active) = self.commands.get_mut(slot) else {
            return;
        };
        let (at, hash, key) = (active.namespace, active.hash, active.key);
        let aborted = active.failure.take();
        let Some(state) = self.store(slot) else {
            return;
        };
        state.owns_key = true;
        let (value_bytes, condition) = (state.value_bytes, state.condition);
        let namespace = self.namespace(at);
        let exists = namespace.has_key(hash, &key);
        let judged = match (aborted, condition, exists) {
            (Some(failure), ..) => Err(failure),
            (_, Condition::IfExists, false) => Err(Failure::NotFound),
            (_, Condition::IfAbsent, true) => Err(Failure::KeyExists),
            _ if value_bytes > namespace.description.max_value_bytes => {
                Err(Failure::InvalidValueSize)
            }
            _ => namespace.check_writable(),
        };
        if let Err(failure) = judged {
            return self.fail_store(slot, failure);
        }
        if !exists {
            if !namespace.reserve_key() {
                return self.wait_for_space(slot);
            }
            self.set_reserved(slot);
        }
        self.place_store(slot);
    }

    /// Finds a place for the value and asks for its first pieces.
    pub(super) fn place_store(&mut self, slot: u32) {
        let Some(active) = self.commands.get_mut(slot) else {
            return;
        };
        let (at, hash, key) = (active.namespace, active.hash, active.key);
        let namespace = self.namespace(at);
        let Some(state) = self.store(slot) else {
            return;
        };
        state.sequence = namespace.next_sequence();
        if !state.is_small() {
            let Some(allocation) = Self::allocate(&namespace, (hash, &key), state.value_bytes)
            else {
                return self.wait_for_space(slot);
            };
            state.place = Some(allocation.extents);
            state.share.extents = allocation.reserved;
            self.passes[at] = 0;
        }
        self.want_pieces(slot);
    }

    /// Returns true if the store would add a key and has no share of the namespace's keys yet.
    pub(super) fn lacks_key_share(&mut self, slot: u32) -> Option<bool> {
        let at = self.commands.get_mut(slot)?.namespace;
        let active = self.commands.get_mut(slot)?;
        let (hash, key) = (active.hash, active.key);
        let exists = self.node.key_namespaces()[at].has_key(hash, &key);
        Some(!exists && !self.store(slot)?.share.key)
    }

    pub(super) fn set_reserved(&mut self, slot: u32) {
        if let Some(state) = self.store(slot) {
            state.share.key = true;
        }
    }

    /// Keeps a small value until there is a segment for it.
    pub(super) fn hold_small(&mut self, slot: u32, buffer: Buffer) {
        if let Some(state) = self.store(slot) {
            state.held = Some(buffer);
        }
        self.wait_for_space(slot);
    }

    pub(super) fn take_held(&mut self, slot: u32) -> Option<Buffer> {
        self.store(slot)?.held.take()
    }

    fn is_small_store(&mut self, slot: u32) -> bool {
        self.store(slot).is_some_and(|state| state.is_small())
    }

    /// Asks the caller for pieces, as long as there are buffers.
    pub(super) fn want_pieces(&mut self, slot: u32) {
        if self.has_failed(slot) {
            return;
        }
        loop {
            let Some(state) = self.store(slot) else {
                return;
            };
            if state.value_bytes == 0 && !state.is_committing && state.held.is_none() {
                return self.small_value_came(slot, Buffer::default());
            }
            let outstanding = state.wanted.len() + state.writing;
            if state.next_want >= state.value_bytes || outstanding >= MAX_PIECES {
                return;
            }
            if state.waits_for_buffer {
                return;
            }
            let offset = state.next_want;
            let bytes = PIECE_BYTES.min(state.value_bytes - offset);
            let blocks = state.piece_blocks(offset, bytes);
            let Some(buffer) = self.buffers.take(blocks as usize) else {
                if let Some(state) = self.store(slot) {
                    state.waits_for_buffer = true;
                }
                self.buffer_waiters.push_back(slot);
                return;
            };
            if let Some(state) = self.store(slot) {
                state.next_want += bytes;
                state.wanted.push_back((offset, bytes));
            }
            let Some(tag) = self.commands.get_mut(slot).map(|active| active.tag) else {
                return;
            };
            self.events.push(Event::Want {
                tag,
                offset,
                bytes,
                buffer,
            });
        }
    }

    /// Takes a piece from the caller.
    pub(super) fn piece_supplied(&mut self, slot: u32, buffer: Buffer) {
        let piece = self.store(slot).and_then(|state| state.wanted.pop_front());
        let failed = self.has_failed(slot);
        let Some((offset, bytes)) = piece.filter(|_| !failed) else {
            self.buffers.put(buffer);
            return self.settle_store(slot);
        };
        if self.is_small_store(slot) {
            return self.small_value_came(slot, buffer);
        }
        self.write_piece(slot, offset, bytes, buffer);
        self.want_pieces(slot);
    }

    /// Writes a piece of a value that has extents of its own.
    fn write_piece(&mut self, slot: u32, offset: u32, bytes: u32, mut buffer: Buffer) {
        let Some(active) = self.commands.get_mut(slot) else {
            return;
        };
        let (key, secret) = (
            active.key,
            self.node.key_namespaces()[active.namespace]
                .description
                .secret,
        );
        let Some(state) = self.store(slot) else {
            return;
        };
        let first_check = offset as usize / value::PIECE_BYTES;
        let pieces = buffer[..bytes as usize].chunks(value::PIECE_BYTES);
        for (at, piece) in (first_check..).zip(pieces) {
            state.checks.push(piece_checksum(secret, at, piece));
        }
        let blocks = state.piece_blocks(offset, bytes);
        let Some(place) = state.place.clone() else {
            debug_assert!(false, "a large value has extents");
            return;
        };
        if offset + bytes == state.value_bytes {
            buffer[bytes as usize..blocks as usize * BLOCK_BYTES].fill(0);
            let trailer = Trailer {
                key,
                sequence: state.sequence,
                value_bytes: state.value_bytes,
                value_checksum: value_checksum(secret, &state.checks),
                pieces: state.checks.clone(),
                extents: place.clone(),
            };
            let end = &mut buffer[..blocks as usize * BLOCK_BYTES];
            trailer.encode_into(end, secret, place.last().end() - 1);
        }
        state.writing += 1;
        let from = u64::from(offset) / BLOCK_BYTES as u64;
        let parts = parts_of(&part_of(&place, from, blocks));
        self.request(
            Operation::StoreWrite(slot),
            Request::Write { buffer, parts },
        );
    }

    pub(super) fn store_written(&mut self, slot: u32, buffer: Buffer, result: io::Result<()>) {
        self.buffers.put(buffer);
        if let Some(state) = self.store(slot) {
            state.writing -= 1;
        }
        if let Err(error) = result {
            return self.fail_store(slot, Failure::WriteFailed(error.to_string()));
        }
        self.want_pieces(slot);
        self.settle_store(slot);
    }

    /// Stages a small value and hands its record to the journal.
    pub(super) fn small_value_came(&mut self, slot: u32, buffer: Buffer) {
        let Some(active) = self.commands.get_mut(slot) else {
            return self.buffers.put(buffer);
        };
        let (at, key) = (active.namespace, active.key);
        let namespace = self.namespace(at);
        let Some(state) = self.store(slot) else {
            return;
        };
        let (bytes, sequence) = (state.value_bytes as usize, state.sequence);
        let secret = namespace.description.secret;
        let check = value_checksum(secret, &[piece_checksum(secret, 0, &buffer[..bytes])]);
        let staged = namespace
            .segments
            .stage(&key, sequence, &buffer[..bytes], || {
                Self::allocate_segment(&namespace)
            });
        let Some(staged) = staged else {
            return self.hold_small(slot, buffer);
        };
        if let Some(segment) = staged.sealed {
            self.write_segment(at, segment);
        }
        if let Some(state) = self.store(slot) {
            state.cell = Some(staged.location);
        }
        let pending = Pending::Inline {
            home: staged.location,
            buffer,
        };
        self.hand_over(slot, check, pending);
    }

    /// Gives the record of a command that owns its key to the journal.
    fn hand_over(&mut self, slot: u32, checksum: u64, change: Pending) {
        let waiter = Waiter::new(&self.inbox, slot);
        let Some(active) = self.commands.get_mut(slot) else {
            return;
        };
        let (at, key, hash) = (active.namespace, active.key, active.hash);
        let Some(state) = self.store(slot) else {
            return;
        };
        state.is_committing = true;
        let member = Member {
            key,
            hash,
            sequence: state.sequence,
            value_bytes: state.value_bytes,
            checksum,
            change,
            share: std::mem::take(&mut state.share),
            waiter: Some(waiter),
        };
        self.node.key_namespaces()[at]
            .journal
            .lock()
            .open
            .push(member);
    }

    pub(super) fn fail_store(&mut self, slot: u32, failure: Failure) {
        if self.store(slot).is_none_or(|state| state.is_committing) {
            // Its record decides.
            return;
        }
        if let Some(active) = self.commands.get_mut(slot) {
            active.failure.get_or_insert(failure);
        }
        self.settle_store(slot);
    }

    /// Goes on once nothing of the store is under way: to its record, or to its end.
    fn settle_store(&mut self, slot: u32) {
        let failed = self
            .commands
            .get_mut(slot)
            .and_then(|active| active.failure.clone());
        let Some(state) = self.store(slot) else {
            return;
        };
        let is_waiting =
            state.waits_for_space || state.waits_for_borrower || !state.wanted.is_empty();
        if state.is_committing || state.writing > 0 || is_waiting {
            return;
        }
        if let Some(failure) = failed {
            // A command that waits for its key ends when it gets it.
            if state.owns_key {
                self.end_store(slot, Err(failure));
            }
            return;
        }
        if state.is_small() || state.next_want < state.value_bytes {
            return;
        }
        let Some(place) = state.place.clone() else {
            return;
        };
        let checks = std::mem::take(&mut state.checks);
        let Some(at) = self.commands.get_mut(slot).map(|active| active.namespace) else {
            return;
        };
        let secret = self.node.key_namespaces()[at].description.secret;
        self.hand_over(
            slot,
            value_checksum(secret, &checks),
            Pending::Extents(place),
        );
    }

    /// Ends a store. A failed one gives its blocks back; else the index has them.
    pub(super) fn end_store(&mut self, slot: u32, result: Result<(), Failure>) {
        let Some(at) = self.commands.get_mut(slot).map(|active| active.namespace) else {
            return;
        };
        let namespace = self.namespace(at);
        let Some(state) = self.store(slot) else {
            return;
        };
        let (place, cell, bytes) = (state.place.take(), state.cell.take(), state.value_bytes);
        namespace.unreserve(&std::mem::take(&mut state.share));
        if result.is_err() && namespace.check_writable().is_ok() {
            if let Some(extents) = place {
                namespace.free_extents(extents);
            }
            if let Some(cell) = cell {
                namespace.free_cell(cell, bytes);
            }
        }
        self.release_key(slot);
        self.finish(slot, result.map(|()| Answer::Stored));
    }
}

impl State {
    /// Returns the blocks that a piece fills; the last one has the trailer behind it.
    fn piece_blocks(&self, offset: u32, bytes: u32) -> u64 {
        match &self.place {
            Some(place) if offset + bytes == self.value_bytes => {
                place.blocks() - u64::from(offset) / BLOCK_BYTES as u64
            }
            _ => blocks_of(u64::from(bytes)),
        }
    }
}
