//! Opening a store, top to bottom: directory, lock, manifest, region, recovery, and only then
//! writes.
//!
//! The writes in arenas go to tables before the first new one (`recovered_arenas.rs`).

mod owners;

use std::path::Path;
use std::sync::Arc;

use terrace_lsm::data_files::{DataFiles, OWN_TIER};
use terrace_lsm::guard::catch;
use terrace_lsm::levels::{
    ArenaHome, Identity, Manifest, ManifestOptions, ManifestState, ManifestTail, load, lock_current,
};
use terrace_lsm::time_profile::timed;
use terrace_region::Region;
use terrace_storage::{Clock, CountingStorage, Directory, Lock, LockKind, Storage};

use crate::db::backlog::Backlog;
use crate::db::events::trace;
use crate::db::memory_budget::MemoryBudget;
use crate::db::owners::Files;
use crate::db::ownership::{Ownership, with_socket};
use crate::db::persist_timer::Timer;
use crate::db::recover::{RecoveredWrites, check_evidence};
use crate::db::region_home::{self, Given, Homes};
use crate::db::regions::{open_region, recover_from, refuse_volatile_files};
use crate::db::snapshot::SnapshotList;
use crate::db::sparing_storage::spared;
use crate::db::tiers::finding::{self, FoundTiers};
use crate::db::tiers::meters::TierMeters;
use crate::db::tombstones::pause_between_looks;
use crate::db::unlisted::{Unlisted, of_missing_arena};
use crate::db::wait_for_lock::wait_for_lock;
use crate::db::write::Writer;
use crate::db::write_rate::WriteRate;
use crate::db::{Store, directory, fork};
use crate::opening::Opening;
use crate::options::{self, Durability, Options};
use crate::read_buffer::{self, ReadBuffer};
use crate::write_buffer::arena_size::first_arena_bytes;
use crate::write_buffer::memtable::MemTable;
use crate::{Error, Result};

impl Store {
    /// Opens a store. `clock` is for the wait for a lock, the limit on background writes and the
    /// ages of tombstones.
    pub(crate) fn open(path: &Path, options: Options, clock: Arc<dyn Clock>) -> Result<Arc<Store>> {
        // The threads that share the work of an opening have no other answer to a panic either.
        catch("open", || {
            wait_for_lock(options.wait_for_lock, &*clock, |refused| {
                let (options, clock) = (options.clone(), Arc::clone(&clock));
                Store::open_unguarded(path, options, clock, refused > 0)
            })
        })
    }

    fn open_unguarded(
        path: &Path,
        options: Options,
        clock: Arc<dyn Clock>,
        has_waited: bool,
    ) -> Result<Arc<Store>> {
        options.check()?;
        let options = options.resolved()?;
        let mark = fork::mark(path)?;
        let write_rate = WriteRate::of(&options, Arc::clone(&clock));
        let medium = medium(&options, write_rate.as_ref());
        let storage = Arc::new(CountingStorage::new(medium).owned_by(mark));
        let (directory, exists) = directory::prepare(&*storage, path, &options, has_waited)?;
        let region_dir = region_home::given(&*storage, &*directory, &options, exists)?;
        let ownership = match options.read_only {
            true => Ownership::share(&directory)?,
            false => Ownership::take(&directory)?,
        };
        // Another process may have made the store before this one got the lock.
        let exists = exists || directory::has_been_made(&*directory, &options)?;
        fork::check_threads(&options)?;
        let mut opened = open_manifest(&directory, &options, exists)
            .map_err(|error| with_socket(&*directory, error))?;
        let backlog = Backlog::of(&opened.state.version, &options, write_rate);
        let Found {
            durability,
            home,
            locks,
            recovered,
            unlisted,
            region,
            data,
            tiers,
        } = find(
            &storage,
            &directory,
            region_dir,
            &options,
            &mut opened,
            exists,
        )?;

        let state = &opened.state;
        // A new owner has no reader for the writes in arenas until they are in tables.
        let memtables = match options.read_only {
            true => readable(&recovered, state)?,
            false => Vec::new(),
        };
        let buffer = read_buffer(&options, state.identity.hash_seed);
        let memory = MemoryBudget::of(&options, buffer.as_ref());
        let opening = Opening::new();
        let snapshots = Arc::new(SnapshotList::new(mark));
        let changed = tiers.changed.clone();
        let files = owners::files(
            path,
            &options,
            (directory, data),
            (storage, tiers),
            state,
            &unlisted,
            &memory,
        )?;
        let memory = (buffer, memory);
        let store = Arc::new(Store {
            default_form: options.default_keyspace.clone(),
            writes: owners::writes(&options, mark, state, durability, region, backlog),
            reads: owners::reads(&options, state, memtables, &recovered, memory, &snapshots),
            compactor: owners::compactor(&options, state),
            metrics: owners::metrics(&options, mark, opening, &recovered),
            files,
            lifecycle: owners::lifecycle(
                &options, clock, mark, opening, &snapshots, ownership, locks,
            ),
            manifest_log: owners::manifest_log(&options, opened, &recovered, home, changed),
            options,
        });
        trace::opened(path, durability, &store.metrics.recovery);
        store.take_up_files(recovered, &unlisted)?;
        Ok(store)
    }

