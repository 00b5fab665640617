//! The bytes that a host sends: PDUs and their digests.

use zerocopy::{FromZeros, IntoBytes};

use super::receiver::Digests;
use super::violation::Violation;
use crate::wire::digest::{DIGEST_BYTES, digest};
use crate::wire::pdu::{
    COMMAND_BYTES, DATA_BYTES, DIGEST_DATA, DIGEST_HEADER, FLAG_DATA_DIGEST, FLAG_HEADER_DIGEST,
    HEADER_BYTES, Header, INITIALIZE_BYTES, Initialize, Kind, Termination,
};

const _: () = assert!(COMMAND_BYTES + DIGEST_BYTES <= u8::MAX as usize);
const _: () = assert!(INITIALIZE_BYTES <= u8::MAX as usize);
const _: () = assert!(HEADER_BYTES + size_of::<Termination>() == DATA_BYTES);

/// PDUs to send.
pub(super) struct Output {
    digests: Digests,
    bytes: Vec<u8>,
    /// Bytes at the begin that the caller has sent.
    sent: usize,
}

impl Output {
    /// Makes the output of a new connection: its first request.
    pub(super) fn new(digests: Digests) -> Self {
        let mut output = Output {
            digests,
            bytes: Vec::new(),
            sent: 0,
        };
        let mut request = Initialize::new_zeroed();
        request.digests = digest_bits(digests);
        output.put(Kind::InitializeRequest, 0, request.as_bytes(), &[]);
        output
    }

    /// Returns the bytes to send.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Takes note that the first `bytes` bytes are sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent = (self.sent + bytes).min(self.bytes.len());
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent >= self.bytes.len().div_ceil(2) {
            // A stream that always leaves a rest must not make the output grow.
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Appends a PDU.
    pub(super) fn put(&mut self, kind: Kind, flags: u8, structure: &[u8], data: &[u8]) {
        let header_bytes = kind.header_bytes();
        let header_digest = self.digests.header && kind != Kind::InitializeRequest;
        let data_digest = self.digests.data && !data.is_empty();
        let digested = header_bytes + if header_digest { DIGEST_BYTES } else { 0 };
        let bytes = digested + data.len() + if data_digest { DIGEST_BYTES } else { 0 };
        let header = Header {
            kind: kind as u8,
            flags: flags
                | if header_digest { FLAG_HEADER_DIGEST } else { 0 }
                | if data_digest { FLAG_DATA_DIGEST } else { 0 },
            header_bytes: header_bytes as u8,
            data_offset: if data.is_empty() { 0 } else { digested as u8 },
            bytes: (bytes as u32).into(),
        };
        let start = self.bytes.len();
        self.bytes.reserve(bytes);
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(structure);
        if header_digest {
            let digest = digest(&self.bytes[start..]);
            self.bytes.extend_from_slice(&digest);
        }
        self.bytes.extend_from_slice(data);
        if data_digest {
            self.bytes.extend_from_slice(&digest(data));
        }
    }

    /// Appends the termination request that answers a violation, if one is due. `offender` is the
    /// header that the violation is in.
    pub(super) fn put_termination(&mut self, violation: Violation, offender: &[u8]) {
        let Some((status, information)) = violation.termination() else {
            return;
        };
        let mut request = Termination::new_zeroed();
        request.status = (status as u16).into();
        request.information = information.into();
        let header = Header {
            kind: Kind::HostTermination as u8,
            flags: 0,
            header_bytes: DATA_BYTES as u8,
            data_offset: 0,
            bytes: ((DATA_BYTES + offender.len()) as u32).into(),
        };
        for part in [header.as_bytes(), request.as_bytes(), offender] {
            self.bytes.extend_from_slice(part);
        }
    }
}

/// Returns the bits by which sides agree on digests.
pub(super) fn digest_bits(digests: Digests) -> u8 {
    let header = if digests.header { DIGEST_HEADER } else { 0 };
    let data = if digests.data { DIGEST_DATA } else { 0 };
    header | data
}
