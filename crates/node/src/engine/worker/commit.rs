//! Groups of the journal: written, made durable, shown, acknowledged, in this order.

use std::io;

use super::super::journal::{Group, Journal, Member, Pending};
use super::super::namespace::Namespace;
use super::super::share::Share;
use super::super::{Answer, Failure};
use super::{Active, Operation, Waiter, Work, Worker, count};
use crate::device::Request;
use crate::format::namespace::Domain;
use crate::index::{Found, Place};

/// A delete under way.
#[derive(Default)]
pub(super) struct DeleteState {
    /// The cleaner's own: it makes room.
    pub(super) is_eviction: bool,
}

impl Worker {
    /// Judges a delete, now that no other command changes its key, and hands its record over.
    pub(super) fn admit_delete(&mut self, slot: u32) {
        let Some(active) = self.commands.get_mut(slot) else {
            return;
        };
        let (at, hash, key) = (active.namespace, active.hash, active.key);
        let namespace = self.namespace(at);
        let exists = namespace.has_key(hash, &key);
        let judged = match exists {
            false => Err(Failure::NotFound),
            true => namespace.check_writable(),
        };
        if let Err(failure) = judged {
            self.release_key(slot);
            let is_eviction = self.commands.get_mut(slot).is_some_and(Active::is_eviction);
            return match is_eviction {
                true => self.eviction_done(at, slot),
                false => self.finish(slot, Err(failure)),
            };
        }
        let member = Member {
            key,
            hash,
            sequence: namespace.next_sequence(),
            value_bytes: 0,
            checksum: 0,
            change: Pending::Delete,
            share: Share::default(),
            waiter: Some(Waiter::new(&self.inbox, slot)),
        };
        namespace.journal.lock().open.push(member);
    }

    /// Writes the next group of a namespace if none is being written, and looks after its ring.
    pub(super) fn pump(&mut self, at: usize) {
        let namespace = self.namespace(at);
        while self.begin_due_checkpoint(at, &namespace) {}
        let mut journal = namespace.journal.lock();
        if journal.is_stuck() {
            let why = "the journal is full, and no slot has room for the index; `recover --scan` rebuilds it";
            namespace.poison(why.to_owned());
        }
        if let Err(failure) = namespace.check_writable() {
            let members = std::mem::take(&mut journal.open);
            drop(journal);
            if !members.is_empty() {
                refuse(members, &failure);
                namespace.wake_space_waiters();
            }
            return;
        }
        let Some((group, buffer, parts)) = journal.close_group() else {
            return;
        };
        drop(journal);
        self.request(
            Operation::Journal(at, group),
            Request::Write { buffer, parts },
        );
    }

    /// Begins a checkpoint if one is due. Returns true if it has ended already: another one may be due,
    /// and no request of this one wakes the loop for it.
    fn begin_due_checkpoint(&mut self, at: usize, namespace: &Namespace) -> bool {
        let mut journal = namespace.journal.lock();
        // A loop that closes begins one only for records that may find no room without it: the loops
        // that they belong to may sleep.
        let is_wanted = !self.is_closing || !journal.open.is_empty();
        let is_due = journal.wants_checkpoint() && is_wanted;
        if !is_due || namespace.check_writable().is_err() {
            return false;
        }
        journal.checkpoint_runs = true;
        let start = (journal.next, journal.previous);
        drop(journal);
        self.begin_checkpoint(at, start);
        self.checkpoints[at].is_none()
    }

    /// A group's blocks are written, and its values were before. One flush makes all of them durable.
    pub(super) fn journal_written(&mut self, at: usize, group: Group, result: io::Result<()>) {
        if let Err(error) = result {
            return self.group_failed(
                at,
                group,
                &format!("a write of the journal failed: {error}"),
            );
        }
        let namespace = self.namespace(at);
        namespace.journal.lock().written = group.end;
        if namespace.description.domain == Domain::PowerSafe {
            return self.request(Operation::JournalFlush(at, group), Request::Flush);
        }
        self.install(at, group);
    }

    pub(super) fn group_flushed(&mut self, at: usize, group: Group, result: io::Result<()>) {
        if let Err(error) = result {
            let why = format!("a flush failed: {error}");
            self.node.poison(&why);
            return self.group_failed(at, group, &why);
        }
        let namespace = self.namespace(at);
        if let Err(failure) = namespace.check_writable() {
            // Another flush has failed meanwhile, and these writes may be the lost ones.
            return self.group_failed(at, group, &failure.to_string());
        }
        {
            let mut journal = namespace.journal.lock();
            journal.durable = journal.durable.max(group.end);
        }
        self.install(at, group);
    }

    fn group_failed(&mut self, at: usize, group: Group, why: &str) {
        let namespace = self.namespace(at);
        let failure = namespace.poison(why.to_owned());
        namespace.journal.lock().is_writing = false;
        refuse(group.members, &failure);
        namespace.wake_space_waiters();
    }

    /// Shows a group's changes and answers its commands.
    fn install(&mut self, at: usize, group: Group) {
        let namespace = self.namespace(at);
        count(&namespace.counters.groups);
        for member in group.members {
            show(&namespace, &member, group.end);
            let buffer = match member.change {
                Pending::Inline { buffer, .. } => Some(buffer),
                _ => None,
            };
            if let Some(waiter) = &member.waiter {
                waiter.committed(Ok(()), buffer);
            }
        }
        namespace.journal.lock().is_writing = false;
        self.settle_if_much(at);
        namespace.wake_space_waiters();
    }

