//! A command under way, and the data that move for it.

use std::collections::VecDeque;

use super::command::Data;
use crate::wire::Status;

/// A command that the backend has.
pub(super) struct Flight<B> {
    pub(super) command_id: u16,
    pub(super) nsid: u32,
    pub(super) opcode: u8,
    pub(super) data: Data,
    /// The data of its capsule. None if they come by transfers.
    pub(super) capsule: Option<Vec<u8>>,
    /// Pieces that the backend wants, in order; the first is being transferred.
    pub(super) wanted: VecDeque<Wanted<B>>,
    /// The status that the host gets, whatever the backend answers.
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
}

impl<B> Flights<B> {
    pub(super) fn new() -> Self {
        Flights {
            slots: Vec::new(),
            free: Vec::new(),
            used: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.used
    }

    pub(super) fn insert(&mut self, flight: Flight<B>) -> u16 {
        self.used += 1;
        if let Some(slot) = self.free.pop() {
            self.slots[usize::from(slot)] = Some(flight);
            return slot;
        }
        self.slots.push(Some(flight));
        (self.slots.len() - 1) as u16
    }

    pub(super) fn get(&mut self, slot: u16) -> Option<&mut Flight<B>> {
        self.slots.get_mut(usize::from(slot))?.as_mut()
    }

    pub(super) fn remove(&mut self, slot: u16) -> Option<Flight<B>> {
        let flight = self.slots.get_mut(usize::from(slot))?.take()?;
        self.used -= 1;
        self.free.push(slot);
        Some(flight)
    }

    pub(super) fn find(&self, command_id: u16) -> Option<u16> {
        let is_it = |flight: &Option<Flight<B>>| {
            flight
                .as_ref()
                .is_some_and(|flight| flight.command_id == command_id)
        };
        self.slots.iter().position(is_it).map(|slot| slot as u16)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u16, &mut Flight<B>)> {
        let all = self.slots.iter_mut().enumerate();
        all.filter_map(|(slot, flight)| Some((slot as u16, flight.as_mut()?)))
    }
}
