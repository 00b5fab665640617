//! The commit queue, which says which thread may write next.
//!
//! One thread at a time is the *leader* and writes. A writer that finds the queue idle leads at
//! once: one atomic exchange before its write and one after it, no lock of the queue and no
//! allocation. Others leave their request in `waiting`, and the next leader takes the requests at
//! its front as one *group*. A group forms by itself while the group before it is being written.
//!
//! A leader that ends leaves its role *vacant*, for no thread in particular, and wakes one waiting
//! thread. The first thread to come takes the role: the woken one, one that has not gone to sleep
//! yet, or one that has just arrived. So no write waits for a particular thread to wake up, which
//! takes longer than a write. A leader's own request need not be in the group it writes.
//!
//! Requests get consecutive positions when they start to wait, and groups are taken from the front,
//! so one number, `answered`, says which have their answer. The queue remembers
//! failed groups beside it, and requests that were refused while the rest of their group was written.
//! It forgets one when every member has read its answer.
//!
//! A sync costs more than the wakes of a whole group. So a leader about to sync first lets as many
//! requests arrive as there were the last time. It waits a fraction of a sync at most. Where they do not
//! come, because the writers have other things to do, the leader soon stops trying. Where a sync
//! turns out to be quick (memory that survives, an emulation), its group is like any other.
//!
//! Invariants: (1) `role` is `IDLE` only if no thread waits. (2) `role` becomes `VACANT`, or leaves
//! it, under the lock only. (3) when it is `VACANT`, some thread that may lead is awake or has been
//! notified.

mod leadership;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use terrace_lsm::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use terrace_lsm::sync::{Condvar, Instant, Mutex, MutexGuard, hint, thread};
use terrace_storage::ForkMark;

use self::leadership::Leadership;
use crate::db::conflict::Condition;
use crate::write_buffer::batch::WriteBatch;
use crate::{Error, Result};

/// No leader, and no thread waits.
const IDLE: u8 = 0;
/// A thread leads, and none waits: the leader ends with one exchange.
const LED: u8 = 1;
/// A thread leads, and others wait: the leader ends under the lock.
const CROWDED: u8 = 2;
/// No leader, and others wait.
const VACANT: u8 = 3;

/// Spins of a waiting thread that looks for its answer, before it sleeps: about the time of a small
/// write. More spins, or a yield, take the processor from the leader, or give it to work that keeps
/// it for milliseconds.
const SPINS: u32 = 60;
/// Maximum number of yields of a leader about to sync, while it expects other requests.
const GATHERING_YIELDS: u32 = 60;
/// Time after which it yields no more: a good part of a sync. One yield may take longer where the
/// processors are busy.
const GATHERING_TIME: Duration = Duration::from_micros(100);
/// A sync that takes longer is worth sleeping through, and worth gathering for: a few wakes.
const LONG_SYNC: Duration = Duration::from_micros(20);
/// Maximum number of syncs without gathering, after gathering in vain.
const MOST_SKIPPED_GATHERINGS: u32 = 64;

/// Size at which a group stops growing. A single batch may be larger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupLimits {
    pub(crate) bytes: usize,
    pub(crate) records: u32,
}

/// A writer's batch, and how it is to be written.
#[derive(Default)]
pub(crate) struct Request {
    /// May be empty: a request to persist only.
    pub(crate) batch: WriteBatch,
    /// Whether the group that it is in is to be persisted.
    pub(crate) sync: bool,
    /// Whether the request is refused where it would have to wait for flush or compaction.
    pub(crate) no_stall: bool,
    /// Condition that must hold for the batch to be written.
    pub(crate) condition: Option<Arc<Condition>>,
}

impl Request {
    /// Returns whether the leader has to judge the request before it writes.
    fn may_be_refused(&self) -> bool {
        self.no_stall || self.condition.is_some() || !self.batch.other_keyspaces().is_empty()
    }
}

/// The requests that are written together, but for those that the leader refuses.
pub(crate) struct Group<'a> {
    requests: &'a [Request],
    /// Positions of the refused in `requests`, ascending, with the reasons.
    refused: Vec<(usize, Error)>,
}

