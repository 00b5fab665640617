//! PDUs out of a stream of bytes. Nothing is kept but the header of the PDU at hand.

use zerocopy::FromBytes;

use crate::wire::digest::{DIGEST_BYTES, Digest, digest};
use crate::wire::pdu::{
    FLAG_DATA_DIGEST, FLAG_HEADER_DIGEST, Fatal, HEADER_BYTES, Header, INITIALIZE_BYTES, Kind,
};

/// A violation of the protocol, with which the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) fatal: Fatal,
    /// Where in the header, if a field is illegal.
    pub(super) offset: u32,
}

impl Violation {
    pub(super) fn field(offset: usize) -> Self {
        Violation {
            fatal: Fatal::InvalidHeaderField,
            offset: offset as u32,
        }
    }
}

impl From<Fatal> for Violation {
    fn from(fatal: Fatal) -> Self {
        Violation { fatal, offset: 0 }
    }
}

/// The next thing in the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A whole header; [`Reader::header`] has it.
    Header(Kind),
    /// Bytes of data, at the front of the input.
    Data(usize),
    /// The PDU has ended. False if its data digest does not match.
    End(bool),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Collects the first 8 bytes.
    Head,
    /// Collects the rest of the header and its digest.
    Rest(Kind),
    Data,
    DataDigest,
}

/// Cuts a stream into PDUs.
pub(super) struct Reader {
    state: State,
    head: [u8; INITIALIZE_BYTES + DIGEST_BYTES],
    have: usize,
    need: usize,
    /// Bytes of data that are still to come.
    data_left: usize,
    data_digest: Digest,
    has_header_digests: bool,
    has_data_digests: bool,
    /// The most data of a command's capsule, and of a data PDU.
    max_capsule_data: usize,
    max_data: usize,
}

impl Reader {
    pub(super) fn new(max_capsule_data: usize, max_data: usize) -> Self {
        Reader {
            state: State::Head,
            head: [0; INITIALIZE_BYTES + DIGEST_BYTES],
            have: 0,
            need: HEADER_BYTES,
            data_left: 0,
            data_digest: Digest::default(),
            has_header_digests: false,
            has_data_digests: false,
            max_capsule_data,
            max_data,
        }
    }

    /// Has PDUs carry digests from the next one on.
    pub(super) fn set_digests(&mut self, header: bool, data: bool) {
        (self.has_header_digests, self.has_data_digests) = (header, data);
    }

    /// Returns the header at hand, without its digest.
    pub(super) fn header(&self) -> &[u8] {
        let digest = if self.is_digest_behind() {
            DIGEST_BYTES
        } else {
            0
        };
        &self.head[..self.need - digest]
    }

    /// Returns the bytes of the header that have come, for a termination request.
    pub(super) fn so_far(&self) -> &[u8] {
        &self.head[..self.have.min(INITIALIZE_BYTES)]
    }

    /// Returns the bytes of data that are still to come of the PDU at hand.
    pub(super) fn data_left(&self) -> usize {
        self.data_left
    }