    /// Learns how the record of a command fared.
    pub(super) fn committed(&mut self, slot: u32, result: Result<(), Failure>) {
        let Some(active) = self.commands.get_mut(slot) else {
            debug_assert!(false, "a command waits for its record");
            return;
        };
        let at = active.namespace;
        match &mut active.work {
            Work::Store(_) => self.end_store(slot, result),
            Work::Delete(state) => {
                let is_eviction = state.is_eviction;
                self.release_key(slot);
                if is_eviction {
                    self.eviction_done(at, slot);
                } else {
                    self.finish(slot, result.map(|()| Answer::Deleted));
                }
            }
            Work::Move(_) => self.move_done(slot, result),
            Work::Relocation => self.end_relocation(slot, &result),
            Work::Retrieve(_) | Work::Flush | Work::Blocks(_) => debug_assert!(false, "no record"),
        }
    }

    /// Makes everything that was acknowledged durable.
    pub(super) fn begin_flush(&mut self, slot: u32) {
        let Some(at) = self.commands.get_mut(slot).map(|active| active.namespace) else {
            return;
        };
        let namespace = self.namespace(at);
        if let Err(failure) = namespace.check_writable() {
            return self.finish(slot, Err(failure));
        }
        let (end, durable) = {
            let journal = namespace.journal.lock();
            (shown_end(&journal), journal.durable)
        };
        if durable >= end {
            return self.finish(slot, Ok(Answer::Flushed));
        }
        self.request(Operation::Flush(slot, end), Request::Flush);
    }

    pub(super) fn flush_done(&mut self, slot: u32, end: u64, result: io::Result<()>) {
        let Some(at) = self.commands.get_mut(slot).map(|active| active.namespace) else {
            return;
        };
        self.settled(at, end, result);
        let outcome = self.node.key_namespaces()[at].check_writable();
        self.finish(slot, outcome.map(|()| Answer::Flushed));
    }

    /// Flushes in the background once much waits for it: space, or records that recovery would have
    /// to verify.
    fn settle_if_much(&mut self, at: usize) {
        let namespace = self.namespace(at);
        let waiting = namespace.quarantine.lock().len();
        let is_wanted = waiting > 0 && !namespace.space_waiters.lock().is_empty();
        if waiting >= 1024 || is_wanted || namespace.journal.lock().is_behind() {
            self.settle(at);
        }
    }

    /// Flushes so that places in quarantine come free.
    pub(super) fn settle(&mut self, at: usize) {
        if std::mem::replace(&mut self.settling[at], true) {
            return;
        }
        let end = shown_end(&self.node.key_namespaces()[at].journal.lock());
        self.request(Operation::Settle(at, end), Request::Flush);
    }

    /// All blocks below `end` are durable: the space that they freed may be used again.
    pub(super) fn settled(&mut self, at: usize, end: u64, result: io::Result<()>) {
        let namespace = self.namespace(at);
        if let Err(error) = result {
            return self.node.poison(&format!("a flush failed: {error}"));
        }
        if namespace.check_writable().is_err() {
            return namespace.wake_space_waiters();
        }
        let durable = {
            let mut journal = namespace.journal.lock();
            journal.durable = journal.durable.max(end);
            journal.durable
        };
        loop {
            let first = {
                let mut quarantine = namespace.quarantine.lock();
                match quarantine.front() {
                    Some((number, _)) if *number <= durable => quarantine.pop_front(),
                    _ => None,
                }
            };
            match first {
                Some((_, found)) => namespace.free_place(&found),
                None => break,
            }
        }
        namespace.wake_space_waiters();
    }
}

/// Returns the number behind the last block whose writes have completed.
fn shown_end(journal: &Journal) -> u64 {
    journal.written
}

/// Answers commands whose records will not be durable. Their shares go with the namespace, which takes
/// no more changes.
fn refuse(members: Vec<Member>, failure: &Failure) {
    for member in members {
        let buffer = match member.change {
            Pending::Inline { buffer, .. } => Some(buffer),
            _ => None,
        };
        if let Some(waiter) = &member.waiter {
            waiter.committed(Err(failure.clone()), buffer);
        }
    }
}

/// Puts a durable change into the index, and frees the place of the value before.
fn show(namespace: &Namespace, member: &Member, end: u64) {
    let place = match &member.change {
        Pending::Extents(extents) => Some(Place::Extents(extents.clone())),
        Pending::Inline { home, .. } => Some(Place::Cell(*home)),
        Pending::Cell(location) => Some(Place::Cell(*location)),
        Pending::Delete => None,
    };
    let mut partition = namespace.index.partition(member.hash).lock();
    let earlier = match place {
        Some(place) => {
            let found = Found {
                value_bytes: member.value_bytes,
                check: member.checksum as u32,
                place,
            };
            let earlier = partition.insert(member.hash, &member.key, found, namespace.tick());
            let earlier = match earlier {
                Ok(earlier) => earlier,
                Err(full) => unreachable!("{full:?}: a partition has 2^32 keys"),
            };
            partition.touch(member.hash, &member.key, namespace.tick());
            earlier
        }
        None => partition.remove(member.hash, &member.key),
    };
    drop(partition);
    namespace.unreserve(&member.share);
    if let Some(found) = earlier {
        // Blocks are used again only when the record that freed them is durable.
        let durable = namespace.journal.lock().durable;
        if durable >= end {
            namespace.free_place(&found);
        } else {
            namespace.quarantine.lock().push_back((end, found));
        }
    }
}
