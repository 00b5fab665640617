//! Who does the work that no caller waits for: spares, flushes and compactions.
//!
//! A [`Worker`] repeats one step until there is nothing left to do. A step that fails is repeated
//! with growing pauses until it succeeds: a full disk is left behind by itself once space returns.
//! The last failure is shown in the statistics and to writers that cannot go on without the step.
//! Only a poisoned store ends the repeating: nothing can succeed there until it is reopened.
//!
//! With [`Background::Inline`](options::Background::Inline) the step runs in the caller's thread,
//! one caller at a time; a step that wants its own worker again is already inside it.

use std::sync::Arc;
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::db::Store;
use crate::options;
use crate::{Error, Result};

/// One unit of background work; false if there was none.
type Step = fn(&Store) -> Result<bool>;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The workers of a store.
pub(crate) struct Background {
    spare: Arc<Worker>,
    flush: Arc<Worker>,
    compaction: Arc<Worker>,
}

impl Background {
    pub(crate) fn new(kind: options::Background) -> Self {
        let worker = |name, step| Arc::new(Worker::new(kind, name, step));
        Background {
            spare: worker("terrace-spare", Store::prepare_spare),
            flush: worker("terrace-flush", Store::flush_step),
            compaction: worker("terrace-compact", Store::compaction_step),
        }
    }

    fn workers(&self) -> [&Arc<Worker>; 3] {
        [&self.spare, &self.flush, &self.compaction]
    }

    /// Starts the threads, if there are to be any.
    pub(crate) fn start(&self, store: &Arc<Store>) -> Result<()> {
        self.workers()
            .into_iter()
            .try_for_each(|worker| worker.start(store))
    }

    /// The spare may have been taken.
    pub(crate) fn spare_wanted(&self, store: &Store) {
        self.spare.kick(store);
    }

    /// There may be a sealed arena.
    pub(crate) fn flush_wanted(&self, store: &Store) {
        self.flush.kick(store);
    }

    /// A level may be over its target.
    pub(crate) fn compaction_wanted(&self, store: &Store) {
        self.compaction.kick(store);
    }

    /// Waits for one more step of the spare worker; its failure if it failed.
    pub(crate) fn wait_for_spare(&self, store: &Store) -> Result<bool> {
        self.spare.wait(store)
    }

    /// Waits for one more step of the flush worker; its failure if it failed.
    pub(crate) fn wait_for_flush(&self, store: &Store) -> Result<bool> {
        self.flush.wait(store)
    }

    /// Waits for one more step of the compaction worker; its failure if it failed.
    pub(crate) fn wait_for_compaction(&self, store: &Store) -> Result<bool> {
        self.compaction.wait(store)
    }

    /// Steps that failed, and a last failure.
    pub(crate) fn retries(&self) -> (u64, Option<Error>) {
        let mut total = (0, None);
        for worker in self.workers() {
            let state = worker.state.lock();
            total = (
                total.0 + state.failures,
                state.last_failure.clone().or(total.1),
            );
        }
        total
    }

    /// Ends all workers; whoever waits for them gets [`Error::Closed`]. No step runs any more when
    /// this returns.
    pub(crate) fn stop(&self) {
        self.workers().into_iter().for_each(|worker| worker.stop());
    }
}

struct Worker {
    name: &'static str,
    step: Step,
    inline: bool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    wanted: bool,
    stopped: bool,
    /// The thread that is inside the step.
    running: Option<ThreadId>,
    /// Steps that ended, well or not.
    rounds: u64,
    /// How the last step ended.
    last: Option<Result<bool>>,
    failures: u64,
    last_failure: Option<Error>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn new(kind: options::Background, name: &'static str, step: Step) -> Self {
        let inline = kind == options::Background::Inline;
        Worker {
            name,
            step,
            inline,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn start(self: &Arc<Self>, store: &Arc<Store>) -> Result<()> {
        if self.inline {
            return Ok(());
        }
        let (worker, store) = (Arc::clone(self), Arc::clone(store));
        let thread = thread::Builder::new().name(self.name.to_owned());
        let thread = thread.spawn(move || worker.run(&store)).map_err(|error| {
            let operation = terrace_storage::Operation::Open;
            Error::from(terrace_storage::Error::new(
                operation,
                self.name.as_ref(),
                error,
            ))
        })?;
        self.state.lock().thread = Some(thread);
        Ok(())
    }

    /// The thread: waits for a wish, repeats the step until it has nothing to do.
    fn run(&self, store: &Store) {
        let mut pause = FIRST_PAUSE;
        while self.next_wish() {
            match self.repeat(store) {
                Ok(()) => pause = FIRST_PAUSE,
                Err(_) => {
                    let mut state = self.state.lock();
                    state.wanted = store.poisoned().is_none();
                    if state.wanted && !state.stopped {
                        self.changed.wait_for(&mut state, pause);
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                }
            }
        }
    }

    /// Waits until the step is wanted; false if the worker is to end.
    fn next_wish(&self) -> bool {
        let mut state = self.state.lock();
        while !state.wanted && !state.stopped {
            self.changed.wait(&mut state);
        }
        state.wanted = false;
        !state.stopped
    }

    fn repeat(&self, store: &Store) -> Result<()> {
        while self.run_step(store)? {}
        Ok(())
    }

    /// One step in this thread. Not while it runs in another one.
    fn run_step(&self, store: &Store) -> Result<bool> {
        let mut state = self.wait_while_running(self.state.lock());
        if state.stopped {
            return Ok(false);
        }
        state.running = Some(thread::current().id());
        drop(state);
        let done = (self.step)(store);
        let mut state = self.state.lock();
        state.running = None;
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

    fn wait_while_running<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while state.running.is_some() {
            self.changed.wait(&mut state);
        }
        state
    }

    /// Whether this very thread is inside the step.
    fn is_inside(&self) -> bool {
        self.state.lock().running == Some(thread::current().id())
    }

    fn kick(&self, store: &Store) {
        if self.inline {
            if !self.is_inside() {
                // A failure is kept in the state; the next kick tries again.
                let _ = self.repeat(store);
            }
            return;
        }
        self.state.lock().wanted = true;
        self.changed.notify_all();
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
        let mut state = self.state.lock();
        state.stopped = true;
        self.changed.notify_all();
        // The last owner of the store may be dropped inside a step; it cannot wait for itself.
        if state.running != Some(thread::current().id()) {
            state = self.wait_while_running(state);
        }
        let thread = state.thread.take();
        drop(state);
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id())
        {
            // A panic in the step has been reported on standard error already.
            let _ = thread.join();
        }
    }
}