    /// Takes up the work on the files of an opening. A reader counts them alone.
    fn take_up_files(
        self: &Arc<Self>,
        recovered: RecoveredWrites,
        unlisted: &Unlisted,
    ) -> Result<()> {
        self.weigh_blocks(&self.reads.view.load().version);
        if self.options.read_only {
            return self.take_up_tiers();
        }
        self.prepare_for_writes();
        self.become_writable(recovered, unlisted)?;
        self.start_threads()
    }

    /// Puts the finds of an opening at their places in files, and makes the first arena.
    fn become_writable(&self, recovered: RecoveredWrites, unlisted: &Unlisted) -> Result<()> {
        self.find_reserve()?;
        self.check_persist_every()?;
        // Before the manifest is written, which will show no dropped end any more.
        unlisted.keep(&self.files.data)?;
        // Before new tables: a table that was being written at the crash has the next number.
        self.remove_orphans()?;
        self.take_up_tiers()?;
        let recovered_bytes = recovered.bytes();
        let first_bytes = first_arena_bytes(recovered_bytes, self.options.arena_bytes);
        // Slots that have become too small go at the place that frees the others.
        self.writes.region.keep_from(first_bytes);
        self.guard("recovery", || self.finish_recovery(recovered))?;
        let first_bytes = self.affordable_first(first_bytes)?;
        self.guard("recovery", || self.begin_writing(first_bytes))
    }

    /// Starts the threads, and wakes each worker. Closes the store if one cannot start.
    fn start_threads(self: &Arc<Self>) -> Result<()> {
        let started = self.guard("start threads", || {
            self.lifecycle.background.start(self)?;
            self.files.caches.start()?;
            if self.files.space.is_limited() {
                self.start_placement()?;
            }
            self.start_timers()
        });
        if let Err(error) = started {
            // Threads that did start hold the store, and with it the lock.
            let _ = self.close();
            return Err(error);
        }
        self.lifecycle.background.spare_wanted(self);
        self.lifecycle.background.flush_wanted(self);
        self.lifecycle.background.compaction_wanted(self);
        self.lifecycle.background.deletion_wanted(self);
        self.lifecycle.background.migration_wanted(self);
        Ok(())
    }

    fn start_timers(self: &Arc<Self>) -> Result<()> {
        if let Some(interval) = self.options.persist_every {
            Timer::start(self, |store| &store.lifecycle.persist_timer, interval)?;
        }
        match self.options.background {
            options::Background::Threads => {
                let pause = pause_between_looks(&self.options);
                Timer::start(self, |store| &store.lifecycle.tombstone_timer, pause)
            }
            _ => Ok(()),
        }
    }

