//! The inputs of a policy at one moment, for an explanation of its choices. Nothing is begun.

use std::sync::Arc;

use terrace_lsm::compaction::estimates::Estimates;
use terrace_lsm::compaction::policy::Policy;
use terrace_lsm::compaction::targets::Shape;
use terrace_lsm::keyspace_options::KeyspaceOptions;
use terrace_lsm::levels::KeyspaceLevels;

use crate::db::Store;
use crate::db::arena_ranges::RangesInArenas;
use crate::db::jobs::Claimed;
use crate::db::monitor::Known;
use crate::db::tombstones::SeenBeside;
use crate::options::Options;
use crate::{Db, KeyspaceId, Result, SequenceNumber};

/// The levels of a store at one moment, with the inputs of its policy.
pub struct PolicyMoment {
    store: Arc<Store>,
    keyspaces: Vec<Arc<KeyspaceLevels>>,
    under_way: Vec<(KeyspaceId, Claimed)>,
    known: Known,
    seen: SeenBeside,
}

/// The levels of one keyspace, and the policy with its inputs.
pub struct PolicyQuestion<'a> {
    /// The levels.
    pub levels: &'a KeyspaceLevels,
    /// Options of the store.
    pub options: &'a Options,
    /// Options of the keyspace.
    pub form: &'a KeyspaceOptions,
    /// The policy, as the threads that merge ask it.
    pub policy: &'a dyn Policy,
    /// Merges of the keyspace that have begun, or wait.
    pub under_way: Vec<Claimed>,
    /// Estimates that the policy goes by.
    pub estimates: &'a dyn Estimates,
    /// Estimates of any run, be it that the policy does not ask or is put off.
    pub shown: &'a dyn Estimates,
    /// Sub-levels by their names, with the versions that a run with them needs.
    pub setbacks: Vec<(u64, u64)>,
    /// The oldest snapshot, if there is one.
    pub oldest_snapshot: Option<SequenceNumber>,
    /// Whether scans have asked level 0 so often that merging it is due.
    pub level0_is_paid_for: bool,
}

impl PolicyMoment {
    /// Looks at an open store. Sketches of tables are read where they are not known yet.
    ///
    /// # Errors
    /// [`Error::Forked`](crate::Error::Forked) in a child of the process that opened the store.
    pub fn of(db: &Db) -> Result<Self> {
        let store = Arc::clone(db.own_store()?);
        // Files may have to be read.
        let known = store.known_duplicates();
        let seen = store.seen_beside(RangesInArenas::AsTheyAre);
        // The board before the version: claims are too large for a moment and never too small.
        let under_way = store.compactor.jobs.under_way();
        let version = Arc::clone(&store.reads.view.load().version);
        Ok(PolicyMoment {
            store,
            keyspaces: version.keyspaces.values().cloned().collect(),
            under_way,
            known,
            seen,
        })
    }

    /// Returns the levels of every keyspace, in the order of their numbers.
    pub fn keyspaces(&self) -> impl Iterator<Item = &KeyspaceLevels> {
        self.keyspaces.iter().map(|levels| &**levels)
    }

    /// Hands out the policy of a keyspace with its inputs.
    pub fn ask<T>(&self, levels: &KeyspaceLevels, ask: impl FnOnce(PolicyQuestion<'_>) -> T) -> T {
        let store = &*self.store;
        let form = store.form_of(levels);
        let level0_is_paid_for = store
            .compactor
            .level0_probes
            .have_paid(levels, Shape::of(form));
        let of_keyspace = self.under_way.iter().filter(|(id, _)| *id == levels.id);
        ask(PolicyQuestion {
            levels,
            options: &store.options,
            form,
            policy: &*store.policy_of(levels, level0_is_paid_for, &self.seen),
            under_way: of_keyspace.map(|(_, claimed)| claimed.clone()).collect(),
            estimates: &self.known,
            shown: &store.files.read_sketches(levels),
            setbacks: store.compactor.monitor.setbacks_of(levels),
            oldest_snapshot: store.reads.snapshots.oldest(),
            level0_is_paid_for,
        })
    }
}

#[cfg(test)]
mod tests {
    use terrace_lsm::compaction::policy::Reason;

    use super::*;
    use crate::{Background, Options};

    fn write(db: &Db) {
        for key in 0..100u8 {
            db.put([key], b"value").unwrap();
        }
        db.flush().unwrap();
    }

    fn levels(db: &Db) -> Arc<KeyspaceLevels> {
        let version = Arc::clone(&db.store().reads.view.load().version);
        Arc::clone(version.keyspace(KeyspaceId::DEFAULT).unwrap())
    }

    #[test]
    fn a_question_persists_no_range_that_hides_tables() {
        let options = Options {
            background: Background::Inline,
            ..Options::in_memory()
        };
        let db = Db::open("/store", options).unwrap();
        write(&db);
        let store = db.store();
        db.delete_range([0], [200]).unwrap();
        store.files.reserve.met_full_disk();
        let is_persisted = || {
            let view = store.reads.view.load_full();
            let mut arenas = view.memtables.iter().map(|table| table.arena());
            arenas.all(|arena| arena.is_persisted())
        };
        assert!(!is_persisted());
        let moment = PolicyMoment::of(&db).unwrap();
        let levels_then = moment.keyspaces().next().unwrap();
        let choice = moment.ask(levels_then, |asked| {
            asked.policy.pick(asked.levels, &[], asked.estimates)
        });
        assert!(!is_persisted() && store.writes.is_without_arena_ranges(0));
        let reason = choice.unwrap().reason.to_string();
        assert_eq!(reason, Reason::Hidden { tables: 1 }.to_string());
        store.remove_hidden_tables(KeyspaceId::DEFAULT).unwrap();
        assert!(is_persisted() && !store.writes.is_without_arena_ranges(0));
        assert_eq!(levels(&db).tables().count(), 0);
    }
}
