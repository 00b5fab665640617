//! Room on the board for work that no policy chose: manual compactions, whose callers wait for
//! them, and tables that are put at a place without a merge.
//!
//! Both have a ticket. A manual compaction waits for conflicting claims. Its own claim keeps new
//! jobs from beginning in its way meanwhile. Of two that wait, the one that came first goes first.

use terrace_lsm::compaction::claim::Claim;
use terrace_lsm::compaction::policy::Choice;
use terrace_lsm::levels::{KeyRange, Place};

use super::{Begun, Board, Jobs, Work};
use crate::KeyspaceId;

/// A place that is kept free until this guard is dropped.
pub(crate) struct Reserved<'a> {
    jobs: &'a Jobs,
    ticket: u64,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut board = self.jobs.board.lock();
        board.reserved.retain(|(ticket, ..)| *ticket != self.ticket);
        // A job that it blocked may begin now.
        self.jobs.note(&mut board, Ok(true));
    }
}

/// A manual compaction, whose caller waits for it.
pub(super) struct AskedFor {
    pub(super) ticket: u64,
    /// Its later claim, while it waits for others: no new job may begin there.
    pub(super) waiting: Option<(KeyspaceId, Claim)>,
    pub(super) job: u64,
    /// Whether every slice of its job was installed.
    pub(super) is_complete: bool,
}

impl Jobs {
    /// Returns a place in the queue for a manual compaction.
    pub(crate) fn new_ticket(&self) -> u64 {
        let mut board = self.board.lock();
        board.last_ticket += 1;
        let ticket = board.last_ticket;
        board.asked_for.push(AskedFor {
            ticket,
            waiting: None,
            job: 0,
            is_complete: false,
        });
        ticket
    }

    pub(crate) fn return_ticket(&self, ticket: u64) {
        let mut board = self.board.lock();
        board.asked_for.retain(|asked| asked.ticket != ticket);
    }

    /// Puts the choice of `choose` on the board, unless it meets a claim: then it waits. Returns
    /// `None` then, and if there is nothing to do.
    pub(crate) fn begin_asked_for(
        &self,
        keyspace: KeyspaceId,
        ticket: u64,
        choose: impl FnOnce() -> Option<Choice>,
    ) -> Option<Begun> {
        let mut board = self.board.lock();
        let claims = board.claims(|asked| asked.ticket < ticket);
        let choice = choose();
        let claim = choice.as_ref().and_then(Claim::of);
        let meets = |claim: &Claim| {
            let mut others = claims.iter();
            others.any(|(id, other)| *id == keyspace && other.conflicts_with(claim))
        };
        let waits = claim.filter(|claim| meets(claim));
        let must_wait = waits.is_some();
        if let Some(asked) = board.asked_for(ticket) {
            asked.waiting = waits.map(|claim| (keyspace, claim));
        }
        let choice = choice.filter(|_| !must_wait)?;
        let Some(Work::Begin(begun)) = board.begin(keyspace, choice) else {
            return None;
        };
        if let Some(asked) = board.asked_for(ticket) {
            asked.job = begun.job;
        }
        Some(begun)
    }

    /// Returns whether a manual compaction waits for others.
    pub(crate) fn is_waiting(&self, ticket: u64) -> bool {
        let mut board = self.board.lock();
        let asked = board.asked_for(ticket);
        asked.is_some_and(|asked| asked.waiting.is_some())
    }

    /// Returns whether a manual compaction is installed as a whole.
    pub(crate) fn is_complete(&self, ticket: u64) -> bool {
        let mut board = self.board.lock();
        let asked = board.asked_for(ticket);
        asked.is_none_or(|asked| asked.is_complete)
    }

    /// Claims a place for tables that are put there without a merge, unless a claim is in the way.
    pub(crate) fn reserve(
        &self,
        keyspace: KeyspaceId,
        range: &KeyRange,
        place: Place,
    ) -> Option<Reserved<'_>> {
        let choose = |claims: &[Claim]| {
            let claim = Claim::on_place(range.clone(), place);
            let is_free = !claims.iter().any(|other| other.conflicts_with(&claim));
            is_free.then_some((claim, ()))
        };
        let ((), reserved) = self.reserve_chosen(keyspace, choose)?;
        Some(reserved)
    }

    /// Claims the job that `choose` makes from the claims of a keyspace.
    pub(crate) fn reserve_chosen<T>(
        &self,
        keyspace: KeyspaceId,
        choose: impl FnOnce(&[Claim]) -> Option<(Claim, T)>,
    ) -> Option<(T, Reserved<'_>)> {
        let mut board = self.board.lock();
        let claims = board.claims(|_| true).into_iter();
        let claims: Vec<Claim> = claims
            .filter(|(id, _)| *id == keyspace)
            .map(|(_, claim)| claim)
            .collect();
        let (claim, chosen) = choose(&claims)?;
        board.last_ticket += 1;
        let ticket = board.last_ticket;
        board.reserved.push((ticket, keyspace, claim));
        Some((chosen, Reserved { jobs: self, ticket }))
    }
}

impl Board {
    fn asked_for(&mut self, ticket: u64) -> Option<&mut AskedFor> {
        self.asked_for
            .iter_mut()
            .find(|asked| asked.ticket == ticket)
    }
}
