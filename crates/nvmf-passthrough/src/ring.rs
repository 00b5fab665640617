//! Commands by io_uring (`NVME_URING_CMD_IO`, Linux 5.19 and later).
//!
//! The kernel moves data from and to the memory of `Ring::commands`, which keeps it until the kernel
//! has answered. A ring that is dropped waits for the answers; if they cannot be had, it gives up the
//! memory instead of freeing it.
#![expect(
    unsafe_code,
    reason = "entries of the queue carry pointers to the data of commands"
)]

use std::collections::HashMap;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use io_uring::cqueue::Entry32;
use io_uring::squeue::Entry128;
use io_uring::{IoUring, Probe, opcode, types};
use terrace_nvmf::wire::Status;

use crate::command::Command;
use crate::data::Data;
use crate::ioctl;
use crate::node::Node;
use crate::queue::{End, Outcome};

/// `NVME_URING_CMD_IO`.
const IO_COMMAND: u32 = ioctl::request(3, 0x80, size_of::<Command>()) as u32;
const MAX_DEPTH: usize = 4096;
/// The longest wait at once for answers that a drop needs.
const DROP_LOOK: Duration = Duration::from_secs(1);

/// An io_uring with commands of one device.
pub struct Ring {
    ring: IoUring<Entry128, Entry32>,
    node: Arc<Node>,
    /// Data of the commands with the kernel, by tag.
    commands: HashMap<u64, Data>,
    depth: usize,
}

impl Ring {
    /// Makes a ring for `depth` commands at once.
    ///
    /// # Errors
    /// The kernel has no io_uring with commands of devices, or does not let this process have one.
    pub fn new(node: &Arc<Node>, depth: usize) -> io::Result<Self> {
        let depth = depth.clamp(1, MAX_DEPTH);
        let ring: IoUring<Entry128, Entry32> = IoUring::builder()
            .dontfork()
            .setup_clamp()
            .build(depth as u32)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let has_all = ring.params().is_feature_ext_arg() && ring.params().is_feature_nodrop();
        if !has_all || !probe.is_supported(opcode::UringCmd80::CODE) {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        Ok(Ring {
            ring,
            node: Arc::clone(node),
            commands: HashMap::new(),
            depth,
        })
    }

    /// Puts a command into the queue; gives the data back if there is no room.
    pub fn submit(&mut self, tag: u64, mut command: Command, mut data: Data) -> Result<(), Data> {
        let is_known = self.commands.contains_key(&tag);
        let has_room = self.commands.len() < self.depth && !is_known;
        if !has_room || command.attach(&mut data).is_err() {
            return Err(data);
        }
        self.commands.insert(tag, data);
        let entry = opcode::UringCmd80::new(types::Fd(self.node.file.as_raw_fd()), IO_COMMAND)
            .cmd(command.ring_field())
            .build()
            .user_data(tag);
        // SAFETY: the descriptor is open while `self.node` is there. The command's bytes are in the
        // entry. The data do not move with their owner, which `self.commands` neither changes nor
        // frees before the kernel has answered for the tag. Without the answers `drop` gives up
        // `self.commands`. The kernel moves them in the direction of the opcode, which `attach` has
        // checked: it writes to those alone that are ours to write.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        match pushed {
            Ok(()) => Ok(()),
            Err(_) => Err(self.commands.remove(&tag).unwrap_or(Data::None)),
        }
    }

    /// Hands the queue to the kernel, waits for `timeout` until a command ends, and takes those that
    /// have.
    pub fn wait(&mut self, timeout: Duration, outcomes: &mut Vec<Outcome>) -> io::Result<()> {
        let is_idle = self.commands.is_empty();
        let is_done = !self.ring.completion().is_empty();
        let entered = if timeout.is_zero() || is_idle || is_done {
            self.ring.submit()
        } else {
            let time = types::Timespec::from(timeout);
            let arguments = types::SubmitArgs::new().timespec(&time);
            self.ring.submitter().submit_with_args(1, &arguments)
        };
        match entered.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) | Err((Some(libc::EINTR | libc::ETIME), _)) => {}
            // The kernel lacks memory, or room for answers: they are taken, then it goes on.
            Err((Some(libc::EAGAIN | libc::EBUSY), _)) => thread::yield_now(),
            Err((_, error)) => return Err(error),
        }
        for answer in self.ring.completion() {
            let tag = answer.user_data();
            let Some(data) = self.commands.remove(&tag) else {
                continue;
            };
            // A status is not negative; its upper half is of no use to a host.
            let end = match answer.result() {
                status @ 0.. => Ok(End {
                    status: Status::from_bits(status as u16),
                    result: answer.big_cqe()[0],
                }),
                error => Err(io::Error::from_raw_os_error(-error)),
            };
            outcomes.push(Outcome { tag, end, data });
        }
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut outcomes = Vec::new();
        while !self.commands.is_empty() {
            if self.wait(DROP_LOOK, &mut outcomes).is_err() {
                // The kernel may still write there.
                mem::forget(mem::take(&mut self.commands));
                return;
            }
            outcomes.clear();
        }
    }
}
