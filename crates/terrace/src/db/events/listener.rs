//! A store's event listener: a caller's code that runs in the store's threads.
//!
//! A thread that is in the listener is not free to wait for the store. It may be the very worker that
//! a flush needs, or the leader that holds up all writers. So each thread notes the stores whose
//! listener it is in, and [`Listener::may_wait`] refuses such calls. The note is one of the thread:
//! another thread that the listener hands its call to may wait, if the listener does not wait for it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use terrace_lsm::guard::catch;

use super::{Event, EventListener};
use crate::db::lock_order::aside;
use crate::opening::Opening;
use crate::{Error, Result};

thread_local! {
    /// The stores whose listener this thread is in; several if a listener calls another store.
    static TOLD_OF: RefCell<Vec<Opening>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
pub(super) struct Listener {
    listener: Option<Arc<dyn EventListener>>,
    has_panicked: AtomicBool,
    opening: Opening,
}

impl Listener {
    pub(super) fn new(listener: Option<Arc<dyn EventListener>>, opening: Opening) -> Self {
        Listener {
            listener,
            has_panicked: AtomicBool::new(false),
            opening,
        }
    }

    /// Passes an event to the listener, unless it has panicked before. Returns the message of its
    /// first panic.
    pub(super) fn tell(&self, event: &Event) -> Option<String> {
        let listener = self.listener.as_ref()?;
        if self.has_panicked.load(Ordering::Relaxed) {
            return None;
        }
        match self.enclose("event listener", || listener.event(event)) {
            Err(Error::Panicked { message, .. })
                if !self.has_panicked.swap(true, Ordering::Relaxed) =>
            {
                Some(message)
            }
            _ => None,
        }
    }

    /// Runs a caller's code: the thread may not wait for the store in it, and its panic ends here.
    pub(super) fn enclose(&self, what: &str, call: impl FnOnce()) -> Result<()> {
        // Both calls fail only in a thread that is ending and has no notes any more.
        let _ = TOLD_OF.try_with(|told_of| told_of.borrow_mut().push(self.opening));
        let ended = catch(what, || {
            aside(call);
            Ok(())
        });
        let _ = TOLD_OF.try_with(|told_of| told_of.borrow_mut().pop());
        ended
    }

    /// # Errors
    /// [`Error::CalledFromListener`] if this thread is in the store's listener.
    pub(super) fn may_wait(&self) -> Result<()> {
        let is_inside = TOLD_OF.try_with(|told_of| told_of.borrow().contains(&self.opening));
        match is_inside {
            Ok(true) => Err(Error::CalledFromListener),
            _ => Ok(()),
        }
    }
}
