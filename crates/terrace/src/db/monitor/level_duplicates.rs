//! The numbers of versions and keys in each level, for reports.
//!
//! A policy asks about the runs that it might merge, and many policies ask nothing. A report covers
//! every level, so the sketches are read for it; those that the monitor has are used.

use terrace_lsm::compaction::run::Run;
use terrace_lsm::levels::KeyspaceLevels;
use terrace_lsm::table::Sketch;
use terrace_storage::Purpose;

use super::unions::Unions;
use crate::db::Store;
use crate::db::owners::Files;

/// The contents of a level, all of its sub-levels together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LevelDuplicates {
    /// Versions, tombstones included.
    pub versions: u64,
    /// Tombstones among them.
    pub tombstones: u64,
    /// Number of different keys, estimated to 2 % in 19 of 20 cases. `None` if it cannot be known:
    /// a table was written without a sketch, or cannot be read, or counts in part only. Tables that
    /// a merge has begun to replace do.
    pub keys: Option<u64>,
}

impl LevelDuplicates {
    /// Returns the duplicate rate: versions for each key, at least 1. `None` of an empty level, or
    /// if the keys are not known.
    pub fn rate(&self) -> Option<f64> {
        let keys = self.keys.filter(|&keys| keys > 0)?;
        Some((self.versions as f64 / keys as f64).max(1.0))
    }
}

impl Store {
    /// Returns the duplicates of each level, from the top.
    pub(crate) fn level_duplicates(&self, levels: &KeyspaceLevels) -> Vec<LevelDuplicates> {
        // Without waiting: the holder of the lock may be reading files.
        let watched = self.compactor.monitor.keyspaces.try_lock();
        let unions = watched.and_then(|watched| Some(watched.get(&levels.id)?.unions.clone()));
        let unions = unions.unwrap_or_default();
        let numbers = (0u8..).zip(&levels.levels);
        numbers
            .map(|(number, _)| match Run::of_level(levels, number) {
                Some(run) => self.files.duplicates_of(&run, &unions),
                None => LevelDuplicates::default(),
            })
            .collect()
    }
}

impl Files {
    fn duplicates_of(&self, run: &Run, unions: &Unions) -> LevelDuplicates {
        let versions = run.versions();
        let estimate = |keys: Sketch| (keys.estimate().round() as u64).min(versions);
        LevelDuplicates {
            versions,
            tombstones: run.tables().map(|table| table.tombstones).sum(),
            keys: self.keys_of(run, unions).map(estimate),
        }
    }

    fn keys_of(&self, run: &Run, unions: &Unions) -> Option<Sketch> {
        if run.tables().any(|table| table.narrowed) {
            return None;
        }
        let mut keys = Sketch::default();
        for (_, sub_level) in run.sub_levels() {
            match unions.current(sub_level) {
                Some(known) => keys.unite(known),
                None => {
                    for table in &sub_level.tables {
                        let open = table.open(&self.tables).ok()?;
                        keys.unite(&open.key_sketch(Purpose::Other).ok()?);
                    }
                }
            }
        }
        Some(keys)
    }
}
