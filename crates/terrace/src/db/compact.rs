//! Merging tables downwards: the policy decides, this module carries it out.
//!
//! Several workers take turns at the board of jobs (`jobs.rs`). A worker begins the job that the
//! policy chooses: a move is one edit, a merge is divided into slices. Then workers build slices,
//! each its own, and hand them to the installing thread. It syncs them and has each take the place
//! of its inputs by one edit, in the order of the keys. The inputs stay listed, narrowed to the
//! keys not merged yet; their files go when the last reader's version that lists them is gone.
//!
//! A slice that fails or is cut short by a close throws its outputs away. The policy decides the
//! rest of its merge again; installed slices stay.
//!
//! This file begins jobs. Slices are divided and built in `slices.rs` and installed in
//! `installation.rs`; `space.rs` asks whether the disk has room for them.

mod installation;
mod slices;
mod space;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_lsm::compaction::claim::Claim;
use terrace_lsm::compaction::legality::check_legal;
use terrace_lsm::compaction::policy::{Choice, ChoiceKind, described_by};
use terrace_lsm::compaction::targets::Shape;
use terrace_lsm::levels::{Edit, TableMoved, TableRemoved, Version};

use crate::db::Store;
use crate::db::arena_ranges::RangesInArenas;
use crate::db::compact::slices::Divided;
use crate::db::compact_range::MAX_ATTEMPTS;
use crate::db::compaction_history::{Began, Compaction};
use crate::db::jobs::{Begun, Work};
use crate::db::ledger::Ledger;
use crate::db::monitor::Known;
use crate::db::owners::Reads;
use crate::db::tombstones::SeenBeside;
use crate::event::EventKind;
use crate::{Error, KeyspaceId, Result};

/// Returns the claims in a keyspace.
pub(crate) fn claims_of(claims: &[(KeyspaceId, Claim)], keyspace: KeyspaceId) -> Vec<Claim> {
    let of_keyspace = claims.iter().filter(|(id, _)| *id == keyspace);
    of_keyspace.map(|(_, claim)| claim.clone()).collect()
}

impl Store {
    /// Takes a compaction worker's step: the next slice of a merge, or the start of another one.
    pub(crate) fn compaction_step(&self) -> Result<bool> {
        let done = self.with_reserve(|| self.compact());
        self.lifecycle.background.deletion_wanted(self);
        if !done.as_ref().is_ok_and(|did| *did) {
            // Not beside a compaction that may take the same tables.
            self.lifecycle.background.migration_wanted(self);
        }
        if let Err(error) = &done {
            self.compactor.jobs.ended(Err(error.clone()));
        }
        done
    }

    fn compact(&self) -> Result<bool> {
        self.check_poison()?;
        if self.options.read_only {
            return Ok(false);
        }
        if self.lifecycle.closing.load(Ordering::Acquire) {
            self.compactor.jobs.ended(Err(Error::Closed));
            return Ok(false);
        }
        // Not while the board is held: files may have to be read.
        let known = self.known_duplicates();
        let seen = self.seen_beside(RangesInArenas::Persisted);
        let choose = |claims: &[(KeyspaceId, Claim)]| self.choose(claims, &known, &seen);
        let work = self.compactor.jobs.next(choose)?;
        // It holds tables that a merge may make obsolete.
        drop(known);
        match work {
            None => return Ok(false),
            Some(Work::Begin(begun)) => {
                self.begin(begun)?;
            }
            Some(Work::Build(work)) => self.build(work)?,
        }
        Ok(true)
    }

    /// Returns the most urgent merge or move of the first keyspace that has one, beside the claims.
    /// Leftovers wait for all keyspaces.
    fn choose(
        &self,
        claims: &[(KeyspaceId, Claim)],
        known: &Known,
        seen: &SeenBeside,
    ) -> Result<Option<(KeyspaceId, Choice)>> {
        let version = Arc::clone(&self.reads.view.load().version);
        self.writes
            .backlog
            .set_overdue(self.overdue(&version, claims, known));
        let mut leftover = None;
        let mut chosen = None;
        for levels in version.keyspaces.values() {
            let mut claims = claims_of(claims, levels.id);
            claims.extend(self.files.claims_of_lost(levels));
            let is_paid_for = self
                .compactor
                .level0_probes
                .have_paid(levels, Shape::of(self.form_of(levels)));
            let policy = self.policy_of(levels, is_paid_for, seen);
            let Some(choice) = policy.pick(levels, &claims, known) else {
                continue;
            };
            if !choice.is_leftover() {
                chosen = Some((levels, choice));
                break;
            }
            leftover.get_or_insert((levels, choice));
        }
        let Some((levels, choice)) = chosen.or(leftover) else {
            return Ok(None);
        };
        if choice.is_of_level0() {
            self.compactor.level0_probes.spend(levels.id);
        }
        check_legal(levels, &choice).map_err(|broken| {
            Error::invalid(format!(
                "the policy chose against the order of ages: {broken}"
            ))
        })?;
        let name = || {
            self.compactor
                .next_sub_level
                .fetch_add(1, Ordering::Relaxed)
        };
        Ok(Some((levels.id, choice.named(name))))
    }

