//! Opening a store, top to bottom: directory, lock, manifest, region, recovery, and only then
//! writes. Closing it.
//!
//! What was in arenas goes to tables before the first new write: a recovered arena is never
//! appended to, and one edit installs the tables and retires every arena that was live, so that a
//! crash in between finds the state of before.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use terrace_region::Region;
use terrace_storage::{CountingStorage, ErrorKind, Lock, LockKind, Storage};

use crate::db::Store;
use crate::db::arenas::Arenas;
use crate::db::background::Background;
use crate::db::backlog::Backlog;
use crate::db::commit_queue::{CommitQueue, GroupLimits};
use crate::db::compact::policy;
use crate::db::deletions::Deletions;
use crate::db::events::EventLog;
use crate::db::files;
use crate::db::jobs::Jobs;
use crate::db::ledger::Ledger;
use crate::db::pins::Pins;
use crate::db::recover::{RecoveredWrites, check_evidence, recover};
use crate::db::region_home::{self, OldArenas};
use crate::db::snapshot::SnapshotList;
use crate::db::sources::Sources;
use crate::db::stalls::Stalls;
use crate::db::statistics::Counters;
use crate::db::view::{PresentView, View};
use crate::db::write::Writer;
use crate::levels::{
    ArenaHome, CleanClose, Edit, Identity, Manifest, ManifestOptions, ManifestState, load,
};
use crate::options::{Durability, Options};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::table::{BlockCache, TableCache, table_path};
use crate::write_buffer::index::MAX_ENTRY_BYTES;
use crate::write_buffer::memtable::MemTable;
use crate::{Error, Result};

impl Store {
    pub(crate) fn open(path: &Path, options: Options) -> Result<Arc<Store>> {
        options.check()?;
        let storage = Arc::new(CountingStorage::new(Arc::clone(&options.storage)));
        let exists = prepare_directory(&*storage, path, &options)?;
        let region_dir = region_home::given(&*storage, path, &options, exists)?;
        let lock = lock(&*storage, path, &options)?;
        let (manifest, state, torn_manifest) = open_manifest(&storage, path, &options, exists)?;
        let obsolete = Arc::clone(state.version.obsolete());

        let backlog = Backlog::of(&state.version, &options);

        let stored = Durability::of(state.identity.domain);
        let durability = options.durability.unwrap_or(stored);
        refuse_volatile_files(durability, &options)?;
        check_tables(&*storage, path, &state)?;
        let homes = region_home::settle(&*storage, path, region_dir, &options, &state)?;
        let (old_region, mut recovered) = recover_from(&storage, &homes.old, &options, &state)?;
        recovered.report.clean_close = state.clean_close.is_some() || !exists;
        recovered.report.torn_manifest = torn_manifest;
        let region = match old_region {
            Some(region)
                if durability.same_region_as(stored)
                    && homes.old == OldArenas::In(homes.directory.clone()) =>
            {
                region
            }
            _ => {
                let region = open_region(&storage, &homes.directory, &options, durability)?;
                check_evidence(&region, &state)?;
                region
            }
        };

        let store = Arc::new(Store {
            path: path.to_path_buf(),
            durability,
            file_system: storage.file_system(path)?,
            policy: policy(&options),
            hash_seed: state.identity.hash_seed,
            next_table: AtomicU64::new(state.next_table_number),
            tables: open_tables(&storage, path, &options)?,
            obsolete,
            view: PresentView::new(View {
                memtables: recovered.memtables.iter().rev().cloned().collect(),
                version: Arc::clone(&state.version),
            }),
            visible: AtomicU64::new(recovered.last_sequence),
            persisted: AtomicU64::new(state.persisted_until),
            snapshots: Arc::new(SnapshotList::default()),
            pins: Pins::new(options.pinned_bytes),
            sources: Sources::default(),
            queue: CommitQueue::new(group_limits(&options)),
            writer: Mutex::new(None),
            ledger: Mutex::new(Ledger {
                manifest,
                state,
                unused: Vec::new(),
                loss: recovered.report.region_loss,
            }),
            arenas: Mutex::new(Arenas::default()),
            background: Background::new(options.background, options.compaction_threads),
            jobs: Jobs::default(),
            events: EventLog::new(options.event_listener.clone()),
            persist_on_seal: AtomicBool::new(false),
            deletions: Deletions::default(),
            backlog,
            stalls: Stalls::default(),
            counters: Counters::default(),
            recovery: recovered.report.clone(),
            poison: OnceLock::new(),
            closed: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            close_outcome: Mutex::new(None),
            locks: Mutex::new(lock.into_iter().chain(homes.lock).collect()),
            arena_home: homes.new,
            arena_directory: homes.directory,
            region,
            storage,
            options,
        });
        if !store.options.read_only {
            // Before new tables: a table that was being written at the crash has the next number.
            store.remove_orphans()?;
            store.finish_recovery(recovered)?;
            store.begin_writing()?;
            if let Err(error) = store.background.start(&store) {
                // Threads that did start hold the store, and with it the lock.
                let _ = store.close();
                return Err(error);
            }
            store.background.spare_wanted(&store);
            store.background.compaction_wanted(&store);
        }
        Ok(store)
    }

