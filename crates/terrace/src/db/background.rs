//! Who does the work that no caller waits for: flushes and compactions.
//!
//! A [`Worker`] repeats one step until there is nothing left to do. A step that fails is repeated
//! with growing pauses until it succeeds: a full disk is left behind by itself once space returns.
//! The last failure is shown in the statistics and to writers that cannot go on without the step.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::db::Store;
use crate::options;
use crate::{Error, Result};

/// One unit of background work; false if there was none.
type Step = fn(&Store) -> Result<bool>;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The flush and the compaction worker.
pub(crate) struct Background {
    flush: Worker,
    compaction: Worker,
}

impl Background {
    pub(crate) fn new(kind: options::Background) -> Self {
        Background {
            flush: Worker::new(kind, Store::flush_step),
            compaction: Worker::new(kind, Store::compaction_step),
        }
    }

    /// Starts the threads, if there are to be any.
    pub(crate) fn start(&self, store: &Arc<Store>) -> Result<()> {
        self.flush.start(store, "terrace-flush")?;
        self.compaction.start(store, "terrace-compact")
    }

    /// There may be a sealed arena, or no spare.
    pub(crate) fn flush_wanted(&self, store: &Store) {
        self.flush.kick(store);
    }

    /// A level may be over its target.
    pub(crate) fn compaction_wanted(&self, store: &Store) {
        self.compaction.kick(store);
    }

    /// Waits for one more step of the flush worker; its failure if it failed.
    pub(crate) fn wait_for_flush(&self, store: &Store) -> Result<bool> {
        self.flush.wait(store)
    }

    /// Waits for one more step of the compaction worker; its failure if it failed.
    pub(crate) fn wait_for_compaction(&self, store: &Store) -> Result<bool> {
        self.compaction.wait(store)
    }

    /// Steps that failed, and the last failure.
    pub(crate) fn retries(&self) -> (u64, Option<Error>) {
        let (flush, compaction) = (self.flush.state.lock(), self.compaction.state.lock());
        let last = flush
            .last_failure
            .clone()
            .or_else(|| compaction.last_failure.clone());
        (flush.failures + compaction.failures, last)
    }

    /// Ends both workers; whoever waits for them gets [`Error::Closed`].
    pub(crate) fn stop(&self) {
        self.flush.stop();
        self.compaction.stop();
    }
}

struct Worker {
    step: Step,
    inline: bool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    wanted: bool,
    stopped: bool,
    /// Somebody is inside the step; inline work must not enter it from within.
    running: bool,
    /// Steps that ended, well or not.
    rounds: u64,
    /// How the last step ended.
    last: Option<Result<bool>>,
    failures: u64,
    last_failure: Option<Error>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn new(kind: options::Background, step: Step) -> Self {
        let inline = kind == options::Background::Inline;
        Worker {
            step,
            inline,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn start(self: &Worker, store: &Arc<Store>, name: &str) -> Result<()> {
        if self.inline {
            return Ok(());
        }
        let owner = Arc::clone(store);
        let is_flush = std::ptr::eq(self, &store.background.flush);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let background = &owner.background;
                let worker = if is_flush {
                    &background.flush
                } else {
                    &background.compaction
                };
                worker.run(&owner);
            });
        let thread = thread.map_err(|error| {
            Error::from(terrace_storage::Error::new(
                terrace_storage::Operation::Open,
                std::path::Path::new(name),
                error,
            ))
        })?;
        self.state.lock().thread = Some(thread);
        Ok(())
    }

    /// The thread: waits for a wish, repeats the step until it has nothing to do.
    fn run(&self, store: &Store) {
        let mut pause = FIRST_PAUSE;
        loop {
            {
                let mut state = self.state.lock();
                while !state.wanted && !state.stopped {
                    self.changed.wait(&mut state);
                }
                if state.stopped {
                    return;
                }
                state.wanted = false;
            }
            loop {
                match self.run_step(store) {
                    Ok(true) => pause = FIRST_PAUSE,
                    Ok(false) => break,
                    Err(_) => {
                        let mut state = self.state.lock();
                        state.wanted = true;
                        if !state.stopped {
                            self.changed.wait_for(&mut state, pause);
                        }
                        pause = (pause * 2).min(LONGEST_PAUSE);
                        break;
                    }
                }
                if self.state.lock().stopped {
                    return;
                }
            }
        }
    }

    fn run_step(&self, store: &Store) -> Result<bool> {
        self.state.lock().running = true;
        let done = (self.step)(store);
        let mut state = self.state.lock();
        state.running = false;
        state.rounds += 1;
        if let Err(error) = &done {
            state.failures += 1;
            state.last_failure = Some(error.clone());
        }
        state.last = Some(done.clone());
        drop(state);
        self.changed.notify_all();
        done
    }

    fn kick(&self, store: &Store) {
        if !self.inline {
            self.state.lock().wanted = true;
            self.changed.notify_all();
            return;
        }
        loop {
            {
                let state = self.state.lock();
                if state.running || state.stopped {
                    return;
                }
            }
            // A failure is kept in the state; the next kick tries again.
            if !matches!(self.run_step(store), Ok(true)) {
                return;
            }
        }
    }

    fn wait(&self, store: &Store) -> Result<bool> {
        if self.inline {
            return if self.state.lock().stopped {
                Err(Error::Closed)
            } else {
                self.run_step(store)
            };
        }
        let mut state = self.state.lock();
        state.wanted = true;
        self.changed.notify_all();
        let rounds = state.rounds;
        while state.rounds == rounds && !state.stopped {
            self.changed.wait(&mut state);
        }
        if state.stopped {
            return Err(Error::Closed);
        }
        state.last.clone().unwrap_or(Ok(false))
    }

    fn stop(&self) {
        let thread = {
            let mut state = self.state.lock();
            state.stopped = true;
            state.thread.take()
        };
        self.changed.notify_all();
        if let Some(thread) = thread {
            // The last owner of the store may be the worker itself; it cannot wait for itself.
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                self.state.lock().last_failure = Some(Error::Closed);
            }
        }
    }
}
