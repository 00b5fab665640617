//! Opening a store, top to bottom: directory, lock, manifest, region, recovery, and only then
//! writes.
//!
//! The writes in arenas go to tables before the first new one (`recovered_arenas.rs`).

use std::path::Path;
use std::sync::{Arc, OnceLock};

use terrace_storage::{
    Clock, CountingStorage, Directory, Lock, LockKind, OpenMode, OpenOptions, Storage,
};

use crate::db::arena_loan::{ArenaLoan, lendable_bytes};
use crate::db::arenas::Arenas;
use crate::db::attendant::Attendance;
use crate::db::background::Background;
use crate::db::backlog::Backlog;
use crate::db::commit_queue::{CommitQueue, GroupLimits};
use crate::db::compaction_history::CompactionHistory;
use crate::db::deletions::Deletions;
use crate::db::empty_stretch::EmptyStretches;
use crate::db::events::{EventLog, trace};
use crate::db::fork::Counted;
use crate::db::jobs::Jobs;
use crate::db::latencies::Latencies;
use crate::db::ledger::Ledger;
use crate::db::level0_probes::Level0Probes;
use crate::db::monitor::Monitor;
use crate::db::owners::{Compactor, Files, Lifecycle, ManifestLog, Metrics, Reads, Writes};
use crate::db::ownership::{Ownership, with_socket};
use crate::db::passed_over::PassedOver;
use crate::db::persist_timer::Timer;
use crate::db::pins::Pins;
use crate::db::recover::check_evidence;
use crate::db::region_home;
use crate::db::regions::{open_region, recover_from, refuse_volatile_files};
use crate::db::reserve::Reserve;
use crate::db::snapshot::SnapshotList;
use crate::db::sources::Sources;
use crate::db::sparing_storage::SparingStorage;
use crate::db::stalls::Stalls;
use crate::db::statistics::Counters;
use crate::db::tombstones::{SeenTombstones, pause_between_looks};
use crate::db::unlisted::of_missing_arena;
use crate::db::view::{PresentView, View};
use crate::db::visitors::Visitors;
use crate::db::wait_for_lock::wait_for_lock;
use crate::db::write::Writer;
use crate::db::write_rate::WriteRate;
use crate::db::{Store, directory, fork};
use crate::guard::catch;
use crate::levels::{
    Identity, Manifest, ManifestOptions, ManifestState, ManifestTail, load, lock_current,
};
use crate::opening::Opening;
use crate::options::ForwardPolicy;
use crate::options::{self, Durability, Options};
use crate::read_buffer::ReadBuffer;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::table::{BlockCache, TableCache, TableLimit};
use crate::time_profile::{TimeProfiler, TimedStorage};
use crate::write_buffer::arena_size::first_arena_bytes;
use crate::write_buffer::index::MAX_ENTRY_BYTES;
use crate::write_buffer::memtable::MemTable;
use crate::write_buffer::room::Room;
use crate::{Error, Result};

impl Store {
    /// `clock` is for the wait for a lock, the limit on background writes and the ages of tombstones. An
    /// owner has the attendant, if there is one.
    pub(crate) fn open(
        path: &Path,
        options: Options,
        clock: Arc<dyn Clock>,
        attendance: Option<Attendance>,
    ) -> Result<Arc<Store>> {
        let attendance = attendance.filter(|_| !options.read_only);
        // The threads that share the work of an opening have no other answer to a panic either.
        catch("open", || {
            wait_for_lock(options.wait_for_lock, &*clock, |refused| {
                let (options, clock) = (options.clone(), Arc::clone(&clock));
                Store::open_unguarded(path, options, clock, attendance, refused > 0)
            })
        })
    }

