//! Statistics of a store: plain data, taken at one moment without stopping any thread.

mod collection;
mod levels_report;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_lsm::compaction::oldest_snapshot::OldestSnapshot;
use terrace_lsm::region_loss::RegionLoss;
use terrace_lsm::time_profile::TimeProfile;
use terrace_storage::IoStatistics;

pub use self::levels_report::{KeyspaceReport, LevelsReport, SubLevelReport, TableReport};
use crate::db::latencies::LatencyStatistics;
use crate::db::recover::Recovery;
use crate::db::tiers::level_times::LevelLatencies;
use crate::db::tiers::report::TierStatistics;
use crate::options::Durability;
use crate::read_buffer::ReadBufferStatistics;
use crate::stall_cause::StallCause;
use crate::{Error, SequenceNumber};

/// The store's own counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) user_bytes: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) merges: AtomicU64,
    pub(crate) slices: AtomicU64,
    pub(crate) moves: AtomicU64,
    pub(crate) removals: AtomicU64,
    pub(crate) migrations: AtomicU64,
    pub(crate) setbacks: AtomicU64,
    /// Merges of a range of keys only.
    pub(crate) range_merges: AtomicU64,
    /// Entries that went into merges, and entries that merges dropped.
    pub(crate) merged_entries: AtomicU64,
    pub(crate) dropped_entries: AtomicU64,
    /// Gets that were timed, and the tables that these asked.
    pub(crate) sampled_gets: AtomicU64,
    pub(crate) tables_asked: AtomicU64,
    /// Connections to the inspection socket by users without permission.
    pub(crate) strangers_refused: AtomicU64,
}

impl Counters {
    /// Returns the number of edits of compactions: each is progress.
    pub(crate) fn installed(&self) -> u64 {
        let counts = [&self.slices, &self.moves, &self.removals];
        counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }
}

/// Contents of a store, and its work since it was opened. Serialised, times are numbers of seconds
/// and errors are their words. A path that is not UTF-8 is there in hexadecimal, too, as
/// `region_dir_hex`.
// A field that is added has `serde(default)`: tools read reports of an older process.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Statistics {
    /// Events that an acknowledged write survives.
    pub durability: Durability,
    /// The persist method of the region: `written`, `volatile`, ...
    pub method: String,
    /// Whether power safety is pretended, for a benchmark.
    pub emulated: bool,
    /// The file system that holds the store.
    pub file_system: String,
    /// Medium of the arenas: a file system's name, or `dram`.
    pub region_medium: String,
    /// The region directory, if the arenas are not in the store's own.
    #[cfg_attr(
        feature = "serde",
        serde(flatten, with = "terrace_lsm::serial::paths::region_dir")
    )]
    pub region_dir: Option<PathBuf>,
    /// Every loss of a region that was accepted since the store was made, in order.
    pub region_losses: Vec<RegionLoss>,
    /// Sequence numbers.
    pub sequences: Sequences,
    /// Arenas.
    pub arenas: ArenaStatistics,
    /// Memory, by budget.
    pub memory: MemoryStatistics,
    /// The read buffer; `None` if it is off.
    pub read_buffer: Option<ReadBufferStatistics>,
    /// Levels 0, 1, 2, ... of all keyspaces together.
    pub levels: Vec<LevelStatistics>,
    /// Bytes and operations, by purpose.
    #[cfg_attr(feature = "serde", serde(with = "terrace_lsm::serial::io"))]
    pub io: IoStatistics,
    /// Bytes of keys and values accepted.
    pub user_bytes: u64,
    /// Bytes written to files for each byte accepted; `None` before the first write.
    pub write_amplification: Option<f64>,
    /// Tables asked for each get, their filters included. The gets that are timed count, those that
    /// found their key in memory among them. `None` before the first one.
    pub read_amplification: Option<f64>,
    /// Bytes of all tables for each byte that is live, estimated. A keyspace's largest sub-level,
    /// in which a key stands once, counts as live, and all others as the bytes that it replaces.
    /// Where they hold other keys the figure is too high. `None` without tables.
    pub space_amplification: Option<f64>,
    /// Durations of operations.
    #[cfg_attr(feature = "serde", serde(default))]
    pub latencies: LatencyStatistics,
    /// Time of operations by stage.
    #[cfg_attr(feature = "serde", serde(default))]
    pub time: TimeProfile,
    /// Bytes that merges still have to write until every level is within its target, estimated.
    pub debt_bytes: u64,
    /// The limit on background writes; `None` if the store was opened without one.
    pub write_rate: Option<WriteRateStatistics>,
    /// Time that writers were held back, by cause.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "stall_seconds", with = "crate::db::report_forms::stalls")
    )]
    pub stalls: Vec<(StallCause, Duration)>,
    /// The longest of those times.
    #[cfg_attr(
        feature = "serde",
        serde(
            rename = "longest_stall_seconds",
            with = "terrace_lsm::serial::seconds"
        )
    )]
    pub longest_stall: Duration,
    /// Number of arenas flushed.
    pub flushes: u64,
    /// Number of merges done.
    pub merges: u64,
    /// Merges that dropped less than half of the predicted versions. Their outputs are not merged
    /// for their duplicates before more has come.
    #[cfg_attr(feature = "serde", serde(default))]
    pub setbacks: u64,
    /// Entries that went into merges.
    #[cfg_attr(feature = "serde", serde(default))]
    pub merged_entries: u64,
    /// Entries of these that the merges dropped.
    #[cfg_attr(feature = "serde", serde(default))]
    pub dropped_entries: u64,
    /// Slices of merges that were installed.
    pub slices: u64,
    /// Tables moved without being read.
    pub moves: u64,
    /// Number of tables removed without being read, since deleted ranges hid all their entries.
    #[cfg_attr(feature = "serde", serde(default))]
    pub removals: u64,
    /// Number of tables that went to another tier.
    #[cfg_attr(feature = "serde", serde(default))]
    pub migrations: u64,
    /// Tiers, from the fastest to the slowest.
    #[cfg_attr(feature = "serde", serde(default))]
    pub tiers: Vec<TierStatistics>,
    /// Tables that no version lists any more, whose files are still to be deleted.
    #[cfg_attr(feature = "serde", serde(default))]
    pub tables_to_delete: u64,
    /// Connections to the inspection socket that other users made, and that were hung up on.
    #[cfg_attr(feature = "serde", serde(default))]
    pub strangers_refused: u64,
    /// Number of background steps that failed. Each was repeated.
    #[cfg_attr(feature = "serde", serde(alias = "retries"))]
    pub step_failures: u64,
    /// The last failure of a background step.
    #[cfg_attr(feature = "serde", serde(with = "terrace_lsm::serial::error_text"))]
    pub last_error: Option<Error>,
    /// Whether reads of tables can be waited for on the processor; `None` if the options do not ask
    /// for that ([`Options::poll_reads`](crate::Options::poll_reads)).
    #[cfg_attr(feature = "serde", serde(default))]
    pub can_poll_reads: Option<bool>,
    /// Reason that writes are refused, if they are.
    #[cfg_attr(feature = "serde", serde(with = "terrace_lsm::serial::error_text"))]
    pub poisoned: Option<Error>,
    /// Bytes of the file `RESERVE`. A full disk gives them back to steps that make room.
    #[cfg_attr(feature = "serde", serde(default))]
    pub reserve_bytes: u64,
    /// True if a full disk took the reserve. The store refuses new values until it has made a
    /// reserve again.
    #[cfg_attr(feature = "serde", serde(default))]
    pub lacks_reserve: bool,
    /// Live snapshots, iterators' own included.
    pub snapshots: usize,
    /// The oldest of them, with the superseded versions that stay on the disk for it; `None` without any.
    #[cfg_attr(feature = "serde", serde(default))]
    pub oldest_snapshot: Option<OldestSnapshot>,
    /// Transactions.
    #[cfg_attr(feature = "serde", serde(default))]
    pub transactions: TransactionStatistics,
    /// Findings of the opening.
    pub recovery: Recovery,
}

