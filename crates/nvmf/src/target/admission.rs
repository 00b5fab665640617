//! The commands that the backend has: no more than the connection's share of buffers allows, and none
//! for longer than hosts wait.

use std::ops::DerefMut;

use super::action::Action;
use super::connection::Connection;
use crate::wire::Status;

impl<B: DerefMut<Target = [u8]>> Connection<B> {
    /// Sets the connection's share of the backend's buffers. One command is submitted at any size.
    pub fn set_share(&mut self, bytes: usize) {
        self.share_bytes = bytes;
    }

    /// Submits the commands for which there is room. Answers that the host does not take are memory,
    /// too.
    pub(super) fn admit(&mut self, actions: &mut Vec<Action<B>>) {
        while self.ended.is_none() && self.output.own_bytes() <= MAX_OWN_BYTES {
            let is_new = self.moved_bytes < PROOF_BYTES;
            let share = self
                .share_bytes
                .min(if is_new { NEW_SHARE_BYTES } else { usize::MAX });
            let Some((slot, nsid, command)) = self.flights.admit(share) else {
                return;
            };
            let tag = self.tag(slot);
            actions.push(Action::Submit { tag, nsid, command });
        }
    }

    /// Aborts the command with an identifier, as far as the backend can. Returns whether there is one.
    pub(super) fn abort(&mut self, command_id: u16, actions: &mut Vec<Action<B>>) -> bool {
        let Some(slot) = self.flights.find(command_id) else {
            return false;
        };
        self.take_back(slot, Status::ABORTED, actions);
        true
    }

    /// Takes back the commands whose time is over: the host gives them up soon, and may send them again.
    pub(super) fn interrupt(&mut self, actions: &mut Vec<Action<B>>) {
        for slot in self.flights.overdue(self.now, self.settings.command) {
            if let Some(flight) = self.flights.get(slot) {
                flight.failure = Some(Status::COMMAND_INTERRUPTED);
            }
            self.take_back(slot, Status::COMMAND_INTERRUPTED, actions);
        }
    }

    fn take_back(&mut self, slot: u16, status: Status, actions: &mut Vec<Action<B>>) {
        let tag = self.tag(slot);
        let Some(flight) = self.flights.get(slot) else {
            return;
        };
        let command_id = flight.command_id;
        let operation = flight.operation;
        // A transfer under way ends by itself; its data belong to the buffer until then.
        let is_transferring = !flight.wanted.is_empty();
        if self.flights.withdraw(slot) {
            self.count_in_flight(-1);
            self.answering = operation;
            self.respond(command_id, status, 0);
        } else if !is_transferring {
            actions.push(Action::Abort { tag });
        }
    }

    /// Forgets the commands that the backend does not have, after the connection's end.
    pub(super) fn withdraw_all(&mut self) {
        for slot in self.flights.slots() {
            if self.flights.withdraw(slot) {
                self.count_in_flight(-1);
            }
        }
    }
}

/// Bytes that a connection moves before it has more than [`NEW_SHARE_BYTES`]: hosts that only keep
/// buffers have few. The sockets of a host that takes nothing hold fewer bytes.
const PROOF_BYTES: u64 = 16 << 20;
const NEW_SHARE_BYTES: usize = 2 << 20;
/// Bytes of answers that a connection keeps before it submits no more commands.
pub(crate) const MAX_OWN_BYTES: usize = 256 << 10;
