//! The descriptor that a device without one of the system's shows to its event loop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use parking_lot::Mutex;
use rustix::event::EventfdFlags;

/// A descriptor that is readable from [`raise`](Readiness::raise) to [`clear`](Readiness::clear).
///
/// Work is added before the raise, and looked for after the clear or under the lock that the raise
/// is made under: then no raise is lost.
pub(crate) struct Readiness {
    event: OwnedFd,
    is_raised: Mutex<bool>,
}

impl Readiness {
    /// Makes a descriptor that is not readable.
    ///
    /// # Errors
    /// The process or the system has no descriptors left.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Readiness {
            event: rustix::event::eventfd(0, flags)?,
            is_raised: Mutex::new(false),
        })
    }

    /// Returns the descriptor.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Makes the descriptor readable.
    pub(crate) fn raise(&self) {
        let mut is_raised = self.is_raised.lock();
        if !*is_raised {
            // A counter of 0 has room for 1.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
            *is_raised = true;
        }
    }

    /// Ends the readiness.
    pub(crate) fn clear(&self) {
        let mut is_raised = self.is_raised.lock();
        if *is_raised {
            // A read takes the whole counter.
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
            *is_raised = false;
        }
    }
}