    fn open_unguarded(
        path: &Path,
        options: Options,
        clock: Arc<dyn Clock>,
        attendance: Option<Attendance>,
        has_waited: bool,
    ) -> Result<Arc<Store>> {
        options.check()?;
        let mark = fork::mark(path)?;
        let write_rate = WriteRate::of(&options, Arc::clone(&clock));
        let medium = Arc::new(TimedStorage(Arc::clone(&options.storage)));
        let medium: Arc<dyn Storage> = Arc::new(SparingStorage(medium));
        let medium = match &write_rate {
            Some(write_rate) => write_rate.limit(medium),
            None => medium,
        };
        let storage = Arc::new(CountingStorage::new(medium).owned_by(mark));
        let (directory, exists) = directory::prepare(&*storage, path, &options, has_waited)?;
        if let Some(attendance) = attendance {
            (attendance.check)(&*directory)?;
        }
        let region_dir = region_home::given(&*storage, &*directory, &options, exists)?;
        let ownership = match options.read_only {
            true => Ownership::share(&directory)?,
            false => Ownership::take(&directory)?,
        };
        // Another process may have made the store before this one got the lock.
        let exists = exists || directory::has_been_made(&*directory, &options)?;
        fork::check_threads(&options)?;
        let Opened {
            manifest,
            reader_lock,
            state,
            manifest_tail,
        } = open_manifest(&directory, &options, exists)
            .map_err(|error| with_socket(&*directory, error))?;
        let obsolete = Arc::clone(state.version.obsolete());

        let backlog = Backlog::of(&state.version, &options, write_rate);

        let stored = Durability::of(state.identity.domain);
        let durability = options.durability.unwrap_or(stored);
        refuse_volatile_files(durability, &options)?;
        directory::check_tables(&*directory, &state)?;
        let homes = region_home::settle(&*storage, &directory, region_dir, &options, &state)?;
        let read_as = if durability.same_region_as(stored) {
            durability
        } else {
            stored
        };
        let recovered = recover_from(&storage, &homes.old, &options, &state, read_as);
        let (old_region, mut recovered) = recovered.map_err(|error| {
            of_missing_arena(error, &*directory, &state, manifest_tail.as_ref())
        })?;
        recovered.report.clean_close = state.clean_close.is_some() || !exists;
        recovered.report.manifest_tail = manifest_tail;
        let unlisted = recovered.look_for_unlisted(&*directory, &state)?;
        recovered.report.unlisted_tables = unlisted.names(!options.read_only);
        let region = match old_region {
            Some(region) if read_as == durability && homes.old.are_in(&homes.directory) => region,
            _ => {
                let store_id = state.identity.store_id;
                let directory = &homes.directory;
                let region = open_region(&storage, directory, store_id, &options, durability)?;
                let foreign_files = check_evidence(&region, &state)?;
                if !homes.old.are_in(directory) {
                    recovered.report.foreign_files.extend(foreign_files);
                }
                region
            }
        };

        // A new owner has no reader for the writes in arenas until they are in tables.
        let mut memtables = match options.read_only {
            true => {
                let loaded = recovered.load();
                loaded.map_err(|error| error.with_loss(state.loss()))?
            }
            false => Vec::new(),
        };
        memtables.reverse();
        let arenas_leave_bytes = lendable_bytes(&options, region.description());
        let read_buffer = read_buffer(&options, state.identity.hash_seed, arenas_leave_bytes);
        let arena_loan = ArenaLoan::new(read_buffer.as_ref());
        let opening = Opening::new();
        let snapshots = Arc::new(SnapshotList::new(mark));
        let store = Arc::new(Store {
            default_form: options.keyspace_form(),
            writes: Writes {
                queue: CommitQueue::new(group_limits(&options), mark),
                writer: Mutex::new(None),
                durability,
                hash_seed: state.identity.hash_seed,
                region,
                arenas: Mutex::new(Arenas::default()),
                arena_loan,
                backlog,
                persisted: AtomicU64::new(state.persisted_until),
                persist_on_seal: AtomicBool::new(false),
                removed_for: AtomicU64::new(0),
            },
            reads: Reads {
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
                snapshots: Arc::clone(&snapshots),
                pins: Pins::new(options.pinned_bytes),
                sources: Sources::default(),
                read_buffer,
                empty_stretches: EmptyStretches::default(),
            },
            compactor: Compactor {
                jobs: Jobs::default(),
                monitor: Monitor::default(),
                seen_tombstones: SeenTombstones::default(),
                level0_probes: Level0Probes::new(options.direct_io),
                passed_over: PassedOver::default(),
                next_sub_level: AtomicU64::new(state.next_sub_level),
            },
            metrics: Metrics {
                events: EventLog::new(options.event_listener.clone(), opening, mark),
                compactions: CompactionHistory::default(),
                stalls: Stalls::default(),
                counters: Counters::default(),
                latencies: Latencies::default(),
                time_profile: Arc::new(TimeProfiler::default()),
                recovery: recovered.report.clone(),
            },
            files: Files {
                path: path.to_path_buf(),
                file_system: directory.file_system()?,
                tables: open_tables(&directory, &options)?,
                next_table: AtomicU64::new(state.next_table_number.max(unlisted.next_table_number)),
                obsolete,
                deletions: Deletions::default(),
                reserve: Reserve::default(),
                visitors: Visitors::default(),
                directory,
                storage,
            },
            lifecycle: Lifecycle {
                mark,
                opening,
                opened_seconds: clock.unix_seconds(),
                clock,
                background: Background::new(options.background, options.compaction_threads),
                persist_timer: Timer::new("terrace-persist", Store::persist_if_behind),
                tombstone_timer: Timer::new("terrace-upkeep", Store::look_at_tables)
                    .with_bell(Arc::clone(snapshots.bell())),
                poison: OnceLock::new(),
                untold_poison: AtomicBool::new(false),
                closed: AtomicBool::new(false),
                closing: AtomicBool::new(false),
                close_outcome: Mutex::new(None),
                counted: Mutex::new(Some(Counted::new(mark))),
                attendant: Mutex::new(None),
                ownership,
                locks: Mutex::new(reader_lock.into_iter().chain(homes.lock).collect()),
            },
            manifest_log: ManifestLog {
                ledger: Mutex::new(Ledger {
                    manifest,
                    state,
                    unused: Vec::new(),
                    loss: recovered.report.region_loss,
                    opening_bits: Some(options.randomness.u64()),
                }),
                arena_home: homes.new,
                arena_directory: homes.directory,
            },
            options,
        });
        trace::opened(path, durability, &store.metrics.recovery);
        store.weigh_blocks(&store.reads.view.load().version);
        if !store.options.read_only {
            store.prepare_for_writes();
            store.find_reserve()?;
            store.check_persist_every()?;
            // Before the manifest is written, which will show no dropped end any more.
            unlisted.keep(&*store.files.directory)?;
            // Before new tables: a table that was being written at the crash has the next number.
            store.remove_orphans()?;
            let recovered_bytes = recovered.bytes();
            let first_bytes = first_arena_bytes(recovered_bytes, store.options.arena_bytes);
            // Slots that have become too small go at the place that frees the others.
            store.writes.region.keep_from(first_bytes);
            store.guard("recovery", || store.finish_recovery(recovered))?;
            let first_bytes = store.affordable_first(first_bytes)?;
            store.guard("recovery", || store.begin_writing(first_bytes))?;
            let started = store.guard("start threads", || {
                store.lifecycle.background.start(&store)?;
                store.start_timers()?;
                store.start_attendant(attendance)
            });
            if let Err(error) = started {
                // Threads that did start hold the store, and with it the lock.
                let _ = store.close();
                return Err(error);
            }
            store.lifecycle.background.spare_wanted(&store);
            store.lifecycle.background.flush_wanted(&store);
            store.lifecycle.background.compaction_wanted(&store);
            store.lifecycle.background.deletion_wanted(&store);
        }
        Ok(store)
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

    /// From here on the store can be asked, if it is to be.
    fn start_attendant(self: &Arc<Self>, attendance: Option<Attendance>) -> Result<()> {
        if let Some(attendance) = attendance {
            *self.lifecycle.attendant.lock() = Some((attendance.start)(self)?);
        }
        Ok(())
    }

    /// Says how much space an opening needs, where its error is that there is none.
    pub(crate) fn name_need(&self, error: Error, needed_bytes: u64) -> Error {
        if !error.is_no_space() {
            return error;
        }
        Error::NoSpace {
            path: self.files.path.clone(),
            needed_bytes,
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
            .map_err(|error| self.name_need(error, first_bytes))?;
        let active = Arc::new(MemTable::new(
            arena,
            self.options.arena_index_bytes,
            self.writes.hash_seed,
        ));
        let view = self.reads.view.load();
        // Writes in arenas that nothing can persist were promised to nobody.
        let persisted = match view.memtables.is_empty() || self.check_can_persist().is_ok() {
            true => self.visible(),
            false => view.flushed_sequence,
        };
        drop(view);
        self.change_view(|view| view.memtables.insert(0, Arc::clone(&active)));
        *self.writes.writer.lock() = Some(Writer::new(active, self.visible(), persisted));
        self.loan_begins();
        Ok(())
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
        rewrite_above_bytes: options.manifest_bytes,
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
                .domain(options.emulate_power_safety),
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

fn open_tables(directory: &Arc<dyn Directory>, options: &Options) -> Result<Arc<TableCache>> {
    let blocks = BlockCache::new(options.cache_bytes, options.direct_io);
    let is_for_good = options.read_buffer.policy != ForwardPolicy::Resident;
    let blocks = Arc::new(blocks.lending(read_buffer_bytes(options), is_for_good));
    Ok(Arc::new(TableCache::new(
        Arc::clone(directory),
        OpenOptions {
            direct: options.direct_io,
            polled: options.poll_reads,
            ..OpenOptions::buffered(OpenMode::Read)
        },
        TableLimit::of(options.max_open_tables),
        blocks,
    )?))
}

/// The most that the read buffer takes.
fn read_buffer_bytes(options: &Options) -> u64 {
    options.cache_bytes / 100 * u64::from(options.read_buffer.share_percent)
}

fn read_buffer(options: &Options, hash_seed: u64, lent_bytes: u64) -> Option<ReadBuffer> {
    let capacity_bytes = read_buffer_bytes(options);
    (capacity_bytes > 0).then(|| {
        ReadBuffer::new(options.read_buffer, capacity_bytes, hash_seed).borrowing(lent_bytes)
    })
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
