//! Persisting what was written, at an interval that the owner chose.

use std::sync::Arc;
use std::time::Duration;

use crate::db::Store;
use crate::db::write::WriteOptions;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex};
use crate::write_buffer::batch::WriteBatch;
use crate::{Error, Result};

/// The thread that does it, if there is to be one.
#[derive(Default)]
pub(crate) struct PersistTimer {
    state: Mutex<State>,
    stopped: Condvar,
}

#[derive(Default)]
struct State {
    is_stopped: bool,
    handle: Option<JoinHandle<()>>,
}

impl PersistTimer {
    pub(crate) fn start(&self, store: &Arc<Store>, interval: Duration) -> Result<()> {
        let owned = Arc::clone(store);
        let thread = thread::Builder::new().name("terrace-persist".to_owned());
        let handle = thread
            .spawn(move || owned.persist_timer.run(&owned, interval))
            .map_err(|error| {
                let operation = terrace_storage::Operation::Open;
                terrace_storage::Error::new(operation, "terrace-persist".as_ref(), error)
            })?;
        self.state.lock().handle = Some(handle);
        Ok(())
    }

    fn run(&self, store: &Store, interval: Duration) {
        let mut state = self.state.lock();
        while !state.is_stopped {
            self.stopped.wait_for(&mut state, interval);
            if state.is_stopped {
                return;
            }
            drop(state);
            store.persist_if_behind();
            state = self.state.lock();
        }
    }

    /// Ends the thread. It is not inside the store any more when this returns.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        self.stopped.notify_all();
        let handle = state.handle.take();
        drop(state);
        // The last owner may be dropped by the thread itself.
        if let Some(handle) = handle.filter(|handle| handle.thread().id() != thread::current().id())
        {
            let _ = handle.join();
        }
    }
}

impl Store {
    /// A failure poisons the store, and so is seen by the next writer.
    fn persist_if_behind(&self) {
        if self.visible() > self.persisted() {
            let _ = self.write(WriteBatch::new(), WriteOptions::with_sync(true));
        }
    }

    /// Refuses an interval where nothing could be persisted.
    pub(crate) fn check_persist_every(&self) -> Result<()> {
        if self.options.persist_every.is_none() {
            return Ok(());
        }
        self.check_can_persist().map_err(|error| {
            Error::invalid(format!(
                "persist_every is set, but nothing can be persisted: {error}"
            ))
        })
    }
}
