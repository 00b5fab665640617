//! A command under way, and the data that move for it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::backend::Command;
use super::command::Data;
use super::statistics::Operation;
use crate::wire::Status;

/// A command that the backend has, or is to have.
pub(super) struct Flight<B> {
    pub(super) command_id: u16,
    pub(super) nsid: u32,
    pub(super) opcode: u8,
    pub(super) operation: Operation,
    pub(super) data: Data,
    /// The command, as long as it waits for the connection's share of buffers.
    pub(super) command: Option<Command>,
    pub(super) began: Instant,
    /// The data of its capsule. None if they come by transfers.
    pub(super) capsule: Option<Vec<u8>>,
    /// Pieces that the backend wants, in order; the first is being transferred.
    pub(super) wanted: VecDeque<Wanted<B>>,
    /// When the host was asked for the first piece.
    pub(super) asked: Instant,
    /// Pieces that wait in the output.
    pub(super) sending: usize,
    /// Whether the backend has ended the command. It keeps its slot until its pieces are sent: their
    /// buffers go back under its tag, which must be no other command's by then.
    pub(super) is_done: bool,
    /// The status that the host gets, instead of the backend's answer.
    pub(super) failure: Option<Status>,
}

/// A piece that the backend wants.
pub(super) struct Wanted<B> {
    pub(super) offset: u32,
    pub(super) bytes: u32,
    pub(super) filled: u32,
    pub(super) buffer: B,
}

/// Commands by their slots: the slot is the transfer tag and part of the backend's tag.
pub(super) struct Flights<B> {
    slots: Vec<Option<Flight<B>>>,
    free: Vec<u16>,
    used: usize,
    /// Commands that wait for the connection's share of buffers, in turn.
    waiting: VecDeque<u16>,
    /// The most bytes of buffers that the others can hold together.
    held_bytes: usize,
}

/// The most bytes of buffers that a command of any size holds at a time.
const MAX_HELD_BYTES: u32 = 2 << 20;

/// The unit of buffers of a write, and of a read: a byte of a value comes with a checked part of it.
const BLOCK_BYTES: u32 = 4 << 10;
const READ_BYTES: u32 = 64 << 10;

fn held(bytes: u32, unit: u32) -> usize {
    bytes.min(MAX_HELD_BYTES).next_multiple_of(unit) as usize
}

impl<B> Flight<B> {
    /// Returns the most bytes of memory that the command holds at a time.
    fn held_bytes(&self) -> usize {
        match self.data {
            Data::None => 0,
            Data::FromHost(bytes) => held(bytes, BLOCK_BYTES),
            Data::ToHost(bytes) => held(bytes, READ_BYTES),
        }
    }
}

impl<B> Flights<B> {
    pub(super) fn new() -> Self {
        Flights {
            slots: Vec::new(),
            free: Vec::new(),
            used: 0,
            waiting: VecDeque::new(),
            held_bytes: 0,
        }
    }

