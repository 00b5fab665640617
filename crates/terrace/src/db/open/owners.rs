//! The owners of a store's state as an opening makes them.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use terrace_lsm::data_files::DataFiles;
use terrace_lsm::levels::{ArenaHome, ManifestState, TierRecord};
use terrace_lsm::sync::Mutex;
use terrace_lsm::sync::atomic::{AtomicBool, AtomicU64};
use terrace_lsm::table::{TableCache, TableLimit};
use terrace_lsm::time_profile::TimeProfiler;
use terrace_region::Region;
use terrace_storage::{Clock, CountingStorage, Directory, ForkMark, Lock, OpenMode, OpenOptions};

use super::Opened;
use crate::Result;
use crate::db::Store;
use crate::db::arenas::Arenas;
use crate::db::background::Background;
use crate::db::backlog::Backlog;
use crate::db::commit_queue::{CommitQueue, GroupLimits};
use crate::db::compaction_history::CompactionHistory;
use crate::db::deletions::Deletions;
use crate::db::empty_stretch::EmptyStretches;
use crate::db::events::EventLog;
use crate::db::fork::Counted;
use crate::db::jobs::Jobs;
use crate::db::latencies::Latencies;
use crate::db::ledger::Ledger;
use crate::db::level0_probes::Level0Probes;
use crate::db::lock_order::OrderedMutex;
use crate::db::memory_budget::MemoryBudget;
use crate::db::monitor::Monitor;
use crate::db::owners::{Compactor, Files, Lifecycle, ManifestLog, Metrics, Reads, Writes};
use crate::db::ownership::Ownership;
use crate::db::passed_over::PassedOver;
use crate::db::persist_timer::Timer;
use crate::db::pins::Pins;
use crate::db::recover::RecoveredWrites;
use crate::db::reserve::Reserve;
use crate::db::snapshot::SnapshotList;
use crate::db::sources::Sources;
use crate::db::stalls::Stalls;
use crate::db::statistics::Counters;
use crate::db::tiers::cache::Caches;
use crate::db::tiers::finding::FoundTiers;
use crate::db::tiers::heat::HeatBook;
use crate::db::tiers::migration::Migrations;
use crate::db::tiers::space::SpaceBook;
use crate::db::tombstones::SeenTombstones;
use crate::db::transactions::Transactions;
use crate::db::unlisted::Unlisted;
use crate::db::view::{PresentView, View};
use crate::db::visitors::Visitors;
use crate::opening::Opening;
use crate::options::{Durability, ForwardPolicy, Options};
use crate::read_buffer::ReadBuffer;
use crate::write_buffer::index::MAX_ENTRY_BYTES;
use crate::write_buffer::memtable::MemTable;
use crate::write_buffer::room::Room;

/// Makes the way of writes. It has no writer, and so refuses all, until there is an arena.
pub(super) fn writes(
    options: &Options,
    mark: ForkMark,
    state: &ManifestState,
    durability: Durability,
    region: Region,
    backlog: Backlog,
) -> Writes {
    Writes {
        queue: CommitQueue::new(group_limits(options), mark),
        writer: OrderedMutex::new(None),
        durability,
        hash_seed: state.identity.hash_seed,
        region,
        arenas: OrderedMutex::new(Arenas::default()),
        backlog,
        persisted: AtomicU64::new(state.persisted_until),
        persist_on_seal: AtomicBool::new(false),
        removed_for: AtomicU64::new(0),
    }
}

/// Makes the contents that readers see: the tables of the manifest, and `memtables` above them.
pub(super) fn reads(
    options: &Options,
    state: &ManifestState,
    memtables: Vec<Arc<MemTable>>,
    recovered: &RecoveredWrites,
    (read_buffer, memory): (Option<ReadBuffer>, MemoryBudget),
    snapshots: &Arc<SnapshotList>,
) -> Reads {
    Reads {
        view: PresentView::new(View::new(
            memtables,
            Arc::clone(&state.version),
            state.flushed_sequence,
            Room {
                arena_bytes: options.arena_bytes,
                max_arenas: options.max_arenas,
            },
        )),
        visible: AtomicU64::new(recovered.last_sequence),
        snapshots: Arc::clone(snapshots),
        pins: Pins::new(options.pinned_bytes()),
        sources: Sources::default(),
        read_buffer,
        memory,
        empty_stretches: EmptyStretches::default(),
    }
}

pub(super) fn compactor(options: &Options, state: &ManifestState) -> Compactor {
    Compactor {
        jobs: Jobs::default(),
        monitor: Monitor::default(),
        seen_tombstones: SeenTombstones::default(),
        level0_probes: Level0Probes::new(options.direct_io),
        passed_over: PassedOver::default(),
        next_sub_level: AtomicU64::new(state.next_sub_level),
    }
}

pub(super) fn metrics(
    options: &Options,
    mark: ForkMark,
    opening: Opening,
    recovered: &RecoveredWrites,
) -> Metrics {
    Metrics {
        events: EventLog::new(options.event_listener.clone(), opening, mark),
        compactions: CompactionHistory::default(),
        stalls: Stalls::default(),
        counters: Counters::default(),
        latencies: Latencies::default(),
        time_profile: Arc::new(TimeProfiler::default()),
        transactions: Arc::new(Transactions::new(options, mark)),
        recovery: recovered.report.clone(),
    }
}

