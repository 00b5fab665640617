//! PDUs that come in: their headers, their data, their ends.

use std::ops::DerefMut;
use std::sync::atomic::Ordering;
use std::time::Instant;

use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::action::{Action, Ended};
use super::connection::{Connection, Current, Phase};
use super::reader::{Item, Violation};
use crate::wire::pdu::{
    DIGEST_DATA, DIGEST_HEADER, Fatal, HEADER_BYTES, Header, INITIALIZE_BYTES, Initialize, Kind,
};
use crate::wire::{Status, SubmissionEntry};

impl<B: DerefMut<Target = [u8]>> Connection<B> {
    /// Takes bytes of the host.
    pub fn receive(
        &mut self,
        mut input: &[u8],
        now: Instant,
        used_bytes: &dyn Fn(u32) -> u64,
        actions: &mut Vec<Action<B>>,
    ) {
        self.now = now;
        self.moved_bytes += input.len() as u64;
        let bytes = input.len() as u64;
        self.statistics
            .received_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        if let Some(controller) = &self.controller {
            let received = &controller.traffic.received_bytes;
            received.fetch_add(bytes, Ordering::Relaxed);
        }
        while self.ended.is_none() {
            match self.reader.next(&mut input) {
                Ok(None) => return,
                Ok(Some(item)) => {
                    if let Err(violation) = self.item(item, &mut input, used_bytes, actions) {
                        self.violated(violation);
                    }
                }
                Err(violation) => self.violated(violation),
            }
        }
    }

    pub(super) fn item(
        &mut self,
        item: Item,
        input: &mut &[u8],
        used_bytes: &dyn Fn(u32) -> u64,
        actions: &mut Vec<Action<B>>,
    ) -> Result<(), Violation> {
        match item {
            Item::Header(kind) => self.header(kind),
            Item::Data(bytes) => {
                let (data, rest) = input.split_at(bytes);
                *input = rest;
                self.data(data);
                Ok(())
            }
            Item::End(is_intact) => self.end_of_pdu(is_intact, used_bytes, actions),
        }
    }

    /// Looks at a header before its data come.
    pub(super) fn header(&mut self, kind: Kind) -> Result<(), Violation> {
        match (kind, &self.phase) {
            (Kind::InitializeRequest, Phase::Initialize) => self.initialize(),
            (Kind::HostTermination, _) => {
                self.current = Current::Termination;
                Ok(())
            }
            (_, Phase::Initialize | Phase::Held(_)) | (Kind::InitializeRequest, _) => {
                Err(Fatal::SequenceError.into())
            }
            (Kind::Command, _) => {
                let entry = SubmissionEntry::read_from_bytes(&self.reader.header()[HEADER_BYTES..]);
                self.capsule.clear();
                self.current = Current::Command(Box::new(entry.expect("a header of 72 bytes")));
                Ok(())
            }
            (Kind::HostData, _) => self.host_data(),
            _ => Err(Violation::field(0)),
        }
    }

    pub(super) fn initialize(&mut self) -> Result<(), Violation> {
        let request = Initialize::read_from_bytes(&self.reader.header()[HEADER_BYTES..]);
        let request = request.expect("a header of 128 bytes");
        if request.format.get() != 0 {
            return Err(Violation {
                fatal: Fatal::UnsupportedParameter,
                offset: HEADER_BYTES as u32,
            });
        }
        // Data to the host are not padded.
        if request.data_alignment != 0 {
            return Err(Violation {
                fatal: Fatal::UnsupportedParameter,
                offset: HEADER_BYTES as u32 + 2,
            });
        }
        let mut response = Initialize::new_zeroed();
        response.digests = request.digests & (DIGEST_HEADER | DIGEST_DATA);
        response.limit = self.settings.max_data_bytes.into();
        let header = Header {
            kind: Kind::InitializeResponse as u8,
            flags: 0,
            header_bytes: INITIALIZE_BYTES as u8,
            data_offset: 0,
            bytes: (INITIALIZE_BYTES as u32).into(),
        };
        self.output.push(header.as_bytes());
        self.output.push(response.as_bytes());
        self.header_digests = response.digests & DIGEST_HEADER != 0;
        self.data_digests = response.digests & DIGEST_DATA != 0;
        self.phase = Phase::Connect;
        Ok(())
    }

    pub(super) fn data(&mut self, data: &[u8]) {
        match &self.current {
            Current::Command(_) => self.capsule.extend_from_slice(data),
            Current::Data { slot, .. } => {
                let flight = self.flights.get(*slot);
                // A command that was taken back has no piece any more.
                if let Some(wanted) = flight.and_then(|flight| flight.wanted.front_mut()) {
                    let at = wanted.filled as usize;
                    wanted.buffer[at..at + data.len()].copy_from_slice(data);
                    wanted.filled += data.len() as u32;
                }
            }
            Current::Termination | Current::None => {}
        }
    }

    pub(super) fn end_of_pdu(
        &mut self,
        is_intact: bool,
        used_bytes: &dyn Fn(u32) -> u64,
        actions: &mut Vec<Action<B>>,
    ) -> Result<(), Violation> {
        match std::mem::replace(&mut self.current, Current::None) {
            Current::None => {
                self.reader
                    .set_digests(self.header_digests, self.data_digests);
                Ok(())
            }
            Current::Termination => {
                self.end(Ended::ByHost);
                Ok(())
            }
            Current::Data { slot, is_last } => {
                if let Some(flight) = self.flights.get(slot).filter(|_| !is_intact) {
                    flight.failure.get_or_insert(Status::TRANSPORT_ERROR);
                }
                if is_last {
                    self.piece_is_there(slot, actions);
                }
                Ok(())
            }
            Current::Command(entry) => {
                self.last_command = self.now;
                self.command(*entry, is_intact, used_bytes, actions)
            }
        }
    }
}
