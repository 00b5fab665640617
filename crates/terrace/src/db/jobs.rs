//! The board of the jobs under way: their claims, the slices that wait to be built, and the built
//! slices that wait to be installed.
//!
//! The worker that chooses a job puts it on the board. The job stays there until its last edit is
//! durable, so that the next choice sees its claim. Slices are handed out in the order of their
//! keys and installed in that order, by one thread. A slice that fails takes those behind it with
//! it: the job ends there. A policy then decides again about the rest of its inputs, narrowed to
//! the keys that are left.
//!
//! The board changes after the version, never before. So a thread looks at the board first and
//! then at the version. It sees claims that are too large for a moment, and never too small.

mod asked_for;
mod board;
mod job;
pub(crate) mod under_way;

use std::collections::BTreeSet;
use std::sync::Arc;

use terrace_lsm::compaction::claim::Claim;
use terrace_lsm::compaction::policy::Choice;
use terrace_lsm::compaction::slices::Slice;
use terrace_lsm::compaction::space::Space;
use terrace_lsm::compaction::table_ends::Ends;
use terrace_lsm::sync::Condvar;

pub(crate) use self::asked_for::Reserved;
use self::board::Board;
use self::job::Job;
pub(crate) use self::job::{Begun, BuiltSlice, Ended, SliceWork, Work};
use crate::db::lock_order::{OrderedMutex, place};
use crate::{Error, KeyspaceId, Result};

/// Tables and keys that a merge has, or waits for.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The claim.
    pub claim: Claim,
    /// The number under which events speak of it; `None` if it has not begun.
    pub job: Option<u64>,
    /// The reason, in words.
    pub reason: String,
    /// Slices that are installed.
    pub installed_slices: usize,
    /// Slices in all; 0 before it is divided, and for a move.
    pub slices: usize,
}

/// The jobs under way.
#[derive(Default)]
pub(crate) struct Jobs {
    board: OrderedMutex<{ place::BOARD }, Board>,
    changed: Condvar,
}

impl Jobs {
    /// Returns the next work, if there is some. `choose` gets the claims of each keyspace and picks
    /// a job to begin. Level 0 goes before the slices of deeper merges that wait to be built.
    pub(crate) fn next(
        &self,
        choose: impl FnOnce(&[(KeyspaceId, Claim)]) -> Result<Option<(KeyspaceId, Choice)>>,
    ) -> Result<Option<Work>> {
        let mut board = self.board.lock();
        let waiting = board.jobs.iter().position(Job::has_waiting_slice);
        let upper = board
            .jobs
            .iter()
            .position(|job| job.has_waiting_slice() && job.choice.is_of_level0());
        if let Some(at) = upper {
            return Ok(board.take_slice(at));
        }
        let claims = board.claims(|_| true);
        let chosen = choose(&claims)?;
        match (chosen, waiting) {
            (Some((keyspace, choice)), waiting) if waiting.is_none() || choice.goes_first() => {
                Ok(board.begin(keyspace, choice))
            }
            (_, Some(at)) => Ok(board.take_slice(at)),
            _ => {
                // A reservation may be in the way of a merge. The merge begins after its release.
                if board.jobs.is_empty() && board.reserved.is_empty() {
                    self.note(&mut board, Ok(false));
                }
                Ok(None)
            }
        }
    }

    /// Returns all claims, with the facts known of each.
    pub(crate) fn under_way(&self) -> Vec<(KeyspaceId, Claimed)> {
        let board = self.board.lock();
        let jobs = board.jobs.iter().map(|job| {
            let reason = job.choice.reason.to_string();
            let claimed = Claimed {
                job: Some(job.id),
                installed_slices: job.installed,
                slices: job.slices.len(),
                ..waiting(&job.claim(), &reason)
            };
            (job.keyspace, claimed)
        });
        let asked_for = board
            .asked_for
            .iter()
            .filter_map(|asked| asked.waiting.as_ref());
        let asked_for = asked_for.map(|(keyspace, claim)| {
            let reason = "it was asked for, and waits for others";
            (*keyspace, waiting(claim, reason))
        });
        let reserved = board.reserved.iter();
        let reserved = reserved
            .map(|(_, keyspace, claim)| (*keyspace, waiting(claim, "tables are put there")));
        let put_off = board.put_off.iter().map(|(keyspace, claim)| {
            let reason = "it waits for space that others give back";
            (*keyspace, waiting(claim, reason))
        });
        jobs.chain(asked_for)
            .chain(reserved)
            .chain(put_off)
            .collect()
    }

