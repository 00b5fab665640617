//! Calls of `ioctl(2)` on a generic device.
#![expect(unsafe_code, reason = "the calls carry pointers")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use terrace_nvmf::wire::identify::{IDENTIFY_BYTES, KeyNamespace, cns};
use terrace_nvmf::wire::{Status, SubmissionEntry, command, kv};
use zerocopy::FromBytes;

use crate::command::{Command, IoctlCommand};
use crate::data::Data;
use crate::queue::End;

/// `NVME_IOCTL_ID`.
const ID: libc::Ioctl = request(0, 0x40, 0);
/// `NVME_IOCTL_ADMIN64_CMD`.
const ADMIN_COMMAND: libc::Ioctl = request(3, 0x47, size_of::<IoctlCommand>());
/// `NVME_IOCTL_IO64_CMD`.
const IO_COMMAND: libc::Ioctl = request(3, 0x48, size_of::<IoctlCommand>());

/// Returns the number of a call (`_IOC` of `asm-generic/ioctl.h`, type `'N'`).
pub const fn request(direction: u64, number: u64, bytes: usize) -> libc::Ioctl {
    (direction << 30 | (bytes as u64) << 16 | (b'N' as u64) << 8 | number) as libc::Ioctl
}

/// Returns the number of a device's namespace.
pub fn namespace_id(file: &File) -> io::Result<u32> {
    // SAFETY: the descriptor is open, and the call takes no pointer.
    let nsid = unsafe { libc::ioctl(file.as_raw_fd(), ID) };
    u32::try_from(nsid).map_err(|_| io::Error::last_os_error())
}

/// Does a command and waits for its end. The data stay where they are meanwhile.
pub fn execute(file: &File, command: Command, data: &mut Data) -> io::Result<End> {
    call(file, IO_COMMAND, command, data)
}

/// Returns the limits of a namespace of keys, or the status of a namespace that has none.
pub fn key_namespace(
    file: &File,
    nsid: u32,
    timeout: Duration,
) -> io::Result<Result<Box<KeyNamespace>, Status>> {
    let mut entry = SubmissionEntry::new(command::admin::IDENTIFY, nsid);
    entry.cdw10 = u32::from(cns::NAMESPACE_OF_SET).into();
    entry.cdw11 = (u32::from(kv::COMMAND_SET) << 24).into();
    let mut data = Data::for_read(IDENTIFY_BYTES as u32);
    let command = Command::new(&entry, timeout);
    let end = call(file, ADMIN_COMMAND, command, &mut data)?;
    if !end.status.is_success() {
        return Ok(Err(end.status));
    }
    let namespace = KeyNamespace::read_from_bytes(&data.into_read(IDENTIFY_BYTES))
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(Ok(Box::new(namespace)))
}

fn call(file: &File, request: libc::Ioctl, command: Command, data: &mut Data) -> io::Result<End> {
    let mut command = IoctlCommand { command, result: 0 };
    command.command.attach(data)?;
    // SAFETY: the descriptor is open. The kernel reads and writes `command`, whose layout is that of
    // `struct nvme_passthru_cmd64`, which the request's number names. It moves the bytes of `data`
    // in the direction of the opcode, which `attach` has checked: it writes to those alone that are
    // ours to write. Both outlive the call.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), request, &raw mut command) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(End {
        status: Status::from_bits(status as u16),
        result: command.result,
    })
}