    /// Moves what was recovered to tables and retires every arena that was live.
    fn finish_recovery(&self, recovered: RecoveredWrites) -> Result<()> {
        let retired: Vec<u64> = self
            .ledger
            .lock()
            .state
            .live_arenas
            .keys()
            .copied()
            .collect();
        let needed_bytes: u64 = recovered
            .memtables
            .iter()
            .map(|table| table.arena().capacity_bytes())
            .sum();
        self.flush_all(&recovered.memtables, retired, recovered.last_sequence)
            .map_err(|error| {
                if error.is_no_space() {
                    Error::NoSpace {
                        path: self.path.clone(),
                        needed_bytes,
                    }
                } else {
                    error
                }
            })?;
        for slot in self.region.slots().map_err(region_error)? {
            self.recycle(slot.number);
        }
        if matches!(self.arena_home, ArenaHome::Region { .. }) {
            self.remove_left_arenas()?;
        }
        Ok(())
    }

    /// Removes what the arenas left in the store's directory when they moved out of it.
    fn remove_left_arenas(&self) -> Result<()> {
        for entry in self.storage.list(&self.path)? {
            if files::is_arena(&entry.name) {
                self.storage.remove(&self.path.join(&entry.name))?;
            }
        }
        Ok(())
    }

    /// Removes what a crash left behind: tables that no edit installed.
    fn remove_orphans(&self) -> Result<()> {
        let version = Arc::clone(&self.view.load().version);
        let listed: BTreeSet<u64> = version.tables().map(|(_, table)| table.number).collect();
        for entry in self.storage.list(&self.path)? {
            if let Some(number) = files::table_number(&entry.name)
                && !listed.contains(&number)
            {
                self.storage.remove(&table_path(&self.path, number))?;
            }
        }
        Ok(())
    }

    /// Makes the first arena; from here on writes are accepted.
    fn begin_writing(&self) -> Result<()> {
        let slot = self.reserve(self.options.arena_bytes)?;
        let arena = self.new_arena(&mut self.ledger.lock(), slot)?;
        let active = Arc::new(MemTable::new(
            arena,
            self.options.arena_index_bytes,
            self.hash_seed,
        ));
        self.change_view(|view| view.memtables.insert(0, Arc::clone(&active)));
        *self.writer.lock() = Some(Writer::new(active, self.visible()));
        Ok(())
    }

    /// The owner's part of closing: no more writes, then what was written is made safe and the
    /// manifest says that nothing is missing.
    pub(crate) fn finish(&self) -> Result<()> {
        let writer = self.as_leader_to_close();
        self.stop_background();
        let Some(writer) = writer else { return Ok(()) };
        if let Some(cause) = self.poisoned() {
            return Err(cause);
        }
        let view = self.view.load_full();
        let oldest_first: Vec<_> = view.memtables.iter().rev().cloned().collect();
        if self.region.description().can_persist {
            for table in &oldest_first {
                table
                    .arena()
                    .persist()
                    .map_err(|error| self.persist_failed(error))?;
            }
            self.persisted
                .store(writer.last_sequence, Ordering::Release);
        } else {
            let retired = oldest_first
                .iter()
                .map(|table| table.arena().generation())
                .collect();
            self.flush_all(&oldest_first, retired, writer.last_sequence)?;
        }
        let clean_close = Some(CleanClose {
            last_sequence: writer.last_sequence,
        });
        self.record(
            &mut self.ledger.lock(),
            Edit {
                clean_close,
                ..Edit::default()
            },
        )
    }

