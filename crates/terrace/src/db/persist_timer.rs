//! Steps at intervals: persisting the writes, if the owner chose an interval, and looking at
//! tombstones.

use std::sync::Arc;
use std::time::Duration;

use terrace_lsm::sync::Mutex;
use terrace_lsm::sync::thread::{self, JoinHandle};

use crate::db::Store;
use crate::db::bell::Bell;
use crate::db::write::WriteOptions;
use crate::thread_start;
use crate::write_buffer::batch::WriteBatch;
use crate::{Error, Result};

/// The least time from one step to the next where the bell asks for it.
const LEAST_PAUSE: Duration = Duration::from_secs(1);

/// The thread of a step, if there is to be one.
pub(crate) struct Timer {
    name: &'static str,
    step: fn(&Store),
    handle: Mutex<Option<JoinHandle<()>>>,
    bell: Arc<Bell>,
}

impl Timer {
    pub(crate) fn new(name: &'static str, step: fn(&Store)) -> Self {
        Timer {
            name,
            step,
            handle: Mutex::default(),
            bell: Arc::default(),
        }
    }

    /// Returns the same timer, which this bell wakes, too: once a second at most.
    pub(crate) fn with_bell(self, bell: Arc<Bell>) -> Self {
        Timer { bell, ..self }
    }

    /// Starts the thread. `of` finds the timer in the store.
    pub(crate) fn start(
        store: &Arc<Store>,
        of: fn(&Store) -> &Timer,
        interval: Duration,
    ) -> Result<()> {
        let (owned, timer) = (Arc::clone(store), of(store));
        let run = move || of(&owned).run(&owned, interval);
        *timer.handle.lock() = Some(thread_start::start(timer.name, run)?);
        Ok(())
    }

    /// Returns whether the thread was started.
    pub(crate) fn is_started(&self) -> bool {
        self.handle.lock().is_some()
    }

    fn run(&self, store: &Store, interval: Duration) {
        while self.bell.listen(interval) {
            let has_rung = self.bell.take();
            // A panic has poisoned the store, which the next writer sees.
            let _ = store.guard(self.name, || {
                (self.step)(store);
                Ok(())
            });
            // A caller's code may have forked: this copy of the thread is the whole child.
            if store.lifecycle.is_inherited() {
                return;
            }
            if has_rung && !self.bell.sleep(LEAST_PAUSE) {
                return;
            }
        }
    }

    /// Ends the thread. It is not inside the store any more when this returns.
    pub(crate) fn stop(&self) {
        self.bell.end();
        let handle = self.handle.lock().take();
        // The last owner may be dropped by the thread itself.
        if let Some(handle) = handle.filter(|handle| handle.thread().id() != thread::current().id())
        {
            let _ = handle.join();
        }
    }
}

impl Store {
    /// Persists writes, if some are behind. A failure poisons the store, so the next writer sees
    /// it.
    pub(crate) fn persist_if_behind(&self) {
        if self.reads.visible() > self.writes.persisted() {
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
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::{Db, Options};

    fn faulty(_: &Store) -> &Timer {
        static TIMER: LazyLock<Timer> =
            LazyLock::new(|| Timer::new("faulty", |_| panic!("a tick")));
        &TIMER
    }

    static STEPS: AtomicU64 = AtomicU64::new(0);

    fn rung(_: &Store) -> &Timer {
        fn step(store: &Store) {
            STEPS.fetch_add(1, Ordering::Relaxed);
            rung(store).bell.ring();
        }
        static TIMER: LazyLock<Timer> = LazyLock::new(|| Timer::new("rung", step));
        &TIMER
    }

    #[test]
    fn a_bell_asks_for_a_step_once_a_second() {
        let db = Db::open("/store", Options::in_memory()).unwrap();
        let begun = std::time::Instant::now();
        Timer::start(db.store(), rung, Duration::from_secs(3600)).unwrap();
        rung(db.store()).bell.ring();
        while STEPS.load(Ordering::Relaxed) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(100));
        rung(db.store()).stop();
        let (steps, seconds) = (STEPS.load(Ordering::Relaxed), begun.elapsed().as_secs());
        assert!(steps <= 1 + seconds, "{steps} in {seconds} seconds");
    }

    #[test]
    fn a_panic_in_a_timer_poisons_the_store() {
        let db = Db::open("/store", Options::in_memory()).unwrap();
        Timer::start(db.store(), faulty, Duration::from_millis(1)).unwrap();
        // A minute, on a machine that has nothing else to do.
        for _ in 0..60_000 {
            if db.store().lifecycle.poisoned().is_none() {
                thread::sleep(Duration::from_millis(1));
            }
        }
        faulty(db.store()).stop();
        let refusal = db.put(b"key", b"value").unwrap_err().to_string();
        assert!(refusal.contains("\"faulty\": a tick"), "{refusal}");
    }
}
