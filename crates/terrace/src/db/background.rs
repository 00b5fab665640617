//! The workers for work that no caller waits for: spares, flushes, compactions and deletions.
//!
//! A [`Worker`] repeats one step until there is nothing left to do. A step that fails is repeated
//! with growing pauses until it succeeds: a full disk is left behind by itself once space returns.
//! The last failure is shown in the statistics and to writers that cannot go on without the step.
//! Only a poisoned store ends the repeating: nothing can succeed there until it is reopened. A step
//! that panics poisons the store ([`Store::guard`]) and counts as failed. So its waiters are
//! answered, and its thread goes on to answer later ones.
//!
//! Merges have several threads, which share their work by the board of [`Jobs`](super::jobs::Jobs);
//! each other step runs in one thread at a time. A thread of its own syncs and installs the tables
//! of merges, so that a merge goes on while its last tables reach the disk.
//!
//! With [`Background::Inline`](options::Background::Inline) the step runs in the caller's thread,
//! one caller at a time. A step that wants its own worker again is already inside it.

use std::sync::Arc;
use std::time::Duration;

use terrace_lsm::sync::Condvar;
use terrace_lsm::sync::thread::{self, JoinHandle, ThreadId};

use crate::db::Store;
use crate::db::lock_order::{OrderedMutex, place};
use crate::event::EventKind;
use crate::options;
use crate::thread_start;
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
    install: Arc<Worker>,
    deletion: Arc<Worker>,
    migration: Arc<Worker>,
}

impl Background {
    pub(crate) fn new(kind: options::Background, compaction_threads: usize) -> Self {
        let inline = kind == options::Background::Inline;
        let worker = |name, step, threads| Arc::new(Worker::new(inline, name, step, threads));
        Background {
            spare: worker("terrace-spare", Store::prepare_spare, 1),
            flush: worker("terrace-flush", Store::flush_step, 1),
            compaction: worker("terrace-merge", Store::compaction_step, compaction_threads),
            install: worker("terrace-install", Store::install_step, 1),
            deletion: worker("terrace-delete", Store::deletion_step, 1),
            migration: worker("terrace-migrate", Store::migration_step, 1),
        }
    }

    fn workers(&self) -> [&Arc<Worker>; 6] {
        [
            &self.spare,
            &self.flush,
            &self.compaction,
            &self.install,
            &self.deletion,
            &self.migration,
        ]
    }

    /// Starts the threads, if there are to be any.
    pub(crate) fn start(&self, store: &Arc<Store>) -> Result<()> {
        let workers = self.workers().into_iter();
        let mut at_once = workers.filter(|worker| !Arc::ptr_eq(worker, &self.migration));
        at_once.try_for_each(|worker| worker.start(store))
    }

    /// Starts the thread of migrations, once: a store with one tier has none.
    pub(crate) fn start_migrations(&self, store: &Arc<Store>) -> Result<()> {
        let is_started = !self.migration.state.lock().handles.is_empty();
        match is_started {
            true => Ok(()),
            false => self.migration.start(store),
        }
    }

    /// Wakes the migration worker: a table may lie in another tier than the one for it.
    pub(crate) fn migration_wanted(&self, store: &Store) {
        if store.files.space.is_limited() {
            self.migration.kick(store);
        }
    }

    /// Waits for one more step of the migration worker; false if it had nothing to do.
    pub(crate) fn wait_for_migration(&self, store: &Store) -> Result<bool> {
        store.metrics.events.may_wait()?;
        self.migration.wait(store)
    }

    /// Wakes the spare worker: the spare may have been taken.
    pub(crate) fn spare_wanted(&self, store: &Store) {
        self.spare.kick(store);
    }

    /// Wakes the flush worker: there may be a sealed arena.
    pub(crate) fn flush_wanted(&self, store: &Store) {
        self.flush.kick(store);
    }

    /// Wakes the compaction worker: a level may be over its target.
    pub(crate) fn compaction_wanted(&self, store: &Store) {
        self.compaction.kick(store);
    }

    /// Wakes the deletion worker: tables may have become obsolete.
    pub(crate) fn deletion_wanted(&self, store: &Store) {
        self.deletion.kick(store);
    }