/// Makes the owner of the data files. It issues no number of a table that is there, listed or not.
pub(super) fn files(
    path: &Path,
    options: &Options,
    (directory, data): (Arc<dyn Directory>, DataFiles),
    (storage, tiers): (Arc<CountingStorage>, FoundTiers),
    state: &ManifestState,
    unlisted: &Unlisted,
    memory: &MemoryBudget,
) -> Result<Files> {
    state.version.settle_levels();
    let space = SpaceBook::new(with_directories(&tiers.records, &data), &tiers.meters);
    let files = Files {
        migrations: Migrations::default(),
        heat: HeatBook::default(),
        moments: Mutex::new(state.moments.clone()),
        caches: Caches::new(Arc::clone(&space)),
        space,
        level_times: Arc::default(),
        tier_locks: Mutex::new(tiers.locks),
        path: path.to_path_buf(),
        file_system: directory.file_system()?,
        tables: open_tables(&data, options, memory)?,
        next_table: AtomicU64::new(state.next_table_number.max(unlisted.next_table_number)),
        obsolete: Arc::clone(state.version.obsolete()),
        deletions: Deletions::default(),
        reserve: Reserve::default(),
        visitors: Visitors::default(),
        directory,
        data,
        storage,
    };
    files.time_reads_of_levels();
    Ok(files)
}

/// Makes the lifecycle of an open store. No thread runs yet.
pub(super) fn lifecycle(
    options: &Options,
    clock: Arc<dyn Clock>,
    mark: ForkMark,
    opening: Opening,
    snapshots: &SnapshotList,
    ownership: Ownership,
    locks: Vec<Box<dyn Lock>>,
) -> Lifecycle {
    Lifecycle {
        mark,
        opening,
        opened_seconds: clock.unix_seconds(),
        clock,
        background: Background::new(options.background, options.compaction_threads),
        persist_timer: Timer::new("terrace-persist", Store::persist_if_behind),
        placement_timer: Timer::new("terrace-place", Store::look_at_placement),
        tombstone_timer: Timer::new("terrace-upkeep", Store::look_at_tables)
            .with_bell(Arc::clone(snapshots.bell())),
        poison: OnceLock::new(),
        untold_poison: AtomicBool::new(false),
        closed: AtomicBool::new(false),
        closing: AtomicBool::new(false),
        close_outcome: OrderedMutex::new(None),
        counted: Mutex::new(Some(Counted::new(mark))),
        attendant: Mutex::new(None),
        ownership,
        locks: Mutex::new(locks),
    }
}

/// Makes the owner of the durable state. `home` is the place of arenas, and its directory.
pub(super) fn manifest_log(
    options: &Options,
    opened: Opened,
    recovered: &RecoveredWrites,
    home: (ArenaHome, Arc<dyn Directory>),
    tiers: Vec<TierRecord>,
) -> ManifestLog {
    let (arena_home, arena_directory) = home;
    ManifestLog {
        ledger: OrderedMutex::new(Ledger {
            manifest: opened.manifest,
            state: opened.state,
            unused: Vec::new(),
            loss: recovered.report.region_loss,
            opening_bits: Some(options.randomness.u64()),
            tiers,
        }),
        arena_home,
        arena_directory,
    }
}

/// Returns tiers with their directories, where these are at hand.
fn with_directories(
    tiers: &[TierRecord],
    data: &DataFiles,
) -> Vec<(TierRecord, Option<Arc<dyn Directory>>)> {
    let tiers = tiers.iter();
    tiers
        .map(|tier| (tier.clone(), data.directory(tier.number).ok()))
        .collect()
}

fn open_tables(
    data: &DataFiles,
    options: &Options,
    memory: &MemoryBudget,
) -> Result<Arc<TableCache>> {
    let is_for_good = options.read_buffer.policy != ForwardPolicy::Resident;
    let blocks = Arc::new(memory.block_cache(options.direct_io, is_for_good));
    Ok(Arc::new(TableCache::new(
        data.clone(),
        OpenOptions {
            direct: options.direct_io,
            polled: options.poll_reads.unwrap_or(false),
            ..OpenOptions::buffered(OpenMode::Read)
        },
        TableLimit::of(options.max_open_tables).with_metadata_bytes(options.max_tables_bytes()),
        blocks,
    )?))
}

/// Returns the limits of a group. A larger one would make its first writer wait for no gain. They
/// are well below the size at which a group of small batches would need an arena of its own.
fn group_limits(options: &Options) -> GroupLimits {
    const MAX_GROUP_BYTES: u64 = 1 << 20;
    let records = options.arena_index_bytes() / MAX_ENTRY_BYTES / 4;
    GroupLimits {
        bytes: MAX_GROUP_BYTES.min(options.arena_bytes / 4) as usize,
        records: u32::try_from(records).unwrap_or(u32::MAX),
    }
}
