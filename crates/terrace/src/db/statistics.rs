//! What a store shows of itself. Plain data, taken at one moment without stopping anybody.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use terrace_storage::{IoStatistics, Storage};

use crate::compaction::oldest_snapshot::OldestSnapshot;
use crate::compaction::policy::described_by;
use crate::db::Store;
use crate::db::compaction_history::Compaction;
use crate::db::jobs::under_way::MergeUnderWay;
use crate::db::latencies::LatencyStatistics;
use crate::db::monitor::LevelDuplicates;
use crate::db::recover::Recovery;
use crate::db::report_forms;
use crate::db::write_rate::WriteRate;
use crate::levels::{
    ArenaHome, FIRST_FLUSH_AGE, KeyspaceLevels, LEVELS, Place, SubLevel, Table, Version,
};
use crate::options::Durability;
use crate::read_buffer::{ReadBuffer, ReadBufferStatistics};
use crate::region_loss::RegionLoss;
use crate::serial;
use crate::stall_cause::StallCause;
use crate::time_profile::TimeProfile;
use crate::{Error, SequenceNumber};

/// What the store counts itself.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) user_bytes: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) merges: AtomicU64,
    pub(crate) slices: AtomicU64,
    pub(crate) moves: AtomicU64,
    pub(crate) removals: AtomicU64,
    pub(crate) setbacks: AtomicU64,
    /// Merges of a range of keys only.
    pub(crate) range_merges: AtomicU64,
    /// Entries that went into merges, and those that these dropped.
    pub(crate) merged_entries: AtomicU64,
    pub(crate) dropped_entries: AtomicU64,
    /// Gets that were timed, and the tables that these asked.
    pub(crate) sampled_gets: AtomicU64,
    pub(crate) tables_asked: AtomicU64,
    /// Connections to the inspection socket by users without permission.
    pub(crate) strangers_refused: AtomicU64,
}

/// What a store holds and has done since it was opened. Serialised, times are numbers of seconds
/// and errors are their words. A path that is not UTF-8 is there in hexadecimal, too, as
/// `region_dir_hex`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Statistics {
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// The persist method of the region: `written`, `volatile`, ...
    pub method: String,
    /// Power safety is pretended, for a benchmark.
    pub emulated: bool,
    /// The file system that holds the store.
    pub file_system: String,
    /// What the arenas lie on: a file system's name, or `dram`.
    pub region_medium: String,
    /// The region directory, if the arenas are not in the store's own.
    #[serde(flatten, with = "serial::paths::region_dir")]
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
    #[serde(with = "serial::io")]
    pub io: IoStatistics,
    /// Bytes of keys and values accepted.
    pub user_bytes: u64,
    /// Bytes written to files for each byte accepted; `None` before the first write.
    pub write_amplification: Option<f64>,
    /// Tables asked for each get, their filters included: counted on the gets that are timed, those
    /// that found their key in memory among them. `None` before the first one.
    pub read_amplification: Option<f64>,
    /// Bytes of all tables for each byte that is live, estimated: a keyspace's largest sub-level, in
    /// which a key stands once, is taken for what is live, and all others for what it replaces.
    /// Where they hold other keys the figure is too high. `None` without tables.
    pub space_amplification: Option<f64>,
    /// How long operations took.
    #[serde(default)]
    pub latencies: LatencyStatistics,
    /// Where their time went.
    #[serde(default)]
    pub time: TimeProfile,
    /// Bytes that merges still have to write until every level is within its target, estimated.
    pub debt_bytes: u64,
    /// The limit on background writes; `None` if the store was opened without one.
    pub write_rate: Option<WriteRateStatistics>,
    /// Time that writers were held back, by cause.
    #[serde(rename = "stall_seconds", with = "report_forms::stalls")]
    pub stalls: Vec<(StallCause, Duration)>,
    /// The longest of those times.
    #[serde(rename = "longest_stall_seconds", with = "serial::seconds")]
    pub longest_stall: Duration,
    /// Arenas flushed, merges and moves of tables done.
    pub flushes: u64,
    /// Merges done.
    pub merges: u64,
    /// Merges that dropped less than half of what was predicted, so that what they wrote is not merged
    /// for its duplicates before more has come.
    #[serde(default)]
    pub setbacks: u64,
    /// Entries that went into merges.
    #[serde(default)]
    pub merged_entries: u64,
    /// Those of them that the merges dropped.
    #[serde(default)]
    pub dropped_entries: u64,
    /// Slices of merges that were installed.
    pub slices: u64,
    /// Tables moved without being read.
    pub moves: u64,
    /// Number of tables removed without being read, since deleted ranges hid all their entries.
    #[serde(default)]
    pub removals: u64,
    /// Tables that nobody lists any more, whose files are still to be deleted.
    #[serde(default)]
    pub tables_to_delete: u64,
    /// Connections to the inspection socket that other users made, and that were hung up on.
    #[serde(default)]
    pub strangers_refused: u64,
    /// Background steps that failed and were repeated.
    pub retries: u64,
    /// The last failure of a background step.
    #[serde(with = "serial::error_text")]
    pub last_error: Option<Error>,
    /// Whether reads of tables can be waited for on the processor; `None` if nobody asked for that
    /// ([`Options::poll_reads`](crate::Options::poll_reads)).
    #[serde(default)]
    pub polls_reads: Option<bool>,
    /// Why writes are refused, if they are.
    #[serde(with = "serial::error_text")]
    pub poisoned: Option<Error>,
    /// Bytes of the file `RESERVE`. A full disk gives them back to steps that make room.
    #[serde(default)]
    pub reserve_bytes: u64,
    /// True if a full disk took the reserve. The store refuses new values until it has made a
    /// reserve again.
    #[serde(default)]
    pub lacks_reserve: bool,
    /// Live snapshots, iterators' own included.
    pub snapshots: usize,
    /// The oldest of them, with the superseded versions that stay on the disk for it; `None` without any.
    #[serde(default)]
    pub oldest_snapshot: Option<OldestSnapshot>,
    /// What the opening found.
    pub recovery: Recovery,
}