    /// What a failed persist of an arena means: nothing may be written on top of it.
    pub(crate) fn persist_failed(&self, error: terrace_region::Error) -> Error {
        let poisons = matches!(error, terrace_region::Error::PersistFailed(_));
        let error = region_error(error);
        if poisons { self.poison(error) } else { error }
    }
}

/// Refuses a directory that holds somebody else's files; makes one where that is wanted. Whether a
/// store is there.
fn prepare_directory(storage: &dyn Storage, path: &Path, options: &Options) -> Result<bool> {
    let no_store = |detail: &str| {
        Err(Error::NoStore {
            path: path.to_path_buf(),
            detail: detail.to_owned(),
        })
    };
    let creates = options.create_if_missing && !options.read_only;
    let entries = match storage.list(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if !creates {
                return no_store("there is no such directory");
            }
            storage.create_directory(path)?;
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    };
    let exists = entries.iter().any(|entry| entry.name == "CURRENT");
    let foreign = entries.iter().find(|entry| !files::is_ours(&entry.name));
    match (exists, foreign) {
        (true, _) if options.error_if_exists => Err(Error::invalid(format!(
            "{} holds a store already, and error_if_exists is set",
            path.display()
        ))),
        (true, _) => Ok(true),
        (false, Some(entry)) => Err(Error::NoStore {
            path: path.to_path_buf(),
            detail: format!(
                "it holds {:?}, which is not a store's; name an empty or a new directory",
                entry.name
            ),
        }),
        (false, None) if holds_writes(&entries) => Err(Error::corruption(
            &path.join("CURRENT"),
            0,
            "the file is missing, but tables or arenas of a store are there",
        )),
        (false, None) if !creates => no_store("the directory is empty"),
        (false, None) => Ok(false),
    }
}

/// Tables and arenas exist only after the manifest that names them: without `CURRENT` they are not
/// the remains of a creation that was cut short.
fn holds_writes(entries: &[terrace_storage::DirectoryEntry]) -> bool {
    entries
        .iter()
        .any(|entry| files::table_number(&entry.name).is_some() || entry.name.starts_with("arena-"))
}

/// Fails if a listed table is missing: what lies beside it unlisted may then be the only copy of
/// its entries, and must not be removed as an orphan.
fn check_tables(storage: &dyn Storage, path: &Path, state: &ManifestState) -> Result<()> {
    let entries = storage.list(path)?;
    let numbers = entries
        .iter()
        .filter_map(|entry| files::table_number(&entry.name));
    let present: BTreeSet<u64> = numbers.collect();
    let missing = state
        .version
        .tables()
        .find(|(_, table)| !present.contains(&table.number));
    missing.map_or(Ok(()), |(_, table)| {
        let file = table_path(path, table.number);
        Err(Error::corruption(
            &file,
            0,
            "the manifest lists the table, but the file is missing",
        ))
    })
}

/// The lock of the opening. `None` for a reader where no file is there to be locked (a copy that
/// left it out): nobody owns the store, and a reader writes nothing. Should an owner start
/// meanwhile, the reader's reads fail as soon as tables that it lists are gone.
fn lock(storage: &dyn Storage, path: &Path, options: &Options) -> Result<Option<Box<dyn Lock>>> {
    let kind = if options.read_only {
        LockKind::Shared
    } else {
        LockKind::Exclusive
    };
    match storage.lock(&path.join(files::LOCK), kind) {
        Ok(lock) => Ok(Some(lock)),
        Err(error) => match error.kind() {
            ErrorKind::NotFound if options.read_only => Ok(None),
            ErrorKind::Locked => Err(Error::Busy {
                path: path.to_path_buf(),
            }),
            _ => Err(error.into()),
        },
    }
}

/// The manifest of an existing store, or of a new one; its state; whether its end was torn.
fn open_manifest(
    storage: &Arc<CountingStorage>,
    path: &Path,
    options: &Options,
    exists: bool,
) -> Result<(Option<Manifest>, ManifestState, bool)> {
    let manifest_options = ManifestOptions {
        rewrite_above_bytes: options.manifest_bytes,
    };
    let storage: Arc<dyn Storage> = Arc::clone(storage) as Arc<dyn Storage>;
    if options.read_only {
        let loaded = load(&*storage, path)?;
        let torn = loaded.torn_tail.is_some();
        return Ok((None, loaded.state, torn));
    }
    if exists {
        let (manifest, state) = Manifest::open(storage, path, manifest_options)?;
        let torn = manifest.torn_tail().is_some();
        return Ok((Some(manifest), state, torn));
    }
    let identity = Identity {
        store_id: rand::random(),
        hash_seed: rand::random(),
        domain: options
            .durability
            .unwrap_or(Durability::CrashSafe)
            .domain(options.emulate_power_safety),
    };
    let (manifest, state) = Manifest::create(storage, path, identity, manifest_options)?;
    Ok((Some(manifest), state, false))
}