/// The transactions since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TransactionStatistics {
    /// Transactions that have begun and not ended.
    pub open: u64,
    /// Seconds since the oldest of them began: it keeps the versions of its moment. `None` without any.
    pub oldest_s: Option<f64>,
    /// Commits that wrote, those of [`Db::write_if_unchanged`](crate::Db::write_if_unchanged) included.
    pub committed: u64,
    /// Commits that were refused, because others had written what they depend on.
    pub conflicts: u64,
}

/// The numbers of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Sequences {
    /// The last one given and acknowledged: readers see everything up to it.
    pub visible: SequenceNumber,
    /// The last one given.
    pub last: SequenceNumber,
    /// Number up to which every write survives a power cut.
    pub persisted: SequenceNumber,
    /// Number up to which every write is in tables.
    pub flushed: SequenceNumber,
}

/// Arenas by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ArenaStatistics {
    /// The generation being written; 0 if none.
    pub active_generation: u64,
    /// The next generation to be issued.
    pub next_generation: u64,
    /// Being written: 1, or 0 in a read-only store.
    pub active: usize,
    /// Waiting for their flush.
    pub sealed: usize,
    /// Ready for their first frame.
    pub spare: usize,
    /// Flushed, but still held by readers.
    pub pinned: usize,
}

/// Memory, by budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MemoryStatistics {
    /// Images of the active and sealed arenas and of spares.
    pub arena_bytes: u64,
    /// Their indexes, and the parts of them that readers sorted.
    pub index_bytes: u64,
    /// Flushed arenas that readers hold, indexes included.
    pub pinned_bytes: u64,
    /// Blocks in the block cache.
    pub block_cache_bytes: u64,
    /// Blocks that were found in it. Of reads of blocks that are reached from the index, about one
    /// in 16 is counted, for 16.
    pub block_cache_hits: u64,
    /// Blocks that were not found in it.
    pub block_cache_misses: u64,
    /// Filters and top indexes of open tables.
    pub table_metadata_bytes: u64,
    /// Bytes kept of tables' sketches, by which merges are chosen. There is one union for each
    /// sub-level that the policy asks about, and while there are snapshots a sample of versions.
    #[cfg_attr(feature = "serde", serde(default))]
    pub sketch_bytes: u64,
}

