//! Breaches of the protocol by the controller.

use std::fmt;

use crate::wire::pdu::{Fatal, Kind};

/// A breach of the protocol: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// The number is no kind of PDU.
    UnknownKind(u8),
    /// A controller does not send this kind, or not in this phase.
    UnexpectedKind(Kind),
    /// The kind has a header of another length.
    HeaderLength(Kind, u8),
    /// The kind does not permit the PDU's length.
    Length(Kind, u32),
    /// The data begin inside the header.
    DataOffset(u8),
    /// The flags contradict the digests that both sides agreed on, or each other.
    Flags(Kind, u8),
    /// The header's digest does not match.
    HeaderDigest,
    /// The data's digest does not match.
    DataDigest,
    /// The PDUs have a format other than 0.
    Format(u16),
    /// The controller wants data aligned to more than 4 bytes.
    Alignment(u8),
    /// The digests are not those that the host asked for.
    Digests(u8),
    /// The limit of data PDUs is below 4096 or no multiple of 4.
    DataLimit(u32),
    /// No command in flight has this number.
    UnknownCommand(u16),
    /// The command does not read, or has had its last data.
    UnexpectedData(u16),
    /// Data to the host lie outside of the command's buffer, or are not in order.
    DataOutOfRange {
        /// The command.
        command: u16,
        /// Place of the data.
        offset: u32,
        /// Bytes of data.
        bytes: u32,
    },
    /// The command has no data that the controller may ask for.
    UnexpectedTransfer(u16),
    /// The controller asks for data outside of the command's data, or not in order.
    TransferOutOfRange {
        /// The command.
        command: u16,
        /// Place of the data.
        offset: u32,
        /// Bytes of data.
        bytes: u32,
    },
    /// The command succeeded although some of its data did not move.
    MissingData(u16),
    /// The controller ended the connection.
    Terminated {
        /// The number of a [`Fatal`].
        status: u16,
        /// Where in the host's header the error is.
        information: u32,
    },
}

/// Offsets of fields in headers, as a termination request names them.
const FLAGS: u32 = 1;
const HEADER_LENGTH: u32 = 2;
const DATA_OFFSET: u32 = 3;
const LENGTH: u32 = 4;
const COMMAND: u32 = 8;

impl Violation {
    /// Returns the status and the field of the termination request that answers the violation; none
    /// if none is due.
    pub(super) fn termination(self) -> Option<(Fatal, u32)> {
        Some(match self {
            Violation::UnknownKind(_) => (Fatal::InvalidHeaderField, 0),
            Violation::HeaderLength(..) => (Fatal::InvalidHeaderField, HEADER_LENGTH),
            Violation::Length(..) => (Fatal::InvalidHeaderField, LENGTH),
            Violation::DataOffset(_) => (Fatal::InvalidHeaderField, DATA_OFFSET),
            Violation::Flags(..) => (Fatal::InvalidHeaderField, FLAGS),
            Violation::UnknownCommand(_) => (Fatal::InvalidHeaderField, COMMAND),
            Violation::UnexpectedKind(_)
            | Violation::UnexpectedData(_)
            | Violation::UnexpectedTransfer(_)
            | Violation::MissingData(_) => (Fatal::SequenceError, 0),
            Violation::HeaderDigest => (Fatal::HeaderDigestError, 0),
            Violation::DataOutOfRange { .. } | Violation::TransferOutOfRange { .. } => {
                (Fatal::DataOutOfRange, 0)
            }
            Violation::Format(_)
            | Violation::Alignment(_)
            | Violation::Digests(_)
            | Violation::DataLimit(_) => (Fatal::UnsupportedParameter, 0),
            Violation::DataDigest | Violation::Terminated { .. } => return None,
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::UnknownKind(kind) => write!(f, "{kind} is no kind of PDU"),
            Violation::UnexpectedKind(kind) => write!(f, "a PDU of kind {kind:?} is not due"),
            Violation::HeaderLength(kind, bytes) => {
                write!(f, "{kind:?} has no header of {bytes} bytes")
            }
            Violation::Length(kind, bytes) => write!(f, "{kind:?} cannot have {bytes} bytes"),
            Violation::DataOffset(offset) => write!(f, "data cannot begin at byte {offset}"),
            Violation::Flags(kind, flags) => write!(f, "{kind:?} cannot have flags {flags:02x}h"),
            Violation::HeaderDigest => write!(f, "the digest of a header does not match"),
            Violation::DataDigest => write!(f, "the digest of data does not match"),
            Violation::Format(format) => write!(f, "PDUs of format {format} are not known"),
            Violation::Alignment(units) => write!(f, "alignment {units} of data is not possible"),
            Violation::Digests(bits) => write!(f, "digests {bits:02x}h are not the host's"),
            Violation::DataLimit(bytes) => write!(f, "data PDUs cannot have a limit of {bytes}"),
            Violation::UnknownCommand(id) => write!(f, "command {id} is not in flight"),
            Violation::UnexpectedData(id) => write!(f, "command {id} takes no more data"),
            Violation::DataOutOfRange {
                command,
                offset,
                bytes,
            } => write!(
                f,
                "command {command} has no room for {bytes} bytes at {offset}"
            ),
            Violation::UnexpectedTransfer(id) => write!(f, "command {id} has no data to send"),
            Violation::TransferOutOfRange {
                command,
                offset,
                bytes,
            } => write!(
                f,
                "command {command} does not send {bytes} bytes at {offset} now"
            ),
            Violation::MissingData(id) => write!(f, "command {id} succeeded without its data"),
            Violation::Terminated {
                status,
                information,
            } => write!(
                f,
                "the controller ended the connection: {status}, {information}"
            ),
        }
    }
}

impl std::error::Error for Violation {}
