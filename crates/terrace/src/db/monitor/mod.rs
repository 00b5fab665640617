//! The store's knowledge of the duplicates in its levels.
//!
//! The monitor keeps one union of the tables' sketches for each sub-level, and brings it up to date
//! when the tables have changed ([`unions`]). Once for each version of the levels it computes from
//! them the drops of a merge of each run that the policy asks about. It reads the samples of the
//! tables ([`samples`]) only where they are needed: they tell which versions snapshots keep, and
//! which keys have the duplicates. None of this is stored, so none of it can be stale after a
//! crash.
//!
//! A merge that dropped less than half of the predicted versions is a *setback*. No run with its
//! outputs is tried again before it has a quarter more versions. So versions that cannot be dropped
//! (for a snapshot that lives on, or a sketch that is wrong) are not merged for ever.

mod known;
mod level_duplicates;
mod samples;
mod setbacks;
mod sketches;
mod unions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use terrace_lsm::compaction::policy::described_by;
use terrace_lsm::compaction::run::Run;
use terrace_lsm::levels::KeyspaceLevels;
use terrace_lsm::sync::Mutex;
use terrace_lsm::sync::atomic::{AtomicU64, Ordering};

use crate::db::Store;
use crate::db::compaction_history::Compaction;
use crate::db::jobs::Ended;
use crate::db::owners::Files;
use crate::{KeyspaceId, SequenceNumber};

pub(crate) use self::known::Known;
use self::known::{KnownKeyspace, KnownParts};
pub use self::level_duplicates::LevelDuplicates;
use self::samples::Samples;
use self::setbacks::Setbacks;
pub(crate) use self::setbacks::is_setback;
use self::sketches::Sketches;
use self::unions::Unions;

/// The state kept between two looks at the levels.
#[derive(Default)]
pub(crate) struct Monitor {
    keyspaces: Mutex<BTreeMap<KeyspaceId, Watched>>,
    /// Bytes of the kept state. Its readers must not wait for a lock under which files are read.
    memory_bytes: AtomicU64,
    setbacks: Mutex<Setbacks>,
}

/// The state kept of a keyspace.
#[derive(Default)]
struct Watched {
    unions: Unions,
    samples: Samples,
    known: Option<Arc<KnownKeyspace>>,
}

impl Store {
    /// Returns the drops of merges of the present version, as far as the policy wants to know.
    pub(crate) fn known_duplicates(&self) -> Known {
        if !self.options.compaction_policy.is_by_duplicates() {
            return Known::default();
        }
        self.known_of(|levels| {
            let policy = described_by(&self.options.policy_settings(), self.form_of(levels), false);
            policy.runs(levels)
        })
    }

    /// Returns the drops of merges of these runs of the present version.
    pub(crate) fn known_of(&self, runs: impl Fn(&KeyspaceLevels) -> Vec<Run>) -> Known {
        let mut keyspaces = self.compactor.monitor.keyspaces.lock();
        // Under the lock: a thread that waited for it must not go back to an older version.
        let version = Arc::clone(&self.reads.view.load().version);
        // After the version, so that all snapshots of its contents are among them.
        let snapshots = self.reads.snapshots.stripes(|| self.reads.visible());
        keyspaces.retain(|id, _| version.keyspaces.contains_key(id));
        let of_keyspace = |levels: &Arc<KeyspaceLevels>| {
            let watched = keyspaces.entry(levels.id).or_default();
            let is_current = |known: &Arc<KnownKeyspace>| {
                // Nothing was known of the outputs of a merge; they are looked at when it has left.
                known.is_of(levels, &snapshots)
                    && known.busy == self.compactor.jobs.outputs_of(levels.id)
            };
            let known = match watched.known.take() {
                Some(known) if is_current(&known) => known,
                before => {
                    // The rest goes now: no thread waits for files that it alone still holds.
                    let parts = before.map(|known| known.parts.clone());
                    let parts = parts.unwrap_or_default();
                    Arc::new(self.look_at(levels, &snapshots, watched, &parts, &runs))
                }
            };
            watched.known = Some(Arc::clone(&known));
            (levels.id, known)
        };
        let known = version.keyspaces.values().map(of_keyspace).collect();
        let memory_bytes = keyspaces.values().map(Watched::memory_bytes).sum();
        self.compactor
            .monitor
            .memory_bytes
            .store(memory_bytes, Ordering::Relaxed);
        Known::new(known)
    }