impl<'a> Group<'a> {
    fn of(requests: &'a [Request]) -> Self {
        Group {
            requests,
            refused: Vec::new(),
        }
    }

    /// Returns the requests to be written.
    fn accepted(&self) -> impl Iterator<Item = &'a Request> + Clone {
        let is_refused = |at: usize| self.refused.iter().any(|(refused, _)| *refused == at);
        let requests = self.requests.iter().enumerate();
        requests
            .filter(move |(at, _)| self.refused.is_empty() || !is_refused(*at))
            .map(|(_, request)| request)
    }

    /// Returns the batches that hold writes, in the order of their numbers.
    pub(crate) fn batches(&self) -> impl Iterator<Item = &'a WriteBatch> + Clone {
        let batches = self.accepted().map(|request| &request.batch);
        batches.filter(|batch| !batch.is_empty())
    }

    /// Returns whether an accepted request asks for persistence.
    pub(crate) fn wants_sync(&self) -> bool {
        self.accepted().any(|request| request.sync)
    }

    /// Asks `judge` about each request in order, with the batches accepted so far. Asks nothing if
    /// no request may be refused.
    pub(crate) fn refuse(&mut self, judge: impl Fn(&Request, &[&WriteBatch]) -> Result<()>) {
        if !self.requests.iter().any(Request::may_be_refused) {
            return;
        }
        let mut earlier = Vec::with_capacity(self.requests.len());
        for (at, request) in self.requests.iter().enumerate() {
            match judge(request, &earlier) {
                Ok(()) => earlier.push(&request.batch),
                Err(error) => self.refused.push((at, error)),
            }
        }
    }

    /// Returns whether all batches to be written only delete.
    pub(crate) fn only_deletes(&self) -> bool {
        self.batches().all(WriteBatch::only_deletes)
    }

    /// Refuses every request that stores a value. `error` is the error of a full disk.
    pub(crate) fn refuse_values(&mut self, error: &Error) {
        let is_refused = |at: usize| self.refused.iter().any(|(refused, _)| *refused == at);
        let requests = self.requests.iter().enumerate();
        let values =
            requests.filter(|(at, request)| !request.batch.only_deletes() && !is_refused(*at));
        let values: Vec<_> = values.map(|(at, _)| (at, error.clone())).collect();
        self.refused.extend(values);
        self.refused.sort_by_key(|(at, _)| *at);
    }
}

enum Waiting {
    Write(Request),
    /// Its thread wants to lead alone; no other may lead while it is at the front.
    Alone,
}

/// The answer to the members of a group that failed, or to one that was refused.
struct Failure {
    positions: Range<u64>,
    error: Error,
    unread: u64,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// The position of the first in `waiting`.
    front: u64,
    /// Number of times that requests were taken from `waiting`; tells where to sleep.
    round: usize,
    failures: Vec<Failure>,
    /// Memory for the next group.
    spare: Vec<Request>,
    /// Syncs left without gathering, and how many there will be after the next failed attempt.
    gathering_skips: (u32, u32),
}

/// The queue. See the head of the file.
pub(crate) struct CommitQueue {
    role: AtomicU8,
    /// Every position below has its answer.
    answered: AtomicU64,
    /// Every position below has been given.
    arrived: AtomicU64,
    /// Whether `failures` holds anything.
    some_failed: AtomicBool,
    /// Whether the leader is inside a sync that takes long: not worth spinning for.
    syncing: AtomicBool,
    /// Whether the last sync took long.
    syncs_are_long: AtomicBool,
    /// Number of requests at the end of the last sync: its group and those behind it.
    crowd: AtomicUsize,
    state: Mutex<State>,
    /// Writers sleep here, those of round `n` at `n % 2`, so that waking a group leaves the next
    /// one asleep.
    rounds: [Condvar; 2],
    /// Threads that want to lead alone sleep here.
    alone: Condvar,
    limits: GroupLimits,
    mark: ForkMark,
}