/// There is no directory in which memory could live.
fn refuse_volatile_files(durability: Durability, options: &Options) -> Result<()> {
    if durability == Durability::Volatile && options.region_dir.is_some() {
        return Err(Error::invalid(
            "the store is Volatile, its arenas are in memory; leave region_dir unset",
        ));
    }
    Ok(())
}

/// The region that holds the arenas the manifest names, if one does, and what was in it.
fn recover_from(
    storage: &Arc<CountingStorage>,
    old: &OldArenas,
    options: &Options,
    state: &ManifestState,
) -> Result<(Option<Region>, RecoveredWrites)> {
    match old {
        OldArenas::In(directory) => {
            let stored = Durability::of(state.identity.domain);
            let region = open_region(storage, directory, options, stored)?;
            check_evidence(&region, state)?;
            let recovered = recover(&region, state, options)?;
            Ok((Some(region), recovered))
        }
        OldArenas::NotNeeded => Ok((None, RecoveredWrites::none(state.flushed_sequence))),
        OldArenas::Lost => Ok((None, RecoveredWrites::lost(state))),
    }
}

fn open_region(
    storage: &Arc<CountingStorage>,
    directory: &Path,
    options: &Options,
    durability: Durability,
) -> Result<Region> {
    let region = match (&options.region, durability) {
        (Some(source), _) => source
            .open()
            .and_then(|device| Region::open(device, options.arena_bytes)),
        (None, Durability::Volatile) => Region::volatile(options.arena_bytes),
        (None, _) => {
            let storage = Arc::clone(storage) as Arc<dyn Storage>;
            options.persist_method.open(
                storage,
                directory,
                options.arena_bytes,
                options.emulate_power_safety,
            )
        }
    };
    let region = region.map_err(region_error)?;
    let description = region.description();
    if durability == Durability::PowerSafe && !description.can_persist {
        return Err(Error::invalid(format!(
            "{} cannot keep a PowerSafe store: nothing on it survives a power cut; put the store \
             on a disk, or open it as CrashSafe",
            description.medium
        )));
    }
    Ok(region)
}

fn open_tables(
    storage: &Arc<CountingStorage>,
    path: &Path,
    options: &Options,
) -> Result<Arc<TableCache>> {
    let blocks = Arc::new(BlockCache::new(options.block_cache_bytes));
    let storage = Arc::clone(storage) as Arc<dyn Storage>;
    Ok(Arc::new(TableCache::new(
        storage,
        path.to_path_buf(),
        options.max_open_tables,
        blocks,
    )?))
}

/// A region's error in the engine's terms.
pub(crate) fn region_error(error: terrace_region::Error) -> Error {
    use terrace_region::Error as Region;
    match error {
        Region::Io(error) => error.into(),
        Region::PersistFailed(error) => Error::Io(error),
        Region::Corruption {
            file,
            offset,
            reason,
        } => Error::corruption(&file, offset, reason),
        Region::ManifestOlder {
            file,
            expected,
            found,
        } => Error::corruption(
            &file,
            0,
            format!(
                "its generation is {found}, the manifest knows none above {expected}: the \
                     manifest has lost its end"
            ),
        ),
        Region::UnknownVersion { file, version } => {
            Error::unsupported(&file, format!("arena format version {version}"))
        }
        Region::Missing { file, .. } => Error::RegionLost {
            path: file,
            last_durable_sequence: 0,
            last_promised_sequence: 0,
        },
        error => Error::invalid(error.to_string()),
    }
}

/// A group stops growing where a larger one would make its first writer wait for no gain, and well
/// before a group of small batches would need an arena of its own.
fn group_limits(options: &Options) -> GroupLimits {
    const MAX_GROUP_BYTES: u64 = 1 << 20;
    let records = options.arena_index_bytes / MAX_ENTRY_BYTES / 4;
    GroupLimits {
        bytes: MAX_GROUP_BYTES.min(options.arena_bytes / 4) as usize,
        records: u32::try_from(records).unwrap_or(u32::MAX),
    }
}
