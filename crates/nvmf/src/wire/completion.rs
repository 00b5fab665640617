//! Completion queue entries (Base Specification, section 3.3.3.2).

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::status::Status;

/// The answer to a command.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CompletionEntry {
    /// The command's result.
    pub dw0: U32,
    /// Upper half of a result of 8 bytes.
    pub dw1: U32,
    /// Place of the submission queue's head.
    pub queue_head: U16,
    /// Reserved on fabrics.
    pub queue_id: U16,
    /// The command.
    pub command_id: U16,
    /// The status above the phase bit, which fabrics reserve.
    pub status: U16,
}

const _: () = assert!(size_of::<CompletionEntry>() == 16);

impl CompletionEntry {
    /// Makes the answer to a command.
    pub fn new(command_id: u16, queue_head: u16, status: Status, result: u64) -> Self {
        CompletionEntry {
            dw0: (result as u32).into(),
            dw1: ((result >> 32) as u32).into(),
            queue_head: queue_head.into(),
            queue_id: U16::ZERO,
            command_id: command_id.into(),
            status: (status.to_bits() << 1).into(),
        }
    }

    /// Returns the status.
    pub fn status(&self) -> Status {
        Status::from_bits(self.status.get() >> 1)
    }

    /// Returns both words of the result.
    pub fn result(&self) -> u64 {
        u64::from(self.dw1.get()) << 32 | u64::from(self.dw0.get())
    }
}