impl CommitQueue {
    pub(crate) fn new(limits: GroupLimits, mark: ForkMark) -> Self {
        CommitQueue {
            role: AtomicU8::new(IDLE),
            answered: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
            some_failed: AtomicBool::new(false),
            syncing: AtomicBool::new(false),
            syncs_are_long: AtomicBool::new(true),
            crowd: AtomicUsize::new(0),
            state: Mutex::new(State::default()),
            rounds: [Condvar::new(), Condvar::new()],
            alone: Condvar::new(),
            limits,
            mark,
        }
    }

    /// Has `request` written, by this thread or as part of another one's group. `commit` writes a
    /// group, which need not hold this request; its answer is every member's. If `commit` panics,
    /// the members get [`Error::Closed`]. `may_wait` is asked before the thread waits.
    pub(crate) fn submit(
        &self,
        request: Request,
        may_wait: impl FnOnce() -> Result<()>,
        commit: impl Fn(&mut Group<'_>) -> Result<()>,
    ) -> Result<()> {
        let others_expected = request.sync && self.crowd.load(Ordering::Relaxed) > 1;
        if !others_expected && self.lead_if_idle() {
            let mut leadership = Leadership::over(self, 0..0, Vec::new());
            leadership.announce_sync(request.sync);
            let mut group = Group::of(std::slice::from_ref(&request));
            commit(&mut group)?;
            return group.refused.pop().map_or(Ok(()), |(_, error)| Err(error));
        }
        may_wait()?;
        let position = self.enter(Waiting::Write(request));
        loop {
            self.look_for_answer(position);
            let mut state = self.state.lock();
            loop {
                if let Some(answer) = self.answer(&mut state, position) {
                    return answer;
                }
                if self.may_lead(&state, position) {
                    break;
                }
                self.sleep(&mut state, position);
            }
            self.lead_group(state, &commit);
            // In a child that a caller's code forked no thread is left to answer.
            if self.mark.is_inherited() {
                return Err(Error::Forked);
            }
        }
    }

    /// Runs `action` while no other thread leads.
    pub(crate) fn alone<T>(&self, action: impl FnOnce() -> T) -> T {
        if self.lead_if_idle() {
            let _leadership = Leadership::over(self, 0..0, Vec::new());
            return action();
        }
        let position = self.enter(Waiting::Alone);
        let mut state = self.state.lock();
        while !(state.front == position && self.role.load(Ordering::Acquire) == VACANT) {
            self.alone.wait(&mut state);
        }
        self.role.store(CROWDED, Ordering::Relaxed);
        state.waiting.pop_front();
        state.front += 1;
        state.round += 1;
        drop(state);
        // Only this thread waits for the answer, and it has gone through already.
        let _leadership = Leadership::over(self, position..position + 1, Vec::new());
        action()
    }

    /// Runs `action` if no thread leads or waits; `None` if one does.
    pub(crate) fn alone_if_idle<T>(&self, action: impl FnOnce() -> T) -> Option<T> {
        if !self.lead_if_idle() {
            return None;
        }
        let _leadership = Leadership::over(self, 0..0, Vec::new());
        Some(action())
    }

    /// Leads, by one exchange, if no thread leads or waits.
    fn lead_if_idle(&self) -> bool {
        let exchanged = self
            .role
            .compare_exchange(IDLE, LED, Ordering::Acquire, Ordering::Relaxed);
        exchanged.is_ok()
    }

    /// Starts to wait, and returns the position.
    fn enter(&self, waiting: Waiting) -> u64 {
        let mut state = self.state.lock();
        let position = state.front + state.waiting.len() as u64;
        state.waiting.push_back(waiting);
        self.arrived.store(position + 1, Ordering::Relaxed);
        // A leader must look here when it ends; without a leader, the role is free to take.
        let noticed = |role| match role {
            IDLE => Some(VACANT),
            LED => Some(CROWDED),
            _ => None,
        };
        let _unchanged_if_noticed =
            self.role
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, noticed);
        position
    }

    /// Spins as long as that may be cheaper than sleeping.
    fn look_for_answer(&self, position: u64) {
        for _ in 0..SPINS {
            if self.answered.load(Ordering::Acquire) > position
                || self.role.load(Ordering::Relaxed) == VACANT
                || self.syncing.load(Ordering::Relaxed)
            {
                return;
            }
            hint::spin_loop();
        }
    }

