//! Protocol data units of NVMe/TCP (TCP Transport Specification, section 3.6).

use std::mem::offset_of;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::command::SubmissionEntry;
use super::completion::CompletionEntry;

/// Bytes of the header that all PDUs begin with.
pub const HEADER_BYTES: usize = size_of::<Header>();
/// Bytes of ICReq and ICResp.
pub const INITIALIZE_BYTES: usize = 128;
/// Bytes of the header of a command capsule.
pub const COMMAND_BYTES: usize = HEADER_BYTES + size_of::<SubmissionEntry>();
/// Bytes of a response capsule.
pub const RESPONSE_BYTES: usize = HEADER_BYTES + size_of::<CompletionEntry>();
/// Bytes of the header of data and of an R2T.
pub const DATA_BYTES: usize = HEADER_BYTES + size_of::<Data>();
/// The most bytes of a termination request: its header and the header that it complains of.
pub const MAX_TERMINATION_BYTES: usize = HEADER_BYTES + size_of::<Termination>() + 128;

/// The kinds of PDUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Initialize Connection Request.
    InitializeRequest = 0,
    /// Initialize Connection Response.
    InitializeResponse = 1,
    /// The host ends the connection.
    HostTermination = 2,
    /// The controller ends the connection.
    ControllerTermination = 3,
    /// A command, perhaps with data.
    Command = 4,
    /// A completion.
    Response = 5,
    /// Data to the controller.
    HostData = 6,
    /// Data to the host.
    ControllerData = 7,
    /// The controller asks for data.
    ReadyToTransfer = 9,
}

impl Kind {
    /// Returns the kind with the number `byte`.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Kind::InitializeRequest,
            1 => Kind::InitializeResponse,
            2 => Kind::HostTermination,
            3 => Kind::ControllerTermination,
            4 => Kind::Command,
            5 => Kind::Response,
            6 => Kind::HostData,
            7 => Kind::ControllerData,
            9 => Kind::ReadyToTransfer,
            _ => return None,
        })
    }

    /// Returns the length that the header of this kind has, without digests. Termination requests
    /// count their header alone.
    pub fn header_bytes(self) -> usize {
        match self {
            Kind::InitializeRequest | Kind::InitializeResponse => INITIALIZE_BYTES,
            Kind::Command => COMMAND_BYTES,
            _ => DATA_BYTES,
        }
    }
}

/// Flag: a header digest follows the header.
pub const FLAG_HEADER_DIGEST: u8 = 1;
/// Flag: a data digest follows the data.
pub const FLAG_DATA_DIGEST: u8 = 1 << 1;
/// Flag of data: the last of its transfer.
pub const FLAG_LAST: u8 = 1 << 2;
/// Flag of data to the host: success, and no response follows.
pub const FLAG_SUCCESS: u8 = 1 << 3;

/// The header that all PDUs begin with.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    /// A [`Kind`].
    pub kind: u8,
    /// Flags.
    pub flags: u8,
    /// Bytes of the header, without its digest.
    pub header_bytes: u8,
    /// Where the data begin; 0 if there are none.
    pub data_offset: u8,
    /// Bytes of the PDU, digests and data with it.
    pub bytes: U32,
}

/// Initialize Connection Request and Response behind the common header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Initialize {
    /// Format version of PDUs: 0.
    pub format: U16,
    /// Alignment of data that the other side is to keep, 0's based in units of 4 bytes.
    pub data_alignment: u8,
    /// [`DIGEST_HEADER`] and [`DIGEST_DATA`].
    pub digests: u8,
    /// Of a request the number of R2Ts that a command may have open, 0's based; of a response the
    /// most bytes of a data PDU to the controller.
    pub limit: U32,
    /// Zeros.
    pub reserved: [u8; 112],
}

/// Digest bit: headers have digests.
pub const DIGEST_HEADER: u8 = 1;
/// Digest bit: data have digests.
pub const DIGEST_DATA: u8 = 1 << 1;

/// Header of data in both directions and of an R2T, behind the common header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Data {
    /// The command.
    pub command_id: U16,
    /// The transfer's tag; reserved in data to the host.
    pub transfer_tag: U16,
    /// Place of the data in the command's buffer.
    pub offset: U32,
    /// Bytes of data: carried, or asked for.
    pub bytes: U32,
    /// Zeros.
    pub reserved: [u8; 4],
}

/// A termination request behind the common header; the offending header follows.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Termination {
    /// A [`Fatal`].
    pub status: U16,
    /// Where in the offending header the error is, for some of the errors.
    pub information: U32,
    /// Zeros.
    pub reserved: [u8; 10],
}

/// Fatal errors: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Fatal {
    /// A field of the header is illegal.
    InvalidHeaderField = 1,
    /// A PDU is not due.
    SequenceError = 2,
    /// The header's digest does not match.
    HeaderDigestError = 3,
    /// Data lie outside of the requested range.
    DataOutOfRange = 4,
    /// More data than the limit.
    DataLimitExceeded = 5,
    /// A parameter is not supported.
    UnsupportedParameter = 6,
}

const _: () = assert!(HEADER_BYTES == 8);
const _: () = assert!(HEADER_BYTES + size_of::<Initialize>() == INITIALIZE_BYTES);
const _: () = assert!(offset_of!(Initialize, limit) == 4);
const _: () = assert!(COMMAND_BYTES == 72 && RESPONSE_BYTES == 24 && DATA_BYTES == 24);
const _: () = assert!(offset_of!(Data, offset) == 4 && offset_of!(Data, bytes) == 8);
const _: () = assert!(HEADER_BYTES + size_of::<Termination>() == 24);
