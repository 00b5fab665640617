//! The end of a server, asked for by another thread or a signal.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// Ends the loops that run with it.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    is_used: AtomicBool,
    event: OwnedFd,
}

impl Stop {
    /// Makes one that is not used yet.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Stop(Arc::new(Inner {
            is_used: AtomicBool::new(false),
            event,
        })))
    }

    /// Has the loops end.
    pub fn stop(&self) {
        self.0.is_used.store(true, Ordering::Release);
        // It stays readable, so each loop wakes up.
        let _ = rustix::io::write(&self.0.event, &1_u64.to_ne_bytes());
    }

    /// Returns whether the end was asked for.
    pub fn is_used(&self) -> bool {
        self.0.is_used.load(Ordering::Acquire)
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}