    fn answer(&self, state: &mut State, position: u64) -> Option<Result<()>> {
        if self.answered.load(Ordering::Acquire) <= position {
            return None;
        }
        if !self.some_failed.load(Ordering::Acquire) {
            return Some(Ok(()));
        }
        let own = |failure: &Failure| failure.positions.contains(&position);
        let Some(at) = state.failures.iter().position(own) else {
            return Some(Ok(()));
        };
        let failure = state.failures.get_mut(at)?;
        let error = failure.error.clone();
        failure.unread -= 1;
        if failure.unread == 0 {
            state.failures.swap_remove(at);
            self.some_failed
                .store(!state.failures.is_empty(), Ordering::Release);
        }
        Some(Err(error))
    }

    fn may_lead(&self, state: &State, position: u64) -> bool {
        self.role.load(Ordering::Acquire) == VACANT
            && position >= state.front
            && matches!(state.waiting.front(), Some(Waiting::Write(_)))
    }

    /// Sleeps until this position may have been answered, or a thread is to lead.
    fn sleep(&self, state: &mut MutexGuard<'_, State>, position: u64) {
        let is_taken = position < state.front;
        let round = state.round + usize::from(!is_taken);
        self.round(round).wait(state);
    }

    fn round(&self, round: usize) -> &Condvar {
        let [even, odd] = &self.rounds;
        if round.is_multiple_of(2) { even } else { odd }
    }

    /// Takes the role, and a group from the front, and writes it.
    fn lead_group<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        commit: impl Fn(&mut Group<'_>) -> Result<()>,
    ) {
        self.role.store(CROWDED, Ordering::Relaxed);
        if self.wants_to_gather(&mut state) {
            state = self.gather(state);
        }
        let mut requests = std::mem::take(&mut state.spare);
        let first = state.front;
        self.take_group(&mut state, &mut requests);
        let positions = first..state.front;
        drop(state);
        let mut leadership = Leadership::over(self, positions, requests);
        leadership.announce_sync(leadership.requests.iter().any(|request| request.sync));
        let mut group = Group::of(&leadership.requests);
        let outcome = commit(&mut group).map(|()| group.refused);
        leadership.outcome = Some(outcome);
    }

    /// Moves requests from the front while they fit into one group.
    fn take_group(&self, state: &mut State, requests: &mut Vec<Request>) {
        let (mut bytes, mut records) = (0usize, 0u32);
        while let Some(Waiting::Write(request)) = state.waiting.front() {
            bytes = bytes.saturating_add(request.batch.size_bytes());
            records = records.saturating_add(request.batch.records());
            let is_full = bytes > self.limits.bytes || records > self.limits.records;
            if is_full && !requests.is_empty() {
                break;
            }
            if let Some(Waiting::Write(request)) = state.waiting.pop_front() {
                requests.push(request);
                state.front += 1;
            }
        }
        state.round += 1;
    }

    fn wants_to_gather(&self, state: &mut State) -> bool {
        let syncs = matches!(state.waiting.front(), Some(Waiting::Write(request)) if request.sync);
        let is_short = state.waiting.len() < self.crowd.load(Ordering::Relaxed);
        if !(syncs && is_short) {
            return false;
        }
        let (skips, _) = &mut state.gathering_skips;
        let skip = *skips > 0;
        *skips = skips.saturating_sub(1);
        !skip
    }

    /// Lets the expected requests arrive. The caller has the role already.
    fn gather<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let expected = state.front + self.crowd.load(Ordering::Relaxed) as u64;
        drop(state);
        let mut yields = 0;
        let began = Instant::now();
        let is_short = || self.arrived.load(Ordering::Relaxed) < expected;
        while is_short() && yields < GATHERING_YIELDS && began.elapsed() < GATHERING_TIME {
            thread::yield_now();
            yields += 1;
        }
        let in_vain = is_short();
        let mut state = self.state.lock();
        let (skips, next_skips) = &mut state.gathering_skips;
        if in_vain {
            *skips = *next_skips;
            *next_skips = (*next_skips * 2 + 1).min(MOST_SKIPPED_GATHERINGS);
        } else {
            *next_skips = 0;
        }
        state
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;

#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;
