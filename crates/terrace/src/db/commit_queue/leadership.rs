//! A leader's term, and how it ends.

use std::ops::Range;

use terrace_lsm::sync::Instant;
use terrace_lsm::sync::atomic::Ordering;

use super::{CommitQueue, Failure, IDLE, LED, LONG_SYNC, Request, State, VACANT, Waiting};
use crate::db::lock_order::{Held, place};
use crate::{Error, Result};

/// A thread's time as leader. Dropping it answers the group and frees the role, also if `commit`
/// panics: no thread may wait for ever.
pub(super) struct Leadership<'a> {
    queue: &'a CommitQueue,
    _held: Held<{ place::LEADERSHIP }>,
    /// Positions answered at the end; empty if the leader did not have to wait itself.
    positions: Range<u64>,
    pub(super) requests: Vec<Request>,
    /// Time when the sync began, if there is one.
    sync: Option<Instant>,
    /// The refused requests, each with its error; `None` if `commit` panicked.
    pub(super) outcome: Option<Result<Vec<(usize, Error)>>>,
}

impl<'a> Leadership<'a> {
    pub(super) fn over(
        queue: &'a CommitQueue,
        positions: Range<u64>,
        requests: Vec<Request>,
    ) -> Self {
        Leadership {
            queue,
            _held: Held::new(),
            positions,
            requests,
            sync: None,
            outcome: None,
        }
    }

    pub(super) fn announce_sync(&mut self, sync: bool) {
        self.sync = sync.then(Instant::now);
        let is_long = sync && self.queue.syncs_are_long.load(Ordering::Relaxed);
        self.queue.syncing.store(is_long, Ordering::Relaxed);
    }

    /// Learns a sync's time, and, in a crowd, how many requests may come the next time.
    fn learn(&self, crowd: usize) {
        let Some(began) = self.sync else { return };
        let is_long = began.elapsed() >= LONG_SYNC;
        let queue = self.queue;
        queue.syncs_are_long.store(is_long, Ordering::Relaxed);
        let expected = if is_long { crowd } else { 0 };
        queue.crowd.store(expected, Ordering::Relaxed);
    }

    /// Answers the group: notes a failure first, then that there is an answer.
    fn answer(&mut self, state: &mut State) {
        let members = self.positions.end - self.positions.start;
        let first = self.positions.start;
        let mut fail = |positions: Range<u64>, error, unread| {
            if unread > 0 {
                state.failures.push(Failure {
                    positions,
                    error,
                    unread,
                });
                self.queue.some_failed.store(true, Ordering::Relaxed);
            }
        };
        match self.outcome.take() {
            Some(Ok(refused)) => {
                for (at, error) in refused {
                    let position = first + at as u64;
                    fail(position..position + 1, error, 1);
                }
            }
            Some(Err(error)) => fail(self.positions.clone(), error, members),
            // A leader that panics does not come back for its own answer.
            None => fail(self.positions.clone(), Error::Closed, members - 1),
        }
        // Release: a thread that finds its position answered finds the failure, if there was one.
        self.queue
            .answered
            .store(self.positions.end, Ordering::Release);
    }
}

impl Drop for Leadership<'_> {
    fn drop(&mut self) {
        let queue = self.queue;
        let was_waiting = !self.positions.is_empty();
        if !was_waiting {
            let ended =
                queue
                    .role
                    .compare_exchange(LED, IDLE, Ordering::Release, Ordering::Relaxed);
            if ended.is_ok() {
                return;
            }
        }
        // In a forked child no thread waits, and the lock may be held for ever.
        if queue.mark.is_inherited() {
            return;
        }
        let members = self.requests.len().max(1);
        self.requests.clear();
        let mut state = queue.state.lock();
        if was_waiting {
            self.answer(&mut state);
            state.spare = std::mem::take(&mut self.requests);
        }
        self.learn(members + state.waiting.len());
        let role = match state.waiting.front() {
            None => IDLE,
            Some(_) => VACANT,
        };
        queue.role.store(role, Ordering::Release);
        let alone_is_next = matches!(state.waiting.front(), Some(Waiting::Alone));
        let round = state.round;
        drop(state);
        // The next leader first: the others wake up while it writes.
        if alone_is_next {
            queue.alone.notify_all();
        } else if role == VACANT {
            queue.round(round + 1).notify_one();
        }
        if was_waiting {
            queue.round(round).notify_all();
        }
    }
}
