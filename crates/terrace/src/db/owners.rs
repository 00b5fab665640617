//! The owners of a store's state: each has the fields and locks of one task.
//!
//! The type of a lock names its place in the order of locks (`lock_order.rs`). Readers wait for none
//! of those locks. They only try `writer`. An event listener runs without them. One exception: a leader
//! tells of a stop, or of tables removed on a full disk, while it holds `writer`. The listener may not wait
//! there.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use terrace_lsm::data_files::DataFiles;
use terrace_lsm::levels::{ArenaHome, Moments, ObsoleteTables};
use terrace_lsm::sync::Mutex;
use terrace_lsm::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_lsm::table::TableCache;
use terrace_lsm::time_profile::TimeProfiler;
use terrace_region::Region;
use terrace_storage::{Clock, CountingStorage, Directory, FileSystem, ForkMark, Lock};

use crate::db::arenas::Arenas;
use crate::db::attendant::Attendant;
use crate::db::background::Background;
use crate::db::backlog::Backlog;
use crate::db::commit_queue::CommitQueue;
use crate::db::compaction_history::CompactionHistory;
use crate::db::deletions::Deletions;
use crate::db::empty_stretch::EmptyStretches;
use crate::db::events::EventLog;
use crate::db::fork::Counted;
use crate::db::jobs::Jobs;
use crate::db::latencies::Latencies;
use crate::db::ledger::Ledger;
use crate::db::level0_probes::Level0Probes;
use crate::db::lock_order::{OrderedMutex, place};
use crate::db::memory_budget::MemoryBudget;
use crate::db::monitor::Monitor;
use crate::db::ownership::Ownership;
use crate::db::passed_over::PassedOver;
use crate::db::persist_timer::Timer;
use crate::db::pins::Pins;
use crate::db::recover::Recovery;
use crate::db::reserve::Reserve;
use crate::db::snapshot::SnapshotList;
use crate::db::sources::Sources;
use crate::db::stalls::Stalls;
use crate::db::statistics::Counters;
use crate::db::tiers::cache::Caches;
use crate::db::tiers::heat::HeatBook;
use crate::db::tiers::level_times::LevelTimes;
use crate::db::tiers::migration::Migrations;
use crate::db::tiers::space::SpaceBook;
use crate::db::tombstones::SeenTombstones;
use crate::db::transactions::Transactions;
use crate::db::view::PresentView;
use crate::db::visitors::Visitors;
use crate::db::write::Writer;
use crate::opening::Opening;
use crate::options::Durability;
use crate::read_buffer::ReadBuffer;
use crate::{Error, Result, SequenceNumber};

/// The way of a write into an arena, up to its acknowledgement.
pub(crate) struct Writes {
    pub(crate) queue: CommitQueue,
    /// `None` if the store is read-only, or closed.
    pub(crate) writer: OrderedMutex<{ place::WRITER }, Option<Writer>>,
    pub(crate) durability: Durability,
    pub(crate) hash_seed: u64,
    pub(crate) region: Region,
    pub(crate) arenas: OrderedMutex<{ place::ARENAS }, Arenas>,
    pub(crate) backlog: Backlog,
    /// Every write up to this number survives a power cut.
    pub(crate) persisted: AtomicU64,
    /// Whether persistence was asked for once: sealed arenas are persisted before they are needed.
    pub(crate) persist_on_seal: AtomicBool,
    /// The number of the youngest range in an arena for which a table was removed, or was to be.
    pub(crate) removed_for: AtomicU64,
}

/// The contents that readers see, and the memory that they use.
pub(crate) struct Reads {
    pub(crate) view: PresentView,
    /// The highest number that readers may see.
    pub(crate) visible: AtomicU64,
    pub(crate) snapshots: Arc<SnapshotList>,
    pub(crate) pins: Pins,
    pub(crate) sources: Sources,
    /// `None` if it is off.
    pub(crate) read_buffer: Option<ReadBuffer>,
    pub(crate) memory: MemoryBudget,
    pub(crate) empty_stretches: EmptyStretches,
}

impl Reads {
    /// Shows readers all writes up to a number. Their records can be found already.
    #[inline]
    pub(crate) fn show(&self, sequence: SequenceNumber) {
        debug_assert!(
            self.visible.load(Ordering::Relaxed) <= sequence,
            "the visible number goes back to {sequence}"
        );
        self.visible.store(sequence, Ordering::Release);
    }
}