    /// Returns how far the merges of the keyspace that is worst off are behind.
    fn overdue(&self, version: &Version, claims: &[(KeyspaceId, Claim)], known: &Known) -> f64 {
        let keyspaces = version.keyspaces.values().map(|levels| {
            let mut claims = claims_of(claims, levels.id);
            claims.extend(self.files.claims_of_lost(levels));
            let policy = described_by(&self.options.policy_settings(), self.form_of(levels), false);
            policy.overdue(levels, &claims, known)
        });
        keyspaces.fold(0.0, f64::max)
    }

    /// Begins a job. False if it was put off for want of space, until others have given some back.
    pub(crate) fn begin(&self, begun: Begun) -> Result<bool> {
        let began = Began::now(begun.job, &begun.choice);
        if begun.choice.is_for_reads() {
            let now_seconds = self.lifecycle.clock.unix_seconds();
            self.files.heat.try_division(&begun.choice, now_seconds);
        }
        let done = match begun.choice.kind {
            ChoiceKind::Move => self.move_tables(&begun).map(Some),
            ChoiceKind::Removal => self.remove_tables(&begun).map(Some),
            ChoiceKind::Merge => match self.divide(&begun) {
                Ok(Divided::PutOff) => return Ok(false),
                Ok(Divided::ForNothing) => return Ok(self.leave_as_it_is(begun)),
                done => done.map(|_| None),
            },
        };
        let (job, keyspace) = (begun.job, begun.keyspace);
        if done.is_ok() {
            let now_seconds = self.lifecycle.clock.unix_seconds();
            self.compactor
                .passed_over
                .spend(keyspace, &begun.choice, now_seconds);
        }
        // Whoever sees that the job is over may remove the files of its inputs.
        drop(begun);
        let ended = match done {
            Ok(None) => Ok(()),
            done => self.end_at_once(job, began, keyspace, done),
        };
        // The other workers may have a job now, too, also after a failure: its claim is gone.
        self.lifecycle.background.compaction_wanted(self);
        ended.map(|()| true)
    }

    /// Ends a job that has nothing to do. Returns true: another may begin.
    fn leave_as_it_is(&self, begun: Begun) -> bool {
        let job = begun.job;
        // Whoever sees that the job is over may remove the files of its inputs.
        drop(begun);
        self.compactor.jobs.remove(job);
        self.compactor.jobs.ended(Ok(true));
        self.lifecycle.background.compaction_wanted(self);
        true
    }

    /// Ends a job that an edit did, or that failed before it was divided.
    fn end_at_once(
        &self,
        job: u64,
        began: Began,
        keyspace: KeyspaceId,
        done: Result<Option<EventKind>>,
    ) -> Result<()> {
        let (news, done) = match done {
            Ok(news) => (news, Ok(())),
            Err(error) => (None, self.reads.unless_dropped(keyspace, Err(error))),
        };
        let past = Compaction {
            cut_short: done.as_ref().err().map(ToString::to_string),
            keyspace: self.reads.name_of(keyspace),
            ..began.past()
        };
        self.metrics.compactions.add(keyspace, past);
        self.compactor.jobs.remove(job);
        // A listener may write, and the writer may wait for the end of this removal.
        if let Some(news) = news {
            self.metrics.events.record(news);
        }
        self.compactor.jobs.ended(done.clone().map(|()| true));
        done
    }

    fn move_tables(&self, begun: &Begun) -> Result<EventKind> {
        let (keyspace, to) = (begun.keyspace, begun.choice.output);
        let inputs = begun.choice.inputs.iter();
        let numbers: Vec<u64> = inputs.map(|input| input.table.number).collect();
        let moved = |&number| TableMoved {
            keyspace,
            number,
            to,
        };
        self.install_edit(Edit {
            tables_moved: numbers.iter().map(moved).collect(),
            ..Edit::default()
        })?;
        self.metrics
            .counters
            .moves
            .fetch_add(numbers.len() as u64, Ordering::Relaxed);
        Ok(EventKind::TablesMoved {
            keyspace,
            tables: numbers,
            output_level: to.level,
        })
    }