/// The numbers of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sequences {
    /// The last one given and acknowledged: readers see everything up to it.
    pub visible: SequenceNumber,
    /// The last one given.
    pub last: SequenceNumber,
    /// Everything up to it survives a power cut.
    pub persisted: SequenceNumber,
    /// Everything up to it is in tables.
    pub flushed: SequenceNumber,
}

/// Arenas by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemoryStatistics {
    /// Images of the active and sealed arenas and of spares.
    pub arena_bytes: u64,
    /// Their indexes, and what readers sorted of them.
    pub index_bytes: u64,
    /// Flushed arenas that readers hold, indexes included.
    pub pinned_bytes: u64,
    /// Blocks in the block cache.
    pub block_cache_bytes: u64,
    /// Blocks that were found in it. Of blocks that are reached from the index about one read in 16 is
    /// counted, for 16.
    pub block_cache_hits: u64,
    /// Blocks that were not.
    pub block_cache_misses: u64,
    /// Filters and top indexes of open tables.
    pub table_metadata_bytes: u64,
    /// What is kept of tables' sketches, by which merges are chosen: one union for each sub-level that the
    /// policy asks about, and while there are snapshots a sample of versions.
    #[serde(default)]
    pub sketch_bytes: u64,
}

/// The limit on background writes; see
/// [`Options::background_bytes_per_second`](crate::Options::background_bytes_per_second).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WriteRateStatistics {
    /// What the options say.
    pub configured_bytes_per_second: u64,
    /// What holds now, by what merges owe; `None` for no limit.
    pub present_bytes_per_second: Option<u64>,
    /// Writes of merges that were held back.
    pub waits: u64,
    /// The time that they were, all threads together.
    #[serde(rename = "waited_seconds", with = "serial::seconds")]
    pub waited: Duration,
}

/// One level of all keyspaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LevelStatistics {
    /// Its sub-levels.
    pub sub_levels: usize,
    /// Its tables.
    pub tables: usize,
    /// Bytes of their files.
    pub bytes: u64,
}

