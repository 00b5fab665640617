//! Who may write next: the commit queue.
//!
//! One thread at a time is the *leader*. A writer that finds the queue idle leads at once, with no
//! hand-over; others wait, and the leader's successor takes as many of them as fit into its group.
//! A group forms by itself while the group before it is being written: there is no timer.
//!
//! Invariant: `leading` is true exactly while some thread is inside `lead` or has been told to
//! lead and not yet woken. A ticket that was answered or told to lead is in no list any more.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::write_buffer::batch::WriteBatch;
use crate::{Error, Result};

/// Where a group stops growing. A single batch may be larger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupLimits {
    pub(crate) bytes: usize,
    pub(crate) records: u32,
}

/// What a writer wants.
pub(crate) struct Request {
    /// May be empty: a request to persist only.
    pub(crate) batch: WriteBatch,
    pub(crate) sync: bool,
    /// Not a write: wants to be leader alone (seal, close).
    pub(crate) exclusive: bool,
}

enum Outcome {
    Waiting,
    Lead,
    Done(Result<()>),
}

struct Ticket {
    request: Request,
    outcome: Mutex<Outcome>,
    answered: Condvar,
}

#[derive(Default)]
struct State {
    leading: bool,
    waiting: VecDeque<Arc<Ticket>>,
}

/// The requests that are written together. The leader's own comes first.
pub(crate) struct Group<'a> {
    own: &'a Request,
    followers: Vec<Arc<Ticket>>,
}

impl Group<'_> {
    /// The batches that hold writes, in the order of their numbers.
    pub(crate) fn batches(&self) -> impl Iterator<Item = &WriteBatch> {
        self.requests()
            .map(|request| &request.batch)
            .filter(|batch| !batch.is_empty())
    }

    /// Whether one of them asked for persistence.
    pub(crate) fn sync(&self) -> bool {
        self.requests().any(|request| request.sync)
    }

    fn requests(&self) -> impl Iterator<Item = &Request> {
        std::iter::once(self.own).chain(self.followers.iter().map(|ticket| &ticket.request))
    }
}

/// The queue. See the head of the file.
pub(crate) struct CommitQueue {
    state: Mutex<State>,
    limits: GroupLimits,
}

impl CommitQueue {
    pub(crate) fn new(limits: GroupLimits) -> Self {
        CommitQueue {
            state: Mutex::default(),
            limits,
        }
    }

    /// Has `request` written, by this thread or as part of another one's group. `commit` writes a
    /// group; its answer is every member's.
    pub(crate) fn submit(
        &self,
        request: Request,
        commit: impl FnOnce(&Group<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        if !state.leading {
            state.leading = true;
            drop(state);
            return self.lead(&request, commit);
        }
        let ticket = Arc::new(Ticket {
            request,
            outcome: Mutex::new(Outcome::Waiting),
            answered: Condvar::new(),
        });
        state.waiting.push_back(Arc::clone(&ticket));
        drop(state);
        match ticket.wait() {
            Some(answer) => answer,
            None => self.lead(&ticket.request, commit),
        }
    }

    fn lead(&self, own: &Request, commit: impl FnOnce(&Group<'_>) -> Result<()>) -> Result<()> {
        let followers = if own.exclusive {
            Vec::new()
        } else {
            self.followers(own)
        };
        let group = Group { own, followers };
        // If `commit` panics the next leader must still be called: nobody may wait for ever.
        let mut succession = Succession {
            queue: self,
            followers: &group.followers,
            answer: None,
        };
        let answer = commit(&group);
        succession.answer = Some(answer.clone());
        drop(succession);
        answer
    }

    /// Takes waiting requests from the front while they fit beside `own`.
    fn followers(&self, own: &Request) -> Vec<Arc<Ticket>> {
        let mut state = self.state.lock();
        let (mut bytes, mut records) = (own.batch.size_bytes(), own.batch.records());
        let mut taken = 0;
        for ticket in &state.waiting {
            let request = &ticket.request;
            bytes = bytes.saturating_add(request.batch.size_bytes());
            records = records.saturating_add(request.batch.records());
            let is_full = bytes > self.limits.bytes || records > self.limits.records;
            if request.exclusive || is_full {
                break;
            }
            taken += 1;
        }
        state.waiting.drain(..taken).collect()
    }

    /// Makes the first waiting request's thread the leader, or the queue idle.
    fn hand_over(&self) {
        let mut state = self.state.lock();
        let successor = state.waiting.pop_front();
        state.leading = successor.is_some();
        drop(state);
        if let Some(ticket) = successor {
            ticket.answer(Outcome::Lead);
        }
    }
}

/// Ends a leadership: answers the followers and calls the next leader.
struct Succession<'a> {
    queue: &'a CommitQueue,
    followers: &'a [Arc<Ticket>],
    answer: Option<Result<()>>,
}

impl Drop for Succession<'_> {
    fn drop(&mut self) {
        let answer = self.answer.take().unwrap_or(Err(Error::Closed));
        self.queue.hand_over();
        for ticket in self.followers {
            ticket.answer(Outcome::Done(answer.clone()));
        }
    }
}

impl Ticket {
    fn answer(&self, outcome: Outcome) {
        *self.outcome.lock() = outcome;
        self.answered.notify_one();
    }

    /// Waits for an answer; `None` means that this thread leads.
    fn wait(&self) -> Option<Result<()>> {
        let mut outcome = self.outcome.lock();
        loop {
            match std::mem::replace(&mut *outcome, Outcome::Waiting) {
                Outcome::Waiting => self.answered.wait(&mut outcome),
                Outcome::Lead => return None,
                Outcome::Done(answer) => return Some(answer),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn request(exclusive: bool) -> Request {
        let mut batch = WriteBatch::new();
        if !exclusive {
            batch.put(b"key", b"value").unwrap();
        }
        Request {
            batch,
            sync: false,
            exclusive,
        }
    }

    #[test]
    fn every_request_is_in_exactly_one_group_and_leaders_never_overlap() {
        let queue = CommitQueue::new(GroupLimits {
            bytes: 1 << 20,
            records: 1000,
        });
        let (inside, written, alone) = (
            AtomicUsize::new(0),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (queue, inside, written, alone) = (&queue, &inside, &written, &alone);
                scope.spawn(move || {
                    for i in 0..500 {
                        let exclusive = (i + thread) % 50 == 0;
                        let commit = |group: &Group<'_>| {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            written.fetch_add(group.batches().count(), Ordering::SeqCst);
                            alone.fetch_add(usize::from(exclusive), Ordering::SeqCst);
                            assert!(!exclusive || group.requests().count() == 1);
                            std::thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                            Ok(())
                        };
                        queue.submit(request(exclusive), commit).unwrap();
                    }
                });
            }
        });
        assert_eq!(
            written.load(Ordering::SeqCst),
            2000 - alone.load(Ordering::SeqCst)
        );
        assert_eq!(alone.load(Ordering::SeqCst), 40);
        assert!(!queue.state.lock().leading);
    }

    #[test]
    fn a_failure_is_answered_to_the_whole_group() {
        let queue = CommitQueue::new(GroupLimits {
            bytes: 1 << 20,
            records: 1000,
        });
        let answer = queue.submit(request(false), |_| Err(Error::Closed));
        assert!(matches!(answer, Err(Error::Closed)));
        queue.submit(request(false), |_| Ok(())).unwrap();
    }
}