    /// Waits for one more step of the spare worker; fails if the step failed.
    pub(crate) fn wait_for_spare(&self, store: &Store) -> Result<bool> {
        store.metrics.events.may_wait()?;
        self.spare.wait(store)
    }

    /// Waits for one more step of the flush worker; fails if the step failed.
    pub(crate) fn wait_for_flush(&self, store: &Store) -> Result<bool> {
        store.metrics.events.may_wait()?;
        self.flush.wait(store)
    }

    /// Waits until merges get on; false if there is nothing left to merge. Fails if a merge fails.
    pub(crate) fn wait_for_compaction(&self, store: &Store) -> Result<bool> {
        store.metrics.events.may_wait()?;
        if self.compaction.inline {
            return self.compaction.wait(store);
        }
        store.compactor.jobs.wait(|| self.compaction.kick(store))
    }

    /// Has a built slice installed, at once if there are no threads for it.
    pub(crate) fn install(&self, store: &Store) -> Result<()> {
        if self.install.inline {
            return self.install.repeat(store);
        }
        self.install.kick(store);
        Ok(())
    }

    /// Counts a failed read that merges do without. It shows as the last failure.
    pub(crate) fn compaction_met(&self, error: Error) {
        let mut state = self.compaction.state.lock();
        state.failures += 1;
        state.last_failure = Some(error);
    }

    /// Answers every waiter with the poison, also where the step never ends.
    pub(crate) fn answer(&self, poison: &Error) {
        for worker in self.workers() {
            let mut state = worker.state.lock();
            let step = state.begin();
            state.end(step, Err(poison.clone()));
            worker.ended.notify_all();
        }
    }

    /// Returns the number of steps that failed, and a last failure.
    pub(crate) fn step_failures(&self) -> (u64, Option<Error>) {
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

    /// Ends all workers; threads that wait for them get [`Error::Closed`]. No step runs any more
    /// when this returns.
    pub(crate) fn stop(&self) {
        self.workers().into_iter().for_each(|worker| worker.stop());
    }
}

struct Worker {
    name: &'static str,
    step: Step,
    inline: bool,
    /// Threads that may be inside the step at a time.
    threads: usize,
    state: OrderedMutex<{ place::WORKER }, State>,
    /// Signals a new wish, or the end.
    wished: Condvar,
    /// Signals that a step ended.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of wishes for the step. A thread rests when it has seen the last wish and found
    /// nothing to do.
    wishes: u64,
    stopped: bool,
    /// The threads that are inside the step.
    running: Vec<ThreadId>,
    /// Steps that began.
    begun: u64,
    /// Steps that ended, well or not.
    rounds: u64,
    /// The step that ended last, and its outcome.
    last: Option<Ended>,
    failures: u64,
    last_failure: Option<Error>,
    handles: Vec<JoinHandle<()>>,
}

struct Ended {
    /// The number of the step.
    step: u64,
    outcome: Result<bool>,
}

impl State {
    /// Counts a step, and returns its number.
    fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }

    fn end(&mut self, step: u64, outcome: Result<bool>) {
        self.rounds += 1;
        self.last = Some(Ended { step, outcome });
    }

    /// Returns the last step's answer to a wait that began when the step `begun` was the latest. An earlier step that
    /// found nothing is no answer: it may have looked before there was work.
    fn answer_since(&self, begun: u64) -> Option<Result<bool>> {
        let last = self.last.as_ref()?;
        let looked_before = last.step <= begun && matches!(last.outcome, Ok(false));
        (!looked_before).then(|| last.outcome.clone())
    }
}

impl Worker {
    fn new(inline: bool, name: &'static str, step: Step, threads: usize) -> Self {
        Worker {
            name,
            step,
            inline,
            threads: if inline { 1 } else { threads },
            state: OrderedMutex::default(),
            wished: Condvar::new(),
            ended: Condvar::new(),
        }
    }

    fn start(self: &Arc<Self>, store: &Arc<Store>) -> Result<()> {
        if self.inline {
            return Ok(());
        }
        for number in 1..=self.threads {
            let name = if self.threads == 1 {
                self.name.to_owned()
            } else {
                format!("{}-{number}", self.name)
            };
            let (worker, store) = (Arc::clone(self), Arc::clone(store));
            let thread = thread_start::start(&name, move || worker.run(&store))?;
            self.state.lock().handles.push(thread);
        }
        Ok(())
    }