/// Every table, in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LevelsReport {
    /// In the order of their numbers.
    pub keyspaces: Vec<KeyspaceReport>,
    /// Tables that nobody lists any more, whose files are still to be deleted.
    #[serde(default)]
    pub tables_to_delete: u64,
    /// The last merges and moves since the store was opened, in the order in which they ended; see
    /// [`Db::compactions`](crate::Db::compactions).
    #[serde(default)]
    pub compactions: Vec<Compaction>,
}

/// The levels of one keyspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KeyspaceReport {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its levels from the top, each with its sub-levels from the youngest.
    #[serde(with = "report_forms::levels")]
    pub levels: Vec<Vec<SubLevelReport>>,
    /// Of the same levels how many versions and keys each has; empty unless it was asked for, as
    /// [`Db::levels_with_duplicates`](crate::Db::levels_with_duplicates) does.
    #[serde(default)]
    pub duplicates: Vec<LevelDuplicates>,
    /// Bytes that its merges still have to write until every level is within its target, estimated.
    #[serde(default)]
    pub debt_bytes: u64,
    /// Its merges under way.
    #[serde(default)]
    pub merges: Vec<MergeUnderWay>,
}

/// One sub-level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SubLevelReport {
    /// Its name.
    pub number: u64,
    /// Larger is younger.
    pub age: u64,
    /// The flush or bulk load that the oldest of its writes came with, counted from 1; `None` if it is
    /// the one sub-level that the leveled policy keeps in a level, older than all others.
    #[serde(default)]
    pub oldest_flush: Option<u64>,
    /// Its tables in key order.
    pub tables: Vec<TableReport>,
}

/// One table. Serialised, a key that is not UTF-8 is in hexadecimal, under a name that says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "report_forms::TableForm", try_from = "report_forms::TableForm")]
#[non_exhaustive]
pub struct TableReport {
    /// The number in its file's name.
    pub number: u64,
    /// Bytes of its file.
    pub size_bytes: u64,
    /// Versions in the file.
    pub entries: u64,
    /// Those that are tombstones.
    pub tombstones: u64,
    /// Deleted ranges in the file, beside the versions.
    pub range_tombstones: u64,
    /// The first key listed.
    pub smallest: Vec<u8>,
    /// The last key listed.
    pub largest: Vec<u8>,
    /// The bounds are narrower than the file.
    pub narrowed: bool,
    /// The lowest and highest sequence number.
    pub sequences: (SequenceNumber, SequenceNumber),
}

