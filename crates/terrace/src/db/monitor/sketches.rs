//! The sketches of all sub-levels at one moment, for callers that ask once. Merges go by the kept
//! ones ([`Known`](super::Known)), which cover the runs that their policy asks about.

use terrace_lsm::compaction::estimates::{Duplicates, Estimates};
use terrace_lsm::compaction::run::Run;
use terrace_lsm::levels::KeyspaceLevels;
use terrace_lsm::table::TableCache;

use super::unions::Unions;

/// The sketches of one keyspace.
pub(crate) struct Sketches {
    unions: Unions,
}

impl Sketches {
    /// Reads those of all tables that can be read.
    pub(super) fn read(levels: &KeyspaceLevels, tables: &TableCache) -> Self {
        let mut unions = Unions::default();
        unions.bring_up_to_date(levels, |_| true, |_| false, tables);
        Sketches { unions }
    }
}

impl Estimates for Sketches {
    fn merged(&self, levels: &KeyspaceLevels, run: &Run) -> Option<Duplicates> {
        let runs = std::slice::from_ref(run);
        self.unions.of_runs(levels, runs).remove(&run.name())
    }

    /// Returns the upper limit: the versions that snapshots keep are not known.
    fn merged_now(&self, _: &KeyspaceLevels, _: &Run, at_most: Duplicates) -> Option<Duplicates> {
        Some(at_most)
    }

    fn keys(&self, _: &KeyspaceLevels, run: &Run) -> Option<f64> {
        self.unions.keys_about(run)
    }
}
