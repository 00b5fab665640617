//! The engine's parts for the crate `terrace-tools`, beyond the interface of an application.
//!
//! This module promises no stability: everything here may change with any release, together with
//! `terrace-tools`.
//!
//! - The directory of a store that no process has open: [`Ownership`], the names of [`files`], the
//!   home of its arenas ([`region_home`]), and tables that no edit lists ([`Unlisted`]).
//! - Its arenas: [`recover`] takes the writes that an opening takes, [`judge_leniently`] those up to the
//!   first damage, and [`RecoveredArena`] has them.
//! - New tables: [`TableFiles`] writes them.
//! - An open store: [`attend`] starts a service beside it, and [`PolicyMoment`] has all that its
//!   compaction policy goes by.
//! - The engine's arithmetic: [`slowdown`] and the conversions of options.
//! - The [`option_tables`], from which a reference is made.

use std::sync::Arc;

use terrace_lsm::compaction::policy::settings::PolicySettings;
use terrace_lsm::levels::{Domain, LiveArena, TableMeta};
use terrace_region::{Recovered, Region, Scan};

pub use crate::db::attendant::{Attendant, Attended, attend};
pub use crate::db::directory::open_if_there;
pub use crate::db::fork::mark;
pub use crate::db::jobs::Claimed;
pub use crate::db::keyspaces::MAX_KEYSPACE_NAME_BYTES;
pub use crate::db::ownership::{Ownership, with_socket};
pub use crate::db::policy_moment::{PolicyMoment, PolicyQuestion};
pub use crate::db::recover::{RecoveredWrites, check_live_keyspaces, lost_end, recover, unissued};
pub use crate::db::regions::{open_region, region_error};
pub use crate::db::table_files::{TableFiles, TableHome};
pub use crate::db::unlisted::{Unlisted, of_missing_arena};
pub use crate::db::unsupported_tables::stays;
pub use crate::db::wait_for_lock::wait_for_lock;
pub use crate::write_buffer::recovery::Plan;
pub use crate::write_buffer::slowdown::{Limits, Pressure, Slowdown, slowdown};

use crate::db::flush::write_memtable;
use crate::db::recover::{read_to_bad_records, take};
use crate::write_buffer::memtable::MemTable;
use crate::write_buffer::recovery::{ArenaFacts, LEAVES_NO_ROOM, frame_without_room, judge};
use crate::{Durability, Error, KeyspaceId, Options, Result, SequenceNumber};

/// The tiers of a store that no process has open.
pub mod tiers {
    use std::sync::Arc;

    use terrace_lsm::data_files::DataFiles;
    use terrace_lsm::levels::{ManifestState, TierRecord};
    use terrace_storage::{Directory, Lock, Storage};

    use crate::db::tiers::finding;
    use crate::{Options, Result};

    /// Tiers in use, and the locks on their directories.
    pub type Found = (Vec<TierRecord>, Vec<Box<dyn Lock>>);

    /// Finds and locks the tiers that a manifest lists, and those that the options name beside them. Adds
    /// their directories to `data`. Returns the tiers in use and the locks.
    ///
    /// # Errors
    /// As [`Db::open`](crate::Db::open).
    pub fn find(
        storage: &dyn Storage,
        store: &Arc<dyn Directory>,
        options: &Options,
        state: &ManifestState,
        data: &DataFiles,
    ) -> Result<Found> {
        let found = finding::settle(storage, store, options, state, data)?;
        let locks = found.locks.into_iter().map(|(_, lock)| lock);
        Ok((found.records, locks.collect()))
    }
}

/// The names of a store's files.
pub mod files {
    pub use crate::db::file_names::{
        DAMAGED, LOCK, NEW_SOCKET, SOCKET, is_arena, is_ours, leaves_room, new_table_number,
        table_number, used_table_number, without_damaged,
    };
}

/// The directory of a store's arenas, which may be one of their own.
pub mod region_home {
    pub use crate::db::region_home::{
        Given, Homes, NAME, OldArenas, given, lost, owner, restore, settle,
    };
}

/// The tables of a store's options. That of a keyspace's is in `terrace_lsm`.
pub mod option_tables {
    pub use crate::options::table::{DEFAULT_KEYSPACE, READ_BUFFER, STORE};
}