impl Store {
    pub(crate) fn statistics(&self) -> Statistics {
        let view = self.reads.view.load();
        let (pinned, pinned_bytes) = self.reads.pins.pinned();
        let (next_generation, flushed, region_losses) = {
            let ledger = self.manifest_log.ledger.lock();
            let state = &ledger.state;
            let losses = state.region_losses.clone();
            (state.next_generation, state.flushed_sequence, losses)
        };
        let region = self.writes.region.description();
        let (spare, spare_bytes) = {
            let arenas = self.writes.arenas.lock();
            let bytes = arenas
                .spares
                .iter()
                .map(|spare| spare.capacity_bytes())
                .sum::<u64>();
            (arenas.spares.len(), bytes)
        };
        let visible = self.visible();
        let active = usize::from(!self.options.read_only && !view.memtables.is_empty());
        let index_bytes = view
            .memtables
            .iter()
            .map(|table| table.index_memory_bytes())
            .sum();
        let arena_bytes: u64 = view
            .memtables
            .iter()
            .map(|table| table.arena().capacity_bytes())
            .sum();
        let io = self.files.storage.snapshot();
        let user_bytes = self.metrics.counters.user_bytes.load(Ordering::Relaxed);
        // Stores into a mapping pass no counter.
        let stored_bytes = if self.writes.region.stores_in_place() {
            user_bytes
        } else {
            0
        };
        let written_bytes = io.total().written_bytes + stored_bytes;
        let (retries, last_error) = self.lifecycle.background.retries();
        Statistics {
            durability: self.writes.durability,
            method: region.method.to_owned(),
            emulated: region.emulated,
            file_system: self.files.file_system.name.clone(),
            region_medium: region.medium.clone(),
            region_dir: match &self.manifest_log.arena_home {
                ArenaHome::Region { path, .. } => Some(path.clone()),
                ArenaHome::Store => None,
            },
            region_losses,
            sequences: Sequences {
                visible,
                last: view
                    .memtables
                    .first()
                    .map_or(visible, |table| table.last_sequence().max(visible)),
                persisted: self.writes.persisted.load(Ordering::Acquire).max(flushed),
                flushed,
            },
            arenas: ArenaStatistics {
                active_generation: match view.memtables.first() {
                    Some(table) if active == 1 => table.arena().generation(),
                    _ => 0,
                },
                next_generation,
                active,
                sealed: view.memtables.len() - active,
                spare,
                pinned,
            },
            memory: MemoryStatistics {
                arena_bytes: arena_bytes + spare_bytes,
                index_bytes,
                pinned_bytes,
                block_cache_bytes: self.files.tables.blocks().used_bytes(),
                block_cache_hits: self.files.tables.blocks().hits(),
                block_cache_misses: self.files.tables.blocks().misses(),
                table_metadata_bytes: self.files.tables.metadata_bytes(),
                sketch_bytes: self.compactor.monitor.memory_bytes(),
            },
            read_buffer: self.reads.read_buffer.as_ref().map(ReadBuffer::statistics),
            levels: level_totals(&view.version),
            write_amplification: (user_bytes > 0).then(|| written_bytes as f64 / user_bytes as f64),
            read_amplification: self.read_amplification(),
            space_amplification: space_amplification(&view.version),
            latencies: self.metrics.latencies.statistics(),
            time: self.metrics.time_profile.profile(),
            io,
            user_bytes,
            debt_bytes: self.writes.backlog.debt_bytes(),
            write_rate: self.writes.backlog.write_rate().map(WriteRate::statistics),
            stalls: StallCause::ALL
                .iter()
                .map(|&cause| (cause, self.metrics.stalls.of(cause)))
                .collect(),
            longest_stall: self.metrics.stalls.longest(),
            flushes: self.metrics.counters.flushes.load(Ordering::Relaxed),
            merges: self.metrics.counters.merges.load(Ordering::Relaxed),
            setbacks: self.metrics.counters.setbacks.load(Ordering::Relaxed),
            strangers_refused: self
                .metrics
                .counters
                .strangers_refused
                .load(Ordering::Relaxed),
            merged_entries: self.metrics.counters.merged_entries.load(Ordering::Relaxed),
            dropped_entries: self
                .metrics
                .counters
                .dropped_entries
                .load(Ordering::Relaxed),
            slices: self.metrics.counters.slices.load(Ordering::Relaxed),
            moves: self.metrics.counters.moves.load(Ordering::Relaxed),
            removals: self.metrics.counters.removals.load(Ordering::Relaxed),
            tables_to_delete: self.tables_to_delete() as u64,
            retries,
            last_error,
            polls_reads: self
                .options
                .poll_reads
                .then(|| self.options.direct_io && self.files.storage.can_poll()),
            poisoned: self.poisoned(),
            reserve_bytes: self.reserve_bytes(),
            lacks_reserve: self.lacks_reserve(),
            snapshots: self.reads.snapshots.len(),
            oldest_snapshot: self.oldest_snapshot_of(&view.version),
            recovery: self.metrics.recovery.clone(),
        }
    }
}