    /// Takes the next item from the front of `input`. None if more bytes are needed.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Item>, Violation> {
        match self.state {
            State::Head => {
                if !self.collect(input) {
                    return Ok(None);
                }
                let kind = self.check_head()?;
                self.state = State::Rest(kind);
                self.next(input)
            }
            State::Rest(kind) => {
                if !self.collect(input) {
                    return Ok(None);
                }
                self.check_header_digest()?;
                self.data_digest = Digest::default();
                self.state = State::Data;
                Ok(Some(Item::Header(kind)))
            }
            State::Data if self.data_left == 0 => {
                let has_digest = self.has_data_digests && self.carries_data();
                self.begin(if has_digest {
                    DIGEST_BYTES
                } else {
                    HEADER_BYTES
                });
                if !has_digest {
                    self.state = State::Head;
                    return Ok(Some(Item::End(true)));
                }
                self.state = State::DataDigest;
                self.next(input)
            }
            State::Data => {
                if input.is_empty() {
                    return Ok(None);
                }
                let bytes = input.len().min(self.data_left);
                self.passed(&input[..bytes]);
                Ok(Some(Item::Data(bytes)))
            }
            State::DataDigest => {
                if !self.collect(input) {
                    return Ok(None);
                }
                let matches = self.head[..DIGEST_BYTES] == self.data_digest.value();
                self.begin(HEADER_BYTES);
                self.state = State::Head;
                Ok(Some(Item::End(matches)))
            }
        }
    }

    /// Takes note of data that the caller has moved.
    pub(super) fn passed(&mut self, data: &[u8]) {
        self.data_left -= data.len();
        if self.has_data_digests {
            self.data_digest.update(data);
        }
    }

    fn begin(&mut self, need: usize) {
        (self.have, self.need) = (0, need);
    }

    /// Collects bytes until the header has as many as are needed.
    fn collect(&mut self, input: &mut &[u8]) -> bool {
        let taken = input.len().min(self.need - self.have);
        let (front, rest) = input.split_at(taken);
        self.head[self.have..self.have + taken].copy_from_slice(front);
        self.have += taken;
        *input = rest;
        self.have == self.need
    }

    fn common(&self) -> Header {
        let (header, _) = Header::read_from_prefix(&self.head).expect("the head is longer");
        header
    }

    fn is_digest_behind(&self) -> bool {
        let kind = Kind::from_byte(self.head[0]);
        self.has_header_digests && kind.is_some_and(has_digests)
    }

    fn carries_data(&self) -> bool {
        // The header's bytes were overwritten by nothing yet: the digest comes behind this.
        let header = self.common();
        if !Kind::from_byte(header.kind).is_some_and(has_digests) {
            return false;
        }
        let digest = if self.is_digest_behind() {
            DIGEST_BYTES
        } else {
            0
        };
        header.bytes.get() as usize > usize::from(header.header_bytes) + digest
    }

    /// Checks the first bytes of a header: nothing is kept of a PDU that is not legal.
    fn check_head(&mut self) -> Result<Kind, Violation> {
        let header = self.common();
        let kind = Kind::from_byte(header.kind).ok_or(Violation::field(0))?;
        let of_host = matches!(
            kind,
            Kind::InitializeRequest | Kind::HostTermination | Kind::Command | Kind::HostData
        );
        if !of_host {
            return Err(Violation::field(0));
        }
        if usize::from(header.header_bytes) != kind.header_bytes() {
            return Err(Violation::field(2));
        }
        let has_digests = has_digests(kind);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let due = flag(self.has_header_digests && has_digests, FLAG_HEADER_DIGEST);
        if header.flags & FLAG_HEADER_DIGEST != due {
            return Err(Violation::field(1));
        }
        let header_digest = if due == 0 { 0 } else { DIGEST_BYTES };
        let behind = kind.header_bytes() + header_digest;
        let bytes = header.bytes.get() as usize;
        let data = bytes.checked_sub(behind).ok_or(Violation::field(4))?;
        self.data_left = match (kind, data) {
            (Kind::InitializeRequest, 1..) => return Err(Violation::field(4)),
            (Kind::HostTermination, data) if data > INITIALIZE_BYTES => {
                return Err(Violation::field(4));
            }
            (_, 0) => 0,
            (Kind::Command | Kind::HostData, data) => {
                if usize::from(header.data_offset) != behind {
                    return Err(Violation::field(3));
                }
                let has_digest = header.flags & FLAG_DATA_DIGEST != 0;
                if has_digest != self.has_data_digests {
                    return Err(Violation::field(1));
                }
                let digest = if has_digest { DIGEST_BYTES } else { 0 };
                data.checked_sub(digest).ok_or(Violation::field(4))?
            }
            (_, data) => data,
        };
        let limit = match kind {
            Kind::Command => self.max_capsule_data,
            Kind::HostData => self.max_data,
            _ => INITIALIZE_BYTES,
        };
        if self.data_left > limit {
            return Err(Fatal::DataLimitExceeded.into());
        }
        self.need = behind;
        Ok(kind)
    }

    fn check_header_digest(&self) -> Result<(), Violation> {
        if !self.is_digest_behind() {
            return Ok(());
        }
        let (header, given) = self.head[..self.need].split_at(self.need - DIGEST_BYTES);
        match digest(header) == *given {
            true => Ok(()),
            false => Err(Fatal::HeaderDigestError.into()),
        }
    }
}

/// Returns whether PDUs of this kind carry digests at all.
fn has_digests(kind: Kind) -> bool {
    matches!(kind, Kind::Command | Kind::HostData)
}