/// The choice of compactions, and those that run.
pub(crate) struct Compactor {
    pub(crate) jobs: Jobs,
    pub(crate) monitor: Monitor,
    pub(crate) seen_tombstones: SeenTombstones,
    pub(crate) level0_probes: Level0Probes,
    pub(crate) passed_over: PassedOver,
    /// The name of the next sub-level. A flush or a compaction that fails loses the name it was given.
    pub(crate) next_sub_level: AtomicU64,
}

/// The counts and the history that statistics show.
pub(crate) struct Metrics {
    pub(crate) events: EventLog,
    pub(crate) compactions: CompactionHistory,
    pub(crate) stalls: Stalls,
    pub(crate) counters: Counters,
    pub(crate) latencies: Latencies,
    pub(crate) time_profile: Arc<TimeProfiler>,
    pub(crate) transactions: Arc<Transactions>,
    pub(crate) recovery: Recovery,
}

/// The durable state, and the place of the arenas that it names.
pub(crate) struct ManifestLog {
    pub(crate) ledger: OrderedMutex<{ place::LEDGER }, Ledger>,
    pub(crate) arena_home: ArenaHome,
    pub(crate) arena_directory: Arc<dyn Directory>,
}

/// The data files, and the space that they take.
pub(crate) struct Files {
    /// The place of the directory when it was opened: for messages only.
    pub(crate) path: PathBuf,
    /// The store's directory, open: all but tables and arenas is reached through it.
    pub(crate) directory: Arc<dyn Directory>,
    /// The places of tables.
    pub(crate) data: DataFiles,
    pub(crate) migrations: Migrations,
    /// The reads of tables of late.
    pub(crate) heat: HeatBook,
    /// The times at which sequence numbers had been given.
    pub(crate) moments: Mutex<Moments>,
    /// The locks on the directories of tiers, by number.
    pub(crate) tier_locks: Mutex<Vec<(u8, Box<dyn Lock>)>>,
    /// The books of the tiers.
    pub(crate) space: Arc<SpaceBook>,
    /// The times of operations by level.
    pub(crate) level_times: Arc<LevelTimes>,
    /// The caches of tiers for blocks of slower ones.
    pub(crate) caches: Arc<Caches>,
    pub(crate) file_system: FileSystem,
    pub(crate) storage: Arc<CountingStorage>,
    pub(crate) tables: Arc<TableCache>,
    pub(crate) next_table: AtomicU64,
    pub(crate) obsolete: Arc<ObsoleteTables>,
    pub(crate) deletions: Deletions,
    pub(crate) reserve: Reserve,
    pub(crate) visitors: Visitors,
}

/// The time from the opening to the close: ownership, threads, and the reason to refuse.
pub(crate) struct Lifecycle {
    /// The process that opened the store.
    pub(crate) mark: ForkMark,
    /// Tells the handles of this opening from those of others.
    pub(crate) opening: Opening,
    pub(crate) clock: Arc<dyn Clock>,
    /// Seconds since 1970.
    pub(crate) opened_seconds: u64,
    pub(crate) background: Background,
    pub(crate) persist_timer: Timer,
    pub(crate) tombstone_timer: Timer,
    pub(crate) placement_timer: Timer,
    pub(crate) poison: OnceLock<Error>,
    /// Whether subscribers still have to hear of the poison.
    pub(crate) untold_poison: AtomicBool,
    pub(crate) closed: AtomicBool,
    /// Tells running compactions to give up.
    pub(crate) closing: AtomicBool,
    pub(crate) close_outcome: OrderedMutex<{ place::CLOSE }, Option<Result<()>>>,
    /// Until it is closed.
    pub(crate) counted: Mutex<Option<Counted>>,
    /// Answers questions about the store, if the opening was given one.
    pub(crate) attendant: Mutex<Option<Box<dyn Attendant>>>,
    pub(crate) ownership: Ownership,
    /// A reader's lock on the manifest, and the lock on the region directory; held until the store
    /// is dropped, or closed.
    pub(crate) locks: Mutex<Vec<Box<dyn Lock>>>,
}