impl Store {
    /// Every table in its place; `duplicates` says what is told of the levels' contents.
    pub(crate) fn levels_report(
        &self,
        duplicates: impl Fn(&KeyspaceLevels) -> Vec<LevelDuplicates>,
    ) -> LevelsReport {
        let version = Arc::clone(&self.reads.view.load().version);
        let keyspaces = version.keyspaces.values();
        let keyspaces = keyspaces.map(|levels| KeyspaceReport {
            id: levels.id.number(),
            name: levels.name.clone(),
            levels: sub_level_reports(levels),
            duplicates: duplicates(levels),
            debt_bytes: described_by(&self.options, self.form_of(levels), false).debt_bytes(levels),
            merges: self.compactor.jobs.merges_of(levels.id),
        });
        LevelsReport {
            keyspaces: keyspaces.collect(),
            tables_to_delete: self.tables_to_delete() as u64,
            compactions: self.metrics.compactions.kept(&version),
        }
    }
}

impl Store {
    fn read_amplification(&self) -> Option<f64> {
        let gets = self.metrics.counters.sampled_gets.load(Ordering::Relaxed);
        let asked = self.metrics.counters.tables_asked.load(Ordering::Relaxed);
        (gets > 0).then(|| asked as f64 / gets as f64)
    }
}

fn sub_level_reports(levels: &KeyspaceLevels) -> Vec<Vec<SubLevelReport>> {
    let mut reports = vec![Vec::new(); levels.levels.len()];
    for (place, sub_level) in levels.sub_levels() {
        if let Some(of_level) = reports.get_mut(usize::from(place.level)) {
            of_level.push(report(place, sub_level));
        }
    }
    reports
}

fn report(place: Place, sub_level: &SubLevel) -> SubLevelReport {
    let table = |table: &Arc<Table>| TableReport {
        number: table.number,
        size_bytes: table.size_bytes,
        entries: table.entries,
        tombstones: table.tombstones,
        range_tombstones: table.range_tombstones,
        smallest: table.bounds.smallest.clone(),
        largest: table.bounds.largest.clone(),
        narrowed: table.narrowed,
        sequences: (table.min_sequence, table.max_sequence),
    };
    SubLevelReport {
        number: sub_level.number,
        age: sub_level.age,
        oldest_flush: (place.flush_age() + 1).checked_sub(FIRST_FLUSH_AGE),
        tables: sub_level.tables.iter().map(table).collect(),
    }
}

fn level_totals(version: &Version) -> Vec<LevelStatistics> {
    let mut totals = vec![LevelStatistics::default(); LEVELS];
    for levels in version.keyspaces.values() {
        for (total, level) in totals.iter_mut().zip(&levels.levels) {
            total.sub_levels += level.sub_levels.len();
            total.tables += level.tables().count();
            total.bytes += level.size_bytes();
        }
    }
    totals
}

fn space_amplification(version: &Version) -> Option<f64> {
    let (mut total, mut live) = (0, 0);
    for levels in version.keyspaces.values() {
        let sub_levels = levels.sub_levels();
        let bytes = sub_levels.map(|(_, sub_level)| {
            let tables = sub_level.tables.iter();
            tables.map(|table| table.size_bytes).sum::<u64>()
        });
        let bytes: Vec<u64> = bytes.collect();
        total += bytes.iter().sum::<u64>();
        live += bytes.iter().max().copied().unwrap_or(0);
    }
    (live > 0).then(|| total as f64 / live as f64)
}

#[cfg(test)]
mod tests {
    use crate::{Db, LevelsReport, Options, Statistics};

    /// A store that wrote the same keys `flushes` times.
    fn store(flushes: usize) -> Db {
        let options = Options {
            level0_merge: 100,
            level0_slowdown: 200,
            level0_stop: 300,
            // A flush takes no table along.
            arena_bytes: 1 << 20,
            arena_index_bytes: 1 << 19,
            ..Options::in_memory()
        };
        let db = Db::open("/store", options).unwrap();
        for _ in 0..flushes {
            for key in [&b"a"[..], b"b", b"\xff"] {
                db.put(key, &[0; 1000]).unwrap();
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

        let levels = db.levels();
        let text = serde_json::to_string(&levels).unwrap();
        assert!(
            text.contains(r#""smallest":"a","largest_hex":"ff""#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<LevelsReport>(&text).unwrap(), levels);
    }
}
