//! Submission queue entries (Base Specification, section 3.3.3.1).

use std::mem::offset_of;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::sgl::Sgl;

/// A command.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SubmissionEntry {
    /// The operation.
    pub opcode: u8,
    /// Fused operation and the kind of data pointer.
    pub flags: u8,
    /// The command's number among those in flight of its queue.
    pub command_id: U16,
    /// The namespace. Fabrics commands have their type in the first byte.
    pub nsid: U32,
    /// Dword 2.
    pub cdw2: U32,
    /// Dword 3.
    pub cdw3: U32,
    /// Metadata pointer: reserved.
    pub metadata: U64,
    /// Data pointer.
    pub data: Sgl,
    /// Dword 10.
    pub cdw10: U32,
    /// Dword 11.
    pub cdw11: U32,
    /// Dword 12.
    pub cdw12: U32,
    /// Dword 13.
    pub cdw13: U32,
    /// Dword 14.
    pub cdw14: U32,
    /// Dword 15.
    pub cdw15: U32,
}

const _: () = assert!(size_of::<SubmissionEntry>() == 64);
const _: () = assert!(offset_of!(SubmissionEntry, cdw2) == 8);
const _: () = assert!(offset_of!(SubmissionEntry, data) == 24);
const _: () = assert!(offset_of!(SubmissionEntry, cdw10) == 40);
const _: () = assert!(offset_of!(SubmissionEntry, cdw14) == 56);

/// Flags of an entry whose data pointer is a scatter-gather list: always so on fabrics.
pub const FLAGS_SGL: u8 = 1 << 6;

impl SubmissionEntry {
    /// Makes a command without data.
    pub fn new(opcode: u8, nsid: u32) -> Self {
        SubmissionEntry {
            opcode,
            flags: FLAGS_SGL,
            nsid: nsid.into(),
            ..SubmissionEntry::new_zeroed()
        }
    }
}

/// Commands of the admin queue.
pub mod admin {
    /// Get Log Page.
    pub const GET_LOG_PAGE: u8 = 0x02;
    /// Identify.
    pub const IDENTIFY: u8 = 0x06;
    /// Abort.
    pub const ABORT: u8 = 0x08;
    /// Set Features.
    pub const SET_FEATURES: u8 = 0x09;
    /// Get Features.
    pub const GET_FEATURES: u8 = 0x0a;
    /// Asynchronous Event Request.
    pub const ASYNC_EVENT_REQUEST: u8 = 0x0c;
    /// Keep Alive.
    pub const KEEP_ALIVE: u8 = 0x18;
}

/// Commands of a block namespace.
pub mod block {
    /// Flush, in all command sets.
    pub const FLUSH: u8 = 0x00;
    /// Write.
    pub const WRITE: u8 = 0x01;
    /// Read.
    pub const READ: u8 = 0x02;
    /// Force Unit Access, in dword 12 of a write: it is durable when it completes.
    pub const FORCE_UNIT_ACCESS: u32 = 1 << 30;
}

/// The opcode of fabrics commands.
pub const FABRICS: u8 = 0x7f;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_lies_as_the_kernel_has_it() {
        let mut entry = SubmissionEntry::new(1, 3);
        entry.command_id = 0x1234.into();
        entry.cdw15 = 0x0102_0304.into();
        let bytes = entry.as_bytes();
        assert_eq!(bytes[..8], [1, 0x40, 0x34, 0x12, 3, 0, 0, 0]);
        assert_eq!(bytes[60..], [4, 3, 2, 1]);
    }
}