/// The limit on background writes; see
/// [`Options::background_bytes_per_second`](crate::Options::background_bytes_per_second).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct WriteRateStatistics {
    /// The rate in the options.
    pub configured_bytes_per_second: u64,
    /// The present rate, which follows the debt of merges; `None` for no limit.
    pub present_bytes_per_second: Option<u64>,
    /// Writes of merges that were held back.
    pub waits: u64,
    /// The time that they were held back, all threads together.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "waited_seconds", with = "terrace_lsm::serial::seconds")
    )]
    pub waited: Duration,
}

/// One level of all keyspaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LevelStatistics {
    /// Its sub-levels.
    pub sub_levels: usize,
    /// Its tables.
    pub tables: usize,
    /// Bytes of their files.
    pub bytes: u64,
    /// Reads of blocks from devices for users since the opening. A block in memory costs none.
    #[cfg_attr(feature = "serde", serde(default))]
    pub reads: u64,
    /// Bytes that these read.
    #[cfg_attr(feature = "serde", serde(default))]
    pub read_bytes: u64,
    /// Bytes that compactions read from devices since the opening, flushes that take tables along
    /// included.
    #[cfg_attr(feature = "serde", serde(default))]
    pub compaction_read_bytes: u64,
    /// Bytes of the tables that flushes have made here since the opening.
    #[cfg_attr(feature = "serde", serde(default))]
    pub flushed_bytes: u64,
    /// Bytes of the tables that bulk loads have made here since the opening.
    #[cfg_attr(feature = "serde", serde(default))]
    pub loaded_bytes: u64,
    /// Bytes of the tables that compactions have made here since the opening.
    #[cfg_attr(feature = "serde", serde(default))]
    pub compaction_written_bytes: u64,
    /// Bytes of the tables that went to another tier since the opening, while they were here.
    #[cfg_attr(feature = "serde", serde(default))]
    pub migrated_bytes: u64,
    /// Durations of operations on its tables. Only a store of several tiers takes them.
    #[cfg_attr(feature = "serde", serde(default))]
    pub latencies: LevelLatencies,
}

#[cfg(test)]
mod tests {
    use crate::{Db, LevelsReport, Options, Statistics};

    /// Returns a store that wrote the same keys `flushes` times.
    fn store(flushes: usize) -> Db {
        let options = Options {
            level0_merge: 100,
            level0_slowdown: 200,
            // A flush takes no table along.
            arena_bytes: 1 << 20,
            ..Options::in_memory()
        };
        let db = Db::open("/store", options).unwrap();
        for _ in 0..flushes {
            for key in [&b"a"[..], b"b", b"\xff"] {
                db.put(key, [0; 1000]).unwrap();
            }
            db.flush().unwrap();
        }
        db
    }

    #[test]
    fn amplification_is_what_reads_ask_and_what_lies_beneath() {
        let db = store(0);
        let none = db.statistics();
        assert_eq!(
            (none.read_amplification, none.space_amplification),
            (None, None)
        );
        let db = store(4);
        for _ in 0..2000 {
            // In bounds and in no filter, but for those filters that err: each of four tables is asked.
            assert!(db.get(b"aa").unwrap().is_none());
        }
        let statistics = db.statistics();
        assert_eq!(statistics.read_amplification, Some(4.0));
        let space = statistics.space_amplification.unwrap();
        assert!((3.9..=4.1).contains(&space), "{space}");
    }

    #[test]
    fn what_was_timed_is_shown() {
        let db = store(3);
        for _ in 0..1000 {
            db.put(b"key", b"value").unwrap();
            db.get(b"key").unwrap();
        }
        db.persist().unwrap();
        let latencies = db.statistics().latencies;
        assert_eq!((latencies.flush.count, latencies.sync.count), (3, 1));
        for sampled in [latencies.get, latencies.write] {
            assert!((5..200).contains(&sampled.count), "{sampled:?}");
            assert!(
                sampled.p50 <= sampled.p99 && sampled.p99 <= sampled.max,
                "{sampled:?}"
            );
        }
    }

    #[test]
    fn reports_come_back_from_json() {
        let db = store(2);
        let statistics = db.statistics();
        let text = serde_json::to_string(&statistics).unwrap();
        let again: Statistics = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
        assert_eq!(format!("{:?}", again.io), format!("{:?}", statistics.io));

        db.get(b"a").unwrap();
        let levels = db.levels();
        let read = &levels.keyspaces[0].levels[0][0].tables[0];
        assert!(read.reads > 0, "{read:?}");
        let text = serde_json::to_string(&levels).unwrap();
        assert!(
            text.contains(r#""smallest":"a","largest_hex":"ff""#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<LevelsReport>(&text).unwrap(), levels);
    }
}
