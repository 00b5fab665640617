//! PDUs that a connection sends.

use std::ops::DerefMut;
use std::sync::atomic::Ordering;

use zerocopy::{FromZeros, IntoBytes};

use super::action::Ended;
use super::connection::Connection;
use super::reader::Violation;
use crate::wire::digest::digest;
use crate::wire::pdu::{
    self, DATA_BYTES, FLAG_DATA_DIGEST, FLAG_HEADER_DIGEST, FLAG_LAST, Fatal, HEADER_BYTES, Header,
    Kind, RESPONSE_BYTES,
};
use crate::wire::{CompletionEntry, Status};

impl<B: DerefMut<Target = [u8]>> Connection<B> {
    /// Sends data of a command that needs no backend.
    pub(super) fn send_data(&mut self, command_id: u16, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        self.push_data_header(command_id, 0, data.len() as u32, true);
        self.output.push(data);
        if self.data_digests {
            self.output.push(&digest(data));
        }
    }

    /// Answers a command.
    pub(super) fn respond(&mut self, command_id: u16, status: Status, result: u64) {
        self.statistics.answered(self.answering, status);
        if let Some(controller) = &self.controller {
            let answers = &controller.traffic.answers;
            answers.fetch_add(1, Ordering::Relaxed);
        }
        let head = self.head.unwrap_or(u16::MAX);
        let entry = CompletionEntry::new(command_id, head, status, result);
        debug_assert_eq!(HEADER_BYTES + entry.as_bytes().len(), RESPONSE_BYTES);
        self.push_header(Kind::Response, 0, 0, entry.as_bytes());
    }

    pub(super) fn push_data_header(
        &mut self,
        command_id: u16,
        offset: u32,
        bytes: u32,
        is_last: bool,
    ) {
        let data = pdu::Data {
            command_id: command_id.into(),
            transfer_tag: 0.into(),
            offset: offset.into(),
            bytes: bytes.into(),
            reserved: [0; 4],
        };
        let flags = if is_last { FLAG_LAST } else { 0 };
        self.push_header(Kind::ControllerData, flags, bytes, data.as_bytes());
    }

    /// Appends a header with its digest. `data_bytes` of data follow it.
    pub(super) fn push_header(&mut self, kind: Kind, mut flags: u8, data_bytes: u32, rest: &[u8]) {
        let mut bytes = [0; DATA_BYTES + 4];
        let length = HEADER_BYTES + rest.len();
        let behind = length + if self.header_digests { 4 } else { 0 };
        let mut all = behind as u32 + data_bytes;
        if self.header_digests {
            flags |= FLAG_HEADER_DIGEST;
        }
        if data_bytes > 0 && self.data_digests {
            flags |= FLAG_DATA_DIGEST;
            all += 4;
        }
        let header = Header {
            kind: kind as u8,
            flags,
            header_bytes: length as u8,
            data_offset: if data_bytes > 0 { behind as u8 } else { 0 },
            bytes: all.into(),
        };
        bytes[..HEADER_BYTES].copy_from_slice(header.as_bytes());
        bytes[HEADER_BYTES..length].copy_from_slice(rest);
        if self.header_digests {
            let sum = digest(&bytes[..length]);
            bytes[length..behind].copy_from_slice(&sum);
        }
        self.output.push(&bytes[..behind]);
    }

    /// Ends the connection for a violation, with the termination request that says so.
    pub(super) fn violated(&mut self, violation: Violation) {
        let offending = self.reader.so_far();
        let mut termination = pdu::Termination::new_zeroed();
        termination.status = (violation.fatal as u16).into();
        termination.information = violation.offset.into();
        let length = HEADER_BYTES + size_of::<pdu::Termination>();
        let header = Header {
            kind: Kind::ControllerTermination as u8,
            flags: 0,
            header_bytes: length as u8,
            data_offset: 0,
            bytes: ((length + offending.len()) as u32).into(),
        };
        let bytes = [header.as_bytes(), termination.as_bytes(), offending].concat();
        self.output.push(&bytes);
        self.end(Ended::Violation(words(violation.fatal)));
    }
}

fn words(fatal: Fatal) -> &'static str {
    match fatal {
        Fatal::InvalidHeaderField => "invalid field in a PDU header",
        Fatal::SequenceError => "a PDU out of sequence",
        Fatal::HeaderDigestError => "a header digest that does not match",
        Fatal::DataOutOfRange => "data out of range",
        Fatal::DataLimitExceeded => "more data than the limit",
        Fatal::UnsupportedParameter => "an unsupported parameter",
    }
}
