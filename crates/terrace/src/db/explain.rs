//! What the store would merge now, asked of the policy as a worker asks it, and nothing begun.

use std::sync::Arc;

use terrace_lsm::compaction::claim::Claim;
use terrace_lsm::compaction::targets::Shape;
use terrace_lsm::levels::KeyspaceLevels;

use crate::db::Store;
use crate::db::arena_ranges::RangesInArenas;
use crate::db::keyspaces::no_keyspace;
use crate::db::monitor::Known;
use crate::db::tombstones::SeenBeside;
use crate::explain::keyspace::Asked;
use crate::explain::record::describe;
use crate::explain::{Description, Explanation, Settings, UnderWay};
use crate::{KeyspaceId, Result};

/// What is known at one moment.
struct Moment {
    keyspaces: Vec<Arc<KeyspaceLevels>>,
    under_way: Vec<(KeyspaceId, Claim, UnderWay)>,
    known: Known,
    seen: SeenBeside,
}

impl Store {
    pub(crate) fn explain_compaction(&self) -> Explanation {
        let moment = self.moment();
        let keyspaces = moment.keyspaces.iter();
        let explained =
            keyspaces.map(|levels| self.ask_about(&moment, levels, |asked, _| asked.explain()));
        Explanation {
            keyspaces: explained.collect(),
        }
    }

    pub(crate) fn describe_compaction(&self, keyspace: &str) -> Result<Description> {
        let moment = self.moment();
        let mut keyspaces = moment.keyspaces.iter();
        let levels = keyspaces.find(|levels| levels.name == keyspace);
        let levels = levels.ok_or_else(|| no_keyspace(keyspace))?;
        self.ask_about(&moment, levels, |asked, is_paid_for| {
            describe(asked, &self.options, self.form_of(levels), is_paid_for)
        })
    }

    fn moment(&self) -> Moment {
        // Files may have to be read.
        let known = self.known_duplicates();
        let seen = self.seen_beside(RangesInArenas::AsTheyAre);
        // The board before the version: claims are too large for a moment and never too small.
        let under_way = self.compactor.jobs.under_way();
        let version = Arc::clone(&self.reads.view.load().version);
        Moment {
            keyspaces: version.keyspaces.values().cloned().collect(),
            under_way,
            known,
            seen,
        }
    }

    /// Gives what the policy would be asked about a keyspace, and whether scans have paid for level 0.
    fn ask_about<T>(
        &self,
        moment: &Moment,
        levels: &KeyspaceLevels,
        ask: impl FnOnce(Asked<'_>, bool) -> T,
    ) -> T {
        let is_paid_for = self
            .compactor
            .level0_probes
            .have_paid(levels, Shape::of(self.form_of(levels)));
        let form = self.form_of(levels);
        let policy = self.policy_of(levels, is_paid_for, &moment.seen);
        let of_keyspace = moment.under_way.iter().filter(|(id, ..)| *id == levels.id);
        let under_way: Vec<(Claim, UnderWay)> = of_keyspace
            .map(|(_, claim, shown)| (claim.clone(), shown.clone()))
            .collect();
        let asked = Asked {
            levels,
            settings: Settings::of(&self.options, form),
            policy: &policy,
            under_way: &under_way,
            estimates: &moment.known,
            shown: &self.read_sketches(levels),
            setbacks: self.compactor.monitor.setbacks_of(levels),
            oldest_snapshot: self.reads.snapshots.oldest(),
        };
        ask(asked, is_paid_for)
    }
}

#[cfg(test)]
mod tests {
    use terrace_lsm::compaction::estimates::Duplicates;
    use terrace_lsm::compaction::policy::{Choice, ChoiceKind, Reason};
    use terrace_lsm::levels::KeyRange;

    use super::*;
    use crate::db::jobs::Ended;
    use crate::{Background, CompactionPolicy, Db, Options};

    fn write(db: &Db) {
        for key in 0..100u8 {
            db.put(&[key], b"value").unwrap();
        }
        db.flush().unwrap();
    }

    fn levels(db: &Db) -> Arc<KeyspaceLevels> {
        let version = Arc::clone(&db.store().reads.view.load().version);
        Arc::clone(version.keyspace(KeyspaceId::DEFAULT).unwrap())
    }