    /// Runs a thread: waits for a wish, then repeats the step until it has nothing to do.
    fn run(&self, store: &Store) {
        let (mut seen, mut pause) = (0, FIRST_PAUSE);
        while let Some(wish) = self.next_wish(seen) {
            seen = wish;
            let repeated = self.repeat(store);
            // A listener's code may have forked: this copy of the thread is the whole child.
            if store.lifecycle.is_inherited() {
                return;
            }
            if repeated.is_ok() {
                pause = FIRST_PAUSE;
                continue;
            }
            let mut state = self.state.lock();
            if store.lifecycle.poisoned().is_none() && !state.stopped {
                self.wished.wait_for(state.waitable(), pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
                seen = state.wishes.wrapping_sub(1);
            }
        }
    }

    /// Waits for another wish than the last one seen; `None` if the thread is to end.
    fn next_wish(&self, seen: u64) -> Option<u64> {
        let mut state = self.state.lock();
        while state.wishes == seen && !state.stopped {
            self.wished.wait(state.waitable());
        }
        (!state.stopped).then_some(state.wishes)
    }

    fn repeat(&self, store: &Store) -> Result<()> {
        while self.run_step(store)? {}
        Ok(())
    }

    /// Runs one step in this thread. Waits while it runs in as many others as it may.
    fn run_step(&self, store: &Store) -> Result<bool> {
        store.lifecycle.check_process()?;
        let mut state = self.state.lock();
        while state.running.len() >= self.threads {
            self.ended.wait(state.waitable());
        }
        if state.stopped {
            return Ok(false);
        }
        let this = thread::current().id();
        state.running.push(this);
        let step = state.begin();
        drop(state);
        let done = store.guard(self.name, || (self.step)(store));
        // A caller's code has forked in the step: others may hold the lock below for ever.
        store.lifecycle.check_process()?;
        if let Err(error) = &done
            && !matches!(error, Error::Closed)
        {
            // A listener that forks here unwinds to a guard as well.
            store.guard(self.name, || {
                store.metrics.events.record(EventKind::StepFailed {
                    worker: self.name.to_owned(),
                    error: error.clone(),
                });
                Ok(())
            })?;
        }
        let mut state = self.state.lock();
        state.running.retain(|&other| other != this);
        if let Err(error) = &done {
            state.failures += 1;
            state.last_failure = Some(error.clone());
        }
        state.end(step, done.clone());
        drop(state);
        self.ended.notify_all();
        done
    }

    /// Returns whether this very thread is inside the step.
    fn is_inside(&self) -> bool {
        self.state.lock().running.contains(&thread::current().id())
    }

    fn kick(&self, store: &Store) {
        if store.lifecycle.is_inherited() {
            return;
        }
        if self.inline {
            // A step in another thread may wait for this one to leave the listener.
            if !self.is_inside() && store.metrics.events.may_wait().is_ok() {
                // A failure is kept in the state; the next kick tries again.
                let _ = self.repeat(store);
            }
            return;
        }
        self.state.lock().wishes += 1;
        self.wished.notify_all();
    }

    fn wait(&self, store: &Store) -> Result<bool> {
        store.lifecycle.check_process()?;
        if self.inline {
            return if self.state.lock().stopped {
                Err(Error::Closed)
            } else {
                self.run_step(store)
            };
        }
        let mut state = self.state.lock();
        state.wishes += 1;
        self.wished.notify_all();
        let (rounds, begun) = (state.rounds, state.begun);
        while !state.stopped {
            if state.rounds != rounds
                && let Some(answer) = state.answer_since(begun)
            {
                return answer;
            }
            self.ended.wait(state.waitable());
        }
        Err(Error::Closed)
    }

    fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        self.wished.notify_all();
        self.ended.notify_all();
        // The last owner of the store may be dropped inside a step; it cannot wait for itself.
        let this = thread::current().id();
        while state.running.iter().any(|&running| running != this) {
            self.ended.wait(state.waitable());
        }
        let handles = std::mem::take(&mut state.handles);
        drop(state);
        for handle in handles {
            if handle.thread().id() != this {
                // The thread ends without a panic: a step has its guard.
                let _ = handle.join();
            }
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