    /// Makes the first arena; from here on writes are accepted. On a full disk tables that ranges hide may
    /// make its room.
    fn begin_writing(&self, first_bytes: u64) -> Result<()> {
        let begin =
            || self.of_a_size_that_fits(first_bytes, 0, |bytes| self.make_first_arena(bytes));
        match begin() {
            Err(error)
                if error.is_no_space()
                    && self.remove_all_hidden_tables().is_ok_and(|removed| removed) =>
            {
                begin()
            }
            begun => begun,
        }
    }

    fn make_first_arena(&self, first_bytes: u64) -> Result<()> {
        let slot = self.reserve(first_bytes)?;
        // Its edit may need a new manifest.
        let arena = self
            .new_arena(&mut self.manifest_log.ledger.lock(), slot)
            .map_err(|error| self.files.name_need(error, first_bytes))?;
        let active = Arc::new(MemTable::new(
            arena,
            self.options.arena_index_bytes(),
            self.writes.hash_seed,
        ));
        let view = self.reads.view.load();
        // The store promised no writes in arenas that nothing can persist.
        let persisted = match view.memtables.is_empty() || self.check_can_persist().is_ok() {
            true => self.reads.visible(),
            false => view.flushed_sequence,
        };
        drop(view);
        self.change_view(|view| view.memtables.insert(0, Arc::clone(&active)));
        *self.writes.writer.lock() = Some(Writer::new(active, self.reads.visible(), persisted));
        Ok(())
    }
}

impl Files {
    /// Adds the space that an opening needs to an error that there is none.
    pub(crate) fn name_need(&self, error: Error, needed_bytes: u64) -> Error {
        if !error.is_no_space() {
            return error;
        }
        Error::NoSpace {
            path: self.path.clone(),
            needed_bytes,
        }
    }
}

/// Returns the caller's storage with the layers that time it, spare its descriptors and limit its rate.
fn medium(options: &Options, write_rate: Option<&WriteRate>) -> Arc<dyn Storage> {
    let medium = spared(timed(Arc::clone(&options.storage)));
    match write_rate {
        Some(write_rate) => write_rate.limit(medium),
        None => medium,
    }
}

/// The manifest of an existing store, or of a new one.
struct Opened {
    /// `None` for a reader.
    manifest: Option<Manifest>,
    /// A reader's lock on the manifest's file.
    reader_lock: Option<Box<dyn Lock>>,
    state: ManifestState,
    /// The end of the manifest, if that is dropped.
    manifest_tail: Option<ManifestTail>,
}

fn open_manifest(
    directory: &Arc<dyn Directory>,
    options: &Options,
    exists: bool,
) -> Result<Opened> {
    let manifest_options = ManifestOptions {
        rewrite_above_bytes: options.constants.manifest_bytes,
    };
    if options.read_only {
        let locked = lock_current(&**directory, LockKind::Shared)?;
        let loaded = load(&**directory)?;
        return Ok(Opened {
            manifest: None,
            reader_lock: locked.lock,
            manifest_tail: loaded.tail,
            state: loaded.state,
        });
    }
    let directory = Arc::clone(directory);
    let (manifest, state) = if exists {
        Manifest::open(directory, manifest_options)?
    } else {
        let identity = Identity {
            store_id: u128::from_le_bytes(options.randomness.bytes16()),
            hash_seed: options.randomness.u64(),
            domain: options
                .durability
                .unwrap_or(Durability::CrashSafe)
                .domain(options.constants.emulate_power_safety),
        };
        Manifest::create(directory, identity, manifest_options)?
    };
    Ok(Opened {
        manifest_tail: manifest.tail().cloned(),
        manifest: Some(manifest),
        reader_lock: None,
        state,
    })
}