    /// Removes tables that no reader sees any more, by one edit.
    fn remove_tables(&self, begun: &Begun) -> Result<EventKind> {
        let keyspace = begun.keyspace;
        let inputs = begun.choice.inputs.iter();
        let numbers: Vec<u64> = inputs.clone().map(|input| input.table.number).collect();
        let removed = |&number| TableRemoved { keyspace, number };
        self.install_edit(Edit {
            tables_removed: numbers.iter().map(removed).collect(),
            ..Edit::default()
        })?;
        self.metrics
            .counters
            .removals
            .fetch_add(numbers.len() as u64, Ordering::Relaxed);
        Ok(EventKind::TablesRemoved {
            keyspace,
            tables: numbers,
            bytes: inputs.map(|input| input.table.size_bytes).sum(),
        })
    }

    /// Ends background work. Slices that were built and not installed are thrown away.
    pub(crate) fn stop_background(&self) {
        self.lifecycle.background.stop();
        for built in self.compactor.jobs.close() {
            let _ = self.settle_files(built.files, Err::<(), _>(Error::Closed));
        }
    }

    /// Makes an edit durable and shows its version to readers.
    pub(crate) fn install_edit(&self, edit: Edit) -> Result<()> {
        self.record_and_show(&mut self.manifest_log.ledger.lock(), edit)
    }

    pub(crate) fn record_and_show(&self, ledger: &mut Ledger, edit: Edit) -> Result<()> {
        self.record(ledger, edit)?;
        let version = Arc::clone(&ledger.state.version);
        self.change_view(|view| view.version = version);
        Ok(())
    }