/// The contents of a slot of a region.
pub enum ReadArena {
    /// An arena, with its frames up to the first that holds no records of a store.
    Found(Arc<Recovered>),
    /// No arena, or one that cannot be used.
    Unreadable(Error),
    /// Nothing.
    Absent,
}

/// Reads a slot. Its file may have any length. `live` is the arena's entry in the manifest.
///
/// # Errors
/// Errors of reading the file.
pub fn read_arena(
    region: &Region,
    slot: u64,
    generation: u64,
    live: Option<&LiveArena>,
) -> Result<ReadArena> {
    use terrace_region::Error as Fault;
    match read_to_bad_records(region, slot, generation, live) {
        Ok(found) => {
            if let Some(offset) = frame_without_room(&found.scan) {
                let file = region.file(slot);
                let error = Error::corruption(&file, offset as u64, LEAVES_NO_ROOM);
                return Ok(ReadArena::Unreadable(error));
            }
            Ok(ReadArena::Found(Arc::new(found)))
        }
        Err(Fault::Missing { .. }) => Ok(ReadArena::Absent),
        Err(error @ (Fault::Corruption { .. } | Fault::Foreign { .. })) => {
            Ok(ReadArena::Unreadable(region_error(error)))
        }
        Err(error) => Err(region_error(error)),
    }
}

/// Judges arenas as an opening does, without the facts that forbid to go on: the plan takes the
/// writes up to the first damage. `None` if not even that can be decided.
pub fn judge_leniently(
    arenas: &[Arc<Recovered>],
    flushed_sequence: SequenceNumber,
) -> Option<Plan> {
    let facts: Vec<ArenaFacts> = arenas.iter().map(|arena| lenient(arena)).collect();
    judge(&facts, flushed_sequence, 0).ok()
}

/// Returns the facts, without those that forbid to go on.
fn lenient(found: &Recovered) -> ArenaFacts {
    ArenaFacts {
        same_boot: false,
        activated: true,
        scan: Scan {
            behind: None,
            search_complete: true,
            max_persisted_until: None,
            ..found.scan
        },
    }
}

/// Returns the writes of arenas that a plan takes.
pub fn taken_by(
    arenas: &[Arc<Recovered>],
    plan: &Plan,
    options: &Options,
    hash_seed: u64,
) -> RecoveredWrites {
    take(arenas, plan, options, hash_seed)
}

/// The writes that are taken of an arena, in memory.
pub struct RecoveredArena(Arc<MemTable>);

/// Loads the writes that are taken, oldest first.
///
/// # Errors
/// Errors of reading an arena.
pub fn load(recovered: &RecoveredWrites) -> Result<Vec<RecoveredArena>> {
    let loaded = recovered.load()?.into_iter();
    Ok(loaded.map(RecoveredArena).collect())
}

impl RecoveredArena {
    /// Checks every frame again.
    ///
    /// # Errors
    /// [`Error::Corruption`].
    pub fn verify(&self) -> Result<()> {
        self.0.arena().verify().map_err(region_error)
    }

    /// Returns the keyspaces of the writes.
    pub fn keyspaces(&self) -> impl Iterator<Item = KeyspaceId> {
        self.0.keyspaces().into_iter()
    }

    /// Writes a keyspace's versions to tables, under the drop rules of a flush.
    ///
    /// # Errors
    /// Errors of writing a table.
    pub fn write(
        &self,
        keyspace: KeyspaceId,
        snapshots: &[SequenceNumber],
        sink: &mut TableFiles<'_>,
    ) -> Result<Vec<TableMeta>> {
        write_memtable(&self.0, keyspace, snapshots, u64::MAX, sink)
    }
}

/// Refuses options that no store can work with.
///
/// # Errors
/// [`Error::InvalidArgument`], naming the option and the values that it
/// accepts.
pub fn check_options(options: &Options) -> Result<()> {
    options.check()
}

/// Returns the durability of a store whose manifest has a domain.
pub fn durability_of(domain: Domain) -> Durability {
    Durability::of(domain)
}

/// Returns the domain that the manifest of a new store has.
pub fn domain_of(durability: Durability, emulated: bool) -> Domain {
    durability.domain(emulated)
}

/// Returns the settings that the compaction policy goes by.
pub fn policy_settings(options: &Options) -> PolicySettings {
    options.policy_settings()
}

/// Returns the index budget that is sure to take this many records in an empty index.
pub fn index_bytes_for(records: u64) -> u64 {
    MemTable::index_bytes_for(records)
}
