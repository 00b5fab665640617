//! Terrace: an ordered key-value store that puts every byte on the memory or device that suits it.
//!
//! New writes go straight into arenas that survive a crash; there is no log beside them. Full
//! arenas become sorted tables, which compaction keeps few and small. [`Db`] is the way in;
//! ARCHITECTURE.md in the repository follows a write and a read through the files.
//!
//! ```
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("store");
//! let db = terrace::Db::open(&path, terrace::Options::default())?;
//! db.put("key", "value")?;
//! assert_eq!(db.get("key")?.unwrap(), "value");
//! # Ok::<(), terrace::Error>(())
//! ```
//!
//! # Features
//!
//! | feature | on by default | purpose |
//! |---|---|---|
//! | `zstd`, `lz4` | yes | compression of tables; without it such tables and options are refused by name |
//! | `io-uring` | yes | reads that wait on the processor; without it threads sleep until a device answers |
//! | `tracing` | yes | events for programs that collect them; listeners get them in any case |
//! | `serde` | no | `Options::from_toml`, reports as JSON |
//! | `typed` | no | `Keyspace::typed`: keys and values of a program's own types |
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod db;
mod event;
#[doc(hidden)]
pub mod internal;
mod memory;
pub mod offline;
mod opening;
mod options;
mod parallel;
mod persist_method;
mod randomness;
mod read_buffer;
mod stall_cause;
mod thread_start;
mod transaction;
#[cfg(feature = "typed")]
mod typed;
mod write_buffer;

pub use db::compaction_history::{Compaction, CompactionKind};
pub use db::entries::Entries;
#[doc(hidden)]
pub use db::entries::Moves;
pub use db::handle::Db;
pub use db::ingest::Ingestion;
pub use db::iterator::{DbIterator, IterOptions};
pub use db::jobs::under_way::MergeUnderWay;
pub use db::key_range::{KeyRange, prefix_range};
pub use db::keyspace::Keyspace;
pub use db::latencies::{Distribution, LatencyStatistics};
pub use db::monitor::LevelDuplicates;
pub use db::read::ReadOptions;
pub use db::recover::Recovery;
pub use db::snapshot::Snapshot;
pub use db::statistics::{
    ArenaStatistics, KeyspaceReport, LevelStatistics, LevelsReport, MemoryStatistics, Sequences,
    Statistics, SubLevelReport, TableReport, TransactionStatistics, WriteRateStatistics,
};
pub use db::tiers::cache::TierCacheStatistics;
pub use db::tiers::explanation::PlacedTable;
pub use db::tiers::level_times::LevelLatencies;
pub use db::tiers::meters::TierLatencies;
pub use db::tiers::report::TierStatistics;
pub use db::value::Value;
pub use db::verify::{Problem, VerifyReport};
pub use db::write::WriteOptions;
pub use event::{Event, EventKind, EventListener};
pub use options::{
    Background, Durability, FileAccess, ForwardPolicy, Options, PersistMethod, ReadBufferOptions,
    RegionSource, TierOptions,
};
#[doc(hidden)]
pub use options::{Constants, ReadBufferStructure};
pub use read_buffer::ReadBufferStatistics;
pub use stall_cause::StallCause;
pub use terrace_lsm::compaction::oldest_snapshot::OldestSnapshot;
pub use terrace_lsm::compaction::policy::settings::CompactionPolicy;
pub use terrace_lsm::error::{Error, MissingTier, Result};
pub use terrace_lsm::key::{KeyspaceId, SequenceNumber};
pub use terrace_lsm::keyspace_options::{KeyspaceOptions, Placement};
pub use terrace_lsm::levels::ManifestTail;
pub use terrace_lsm::region_loss::RegionLoss;
pub use terrace_lsm::table::Compression;
pub use terrace_lsm::time_profile::{PathProfile, StageProfile, TimeProfile};
/// Places of arenas; the trait [`Device`](terrace_region::Device) is that of [`RegionSource`].
pub use terrace_region;
/// Places of files; the trait [`Storage`](terrace_storage::Storage) is that of [`Options::storage`].
pub use terrace_storage;
pub use terrace_storage::{DeviceProfile, Escaped, IoCounts, IoStatistics, NoThread, Purpose};
pub use transaction::{
    Isolation, Savepoint, Transaction, TransactionIterator, TransactionOptions, Unchanged,
};
#[cfg(feature = "typed")]
pub use typed::{DecodeKey, EncodeKey, Typed, TypedEntries};
pub use write_buffer::batch::WriteBatch;

/// The README's program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
