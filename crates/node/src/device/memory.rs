//! A simulated disk, for tests and for all the ways in which a machine dies.
//!
//! A disk keeps the bytes that it shows, the durable bytes, and the writes between the two. Its
//! requests complete in a random order and after some polls, which a seed decides. No wait blocks:
//! a poll that waits completes something. The readiness of a device is that it has a request in
//! flight.

mod cut;
mod state;

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use parking_lot::Mutex;

use self::state::State;
use super::{Completion, Device, Readiness, Request, Wait, Waker};
use crate::block::BLOCK_BYTES;

/// The unit that a power cut tears.
const SECTOR_BYTES: usize = 512;

/// A request to a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads begun.
    pub reads: u64,
    /// Writes begun.
    pub writes: u64,
    /// Flushes begun.
    pub flushes: u64,
    /// Bytes of these reads.
    pub read_bytes: u64,
    /// Bytes of these writes.
    pub written_bytes: u64,
}

/// A simulated disk. Its clones are the same disk.
#[derive(Clone)]
pub struct Disk(Arc<Mutex<State>>);

impl Disk {
    /// Makes a disk of zeros.
    pub fn new(blocks: u64, seed: u64) -> Self {
        Disk::from_image(vec![0; blocks as usize * BLOCK_BYTES], seed)
    }

    /// Makes a disk with durable bytes. Bytes behind the last whole block are cut off.
    pub fn from_image(mut image: Vec<u8>, seed: u64) -> Self {
        image.truncate(image.len() - image.len() % BLOCK_BYTES);
        Disk(Arc::new(Mutex::new(State::new(image, seed))))
    }

    /// Lets requests complete in the order of their begin, at the next poll of their device.
    #[must_use]
    pub fn in_order(self) -> Self {
        self.0.lock().set_in_order();
        self
    }

    /// Makes a device, one of any number.
    ///
    /// # Panics
    /// The process or the system has no descriptors left.
    pub fn device(&self) -> MemoryDevice {
        let mut state = self.0.lock();
        MemoryDevice {
            bytes: state.bytes(),
            number: state.next_device(),
            disk: self.clone(),
            readiness: Arc::new(Readiness::new().expect("a descriptor")),
        }
    }

    /// Returns the number of requests begun so far, of all devices. The first one is step 1.
    pub fn steps(&self) -> u64 {
        self.0.lock().steps
    }

    /// Lets no request after this step complete: neither those to come nor those in flight.
    pub fn stop_after(&self, step: u64) {
        self.0.lock().stop_after = Some(step);
    }

    /// Returns true if a request was begun that never completes.
    pub fn is_stopped(&self) -> bool {
        let state = self.0.lock();
        state.is_beyond_stop(state.steps)
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.0.lock().counters
    }

    /// Returns the bytes that a read of the whole disk would give, apart from writes in flight.
    pub fn image(&self) -> Vec<u8> {
        self.0.lock().image.clone()
    }

    /// Returns the bytes after a power cut at this moment, one of the legal outcomes. The disk itself
    /// goes on.
    ///
    /// Writes that a completed flush covers are there. Every other sector is as it was or as one of
    /// the later writes left it, whether that had completed or not.
    pub fn power_cut(&self, seed: u64) -> Vec<u8> {
        cut::power_cut(&self.0.lock(), seed)
    }

    /// Returns the bytes after the death of the process at this moment: all completed writes, and any
    /// sectors of those in flight.
    pub fn kill(&self) -> Vec<u8> {
        cut::kill(&mut self.0.lock())
    }
}

/// A device of a simulated disk.
///
/// When it is dropped, some of its writes in flight are done and the others never happen, as with a
/// real one. Those beyond [`Disk::stop_after`] stay in flight.
pub struct MemoryDevice {
    disk: Disk,
    number: u64,
    bytes: u64,
    readiness: Arc<Readiness>,
}

impl Device for MemoryDevice {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn submit(&mut self, tag: u64, request: Request) {
        self.disk.0.lock().begin(self.number, tag, request);
        self.readiness.raise();
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()> {
        let must_progress = wait != Wait::No;
        let mut state = self.disk.0.lock();
        state.poll(self.number, must_progress, completions);
        if !state.is_busy(self.number) {
            self.readiness.clear();
        }
        Ok(())
    }

    fn start(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.readiness.descriptor()
    }

    fn waker(&self) -> Waker {
        // There is no wait to end, apart from one for readiness.
        let readiness = Arc::clone(&self.readiness);
        Waker::new(move || readiness.raise())
    }
}

impl Drop for MemoryDevice {
    fn drop(&mut self) {
        self.disk.0.lock().abandon(self.number);
    }
}