    /// Returns the sub-levels that merges of a keyspace write into.
    pub(crate) fn outputs_of(&self, keyspace: KeyspaceId) -> Vec<u64> {
        let board = self.board.lock();
        let jobs = board.jobs.iter().filter(|job| job.keyspace == keyspace);
        jobs.map(|job| job.choice.output.sub_level).collect()
    }

    /// Returns the tables of a keyspace that jobs under way take.
    pub(crate) fn taken_of(&self, keyspace: KeyspaceId) -> BTreeSet<u64> {
        let board = self.board.lock();
        let claims = board.begun().filter(|(id, _)| *id == keyspace);
        claims
            .flat_map(|(_, claim)| claim.inputs().collect::<Vec<_>>())
            .collect()
    }

    /// Returns whether a job under way takes a table.
    pub(crate) fn takes(&self, keyspace: KeyspaceId, table: u64) -> bool {
        let board = self.board.lock();
        board
            .begun()
            .any(|(id, claim)| id == keyspace && claim.takes(table))
    }

    /// Returns whether a job is on the board.
    pub(crate) fn is_under_way(&self, job: u64) -> bool {
        self.board.lock().job(job).is_some()
    }

    /// Keeps the space that a job needs free of merges that begin after it. Returns false if that
    /// space is not free: the job leaves the board, put off until other jobs have given theirs
    /// back. A job alone goes on slice by slice, as far as it comes. So does a merge of level 0,
    /// which writers wait for.
    ///
    /// # Errors
    /// Those of `is_free`.
    pub(crate) fn reserve_space(
        &self,
        job: u64,
        space: Space,
        is_free: impl Fn(u64) -> Result<bool>,
    ) -> Result<bool> {
        // No thread waits for the board while the file system is asked.
        let mut others_bytes = self.board.lock().reserved_beside(job);
        loop {
            let needed_bytes = others_bytes + space.needed_from(0);
            let is_reserved = is_free(needed_bytes)?;
            let mut board = self.board.lock();
            let others_now = board.reserved_beside(job);
            if others_now > others_bytes {
                others_bytes = others_now;
                continue;
            }
            let Some(job) = board.job(job) else {
                return Ok(true);
            };
            if is_reserved || others_now == 0 || job.choice.is_of_level0() {
                (job.is_reserved, job.space) = (is_reserved, space);
                return Ok(true);
            }
            let id = job.id;
            board.put_off(id);
            return Ok(false);
        }
    }

    /// Begins the pick of `choose` beside the jobs under way. Slices go on waiting. Merges that
    /// only wait are chosen again, so their claims block nothing here.
    pub(crate) fn begin_beside(
        &self,
        choose: impl FnOnce(&[(KeyspaceId, Claim)]) -> Option<(KeyspaceId, Choice)>,
    ) -> Option<Begun> {
        let mut board = self.board.lock();
        let claims: Vec<_> = board.begun().collect();
        let (keyspace, choice) = choose(&claims)?;
        match board.begin(keyspace, choice) {
            Some(Work::Begin(begun)) => Some(begun),
            _ => None,
        }
    }

    /// Divides the job: its slices wait for workers. `ends` has the preferred ends of its output
    /// tables.
    pub(crate) fn divided(&self, job: u64, slices: Vec<Slice>, ends: Arc<Ends>) {
        let mut board = self.board.lock();
        if let Some(job) = board.job(job) {
            job.end = slices.len();
            job.slices = slices;
            job.ends = ends;
        }
    }

    /// Queues a built slice for its installation. Returns it if one before it failed meanwhile.
    pub(crate) fn built(&self, built: BuiltSlice) -> Option<BuiltSlice> {
        let mut board = self.board.lock();
        board.release(&built.work);
        let closed = board.closed;
        match board.job(built.work.job) {
            Some(job) if built.work.number < job.end && !closed => {
                job.built.insert(built.work.number, built);
                None
            }
            _ => Some(built),
        }
    }

    /// Takes a built slice that misses none before it.
    pub(crate) fn take_installable(&self) -> Option<BuiltSlice> {
        let mut board = self.board.lock();
        if board.closed {
            return None;
        }
        board
            .jobs
            .iter_mut()
            .find_map(|job| job.built.remove(&job.installed))
    }

