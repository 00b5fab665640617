//! What is done at intervals: persisting what was written, if the owner chose one, and looking at tombstones.

use std::sync::Arc;
use std::time::Duration;

use crate::db::Store;
use crate::db::write::WriteOptions;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex};
use crate::write_buffer::batch::WriteBatch;
use crate::{Error, Result};

/// The thread that does it, if there is to be one.
pub(crate) struct Timer {
    name: &'static str,
    step: fn(&Store),
    state: Mutex<State>,
    stopped: Condvar,
}

#[derive(Default)]
struct State {
    is_stopped: bool,
    handle: Option<JoinHandle<()>>,
}

impl Timer {
    pub(crate) fn new(name: &'static str, step: fn(&Store)) -> Self {
        Timer {
            name,
            step,
            state: Mutex::default(),
            stopped: Condvar::new(),
        }
    }

    /// `of` finds the timer in the store.
    pub(crate) fn start(
        store: &Arc<Store>,
        of: fn(&Store) -> &Timer,
        interval: Duration,
    ) -> Result<()> {
        let (owned, timer) = (Arc::clone(store), of(store));
        let thread = thread::Builder::new().name(timer.name.to_owned());
        let handle = thread
            .spawn(move || of(&owned).run(&owned, interval))
            .map_err(|error| {
                let operation = terrace_storage::Operation::Open;
                terrace_storage::Error::new(operation, timer.name.as_ref(), error)
            })?;
        timer.state.lock().handle = Some(handle);
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
            // A panic has poisoned the store, which the next writer sees.
            let _ = store.guard(self.name, || {
                (self.step)(store);
                Ok(())
            });
            // A caller's code may have forked: this copy of the thread is the whole child.
            if store.is_inherited() {
                return;
            }
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
    pub(crate) fn persist_if_behind(&self) {
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

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::{Db, Options};

    fn faulty(_: &Store) -> &Timer {
        static TIMER: LazyLock<Timer> =
            LazyLock::new(|| Timer::new("faulty", |_| panic!("a tick")));
        &TIMER
    }

    #[test]
    fn a_panic_in_a_timer_poisons_the_store() {
        let db = Db::open("/store", Options::in_memory()).unwrap();
        Timer::start(db.store(), faulty, Duration::from_millis(1)).unwrap();
        // A minute, on a machine that has nothing else to do.
        for _ in 0..60_000 {
            if db.store().poisoned().is_none() {
                thread::sleep(Duration::from_millis(1));
            }
        }
        faulty(db.store()).stop();
        let refusal = db.put(b"key", b"value").unwrap_err().to_string();
        assert!(refusal.contains("\"faulty\": a tick"), "{refusal}");
    }
}
