//! A service beside an open store. The store knows its start and its end alone.

use std::sync::{Arc, Weak};

use terrace_lsm::sync::atomic::Ordering;
use terrace_storage::{Directory, ForkMark};

use crate::db::Store;
use crate::event::Event;
use crate::{Db, Error, Result};

/// A service that runs while a store is open: the socket at which its owner answers questions.
pub trait Attendant: Send {
    /// Ends the service while the store's lock is held. Requests that wait for the store are still
    /// there. The returned call waits for these, and background work must have ended before it.
    fn close(self: Box<Self>) -> Box<dyn FnOnce()>;
}

/// An open store, as a service beside it knows it. It keeps neither the store nor a handle of it.
#[derive(Clone)]
pub struct Attended {
    store: Weak<Store>,
    directory: Arc<dyn Directory>,
    mark: ForkMark,
}

impl Attended {
    fn of(store: &Arc<Store>) -> Self {
        Attended {
            store: Arc::downgrade(store),
            directory: Arc::clone(&store.files.directory),
            mark: store.lifecycle.mark,
        }
    }

    /// Returns a handle that does not close the store when it is dropped, and keeps no other handle
    /// from closing it. `None` if no handle has the store any more.
    pub fn handle(&self) -> Option<Db> {
        self.store.upgrade().map(Db::beside)
    }

    /// Returns the store's directory, whose lock is held.
    pub fn directory(&self) -> &Arc<dyn Directory> {
        &self.directory
    }

    /// Returns the mark of the process that opened the store.
    pub fn mark(&self) -> ForkMark {
        self.mark
    }

    /// Returns the kept events with a larger number, oldest first. `None` if no handle has the
    /// store any more.
    pub fn events_after(&self, number: u64) -> Option<Vec<Event>> {
        let store = self.store.upgrade()?;
        Some(store.metrics.events.kept_after(number))
    }

    /// Counts a connection of a user without permission.
    pub fn count_stranger(&self) {
        if let Some(store) = self.store.upgrade() {
            let strangers = &store.metrics.counters.strangers_refused;
            strangers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Refuses all writes from now on, after a panic in the service. Returns the error that writers get.
    pub fn poison(&self, panic: Error) -> Error {
        match self.store.upgrade() {
            Some(store) => store.poison(panic),
            None => panic,
        }
    }
}

/// Starts a service beside an open store, which ends the service when it is closed. A store has at
/// most one service. A read-only store has none: nothing is started then.
///
/// # Errors
/// Those of the start; [`Error::Closed`]; [`Error::InvalidArgument`] if the store has a service.
pub fn attend(db: &Db, start: impl FnOnce(Attended) -> Result<Box<dyn Attendant>>) -> Result<()> {
    let store = db.own_store()?;
    if store.options.read_only {
        return Ok(());
    }
    let mut attendant = store.lifecycle.attendant.lock();
    // A close marks the store before it looks for the service.
    if store.lifecycle.closing.load(Ordering::Acquire) {
        return Err(Error::Closed);
    }
    if attendant.is_some() {
        return Err(Error::invalid("the store has a service beside it already"));
    }
    *attendant = Some(store.guard("start threads", || start(Attended::of(store)))?);
    Ok(())
}
