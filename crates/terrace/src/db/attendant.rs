//! A service beside an open store. The store knows its start and its end alone.

use std::sync::Arc;

use terrace_storage::Directory;

use crate::Result;
use crate::db::Store;

/// A service that runs while a store is open: the socket at which its owner answers questions.
pub(crate) trait Attendant: Send {
    /// Ends the service while the store's lock is held. Requests that wait for the store are still
    /// there. The returned call waits for these, and background work must have ended before it.
    fn close(self: Box<Self>) -> Box<dyn FnOnce()>;
}

/// The way to an attendant, given to an opening.
#[derive(Clone, Copy)]
pub(crate) struct Attendance {
    /// Refuses a directory where the service cannot be, before the store is opened.
    pub(crate) check: fn(&dyn Directory) -> Result<()>,
    /// Starts the service for a store that can be used from now on.
    pub(crate) start: fn(&Arc<Store>) -> Result<Box<dyn Attendant>>,
}
