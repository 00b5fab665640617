//! Pieces of values between host and backend.

use std::ops::DerefMut;

use zerocopy::{FromBytes, IntoBytes};

use super::action::Action;
use super::connection::{Connection, Current, slot_of};
use super::flight::Wanted;
use super::reader::Violation;
use crate::wire::digest::digest;
use crate::wire::pdu::{self, FLAG_LAST, Fatal, HEADER_BYTES, Kind};

impl<B: DerefMut<Target = [u8]>> Connection<B> {
    /// Checks data against the transfer that they belong to: its tag is one of ours, they follow those
    /// before them and stay within its length.
    pub(super) fn host_data(&mut self) -> Result<(), Violation> {
        let header = self.reader.header();
        let is_last = header[1] & FLAG_LAST != 0;
        let data = pdu::Data::read_from_bytes(&header[HEADER_BYTES..]);
        let data = data.expect("a header of 24 bytes");
        if data.bytes.get() as usize != self.reader.data_left() {
            return Err(Violation::field(HEADER_BYTES + 8));
        }
        let slot = data.transfer_tag.get();
        let flight = self
            .flights
            .get(slot)
            .ok_or(Violation::field(HEADER_BYTES + 2))?;
        if flight.command_id != data.command_id.get() {
            return Err(Violation::field(HEADER_BYTES));
        }
        let wanted = flight
            .wanted
            .front()
            .ok_or(Violation::field(HEADER_BYTES + 2))?;
        if data.offset.get() != wanted.offset + wanted.filled {
            return Err(Fatal::DataOutOfRange.into());
        }
        let left = wanted.bytes - wanted.filled;
        if data.bytes.get() > left || data.bytes.get() == 0 {
            return Err(Fatal::DataOutOfRange.into());
        }
        if is_last != (data.bytes.get() == left) {
            return Err(Violation::field(1));
        }
        self.current = Current::Data { slot, is_last };
        Ok(())
    }

    /// Hands a whole piece on, and asks for the next one.
    pub(super) fn piece_is_there(&mut self, slot: u16, actions: &mut Vec<Action<B>>) {
        let tag = self.tag(slot);
        let Some(flight) = self.flights.get(slot) else {
            return;
        };
        self.statistics
            .transfer_ended(self.now.saturating_duration_since(flight.asked));
        if let Some(wanted) = flight.wanted.pop_front() {
            let buffer = wanted.buffer;
            // A damaged piece must not take effect, even as the last one.
            actions.push(match flight.failure {
                None => Action::Supply { tag, buffer },
                Some(_) => Action::GiveBack { tag, buffer },
            });
        }
        self.request_transfer(slot);
    }

    /// Asks for the first piece that is wanted.
    pub(super) fn request_transfer(&mut self, slot: u16) {
        let now = self.now;
        let Some(flight) = self.flights.get(slot) else {
            return;
        };
        flight.asked = now;
        let command_id = flight.command_id;
        let Some(wanted) = flight.wanted.front() else {
            return;
        };
        let data = pdu::Data {
            command_id: command_id.into(),
            transfer_tag: slot.into(),
            offset: wanted.offset.into(),
            bytes: wanted.bytes.into(),
            reserved: [0; 4],
        };
        self.statistics.transfer_began();
        self.push_header(Kind::ReadyToTransfer, 0, 0, data.as_bytes());
    }

    pub(super) fn want(
        &mut self,
        tag: u64,
        offset: u32,
        bytes: u32,
        mut buffer: B,
        actions: &mut Vec<Action<B>>,
    ) {
        let slot = slot_of(tag);
        let is_over = self.ended.is_some();
        let flight = self.flights.get(slot).filter(|_| !is_over);
        let Some(flight) = flight.filter(|flight| flight.failure.is_none()) else {
            // The buffer has none of the host's data: the command must not take effect.
            actions.push(Action::GiveBack { tag, buffer });
            return;
        };
        if let Some(capsule) = &flight.capsule {
            let (from, length) = (offset as usize, bytes as usize);
            buffer[..length].copy_from_slice(&capsule[from..from + length]);
            actions.push(Action::Supply { tag, buffer });
            return;
        }
        flight.wanted.push_back(Wanted {
            offset,
            bytes,
            filled: 0,
            buffer,
        });
        if flight.wanted.len() == 1 {
            self.request_transfer(slot);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of an event")]
    pub(super) fn piece(
        &mut self,
        tag: u64,
        offset: u32,
        at: usize,
        bytes: u32,
        is_last: bool,
        buffer: B,
        actions: &mut Vec<Action<B>>,
    ) {
        let is_over = self.ended.is_some();
        let flight = self.flights.get(slot_of(tag)).filter(|_| !is_over);
        let Some(flight) = flight.filter(|flight| flight.failure.is_none()) else {
            actions.push(Action::GiveBack { tag, buffer });
            return;
        };
        flight.sending += 1;
        let command_id = flight.command_id;
        let length = bytes as usize;
        let sum = self.data_digests.then(|| digest(&buffer[at..at + length]));
        self.push_data_header(command_id, offset, bytes, is_last);
        self.output.push_piece(tag, buffer, at, length);
        if let Some(sum) = sum {
            self.output.push(&sum);
        }
    }
}
