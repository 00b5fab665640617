//! Commands as the kernel takes them (`linux/nvme_ioctl.h`).

use std::io;
use std::mem::offset_of;
use std::time::Duration;

use terrace_nvmf::wire::SubmissionEntry;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::data::Data;

/// `struct nvme_uring_cmd`: a command in an entry of an io_uring. `struct nvme_passthru_cmd64` begins
/// with the same fields.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Command {
    opcode: u8,
    /// Zero: the kernel sets the flags.
    flags: u8,
    reserved2: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    /// Address of the data in the memory of this process.
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    cdw10_to_15: [u32; 6],
    timeout_ms: u32,
    reserved68: u32,
}

/// `struct nvme_passthru_cmd64`: a command of `ioctl(2)`, and its result.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct IoctlCommand {
    pub command: Command,
    pub result: u64,
}

const _: () = assert!(size_of::<Command>() == 72);
const _: () = assert!(size_of::<IoctlCommand>() == 80);
const _: () = assert!(offset_of!(Command, metadata) == 16);
const _: () = assert!(offset_of!(Command, address) == 24);
const _: () = assert!(offset_of!(Command, data_bytes) == 36);
const _: () = assert!(offset_of!(Command, cdw10_to_15) == 40);
const _: () = assert!(offset_of!(Command, timeout_ms) == 64);

/// Bytes of the command field of a large entry of an io_uring.
const RING_FIELD_BYTES: usize = 80;

impl Command {
    /// Makes a command without data. The kernel ends it after `timeout`.
    pub fn new(entry: &SubmissionEntry, timeout: Duration) -> Self {
        Command {
            opcode: entry.opcode,
            nsid: entry.nsid.get(),
            cdw2: entry.cdw2.get(),
            cdw3: entry.cdw3.get(),
            cdw10_to_15: [
                entry.cdw10.get(),
                entry.cdw11.get(),
                entry.cdw12.get(),
                entry.cdw13.get(),
                entry.cdw14.get(),
                entry.cdw15.get(),
            ],
            // Zero would be the kernel's own limit.
            timeout_ms: u32::try_from(timeout.as_millis())
                .unwrap_or(u32::MAX)
                .max(1),
            ..Command::default()
        }
    }

    /// Makes the command refer to data. The data must be there until the command has ended.
    ///
    /// # Errors
    /// The opcode has another direction of data.
    pub fn attach(&mut self, data: &mut Data) -> io::Result<()> {
        if !data.fits(self.opcode) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        (self.address, self.data_bytes) = data.address();
        Ok(())
    }

    /// Returns the command as the field of an io_uring's entry.
    pub fn ring_field(&self) -> [u8; RING_FIELD_BYTES] {
        let mut field = [0; RING_FIELD_BYTES];
        field[..size_of::<Command>()].copy_from_slice(self.as_bytes());
        field
    }
}

#[cfg(test)]
mod tests;