    #[test]
    fn what_is_under_way_is_told_with_what_waits_for_it() {
        let options = Options {
            compaction_policy: CompactionPolicy::Tiered,
            level0_merge: 2,
            background: Background::Inline,
            ..Options::in_memory()
        };
        let db = Db::open("/store", options).unwrap();
        write(&db);
        let place = levels(&db).youngest().unwrap();
        let range = KeyRange::inclusive([0], [255]);
        let jobs = &db.store().compactor.jobs;
        let reserved = jobs.reserve(KeyspaceId::DEFAULT, &range, place).unwrap();
        write(&db);
        let explanation = db.explain_compaction();
        let keyspace = &explanation.keyspaces[0];
        assert_eq!(keyspace.under_way[0].reason, "tables are put there");
        assert_eq!(keyspace.choice, None);
        let waiting = keyspace.waiting.as_ref().unwrap();
        assert_eq!(
            (waiting.until.as_slice(), waiting.plan.entries),
            (&[0][..], 200)
        );
        let described = db.describe_compaction("default").unwrap();
        assert_eq!(described.explain().unwrap(), explanation);
        drop(reserved);
        let keyspace = db.explain_compaction().keyspaces.remove(0);
        assert_eq!(keyspace.choice, keyspace.candidates[0].plan);
        assert_eq!(keyspace.choice.unwrap().read_bytes, waiting.plan.read_bytes);
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
        db.delete_range(&[0], &[200]).unwrap();
        store.files.reserve.met_full_disk();
        let is_persisted = || {
            let view = store.reads.view.load_full();
            let mut arenas = view.memtables.iter().map(|table| table.arena());
            arenas.all(|arena| arena.is_persisted())
        };
        assert!(!is_persisted());
        let explanation = db.explain_compaction().keyspaces.remove(0);
        assert!(!is_persisted() && store.is_without_arena_ranges(0));
        let reason = explanation.choice.unwrap().reason;
        assert_eq!(reason, Reason::Hidden { tables: 1 }.to_string());
        store.remove_hidden_tables(KeyspaceId::DEFAULT).unwrap();
        assert!(is_persisted() && !store.is_without_arena_ranges(0));
        assert_eq!(levels(&db).tables().count(), 0);
    }

    #[test]
    fn what_is_put_off_is_told_with_what_it_needs() {
        let options = Options {
            level0_merge: 10,
            // A flush takes no table along.
            arena_bytes: 1 << 20,
            arena_index_bytes: 1 << 19,
            ..Options::in_memory()
        };
        let db = Db::open("/store", options.clone()).unwrap();
        write(&db);
        write(&db);
        db.close().unwrap();
        let db = Db::open(
            "/store",
            Options {
                read_only: true,
                compaction_policy: CompactionPolicy::Score,
                ..options
            },
        );
        let db = db.unwrap();
        let before = db.explain_compaction().keyspaces.remove(0);
        // An estimate, of hashes that differ from one process to the next.
        let dropped = before.choice.unwrap().dropped_entries.unwrap();
        assert!((97..=103).contains(&dropped), "{dropped}");
        let levels = levels(&db);
        let output = levels.tables().last().unwrap().0;
        let choice = Choice {
            reason: Reason::AskedFor,
            kind: ChoiceKind::Merge,
            inputs: Vec::new(),
            output,
            predicted: Some(Duplicates::new(200, 100.0, 0)),
        };
        let ended = Ended::whole(levels.id, choice);
        let nothing_dropped = ended.past_without_drops(200);
        db.store()
            .compactor
            .monitor
            .compare(&ended, &nothing_dropped);
        let explanation = db.explain_compaction();
        let after = &explanation.keyspaces[0];
        let [setback] = after.setbacks.as_slice() else {
            panic!("{after:?}");
        };
        assert_eq!((setback.level, setback.age), (output.level, output.age));
        assert_eq!(
            (setback.needed_entries, setback.present_entries),
            (250, 200)
        );
        assert_eq!(after.choice, None);
        let described = db.describe_compaction("default").unwrap();
        let described = described.explain().unwrap().keyspaces.remove(0);
        assert_eq!(described.choice, None);
        assert_eq!(described.levels, after.levels);
    }
}
