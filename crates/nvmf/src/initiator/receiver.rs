//! Cuts a controller's bytes into PDUs.
//!
//! Only headers gather in memory, at most 152 bytes of them; data pass through as they come.

use zerocopy::FromBytes;

use super::violation::Violation;
use crate::wire::completion::CompletionEntry;
use crate::wire::digest::{DIGEST_BYTES, Digest, digest};
use crate::wire::pdu::{
    DATA_BYTES, Data, FLAG_DATA_DIGEST, FLAG_HEADER_DIGEST, FLAG_LAST, FLAG_SUCCESS, HEADER_BYTES,
    Header, INITIALIZE_BYTES, Initialize, Kind, MAX_TERMINATION_BYTES, RESPONSE_BYTES, Termination,
};

/// The digests of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Headers have digests.
    pub header: bool,
    /// Data have digests.
    pub data: bool,
}

/// The next thing in a controller's bytes.
pub(super) enum Piece<'a> {
    Initialize(Initialize),
    Termination(Termination),
    Response(CompletionEntry),
    ReadyToTransfer(Data),
    /// Data begin, with these flags.
    Data(Data, u8),
    DataBytes(&'a [u8]),
    /// All bytes of data came, and their digest matches.
    DataEnd,
}

/// Part of a PDU that is due.
#[derive(Clone, Copy)]
enum Due {
    /// Header with its digest, in all so long.
    Header(usize),
    Padding {
        padding: usize,
        data: usize,
    },
    Data(usize),
    DataDigest,
}

pub(super) struct Receiver {
    digests: Digests,
    /// The response to the connection's first request came.
    initialized: bool,
    due: Due,
    /// Bytes of the header, or of the data's digest.
    bytes: [u8; MAX_TERMINATION_BYTES],
    filled: usize,
    /// Bytes of the latest header.
    gathered: usize,
    header: Option<(Kind, Header)>,
    data_digest: Digest,
}

impl Receiver {
    pub(super) fn new(digests: Digests) -> Self {
        Receiver {
            digests,
            initialized: false,
            due: Due::Header(HEADER_BYTES),
            bytes: [0; MAX_TERMINATION_BYTES],
            filled: 0,
            gathered: 0,
            header: None,
            data_digest: Digest::default(),
        }
    }

    /// Returns the bytes of the latest header, for a complaint about it.
    pub(super) fn header(&self) -> &[u8] {
        &self.bytes[..self.gathered.min(INITIALIZE_BYTES)]
    }

