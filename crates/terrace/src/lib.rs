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
//! db.put(b"key", b"value")?;
//! assert_eq!(db.get(b"key")?.as_deref(), Some(&b"value"[..]));
//! # Ok::<(), terrace::Error>(())
//! ```
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

mod block_value;
mod coding;
mod compaction;
mod cursor;
mod db;
mod error;
mod event;
pub mod explain;
#[cfg(test)]
mod golden;
mod guard;
pub mod inspect;

#[doc(hidden)]
pub mod internal;
mod key;
mod key_prefixes;
mod keyspace_options;
mod levels;
mod made_once;
mod open_files;
mod opening;
mod options;
mod parallel;
mod peaks;
mod persist_method;
mod randomness;
mod range_tombstones;
mod read_buffer;
mod region_loss;
mod repair;
mod serial;
pub mod simulate;
mod stall_cause;
mod sync;
mod table;
mod things;
mod thread_start;
mod time_profile;
mod toml_text;
mod write_buffer;

pub use compaction::oldest_snapshot::OldestSnapshot;
pub use compaction::policy::settings::CompactionPolicy;
pub use db::compaction_history::{Compaction, CompactionKind};
pub use db::handle::Db;
pub use db::ingest::Ingestion;
pub use db::iterator::{DbIterator, Entries, IterOptions};
pub use db::jobs::under_way::MergeUnderWay;
pub use db::keyspace::Keyspace;
pub use db::latencies::{Distribution, LatencyStatistics};
pub use db::monitor::LevelDuplicates;
pub use db::read::ReadOptions;
pub use db::recover::Recovery;
pub use db::snapshot::Snapshot;
pub use db::statistics::{
    ArenaStatistics, KeyspaceReport, LevelStatistics, LevelsReport, MemoryStatistics, Sequences,
    Statistics, SubLevelReport, TableReport, WriteRateStatistics,
};
pub use db::value::Value;
pub use db::write::WriteOptions;
pub use error::{Error, Result};
pub use event::{Event, EventKind, EventListener};
pub use key::{KeyspaceId, SequenceNumber};
pub use keyspace_options::KeyspaceOptions;
pub use levels::ManifestTail;
pub use options::{
    Background, Durability, FileAccess, ForwardPolicy, Options, PersistMethod, ReadBufferOptions,
    ReadBufferStructure, RegionSource,
};
pub use read_buffer::ReadBufferStatistics;
pub use region_loss::RegionLoss;
pub use repair::{
    DamagedTable, LeftFile, ManifestRepair, RepairOptions, RepairReport, repair, repair_with,
};
pub use stall_cause::StallCause;
pub use table::Compression;
pub use terrace_storage::{Escaped, IoCounts, IoStatistics, NoThread, Purpose};
pub use time_profile::{PathProfile, StageProfile, TimeProfile};
pub use write_buffer::batch::WriteBatch;

/// The README's program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
