//! The times of reads, writes and migrations by level.
//!
//! A store of several tiers takes them, as it takes those of its tiers (`meters.rs`). In a store of one tier a
//! read looks whether anybody wants its time, and nobody does. A writer of tables takes times if the store had
//! several tiers when its job began.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use terrace_lsm::levels::LEVELS;
use terrace_lsm::table::TableTimes;
use terrace_storage::{Operation, Purpose};

use crate::db::latencies::{Distribution, Latency};
use crate::db::owners::Files;

/// Durations of operations on the tables of a level since the store had several tiers. A quantile is at most
/// 10 % too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct LevelLatencies {
    /// Reads for users.
    pub read: Distribution,
    /// Reads of compactions.
    pub compaction_read: Distribution,
    /// Writes of flushes, with the waits for the limit on background writes. The level of a bulk load is not known
    /// while its tables are written, so its writes are in none.
    pub flush_write: Distribution,
    /// Writes of compactions, with the same waits.
    pub compaction_write: Distribution,
    /// Migrations of whole tables: the copy with its pauses, the check and the edit.
    pub migration: Distribution,
}

impl LevelLatencies {
    /// Returns all of them, each with its operation (`read`, `write` or `migrate`) and its purpose (`read`,
    /// `compaction`, `flush` or `migration`).
    pub fn all(&self) -> [(&'static str, &'static str, Distribution); 5] {
        [
            ("read", "read", self.read),
            ("read", "compaction", self.compaction_read),
            ("write", "flush", self.flush_write),
            ("write", "compaction", self.compaction_write),
            ("migrate", "migration", self.migration),
        ]
    }
}

/// The histograms of levels 0, 1, 2, ..., each made with the first operation on its level.
#[derive(Debug, Default)]
pub(crate) struct LevelTimes([OnceLock<Histograms>; LEVELS]);

#[derive(Debug)]
struct Histograms {
    read: Latency,
    compaction_read: Latency,
    flush_write: Latency,
    compaction_write: Latency,
    migration: Latency,
}

impl Default for Histograms {
    fn default() -> Self {
        Histograms {
            read: Latency::coarse(),
            compaction_read: Latency::coarse(),
            flush_write: Latency::coarse(),
            compaction_write: Latency::coarse(),
            migration: Latency::coarse(),
        }
    }
}

impl TableTimes for LevelTimes {
    fn record(&self, level: usize, operation: Operation, purpose: Purpose, time: Duration) {
        let of: fn(&Histograms) -> &Latency = match (operation, purpose) {
            (Operation::Read, Purpose::Read) => |of| &of.read,
            (Operation::Read, Purpose::Compaction) => |of| &of.compaction_read,
            (Operation::Write, Purpose::Flush) => |of| &of.flush_write,
            (Operation::Write, Purpose::Compaction) => |of| &of.compaction_write,
            _ => return,
        };
        self.record_in(level, of, time);
    }
}

impl LevelTimes {
    /// Records the time in which a table of a level went to another tier.
    pub(super) fn record_migration(&self, level: u8, time: Duration) {
        self.record_in(usize::from(level), |of| &of.migration, time);
    }

    fn record_in(&self, level: usize, of: fn(&Histograms) -> &Latency, time: Duration) {
        if let Some(of_level) = self.0.get(level) {
            of(of_level.get_or_init(Histograms::default)).record(time);
        }
    }

    /// Returns the times of a level.
    pub(crate) fn of(&self, level: usize) -> LevelLatencies {
        let Some(histograms) = self.0.get(level).and_then(OnceLock::get) else {
            return LevelLatencies::default();
        };
        let of = |latency: &Latency| latency.distribution(1);
        LevelLatencies {
            read: of(&histograms.read),
            compaction_read: of(&histograms.compaction_read),
            flush_write: of(&histograms.flush_write),
            compaction_write: of(&histograms.compaction_write),
            migration: of(&histograms.migration),
        }
    }
}

impl Files {
    /// Has reads timed by level from now on, if the store has several tiers.
    pub(crate) fn time_reads_of_levels(&self) {
        if let Some(times) = self.times_of_levels() {
            self.obsolete.time_reads(times);
        }
    }

    /// Returns the taker of times by level, if the store has several tiers.
    pub(crate) fn times_of_levels(&self) -> Option<Arc<dyn TableTimes>> {
        let times: Arc<LevelTimes> = Arc::clone(&self.level_times);
        self.space.has_several().then_some(times as _)
    }
}