    /// Takes the next piece off `input`. Returns none if more bytes are needed.
    pub(super) fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> Result<Option<Piece<'a>>, Violation> {
        loop {
            match self.due {
                Due::Header(wanted) => {
                    if !self.fill(input, wanted) {
                        return Ok(None);
                    }
                    let Some((kind, header)) = self.header else {
                        self.due = Due::Header(self.begin()?);
                        continue;
                    };
                    return self.end_header(kind, header).map(Some);
                }
                Due::Padding { padding, data } => {
                    let taken = take(input, padding).len();
                    if taken < padding {
                        let padding = padding - taken;
                        self.due = Due::Padding { padding, data };
                        return Ok(None);
                    }
                    self.due = Due::Data(data);
                }
                Due::Data(0) => {
                    if self.has_data_digest() {
                        self.filled = 0;
                        self.due = Due::DataDigest;
                        continue;
                    }
                    self.restart();
                    return Ok(Some(Piece::DataEnd));
                }
                Due::Data(left) => {
                    let bytes = take(input, left);
                    if bytes.is_empty() {
                        return Ok(None);
                    }
                    self.due = Due::Data(left - bytes.len());
                    if self.has_data_digest() {
                        self.data_digest.update(bytes);
                    }
                    return Ok(Some(Piece::DataBytes(bytes)));
                }
                Due::DataDigest => {
                    if !self.fill(input, DIGEST_BYTES) {
                        return Ok(None);
                    }
                    if self.bytes[..DIGEST_BYTES] != self.data_digest.value() {
                        return Err(Violation::DataDigest);
                    }
                    self.restart();
                    return Ok(Some(Piece::DataEnd));
                }
            }
        }
    }

    /// Moves bytes of `input` until `wanted` have gathered. Returns whether they have.
    fn fill(&mut self, input: &mut &[u8], wanted: usize) -> bool {
        let bytes = take(input, wanted - self.filled);
        self.bytes[self.filled..][..bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
        self.gathered = self.filled;
        self.filled == wanted
    }

    fn restart(&mut self) {
        self.due = Due::Header(HEADER_BYTES);
        self.filled = 0;
        self.header = None;
    }

    fn has_data_digest(&self) -> bool {
        matches!(self.header, Some((_, header)) if header.flags & FLAG_DATA_DIGEST != 0)
    }

    fn header_digest_bytes(&self) -> usize {
        if self.digests.header { DIGEST_BYTES } else { 0 }
    }

    /// Checks the common header. Returns the bytes that have to gather: the header and its digest,
    /// or the whole of a termination request.
    fn begin(&mut self) -> Result<usize, Violation> {
        let header = read::<Header>(&self.bytes, 0);
        let kind = Kind::from_byte(header.kind).ok_or(Violation::UnknownKind(header.kind))?;
        let due = match kind {
            Kind::InitializeResponse => !self.initialized,
            Kind::Response | Kind::ControllerData | Kind::ReadyToTransfer => self.initialized,
            Kind::ControllerTermination => true,
            _ => false,
        };
        if !due {
            return Err(Violation::UnexpectedKind(kind));
        }
        let header_bytes = kind_header_bytes(kind);
        if usize::from(header.header_bytes) != header_bytes {
            return Err(Violation::HeaderLength(kind, header.header_bytes));
        }
        self.check_flags(kind, header.flags)?;
        let bytes = header.bytes.get() as usize;
        let digested = header_bytes + self.header_digest_bytes();
        let (legal, gathered) = match kind {
            Kind::InitializeResponse => (bytes == header_bytes, header_bytes),
            Kind::ControllerTermination => (
                (header_bytes..=MAX_TERMINATION_BYTES).contains(&bytes),
                bytes,
            ),
            Kind::ControllerData => (bytes >= digested, digested),
            _ => (bytes == digested, digested),
        };
        if !legal {
            return Err(Violation::Length(kind, header.bytes.get()));
        }
        if kind == Kind::ControllerData && usize::from(header.data_offset) < digested {
            return Err(Violation::DataOffset(header.data_offset));
        }
        self.header = Some((kind, header));
        Ok(gathered)
    }

    fn check_flags(&self, kind: Kind, flags: u8) -> Result<(), Violation> {
        let has = |flag| flags & flag != 0;
        let legal = match kind {
            Kind::InitializeResponse | Kind::ControllerTermination => true,
            Kind::ControllerData => {
                has(FLAG_HEADER_DIGEST) == self.digests.header
                    && (self.digests.data || !has(FLAG_DATA_DIGEST))
                    && (has(FLAG_LAST) || !has(FLAG_SUCCESS))
            }
            _ => has(FLAG_HEADER_DIGEST) == self.digests.header,
        };
        legal.then_some(()).ok_or(Violation::Flags(kind, flags))
    }

    fn end_header(&mut self, kind: Kind, header: Header) -> Result<Piece<'static>, Violation> {
        let digested = !matches!(kind, Kind::InitializeResponse | Kind::ControllerTermination);
        if digested && self.digests.header {
            let (header, found) = self.bytes[..self.filled].split_at(kind_header_bytes(kind));
            if found != digest(header) {
                return Err(Violation::HeaderDigest);
            }
        }
        let piece = match kind {
            Kind::InitializeResponse => {
                self.initialized = true;
                Piece::Initialize(read(&self.bytes, HEADER_BYTES))
            }
            Kind::ControllerTermination => Piece::Termination(read(&self.bytes, HEADER_BYTES)),
            Kind::Response => Piece::Response(read(&self.bytes, HEADER_BYTES)),
            Kind::ControllerData => return self.begin_data(header),
            _ => Piece::ReadyToTransfer(read(&self.bytes, HEADER_BYTES)),
        };
        self.restart();
        Ok(piece)
    }

    fn begin_data(&mut self, header: Header) -> Result<Piece<'static>, Violation> {
        let data = read::<Data>(&self.bytes, HEADER_BYTES);
        let digest = header.flags & FLAG_DATA_DIGEST != 0;
        if self.digests.data && !digest && data.bytes.get() > 0 {
            return Err(Violation::Flags(Kind::ControllerData, header.flags));
        }
        let digest_bytes = if digest { DIGEST_BYTES as u64 } else { 0 };
        let expected = u64::from(header.data_offset) + u64::from(data.bytes.get()) + digest_bytes;
        if u64::from(header.bytes.get()) != expected {
            return Err(Violation::Length(Kind::ControllerData, header.bytes.get()));
        }
        self.data_digest = Digest::default();
        self.due = Due::Padding {
            padding: usize::from(header.data_offset) - self.filled,
            data: data.bytes.get() as usize,
        };
        Ok(Piece::Data(data, header.flags))
    }
}

/// Returns the length of the header of a kind that a controller sends.
fn kind_header_bytes(kind: Kind) -> usize {
    match kind {
        Kind::InitializeResponse => INITIALIZE_BYTES,
        Kind::Response => RESPONSE_BYTES,
        _ => DATA_BYTES,
    }
}

/// Takes at most `bytes` bytes off `input`.
fn take<'a>(input: &mut &'a [u8], bytes: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(bytes.min(input.len()));
    *input = rest;
    taken
}

/// Reads a structure of a header. The caller's array is longer than all headers.
fn read<T: FromBytes>(bytes: &[u8; MAX_TERMINATION_BYTES], offset: usize) -> T {
    let (structure, _) = T::read_from_prefix(&bytes[offset..]).unwrap_or_else(|_| {
        unreachable!("a structure of {} bytes is no header", size_of::<T>());
    });
    structure
}