    fn look_at(
        &self,
        levels: &Arc<KeyspaceLevels>,
        snapshots: &[SequenceNumber],
        watched: &mut Watched,
        before: &BTreeMap<Vec<u64>, KnownParts>,
        runs: impl Fn(&KeyspaceLevels) -> Vec<Run>,
    ) -> KnownKeyspace {
        let runs = runs(levels);
        let asked: BTreeSet<u64> = runs
            .iter()
            .flat_map(|run| run.sub_levels().iter().map(|(place, _)| place.sub_level))
            .collect();
        let busy = self.compactor.jobs.outputs_of(levels.id);
        let is_asked = |number: u64| asked.contains(&number);
        watched.unions.bring_up_to_date(
            levels,
            is_asked,
            |number| busy.contains(&number),
            &self.files.tables,
        );
        let duplicates = watched.unions.of_runs(levels, &runs);
        let mut setbacks = self.compactor.monitor.setbacks.lock();
        setbacks.forget_all_but(levels);
        let is_set_back = |run: &Run| setbacks.is_set_back(levels.id, run);
        let tried = runs.iter().filter(|run| !is_set_back(run));
        let duplicates = tried
            .filter_map(|run| Some((run.name(), *duplicates.get(&run.name())?)))
            .collect();
        let of_parts = |run: &Run| {
            let parts = parts_of(levels, run, &watched.unions, before, &setbacks);
            (run.name(), parts)
        };
        let in_parts = runs.iter().filter(|run| is_below_level0(run));
        let parts = in_parts.map(of_parts).collect();
        drop(setbacks);
        // Samples are needed for the versions that snapshots keep.
        if snapshots.len() > 1 {
            let read =
                watched
                    .samples
                    .bring_up_to_date(levels, &self.files.tables, self.writes.hash_seed);
            if read.is_err() {
                watched.samples = Samples::default();
            }
        } else {
            watched.samples = Samples::default();
        }
        KnownKeyspace {
            levels: Arc::clone(levels),
            busy,
            snapshots: snapshots.to_vec(),
            duplicates,
            parts,
            unions: watched.unions.clone(),
            samples: watched.samples.clone(),
        }
    }
}

impl Files {
    /// Reads all sketches of a keyspace, for estimates of any run, whatever the policy asks about.
    pub(crate) fn read_sketches(&self, levels: &KeyspaceLevels) -> Sketches {
        Sketches::read(levels, &self.tables)
    }
}

/// Returns the parts of a run. A flush changes level 0 only, so nearly all were counted before.
fn parts_of(
    levels: &KeyspaceLevels,
    run: &Run,
    unions: &Unions,
    before: &BTreeMap<Vec<u64>, KnownParts>,
    setbacks: &Setbacks,
) -> KnownParts {
    let is_oldest = run.is_oldest_of(levels);
    let before = before.get(&run.name());
    let counted = before.and_then(|parts| parts.counted_of(run, is_oldest));
    let counted = counted.unwrap_or_else(|| Arc::new(unions.parts(levels, run)));
    let mut to_be_tried = Arc::clone(&counted);
    setbacks.set_back_parts(levels.id, run, &mut to_be_tried);
    KnownParts {
        counted,
        to_be_tried,
        run: run.clone(),
        is_oldest,
    }
}

/// Returns whether a run has parts: flushes span all keys that come, so level 0 has none.
fn is_below_level0(run: &Run) -> bool {
    let mut places = run.sub_levels().iter().map(|(place, _)| place);
    places.all(|place| place.level > 0)
}

impl Watched {
    /// Returns the bytes of unions and samples. The field `known` shares both.
    fn memory_bytes(&self) -> u64 {
        self.unions.memory_bytes() + self.samples.memory_bytes()
    }
}

impl Monitor {
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Returns the sub-levels of a keyspace whose last merge was a setback, with the versions that
    /// a run with them needs to be tried again.
    pub(crate) fn setbacks_of(&self, levels: &KeyspaceLevels) -> Vec<(u64, u64)> {
        let mut setbacks = self.setbacks.lock();
        setbacks.forget_all_but(levels);
        setbacks.of(levels.id).collect()
    }

    /// Returns the tables of a keyspace where a merge was a setback and too few versions have come
    /// since.
    pub(crate) fn set_back_tables(&self, levels: &KeyspaceLevels) -> Vec<u64> {
        let mut setbacks = self.setbacks.lock();
        setbacks.forget_all_but(levels);
        setbacks.tables(levels)
    }

    /// Compares a merge that was installed as a whole with its prediction. The next look at the
    /// levels knows of a setback.
    pub(crate) fn compare(&self, ended: &Ended, past: &Compaction) {
        let is_setback = self.setbacks.lock().compare(ended, past);
        if is_setback && let Some(watched) = self.keyspaces.lock().get_mut(&ended.keyspace) {
            watched.known = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Background, CompactionPolicy, Db, Options};

    fn parts_of_level1(db: &Db) -> KnownParts {
        let _ = db.store().known_duplicates();
        let keyspaces = db.store().compactor.monitor.keyspaces.lock();
        let known = keyspaces[&KeyspaceId::DEFAULT].known.as_ref().unwrap();
        let run = Run::of_level(&known.levels, 1).unwrap();
        known.parts[&run.name()].clone()
    }

    #[test]
    fn parts_are_counted_when_their_tables_come() {
        let options = Options {
            compaction_policy: CompactionPolicy::Dedup,
            dedup_threshold: 10.0,
            level0_merge: 2,
            background: Background::Inline,
            // A flush takes no table along.
            arena_bytes: 1 << 20,
            ..Options::in_memory()
        };
        let db = Db::open("/store", options).unwrap();
        let flush = || {
            for key in 0..100u8 {
                db.put([key], [key; 100]).unwrap();
            }
            db.flush().unwrap();
        };
        // Two merges of level 0.
        (0..4).for_each(|_| flush());
        let before = parts_of_level1(&db);
        assert_eq!(before.run.count(), 2);
        assert!(!before.counted.is_empty());
        flush();
        let beside = parts_of_level1(&db);
        assert!(Arc::ptr_eq(&before.counted, &beside.counted));
        flush();
        let merged = parts_of_level1(&db);
        assert!(!Arc::ptr_eq(&before.counted, &merged.counted));
        assert_eq!(merged.run.count(), 3);
    }
}
