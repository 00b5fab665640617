//! The counters of a tier's directory, and the times that its device takes.
//!
//! Operations on files are timed only in a store of several tiers: there a reading of the clock is little
//! beside the difference between two devices. A store of one tier pays for a look at a flag. The times include
//! the wait for the limit on background writes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use terrace_lsm::sync::Instant;
use terrace_storage::{
    CountingLayer, Directory, DirectoryLayer, File, FileCall, FileLayer, LayeredDirectory,
    LayeredFile, Operation, Purpose, Result,
};

use crate::db::latencies::{Distribution, Latency};

/// The counters and times of one tier.
#[derive(Clone, Debug, Default)]
pub(crate) struct TierMeters {
    /// `None` for the store's own directory, whose part is what the others leave of the store's counts.
    pub(super) counters: Option<CountingLayer>,
    pub(super) times: Arc<TierTimes>,
}

impl TierMeters {
    /// Puts meters around the store's own directory.
    pub(crate) fn of_own(directory: &Arc<dyn Directory>) -> (Arc<dyn Directory>, TierMeters) {
        let meters = TierMeters::default();
        let layer = TimesLayer(Arc::clone(&meters.times));
        let directory = LayeredDirectory::new(Arc::clone(directory), layer);
        (Arc::new(directory), meters)
    }

    /// Puts meters around the directory of another tier.
    pub(super) fn of_other(directory: Arc<dyn Directory>) -> (Arc<dyn Directory>, TierMeters) {
        let counters = CountingLayer::default();
        let directory: Arc<dyn Directory> =
            Arc::new(LayeredDirectory::new(directory, counters.clone()));
        let (directory, meters) = TierMeters::of_own(&directory);
        let counters = Some(counters);
        (directory, TierMeters { counters, ..meters })
    }
}

/// Durations of reads, writes and syncs of a tier's files since the store had several tiers, with the waits
/// for the limit on background writes. A quantile is at most 10 % too long.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct TierLatencies {
    /// Reads for users.
    pub read: Distribution,
    /// Reads of compactions.
    pub compaction_read: Distribution,
    /// Reads of migrations that leave the tier.
    pub migration_read: Distribution,
    /// Writes of flushes and bulk loads.
    pub flush_write: Distribution,
    /// Writes of compactions.
    pub compaction_write: Distribution,
    /// Writes of migrations that come to the tier.
    pub migration_write: Distribution,
    /// Syncs of files that flushes and bulk loads wrote.
    pub flush_sync: Distribution,
    /// Syncs of files that compactions wrote.
    pub compaction_sync: Distribution,
    /// Syncs of files that migrations wrote.
    pub migration_sync: Distribution,
}

impl TierLatencies {
    /// Returns all of them, each with its operation (`read`, `write` or `sync`) and its purpose (`read`,
    /// `compaction`, `migration` or `flush`).
    pub fn all(&self) -> [(&'static str, &'static str, Distribution); 9] {
        [
            ("read", "read", self.read),
            ("read", "compaction", self.compaction_read),
            ("read", "migration", self.migration_read),
            ("write", "flush", self.flush_write),
            ("write", "compaction", self.compaction_write),
            ("write", "migration", self.migration_write),
            ("sync", "flush", self.flush_sync),
            ("sync", "compaction", self.compaction_sync),
            ("sync", "migration", self.migration_sync),
        ]
    }
}

/// The histograms of a tier, made when the first operation is timed.
#[derive(Debug, Default)]
pub(super) struct TierTimes {
    is_on: AtomicBool,
    histograms: OnceLock<Histograms>,
}

#[derive(Debug)]
struct Histograms {
    read: Latency,
    compaction_read: Latency,
    migration_read: Latency,
    flush_write: Latency,
    compaction_write: Latency,
    migration_write: Latency,
    flush_sync: Latency,
    compaction_sync: Latency,
    migration_sync: Latency,
}

impl Default for Histograms {
    fn default() -> Self {
        Histograms {
            read: Latency::coarse(),
            compaction_read: Latency::coarse(),
            migration_read: Latency::coarse(),
            flush_write: Latency::coarse(),
            compaction_write: Latency::coarse(),
            migration_write: Latency::coarse(),
            flush_sync: Latency::coarse(),
            compaction_sync: Latency::coarse(),
            migration_sync: Latency::coarse(),
        }
    }
}

impl Histograms {
    /// Returns the histogram of a call; `None` for one that is not timed.
    fn of(&self, call: FileCall) -> Option<&Latency> {
        Some(match call {
            FileCall::Read { purpose, .. } => match purpose {
                Purpose::Read => &self.read,
                Purpose::Compaction => &self.compaction_read,
                Purpose::Migration => &self.migration_read,
                _ => return None,
            },
            FileCall::Write { purpose, .. } | FileCall::WriteDurable { purpose, .. } => {
                match purpose {
                    Purpose::Flush => &self.flush_write,
                    Purpose::Compaction => &self.compaction_write,
                    Purpose::Migration => &self.migration_write,
                    _ => return None,
                }
            }
            FileCall::Sync(purpose) => match purpose {
                Purpose::Flush => &self.flush_sync,
                Purpose::Compaction => &self.compaction_sync,
                Purpose::Migration => &self.migration_sync,
                _ => return None,
            },
            _ => return None,
        })
    }
}

impl TierTimes {
    /// Has every operation timed from now on.
    pub(super) fn turn_on(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    fn record(&self, call: FileCall, began: Instant) {
        let histograms = self.histograms.get_or_init(Histograms::default);
        if let Some(latency) = histograms.of(call) {
            latency.record(began.elapsed());
        }
    }

    pub(super) fn latencies(&self) -> TierLatencies {
        let Some(histograms) = self.histograms.get() else {
            return TierLatencies::default();
        };
        let of = |latency: &Latency| latency.distribution(1);
        TierLatencies {
            read: of(&histograms.read),
            compaction_read: of(&histograms.compaction_read),
            migration_read: of(&histograms.migration_read),
            flush_write: of(&histograms.flush_write),
            compaction_write: of(&histograms.compaction_write),
            migration_write: of(&histograms.migration_write),
            flush_sync: of(&histograms.flush_sync),
            compaction_sync: of(&histograms.compaction_sync),
            migration_sync: of(&histograms.migration_sync),
        }
    }
}

/// Times the calls on files of a directory.
#[derive(Clone, Debug)]
struct TimesLayer(Arc<TierTimes>);

/// A call that is being timed, to its end.
struct Timing {
    times: Arc<TierTimes>,
    call: FileCall,
    began: Instant,
}

impl Drop for Timing {
    fn drop(&mut self) {
        self.times.record(self.call, self.began);
    }
}

impl FileLayer for TimesLayer {
    type Call = Option<Timing>;

    fn begin(&self, call: FileCall) -> Result<Option<Timing>> {
        let is_on = self.0.is_on.load(Ordering::Relaxed);
        Ok(is_on.then(|| Timing {
            times: Arc::clone(&self.0),
            call,
            began: Instant::now(),
        }))
    }
}

impl DirectoryLayer for TimesLayer {
    type Call = ();

    fn begin(&self, _: Operation, _: &Path, _: &[&str]) -> Result<()> {
        Ok(())
    }

    fn wrap(&self, file: Arc<dyn File>, _: &Path, _: &str) -> Arc<dyn File> {
        Arc::new(LayeredFile::new(file, self.clone()))
    }
}
