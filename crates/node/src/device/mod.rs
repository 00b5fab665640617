//! Devices: blocks that are moved by requests which complete later.
//!
//! A request owns its buffer until it completes, so a device may write to the memory at any time and
//! no caller can see it. One event loop has one [`Device`]; several of them may share one medium.

mod backend;
mod create;
mod faults;
mod flight;
mod limit;
mod memory;
mod open;
mod readiness;
mod ring;
mod signature;
mod threads;
mod transfer;

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::block::{BLOCK_BYTES, Buffer, Extent};

pub use backend::{Backend, open_device};
pub use create::create_file;
pub use faults::{Fault, Faults, FaultyDevice};
pub use memory::{Counters, Disk, MemoryDevice};
pub use open::{Access, Medium};
pub(crate) use readiness::Readiness;
pub use ring::RingDevice;
pub use signature::{NODE_MAGIC, NODE_MAGIC_OFFSET, NODE_NAME, signature};
pub use threads::ThreadDevice;

/// A part of a buffer and its place on the device. Offsets and length are multiples of the block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Offset in the buffer, in bytes.
    pub at: usize,
    /// Length in bytes; never 0.
    pub bytes: usize,
    /// Offset on the device, in bytes.
    pub offset: u64,
}

/// Returns the parts of a buffer whose bytes lie in `extents`, one after another from its start on.
pub fn parts_of(extents: &[Extent]) -> Vec<Part> {
    let mut at = 0;
    let mut parts = Vec::with_capacity(extents.len());
    for extent in extents {
        let bytes = extent.bytes() as usize;
        parts.push(Part {
            at,
            bytes,
            offset: extent.offset(),
        });
        at += bytes;
    }
    parts
}

/// A request to a device.
#[derive(Debug)]
pub enum Request {
    /// Fills the named parts of the buffer.
    Read {
        /// Where the bytes go.
        buffer: Buffer,
        /// Which bytes, and where in the buffer.
        parts: Vec<Part>,
    },
    /// Writes the named parts of the buffer. They may survive a power cut in any order, torn at 512
    /// bytes, until a later flush has completed.
    Write {
        /// The bytes.
        buffer: Buffer,
        /// Which bytes, and where they go.
        parts: Vec<Part>,
    },
    /// Makes durable all writes that had completed when the flush was submitted.
    Flush,
}

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A [`Request::Read`].
    Read,
    /// A [`Request::Write`].
    Write,
    /// A [`Request::Flush`].
    Flush,
}

impl Request {
    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        match self {
            Request::Read { .. } => Kind::Read,
            Request::Write { .. } => Kind::Write,
            Request::Flush => Kind::Flush,
        }
    }

    /// Returns the parts; none for a flush.
    pub fn parts(&self) -> &[Part] {
        match self {
            Request::Read { parts, .. } | Request::Write { parts, .. } => parts,
            Request::Flush => &[],
        }
    }

    /// Returns the kind, the buffer and the parts; the latter two are empty for a flush.
    pub fn dismantle(self) -> (Kind, Buffer, Vec<Part>) {
        match self {
            Request::Read { buffer, parts } => (Kind::Read, buffer, parts),
            Request::Write { buffer, parts } => (Kind::Write, buffer, parts),
            Request::Flush => (Kind::Flush, Buffer::default(), Vec::new()),
        }
    }

    /// Checks that all parts are whole blocks inside the buffer and inside a device of `device_bytes`.
    ///
    /// # Errors
    /// `InvalidInput` names the first part which is not.
    pub fn check(&self, device_bytes: u64) -> io::Result<()> {
        let (Request::Read { buffer, parts } | Request::Write { buffer, parts }) = self else {
            return Ok(());
        };
        let illegal = parts
            .iter()
            .find(|part| !part.is_inside(buffer.len(), device_bytes));
        match illegal {
            None => Ok(()),
            Some(part) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "{part:?} is not inside a buffer of {} bytes and a device of {device_bytes}",
                    buffer.len()
                ),
            )),
        }
    }
}

impl Part {
    fn is_inside(&self, buffer_bytes: usize, device_bytes: u64) -> bool {
        let block = BLOCK_BYTES as u64;
        let is_whole = self.at.is_multiple_of(BLOCK_BYTES)
            && self.bytes.is_multiple_of(BLOCK_BYTES)
            && self.offset.is_multiple_of(block);
        let end = self.at.checked_add(self.bytes);
        let device_end = self.offset.checked_add(self.bytes as u64);
        is_whole
            && self.bytes > 0
            && end.is_some_and(|end| end <= buffer_bytes)
            && device_end.is_some_and(|end| end <= device_bytes)
    }
}

/// The answer to a request.
#[derive(Debug)]
pub struct Completion {
    /// The number that the request was submitted with.
    pub tag: u64,
    /// The request's buffer; empty for a flush.
    pub buffer: Buffer,
    /// Success means that every part was moved in full: a device repeats a partial transfer.
    pub result: io::Result<()>,
}

/// Whether [`Device::poll`] waits. No wait goes on once there is a completion to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Returns at once.
    No,
    /// Waits until a request completes, a [`Waker`] is used, or nothing is in flight.
    Yes,
    /// Waits until a request completes or a [`Waker`] is used, for so long at most, even with nothing
    /// in flight.
    AtMost(Duration),
}

/// One event loop's access to a medium.
pub trait Device: Send {
    /// Returns the size in bytes: whole blocks.
    fn bytes(&self) -> u64;

    /// Begins a request. It completes in a later [`poll`](Device::poll), under `tag`. The system may
    /// not hear of it before that poll.
    ///
    /// A request with an illegal part (see [`Request::check`]) completes with `InvalidInput`. When a
    /// device is dropped, a request that has not completed may be done in full, in part or not at all,
    /// but nothing of it happens later.
    fn submit(&mut self, tag: u64, request: Request);

    /// Appends the requests that have completed to `completions`.
    ///
    /// # Errors
    /// The queue to the system is broken: requests in flight never complete.
    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()>;

    /// Hands the submitted requests to the system, and takes no completions.
    ///
    /// A later poll does the same. This call serves a loop that sleeps on [`readiness`](Device::readiness)
    /// and has submitted requests since its last poll.
    ///
    /// # Errors
    /// Those of [`poll`](Device::poll).
    fn start(&mut self) -> io::Result<()>;

    /// Returns a descriptor that is readable while a poll has something to do.
    ///
    /// It is level-triggered, and belongs to the device. After a poll or a [`start`](Device::start)
    /// without a later submit it becomes readable once a request completes. A [`Waker`] makes it
    /// readable until the next poll. It may be readable in vain.
    fn readiness(&self) -> BorrowedFd<'_>;

    /// Returns the handle by which another thread ends a waiting [`poll`](Device::poll).
    fn waker(&self) -> Waker;
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn bytes(&self) -> u64 {
        (**self).bytes()
    }

    fn submit(&mut self, tag: u64, request: Request) {
        (**self).submit(tag, request);
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()> {
        (**self).poll(wait, completions)
    }

    fn start(&mut self) -> io::Result<()> {
        (**self).start()
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        (**self).readiness()
    }

    fn waker(&self) -> Waker {
        (**self).waker()
    }
}

/// Ends a wait of another thread's device.
#[derive(Clone)]
pub struct Waker(std::sync::Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// Makes a waker that calls `wake`, which must not block.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Waker(std::sync::Arc::new(wake))
    }

    /// Ends the present or the next wait of the device, and makes its readiness readable.
    /// [`Wait::No`] is no wait: it ends the readiness and leaves the wake to the next wait.
    pub fn wake(&self) {
        (self.0)();
    }
}
