//! The times of reads by level, from the files of its tables.
//!
//! A store of several tiers takes them, as it takes those of its tiers (`meters.rs`). In a store of one tier a
//! read looks whether anybody wants its time, and nobody does.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use terrace_lsm::levels::LEVELS;
use terrace_lsm::table::ReadTimes;
use terrace_storage::Purpose;

use crate::db::latencies::{Distribution, Latency};
use crate::db::owners::Files;

/// The histograms of levels 0, 1, 2, ..., each made with the first read of its level.
#[derive(Debug, Default)]
pub(crate) struct LevelTimes([OnceLock<Histograms>; LEVELS]);

#[derive(Debug)]
struct Histograms {
    read: Latency,
    compaction_read: Latency,
}

impl Default for Histograms {
    fn default() -> Self {
        Histograms {
            read: Latency::coarse(),
            compaction_read: Latency::coarse(),
        }
    }
}

impl ReadTimes for LevelTimes {
    fn record(&self, level: usize, purpose: Purpose, time: Duration) {
        let Some(of_level) = self.0.get(level) else {
            return;
        };
        let histograms = || of_level.get_or_init(Histograms::default);
        match purpose {
            Purpose::Read => histograms().read.record(time),
            Purpose::Compaction => histograms().compaction_read.record(time),
            _ => {}
        }
    }
}

impl LevelTimes {
    /// Returns the times of a level's reads for users, and of those of compactions.
    pub(crate) fn of(&self, level: usize) -> (Distribution, Distribution) {
        match self.0.get(level).and_then(OnceLock::get) {
            Some(histograms) => (
                histograms.read.distribution(1),
                histograms.compaction_read.distribution(1),
            ),
            None => (Distribution::default(), Distribution::default()),
        }
    }
}

impl Files {
    /// Has reads timed by level from now on, if the store has several tiers.
    pub(crate) fn time_reads_of_levels(&self) {
        if self.space.has_several() {
            let times: Arc<LevelTimes> = Arc::clone(&self.level_times);
            self.obsolete.time_reads(times);
        }
    }
}