    /// Returns the number of commands that have not ended.
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// Takes a command in, which [`Flights::admit`] hands out when there is room for it.
    pub(super) fn insert(&mut self, flight: Flight<B>) -> u16 {
        self.used += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[usize::from(slot)] = Some(flight);
                slot
            }
            None => {
                self.slots.push(Some(flight));
                (self.slots.len() - 1) as u16
            }
        };
        self.waiting.push_back(slot);
        slot
    }

    /// Returns the next command for the backend, if it fits into `share` bytes beside those that the
    /// backend has. One fits always.
    pub(super) fn admit(&mut self, share: usize) -> Option<(u16, u32, Command)> {
        let &slot = self.waiting.front()?;
        let held = self.held_bytes;
        let flight = self.get(slot)?;
        let bytes = flight.held_bytes();
        if bytes > 0 && held > 0 && held + bytes > share {
            return None;
        }
        let (nsid, command) = (flight.nsid, flight.command.take()?);
        self.waiting.pop_front();
        self.held_bytes += bytes;
        Some((slot, nsid, command))
    }

    /// Takes back a command that still waits. Returns false if the backend has it.
    pub(super) fn withdraw(&mut self, slot: u16) -> bool {
        let flight = self.get(slot);
        let is_waiting = flight.is_some_and(|flight| flight.command.take().is_some());
        if is_waiting {
            self.waiting.retain(|&other| other != slot);
            self.used -= 1;
            self.slots[usize::from(slot)] = None;
            self.free.push(slot);
        }
        is_waiting
    }

    /// Returns the slots.
    pub(super) fn slots(&self) -> std::ops::Range<u16> {
        0..self.slots.len() as u16
    }

    /// Returns whether buffers of the backend are with the host or on the way to it.
    pub(super) fn holds_buffers(&self) -> bool {
        let mut flights = self.slots.iter().flatten();
        flights.any(|flight| flight.sending > 0 || !flight.wanted.is_empty())
    }

    pub(super) fn get(&mut self, slot: u16) -> Option<&mut Flight<B>> {
        self.slots.get_mut(usize::from(slot))?.as_mut()
    }

    /// Takes note of the backend's end of a command. Its slot is free once its pieces are sent.
    pub(super) fn done(&mut self, slot: u16) -> Option<&mut Flight<B>> {
        let flight = self.get(slot).filter(|flight| !flight.is_done)?;
        flight.is_done = true;
        self.used -= 1;
        self.get(slot)
    }

    /// Takes note of a piece that has left the output.
    pub(super) fn piece_left(&mut self, slot: u16) {
        if let Some(flight) = self.get(slot) {
            debug_assert!(flight.sending > 0, "a piece leaves once");
            flight.sending -= 1;
            self.free_if_over(slot);
        }
    }

    /// Frees the slot of a command that is done and has no piece in the output.
    pub(super) fn free_if_over(&mut self, slot: u16) {
        let Some(place) = self.slots.get_mut(usize::from(slot)) else {
            return;
        };
        let is_over = |flight: &Flight<B>| flight.is_done && flight.sending == 0;
        if let Some(flight) = place.take_if(|flight| is_over(flight)) {
            self.held_bytes -= flight.held_bytes();
            self.free.push(slot);
        }
    }

    /// Returns the slots of commands that began longer than `limit` ago and still are to succeed.
    pub(super) fn overdue(&self, now: Instant, limit: Duration) -> Vec<u16> {
        let all = self.slots.iter().enumerate();
        let is_overdue = |flight: &Flight<B>| {
            let is_late = now.duration_since(flight.began) > limit;
            is_late && !flight.is_done && flight.failure.is_none()
        };
        all.filter(|(_, flight)| flight.as_ref().is_some_and(is_overdue))
            .map(|(slot, _)| slot as u16)
            .collect()
    }

    /// Restarts the time in which the host sends the pieces.
    pub(super) fn ask_anew(&mut self, now: Instant) {
        // One that was taken back has its key for no longer than the rest of the piece's time.
        let all = self.slots.iter_mut().flatten();
        for flight in all.filter(|flight| flight.failure.is_none()) {
            flight.asked = now;
        }
    }

    /// Returns whether a host has not sent a piece within `limit` of being asked for it.
    pub(super) fn is_late(&self, now: Instant, limit: Duration) -> bool {
        let mut flights = self.slots.iter().flatten();
        flights.any(|flight| !flight.wanted.is_empty() && now.duration_since(flight.asked) > limit)
    }

    /// Returns the slot of the command with an identifier that has not ended.
    pub(super) fn find(&self, command_id: u16) -> Option<u16> {
        let is_it = |flight: &Option<Flight<B>>| {
            let flight = flight.as_ref();
            flight.is_some_and(|flight| flight.command_id == command_id && !flight.is_done)
        };
        self.slots.iter().position(is_it).map(|slot| slot as u16)
    }

    /// Iterates over the commands that have not ended.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u16, &mut Flight<B>)> {
        let all = self.slots.iter_mut().enumerate();
        let all = all.filter_map(|(slot, flight)| Some((slot as u16, flight.as_mut()?)));
        all.filter(|(_, flight)| !flight.is_done)
    }
}
