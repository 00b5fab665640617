//! Events of the backend: pieces, and the ends of commands.

use std::ops::DerefMut;

use super::action::Action;
use super::backend::{Answer, Event, Key};
use super::command::Data;
use super::connection::{Connection, slot_of};
use super::statistics::Operation;
use crate::wire::Status;
use crate::wire::kv::{self, KeyList};

impl<B: DerefMut<Target = [u8]>> Connection<B> {
    /// Takes an event of the backend for one of the connection's commands.
    pub fn event(&mut self, event: Event<B>, actions: &mut Vec<Action<B>>) {
        match event {
            Event::Want {
                tag,
                offset,
                bytes,
                buffer,
            } => self.want(tag, offset, bytes, buffer, actions),
            Event::Piece {
                tag,
                offset,
                at,
                bytes,
                is_last,
                buffer,
            } => self.piece(tag, offset, at, bytes, is_last, buffer, actions),
            Event::Done { tag, result } => {
                self.done(tag, result);
                self.admit(actions);
            }
        }
    }

    pub(super) fn done(&mut self, tag: u64, result: Result<Answer, Status>) {
        let slot = slot_of(tag);
        let Some(flight) = self.flights.done(slot) else {
            debug_assert!(false, "a command ends once");
            return;
        };
        debug_assert!(flight.wanted.is_empty(), "a command ends without pieces");
        let (command_id, failure) = (flight.command_id, flight.failure);
        let (opcode, nsid, data) = (flight.opcode, flight.nsid, flight.data);
        self.answering = flight.operation;
        let time = self.now.saturating_duration_since(flight.began);
        self.statistics.took(flight.operation, time);
        self.flights.free_if_over(slot);
        self.count_in_flight(-1);
        if self.ended.is_some() {
            return self.give_number_back();
        }
        match (failure, result) {
            // It took effect before it could be taken back.
            (Some(Status::COMMAND_INTERRUPTED), Ok(Answer::Done))
                if !matches!(data, Data::ToHost(_)) =>
            {
                self.respond(command_id, Status::SUCCESS, 0);
            }
            (Some(status), _) => self.respond(command_id, status, 0),
            (None, Ok(Answer::Done)) => self.respond(command_id, Status::SUCCESS, 0),
            (None, Ok(Answer::Retrieved(bytes))) => {
                self.respond(command_id, Status::SUCCESS, u64::from(bytes));
            }
            (None, Ok(Answer::Keys(keys))) => {
                let Data::ToHost(max_bytes) = data else {
                    return self.respond(command_id, Status::INTERNAL_ERROR, 0);
                };
                let list = key_list(&keys, max_bytes as usize);
                self.send_data(command_id, &list);
                self.respond(command_id, Status::SUCCESS, 0);
            }
            (None, Err(Status::KEY_DOES_NOT_EXIST))
                if opcode == kv::DELETE && !self.is_delete_strict(nsid) =>
            {
                self.respond(command_id, Status::SUCCESS, 0);
            }
            // That status is one of the Key Value command set.
            (None, Err(Status::UNRECOVERED_ERROR)) if self.answering == Operation::Read => {
                self.respond(command_id, Status::UNRECOVERED_READ_ERROR, 0);
            }
            (None, Err(status)) => self.respond(command_id, status, 0),
        }
    }

    pub(super) fn is_delete_strict(&self, nsid: u32) -> bool {
        let controller = self.controller.as_ref();
        controller.is_some_and(|controller| controller.strict_deletes.lock().contains(&nsid))
    }
}

fn key_list(keys: &[Key], max_bytes: usize) -> Vec<u8> {
    let mut list = KeyList::new(max_bytes);
    for key in keys {
        if !list.push(key.as_bytes()) {
            break;
        }
    }
    list.into_bytes()
}