/// The finds of an opening beside the manifest, and the region for its writes.
struct Found {
    durability: Durability,
    /// The place of new arenas, and its directory.
    home: (ArenaHome, Arc<dyn Directory>),
    /// A reader's lock on the manifest, and that on the region directory.
    locks: Vec<Box<dyn Lock>>,
    recovered: RecoveredWrites,
    unlisted: Unlisted,
    region: Region,
    /// The places of tables.
    data: DataFiles,
    tiers: FoundTiers,
}

/// Finds the writes in the arenas that the manifest names, and tables that it does not name.
fn find(
    storage: &Arc<CountingStorage>,
    directory: &Arc<dyn Directory>,
    region_dir: Option<Given>,
    options: &Options,
    opened: &mut Opened,
    exists: bool,
) -> Result<Found> {
    let state = &opened.state;
    let stored = Durability::of(state.identity.domain);
    let durability = options.durability.unwrap_or(stored);
    refuse_volatile_files(durability, options)?;
    let (own, meters) = TierMeters::of_own(directory);
    let data = DataFiles::new(own);
    let mut tiers = finding::settle(&**storage, directory, options, state, &data)?;
    tiers.meters.push((OWN_TIER, meters));
    directory::check_tables(&data, state)?;
    let homes = region_home::settle(&**storage, directory, region_dir, options, state)?;
    let read_as = if durability.same_region_as(stored) {
        durability
    } else {
        stored
    };
    let recovered = recover_from(storage, &homes.old, options, state, read_as);
    let (old_region, mut recovered) = recovered.map_err(|error| {
        of_missing_arena(
            error,
            (&**directory, &data),
            state,
            opened.manifest_tail.as_ref(),
        )
    })?;
    recovered.report.clean_close = state.clean_close.is_some() || !exists;
    recovered.report.manifest_tail = opened.manifest_tail.take();
    let unlisted = recovered.look_for_unlisted(&data, state)?;
    recovered.report.unlisted_tables = unlisted.names(!options.read_only);
    let region = match old_region {
        Some(region) if read_as == durability && homes.old.are_in(&homes.directory) => region,
        _ => new_region(storage, &homes, options, state, durability, &mut recovered)?,
    };
    let locks = opened.reader_lock.take().into_iter().chain(homes.lock);
    Ok(Found {
        durability,
        home: (homes.new, homes.directory),
        locks: locks.collect(),
        recovered,
        unlisted,
        region,
        data,
        tiers,
    })
}

/// Opens the region in the new home, where nothing of the old one can be used. Reports the files there
/// that are not the store's.
fn new_region(
    storage: &Arc<CountingStorage>,
    homes: &Homes,
    options: &Options,
    state: &ManifestState,
    durability: Durability,
    recovered: &mut RecoveredWrites,
) -> Result<Region> {
    let store_id = state.identity.store_id;
    let region = open_region(storage, &homes.directory, store_id, options, durability)?;
    let foreign_files = check_evidence(&region, state)?;
    if !homes.old.are_in(&homes.directory) {
        recovered.report.foreign_files.extend(foreign_files);
    }
    Ok(region)
}

/// Loads the recovered writes, the youngest first, for the readers of a store without a writer.
fn readable(recovered: &RecoveredWrites, state: &ManifestState) -> Result<Vec<Arc<MemTable>>> {
    let loaded = recovered.load();
    let mut memtables = loaded.map_err(|error| error.with_loss(state.loss()))?;
    memtables.reverse();
    Ok(memtables)
}

/// Returns the maximum bytes of the read buffer.
fn read_buffer_bytes(options: &Options) -> u64 {
    options.cache_bytes / 100 * u64::from(options.read_buffer.share_percent)
}

fn read_buffer(options: &Options, hash_seed: u64) -> Option<ReadBuffer> {
    let capacity_bytes = read_buffer_bytes(options);
    (capacity_bytes > 0).then(|| {
        ReadBuffer::new(
            read_buffer::Settings::of(options),
            capacity_bytes,
            hash_seed,
        )
    })
}