    /// Waits until no level is over its target.
    pub(crate) fn settle(&self) -> Result<()> {
        let (mut attempts, mut installed) = (1, self.metrics.counters.installed());
        loop {
            self.lifecycle.check_process()?;
            self.check_writable()?;
            let waited = self.lifecycle.background.wait_for_compaction(self);
            let now_installed = self.metrics.counters.installed();
            if now_installed > installed {
                (attempts, installed) = (1, now_installed);
            }
            match waited {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                // A table that outgrew its reservation found its tier full. The next attempt reserves more, or goes
                // to another tier.
                Err(error)
                    if error.is_no_space()
                        && attempts < MAX_ATTEMPTS
                        && self.files.space.is_limited() =>
                {
                    self.let_space_return(attempts);
                    attempts += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Reads {
    /// Returns the keyspace's name, or its number if it was dropped.
    fn name_of(&self, keyspace: KeyspaceId) -> String {
        let present = self.present_name(keyspace);
        present.unwrap_or_else(|| keyspace.to_string())
    }

    /// Returns success for a job that failed because its keyspace is gone.
    fn unless_dropped(&self, keyspace: KeyspaceId, done: Result<()>) -> Result<()> {
        match done {
            Err(_) if self.is_dropped(keyspace) => Ok(()),
            done => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicUsize;

    use terrace_lsm::data_files::OWN_TIER;
    use terrace_lsm::levels::testing::added;
    use terrace_lsm::levels::{Place, TableAdded};
    use terrace_lsm::sync::Mutex;

    use super::*;
    use crate::db::tiers::space::{Destination, Reservation, SpaceBook};
    use crate::event::{Event, EventListener};
    use crate::{Background, Db, KeyspaceOptions, Options, TierOptions};

    /// Takes the room of a store when a merge begins, and gives it back when a slice has failed.
    #[derive(Debug)]
    struct TakesRoom {
        book: OnceLock<Arc<SpaceBook>>,
        taken: Mutex<Option<Reservation>>,
        /// Merges that are still to fail.
        to_fail: AtomicUsize,
        failures: AtomicUsize,
    }

    impl EventListener for TakesRoom {
        fn event(&self, event: &Event) {
            let book = self.book.get();
            match &event.kind {
                EventKind::MergeBegun { .. } if self.to_fail.load(Ordering::Relaxed) > 0 => {
                    self.to_fail.fetch_sub(1, Ordering::Relaxed);
                    let all = Destination {
                        tiers: vec![OWN_TIER],
                        takes_reserve: true,
                        is_exact: true,
                    };
                    let book = book.unwrap();
                    let room_bytes = book.room_bytes(true).unwrap();
                    *self.taken.lock() = Some(book.reserve(&all, room_bytes).unwrap());
                }
                EventKind::SliceFailed { error, .. } => {
                    assert!(error.is_no_space(), "{error}");
                    self.failures.fetch_add(1, Ordering::Relaxed);
                    drop(self.taken.lock().take());
                }
                _ => {}
            }
        }
    }

    #[test]
    fn a_compaction_that_lost_its_room_to_another_job_is_waited_for() {
        let listener = Arc::new(TakesRoom {
            book: OnceLock::new(),
            taken: Mutex::default(),
            to_fail: AtomicUsize::new(1000),
            failures: AtomicUsize::new(0),
        });
        let tier = TierOptions {
            capacity_bytes: Some(1 << 20),
            ..TierOptions::of_store("own")
        };
        let options = Options {
            background: Background::Inline,
            level0_merge: 2,
            // A flush takes no table along.
            arena_bytes: 1 << 20,
            tiers: vec![tier],
            event_listener: Some(Arc::clone(&listener) as _),
            ..Options::in_memory()
        };
        let db = Db::open("/store", options).unwrap();
        let book = Arc::clone(&db.store().files.space);
        listener.book.set(book).unwrap();
        for round in 0u8..4 {
            db.put(b"key", [round; 100]).unwrap();
            db.flush().unwrap();
        }
        // Flushes begin merges, too, and leave them to the next one.
        listener.to_fail.store(1, Ordering::Relaxed);
        let before = listener.failures.load(Ordering::Relaxed);
        db.compact().unwrap();
        assert_eq!(listener.failures.load(Ordering::Relaxed), before + 1);
        assert_eq!(db.get(b"key").unwrap().unwrap(), [3; 100]);
        // Where it always fails, the caller hears of it. The beginning of a merge is no progress.
        listener.to_fail.store(1000, Ordering::Relaxed);
        for round in 4u8..8 {
            db.put(b"key", [round; 100]).unwrap();
            db.flush().unwrap();
        }
        let before = listener.failures.load(Ordering::Relaxed);
        let error = db.compact().unwrap_err();
        assert!(error.is_no_space(), "{error}");
        let failures = listener.failures.load(Ordering::Relaxed) - before;
        assert_eq!(failures, MAX_ATTEMPTS as usize);
    }

    /// A table of a level: its smallest and its largest key, and its bytes.
    type Listed = (u8, &'static str, &'static str, u64);

    /// Level 2 is over its target from below alone, as in a store of an older release.
    const LEFTOVERS: &[Listed] = &[
        (1, "a", "z", 300),
        (2, "a", "m", 4900),
        (2, "n", "z", 4900),
        (3, "a", "m", 2500),
        (3, "n", "z", 2500),
    ];
    /// Level 1 is over all its targets.
    const ORDINARY: &[Listed] = &[(1, "a", "m", 10_000), (1, "n", "z", 10_000)];

    /// Makes keyspaces of such tables, which have no files. Returns the position of the keyspace
    /// that a worker begins with, and whether it begins with a leftover.
    fn chosen(keyspaces: &[&[Listed]]) -> Option<(usize, bool)> {
        let options = Options {
            background: Background::Inline,
            ..Options::in_memory()
        };
        let db = Db::open("/store", options).unwrap();
        let form = KeyspaceOptions {
            level1_bytes: 1024,
            ..KeyspaceOptions::default()
        };
        let mut ids = Vec::new();
        for (at, tables) in keyspaces.iter().enumerate() {
            let keyspace = db.create_keyspace(&at.to_string(), form.clone()).unwrap();
            let tables_added = tables.iter().map(|&(level, smallest, largest, bytes)| {
                let number = db.store().files.next_table.fetch_add(1, Ordering::Relaxed);
                let mut listed = added(Place::base(level), number, smallest, largest);
                listed.table.keyspace = keyspace.id();
                listed.table.size_bytes = bytes;
                listed
            });
            let tables_added: Vec<TableAdded> = tables_added.collect();
            let edit = Edit {
                tables_added,
                ..Edit::default()
            };
            db.store().install_edit(edit).unwrap();
            ids.push(keyspace.id());
        }
        assert!(ids.is_sorted(), "a version lists keyspaces by their ids");
        let store = db.store();
        let seen = store.seen_beside(RangesInArenas::Persisted);
        let known = store.known_duplicates();
        let (keyspace, choice) = store.choose(&[], &known, &seen).unwrap()?;
        let at = ids.iter().position(|id| *id == keyspace).unwrap();
        Some((at, choice.is_leftover()))
    }

    #[test]
    fn leftovers_of_a_keyspace_wait_for_the_work_of_all_others() {
        assert_eq!(chosen(&[&[]]), None);
        assert_eq!(chosen(&[ORDINARY, LEFTOVERS]), Some((0, false)));
        assert_eq!(chosen(&[LEFTOVERS, ORDINARY]), Some((1, false)));
        let behind = [LEFTOVERS, &[], LEFTOVERS, ORDINARY, LEFTOVERS];
        assert_eq!(chosen(&behind), Some((3, false)));
        // Only then the first of them.
        assert_eq!(chosen(&[&[], LEFTOVERS, LEFTOVERS]), Some((1, true)));
    }
}
