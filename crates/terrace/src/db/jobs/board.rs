//! The board that one lock guards: the jobs, and the work that waits for a place among them.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_lsm::compaction::claim::Claim;
use terrace_lsm::compaction::policy::{Choice, ChoiceKind};
use terrace_lsm::compaction::space::Space;

use super::asked_for::AskedFor;
use super::job::{Begun, Ended, Job, SliceWork, Work};
use super::under_way::Progress;
use crate::{KeyspaceId, Result};

#[derive(Default)]
pub(super) struct Board {
    pub(super) last_id: u64,
    pub(super) jobs: Vec<Job>,
    /// Merges that have no space beside those under way, until one of these gives some back.
    pub(super) put_off: Vec<(KeyspaceId, Claim)>,
    /// Steps that changed something, failed, or found that nothing is left to do.
    pub(super) rounds: u64,
    /// Outcome of the last of them.
    pub(super) last: Option<Result<bool>>,
    pub(super) closed: bool,
    pub(super) last_ticket: u64,
    pub(super) asked_for: Vec<AskedFor>,
    /// Places that are about to be taken, by ticket.
    pub(super) reserved: Vec<(u64, KeyspaceId, Claim)>,
}

impl Board {
    /// Returns the claims of the jobs under way, and of waiting manual compactions that count.
    pub(super) fn claims(&self, counts: impl Fn(&AskedFor) -> bool) -> Vec<(KeyspaceId, Claim)> {
        let asked = self.asked_for.iter().filter(|asked| counts(asked));
        self.begun()
            .chain(asked.filter_map(|asked| asked.waiting.clone()))
            .chain(self.put_off.iter().cloned())
            .collect()
    }

    /// Returns the claims of the jobs under way, and on places that are about to be taken.
    pub(super) fn begun(&self) -> impl Iterator<Item = (KeyspaceId, Claim)> {
        let jobs = self.jobs.iter().map(|job| (job.keyspace, job.claim()));
        let reserved = self.reserved.iter();
        jobs.chain(reserved.map(|(_, keyspace, claim)| (*keyspace, claim.clone())))
    }

    /// Takes a job off the board and keeps others from choosing it again. A manual compaction may
    /// be chosen: its caller begins it again.
    pub(super) fn put_off(&mut self, id: u64) {
        let Some(at) = self.jobs.iter().position(|job| job.id == id) else {
            return;
        };
        let job = self.jobs.remove(at);
        if !self.asked_for.iter().any(|asked| asked.job == id) {
            self.put_off.push((job.keyspace, job.claim));
        }
    }

    /// Returns the bytes that all other jobs have reserved.
    pub(super) fn reserved_beside(&self, job: u64) -> u64 {
        let others = self.jobs.iter().filter(|other| other.id != job);
        others.map(Job::reserved_bytes).sum()
    }

    /// Returns whether a removal of hidden tables is under way.
    pub(super) fn removes(&self) -> bool {
        let mut jobs = self.jobs.iter();
        jobs.any(|job| job.choice.kind == ChoiceKind::Removal)
    }

    pub(super) fn job(&mut self, id: u64) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.id == id)
    }

    pub(super) fn begin(&mut self, keyspace: KeyspaceId, choice: Choice) -> Option<Work> {
        let claim = Claim::of(&choice)?;
        debug_assert!(
            self.begun()
                .all(|(of, other)| of != keyspace || !other.conflicts_with(&claim)),
            "two jobs claim the same: {choice}"
        );
        self.last_id += 1;
        let choice = Arc::new(choice);
        self.jobs.push(Job {
            id: self.last_id,
            keyspace,
            claim,
            choice: Arc::clone(&choice),
            slices: Vec::new(),
            ends: Arc::default(),
            space: Space::default(),
            is_reserved: false,
            next: 0,
            installed: 0,
            end: 0,
            building: 0,
            progress: Progress::begun(self.last_id, &choice),
            built: BTreeMap::new(),
        });
        Some(Work::Begin(Begun {
            job: self.last_id,
            keyspace,
            choice,
        }))
    }

    pub(super) fn take_slice(&mut self, at: usize) -> Option<Work> {
        let job = self.jobs.get_mut(at)?;
        let (number, slice) = job.take_slice()?;
        let choice = job.part(|input| slice.overlaps(&input.table.bounds));
        let (expected_bytes, given_back_bytes) = job.space.of_slice(number);
        Some(Work::Build(SliceWork {
            job: job.id,
            keyspace: job.keyspace,
            choice,
            number,
            slice,
            ends: Arc::clone(&job.ends),
            expected_bytes,
            given_back_bytes,
        }))
    }

    pub(super) fn release(&mut self, work: &SliceWork) {
        if let Some(job) = self.job(work.job) {
            job.building -= 1;
        }
    }

    /// Takes the job off the board if nothing of it is left to be built or installed.
    pub(super) fn end_if_done(&mut self, id: u64) -> Option<Ended> {
        let done = |job: &Job| job.id == id && job.installed >= job.end && job.building == 0;
        let at = self.jobs.iter().position(done)?;
        let job = self.jobs.remove(at);
        self.put_off.clear();
        if let Some(asked) = self.asked_for.iter_mut().find(|asked| asked.job == id) {
            asked.is_complete = job.installed == job.slices.len();
        }
        Some(Ended {
            job: job.id,
            keyspace: job.keyspace,
            range: job.claim.range().clone(),
            progress: job.progress,
            installed: job.installed,
            slices: job.slices.len(),
            choice: job.choice,
        })
    }
}
