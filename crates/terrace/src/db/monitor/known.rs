//! Knowledge of the levels. That of a run holds as long as its sub-levels have the tables that they
//! had at the look, whatever changes beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_lsm::compaction::estimates::{Duplicates, Estimates, droppable_share};
use terrace_lsm::compaction::parts::Part;
use terrace_lsm::compaction::run::Run;
use terrace_lsm::levels::KeyspaceLevels;

use super::samples::Samples;
use super::unions::Unions;
use crate::{KeyspaceId, SequenceNumber};

/// Knowledge of all keyspaces.
#[derive(Default)]
pub(crate) struct Known {
    keyspaces: BTreeMap<KeyspaceId, Arc<KnownKeyspace>>,
}

/// Knowledge of one keyspace.
pub(super) struct KnownKeyspace {
    pub(super) levels: Arc<KeyspaceLevels>,
    /// The sub-levels that merges wrote into then.
    pub(super) busy: Vec<u64>,
    /// The live snapshots, and last the visible number.
    pub(super) snapshots: Vec<SequenceNumber>,
    /// Duplicates by the runs' names, if there were no snapshots.
    pub(super) duplicates: BTreeMap<Vec<u64>, Duplicates>,
    /// The parts of runs that the policy may merge in part, by the runs' names, too.
    pub(super) parts: BTreeMap<Vec<u64>, KnownParts>,
    pub(super) unions: Unions,
    pub(super) samples: Samples,
}

/// Knowledge of one run.
#[derive(Clone)]
pub(super) struct KnownParts {
    /// The parts as they were counted.
    pub(super) counted: Arc<Vec<Part>>,
    /// The parts again. Those that may not be merged have no estimate here.
    pub(super) to_be_tried: Arc<Vec<Part>>,
    /// The run that they were counted of.
    pub(super) run: Run,
    pub(super) is_oldest: bool,
}

impl KnownParts {
    /// Returns the counted parts of a run, if nothing of it has changed since.
    pub(super) fn counted_of(&self, run: &Run, is_oldest: bool) -> Option<Arc<Vec<Part>>> {
        let is_same = self.is_oldest == is_oldest && self.run.is(run);
        // Where there are none, a merge was in the way.
        let is_usable = is_same && !self.counted.is_empty();
        is_usable.then(|| Arc::clone(&self.counted))
    }
}

impl KnownKeyspace {
    /// Returns whether it is still true.
    pub(super) fn is_of(&self, levels: &Arc<KeyspaceLevels>, snapshots: &[SequenceNumber]) -> bool {
        let live = |snapshots: &[SequenceNumber]| snapshots.len().saturating_sub(1);
        let (ours, theirs) = (live(&self.snapshots), live(snapshots));
        Arc::ptr_eq(&self.levels, levels) && self.snapshots.get(..ours) == snapshots.get(..theirs)
    }
}

impl Known {
    pub(super) fn new(keyspaces: BTreeMap<KeyspaceId, Arc<KnownKeyspace>>) -> Self {
        Known { keyspaces }
    }

    fn of(&self, levels: &KeyspaceLevels) -> Option<&KnownKeyspace> {
        self.keyspaces.get(&levels.id).map(|known| &**known)
    }
}

impl Estimates for Known {
    fn merged(&self, levels: &KeyspaceLevels, run: &Run) -> Option<Duplicates> {
        let known = self.of(levels)?;
        let duplicates = known.duplicates.get(&run.name()).copied();
        duplicates.filter(|_| known.unions.are_of(run))
    }

    fn merged_now(
        &self,
        levels: &KeyspaceLevels,
        run: &Run,
        at_most: Duplicates,
    ) -> Option<Duplicates> {
        let known = self.of(levels)?;
        if known.snapshots.len() < 2 {
            return Some(at_most);
        }
        // The samples of ingested tables have numbers that do not count.
        if run.tables().any(|table| table.assigned) {
            return None;
        }
        let versions = known.samples.of_run(run)?;
        let share = droppable_share(versions, &known.snapshots, run.is_oldest_of(levels));
        Some(at_most.share(share))
    }

    fn parts(&self, levels: &KeyspaceLevels, run: &Run) -> Vec<Part> {
        let known = self.of(levels).filter(|known| known.unions.are_of(run));
        let parts = known.and_then(|known| known.parts.get(&run.name()));
        parts.map_or_else(Vec::new, |parts| parts.to_be_tried.to_vec())
    }

    fn keys(&self, levels: &KeyspaceLevels, run: &Run) -> Option<f64> {
        self.of(levels)?.unions.keys_about(run)
    }
}

#[cfg(test)]
mod tests {
    use terrace_lsm::compaction::parts::cells;
    use terrace_lsm::levels::testing::{added, levels, sub_level_place, version};

    use super::*;

    #[test]
    fn parts_are_of_a_run_until_a_table_or_what_is_older_changes() {
        let (old, young) = (sub_level_place(1, 3), sub_level_place(1, 5));
        let run = |numbers: [u64; 2]| {
            let tables = [(old, numbers[0]), (young, numbers[1])];
            let tables = tables.map(|(place, number)| added(place, number, "a", "c"));
            Run::of_level(levels(&version(tables.to_vec())), 1).unwrap()
        };
        let (before, other) = (run([1, 2]), run([1, 3]));
        assert_eq!(before.name(), other.name());
        let known = |run| Part {
            run,
            duplicates: Some(Duplicates::default()),
        };
        let counted: Arc<Vec<Part>> = Arc::new(cells(&before).into_iter().map(known).collect());
        let parts = KnownParts {
            to_be_tried: Arc::clone(&counted),
            counted,
            run: before.clone(),
            is_oldest: true,
        };
        assert!(parts.counted_of(&before, true).is_some());
        assert!(parts.counted_of(&before, false).is_none());
        assert!(parts.counted_of(&other, true).is_none());
        let uncounted = KnownParts {
            counted: Arc::default(),
            ..parts
        };
        assert!(uncounted.counted_of(&before, true).is_none());
    }
}