    /// Notes that a slice is installed. Returns the job if this was its last slice; `count` hears
    /// of it before the job's waiters do.
    pub(crate) fn installed(
        &self,
        slice: &BuiltSlice,
        count: impl FnOnce(&Ended),
    ) -> Option<Ended> {
        let work = &slice.work;
        let mut board = self.board.lock();
        if let Some(job) = board.job(work.job) {
            job.installed = work.number + 1;
            job.progress.add(slice);
            job.let_go(&work.slice);
        }
        board.put_off.clear();
        let ended = board.end_if_done(work.job);
        if let Some(ended) = &ended {
            count(ended);
        }
        self.note(&mut board, Ok(true));
        ended
    }

    /// Gives up a slice and all behind it, for this reason. The caller throws the returned slices
    /// away.
    pub(crate) fn give_up(
        &self,
        work: &SliceWork,
        error: &Error,
    ) -> (Vec<BuiltSlice>, Option<Ended>) {
        let mut board = self.board.lock();
        let Some(job) = board.job(work.job) else {
            return (Vec::new(), None);
        };
        job.end = job.end.min(work.number);
        job.progress.failure.get_or_insert_with(|| error.clone());
        let useless = job.built.split_off(&work.number);
        let ended = board.end_if_done(work.job);
        (useless.into_values().collect(), ended)
    }

    /// Gives up all that is under way in a keyspace that has been dropped. `throw_away` gets the
    /// built slices.
    pub(crate) fn forget(&self, keyspace: KeyspaceId, throw_away: impl FnMut(BuiltSlice)) {
        let mut board = self.board.lock();
        let mut useless = Vec::new();
        for job in board.jobs.iter_mut().filter(|job| job.keyspace == keyspace) {
            job.end = job.installed;
            useless.extend(std::mem::take(&mut job.built).into_values());
        }
        // A job with a slice that is being built leaves the board with that slice.
        board
            .jobs
            .retain(|job| job.keyspace != keyspace || job.building > 0 || job.slices.is_empty());
        // Jobs that waited for their tables or space may begin, and callers look again.
        board.put_off.clear();
        self.note(&mut board, Ok(true));
        drop(board);
        useless.into_iter().for_each(throw_away);
    }

    /// Notes that a slice is no longer being built, and not built either.
    pub(crate) fn not_built(&self, work: &SliceWork) {
        self.board.lock().release(work);
    }

    /// Removes a job that is done, or given up before it was divided.
    pub(crate) fn remove(&self, job: u64) {
        let mut board = self.board.lock();
        board.jobs.retain(|other| other.id != job);
        board.put_off.clear();
        self.changed.notify_all();
    }

    /// Waits until no removal of hidden tables is under way, or the store is poisoned. A removal is one
    /// edit: no merge is waited for. Returns whether there was one.
    pub(crate) fn wait_for_removals(&self, is_poisoned: impl Fn() -> bool) -> bool {
        let mut board = self.board.lock();
        let mut waited = false;
        while board.removes() && !board.closed && !is_poisoned() {
            waited = true;
            self.changed.wait(board.waitable());
        }
        waited
    }

    /// Notes the outcome of a step that waiters want to know of.
    pub(crate) fn ended(&self, step: Result<bool>) {
        self.note(&mut self.board.lock(), step);
    }

    fn note(&self, board: &mut Board, step: Result<bool>) {
        board.rounds += 1;
        board.last = Some(step);
        self.changed.notify_all();
    }

    /// Calls `wish`, then waits until something changes. Returns true if work was done, false if
    /// none is left.
    ///
    /// # Errors
    /// The failure, if a step fails; [`Error::Closed`].
    pub(crate) fn wait(&self, wish: impl FnOnce()) -> Result<bool> {
        let rounds = self.board.lock().rounds;
        wish();
        let mut board = self.board.lock();
        while board.rounds == rounds && !board.closed {
            self.changed.wait(board.waitable());
        }
        if board.closed {
            return Err(Error::Closed);
        }
        board.last.clone().unwrap_or(Ok(false))
    }

    /// Closes the board: nothing is installed any more, and no thread waits. Returns the slices
    /// that were built and not installed.
    pub(crate) fn close(&self) -> Vec<BuiltSlice> {
        let mut board = self.board.lock();
        board.closed = true;
        self.changed.notify_all();
        let jobs = board.jobs.iter_mut();
        jobs.flat_map(|job| std::mem::take(&mut job.built).into_values())
            .collect()
    }
}

/// Returns a claim without a job.
fn waiting(claim: &Claim, reason: &str) -> Claimed {
    Claimed {
        claim: claim.clone(),
        job: None,
        reason: reason.to_owned(),
        installed_slices: 0,
        slices: 0,
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod reserved_tests;
