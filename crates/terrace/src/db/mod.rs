//! The store: what is open, and the public handle to it.
//!
//! `write` and `read` are the two paths, each readable top to bottom; `flush` and `compact` move
//! what was written downwards; `open` brings it all back. This file holds what they share.

mod arena_loan;
mod arena_ranges;
mod arena_space;
pub(crate) mod arenas;
pub(crate) mod attendant;
pub(crate) mod background;
pub(crate) mod backlog;
pub(crate) mod bell;
pub(crate) mod buffered_reads;
pub(crate) mod checkpoint;
pub(crate) mod close;
pub(crate) mod commit_queue;
pub(crate) mod compact;
pub(crate) mod compact_range;
pub(crate) mod compaction_history;
pub(crate) mod conflict;
pub(crate) mod delete_range;
pub(crate) mod deletions;
pub(crate) mod directory;
pub(crate) mod empty_stretch;
pub(crate) mod events;
mod explain;
pub(crate) mod files;
pub(crate) mod flush;
pub(crate) mod fork;
pub(crate) mod handle;
pub(crate) mod ingest;
pub(crate) mod iterator;
pub(crate) mod jobs;
pub(crate) mod keyspace;
mod keyspace_batch;
pub(crate) mod keyspaces;
pub(crate) mod latencies;
pub(crate) mod ledger;
pub(crate) mod level0_probes;
pub(crate) mod monitor;
pub(crate) mod multi_get;
pub(crate) mod open;
pub(crate) mod ownership;
pub(crate) mod passed_over;
pub(crate) mod persist_timer;
pub(crate) mod pins;
pub(crate) mod range_cover;
pub(crate) mod read;
pub(crate) mod recover;
mod recovered_arenas;
pub(crate) mod region_home;
pub(crate) mod regions;
pub(crate) mod report_forms;
pub(crate) mod reserve;
pub(crate) mod sizes;
pub(crate) mod snapshot;
pub(crate) mod sources;
pub(crate) mod sparing_storage;
pub(crate) mod stalls;
pub(crate) mod statistics;
pub(crate) mod superseded;
pub(crate) mod table_files;
mod taken_along;
pub(crate) mod tombstones;
pub(crate) mod unlisted;
pub(crate) mod unsupported_tables;
pub(crate) mod value;
pub(crate) mod verify;
pub(crate) mod view;
pub(crate) mod visitors;
pub(crate) mod wait_for_lock;
pub(crate) mod write;
pub(crate) mod write_rate;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use terrace_region::Region;
use terrace_storage::{Clock, CountingStorage, Directory, FileSystem, ForkMark, Lock};

use crate::db::arena_loan::ArenaLoan;
use crate::db::arenas::Arenas;
use crate::db::attendant::Attendant;
use crate::db::background::Background;
use crate::db::backlog::Backlog;
use crate::db::commit_queue::CommitQueue;
use crate::db::compaction_history::CompactionHistory;
use crate::db::deletions::Deletions;
use crate::db::empty_stretch::EmptyStretches;
use crate::db::events::{EventLog, trace};
use crate::db::fork::Counted;
use crate::db::jobs::Jobs;
use crate::db::ledger::Ledger;
use crate::db::level0_probes::Level0Probes;
use crate::db::monitor::Monitor;
use crate::db::ownership::Ownership;
use crate::db::passed_over::PassedOver;
use crate::db::persist_timer::Timer;
use crate::db::pins::Pins;
use crate::db::recover::Recovery;
use crate::db::reserve::Reserve;
use crate::db::snapshot::{Snapshot, SnapshotList};
use crate::db::sources::Sources;
use crate::db::stalls::Stalls;
use crate::db::tombstones::SeenTombstones;
use crate::db::view::{PresentView, View};
use crate::db::visitors::Visitors;
use crate::db::write::Writer;
use crate::guard::catch;
use crate::keyspace_options::KeyspaceOptions;
use crate::levels::{ArenaHome, ObsoleteTables};
use crate::opening::Opening;
use crate::options::{Durability, Options};
use crate::read_buffer::ReadBuffer;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::table::TableCache;
use crate::time_profile::TimeProfiler;
use crate::{Error, Result, SequenceNumber};

/// An open store.
///
/// Lock order: `close_outcome`, the commit queue's leadership, then `writer`, then `ledger`, then
/// `arenas`, then the change of `view`, then that of the loan of arenas. The board of jobs may be locked
/// under any of them; under it nothing is but the history of compactions, the last of all. The state
/// of a worker is locked under any of them, and nothing under it. Readers take none of them, but that
/// they try the loan's and `writer`. An event listener runs without them. One exception: a leader
/// that was stopped tells of it while it leads and holds `writer`: there the listener may not wait.
pub(crate) struct Store {
    /// Where the directory was when it was opened: for messages only.
    pub(crate) path: PathBuf,
    /// The store's directory, open; files are reached through it alone.
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) ownership: Ownership,
    pub(crate) options: Options,
    pub(crate) durability: Durability,
    pub(crate) file_system: FileSystem,
    pub(crate) storage: Arc<CountingStorage>,
    pub(crate) region: Region,
    pub(crate) arena_home: ArenaHome,
    pub(crate) arena_directory: Arc<dyn Directory>,
    /// The process that opened the store.
    pub(crate) mark: ForkMark,
    /// Tells the handles of this opening from those of others.
    pub(crate) opening: Opening,
    pub(crate) default_form: KeyspaceOptions,
    pub(crate) hash_seed: u64,
    pub(crate) next_table: AtomicU64,
    /// The name of the next sub-level. What is given and not used is lost: a flush or a merge that
    /// fails.
    pub(crate) next_sub_level: AtomicU64,
    pub(crate) monitor: Monitor,
    pub(crate) seen_tombstones: SeenTombstones,
    pub(crate) clock: Arc<dyn Clock>,
    /// Seconds since 1970.
    pub(crate) opened_seconds: u64,
    pub(crate) tables: Arc<TableCache>,
    pub(crate) obsolete: Arc<ObsoleteTables>,
    /// `None` if it is off.
    pub(crate) read_buffer: Option<ReadBuffer>,
    pub(crate) empty_stretches: EmptyStretches,

    /// What readers see.
    pub(crate) view: PresentView,
    /// The highest number that readers may see.
    pub(crate) visible: AtomicU64,
    /// Every write up to this number survives a power cut.
    pub(crate) persisted: AtomicU64,
    /// The number of the youngest range in an arena for which a table was removed, or was to be.
    pub(crate) removed_for: AtomicU64,
    pub(crate) snapshots: Arc<SnapshotList>,
    pub(crate) pins: Pins,
    pub(crate) sources: Sources,

    pub(crate) queue: CommitQueue,
    /// `None` if the store is read-only, or closed.
    pub(crate) writer: Mutex<Option<Writer>>,
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) arenas: Mutex<Arenas>,
    pub(crate) arena_loan: ArenaLoan,
    pub(crate) background: Background,
    pub(crate) persist_timer: Timer,
    pub(crate) tombstone_timer: Timer,
    pub(crate) jobs: Jobs,
    pub(crate) compactions: CompactionHistory,
    pub(crate) reserve: Reserve,
    pub(crate) events: EventLog,
    /// Persistence was asked for once: sealed arenas are persisted before they are needed.
    pub(crate) persist_on_seal: AtomicBool,
    pub(crate) deletions: Deletions,
    pub(crate) visitors: Visitors,
    pub(crate) backlog: Backlog,
    pub(crate) level0_probes: Level0Probes,
    pub(crate) passed_over: PassedOver,
    pub(crate) stalls: Stalls,
    pub(crate) counters: statistics::Counters,
    pub(crate) latencies: latencies::Latencies,
    pub(crate) time_profile: Arc<TimeProfiler>,
    pub(crate) recovery: Recovery,

    poison: OnceLock<Error>,
    /// Subscribers are to be told of the poison.
    untold_poison: AtomicBool,
    closed: AtomicBool,
    /// Tells running merges to give up.
    pub(crate) closing: AtomicBool,
    close_outcome: Mutex<Option<Result<()>>>,
    /// Until it is closed.
    counted: Mutex<Option<Counted>>,
    /// Answers those who ask about the store, if that was wanted.
    attendant: Mutex<Option<Box<dyn Attendant>>>,
    /// A reader's on the manifest, and that on the region directory; held until the store is dropped,
    /// or closed.
    locks: Mutex<Vec<Box<dyn Lock>>>,
}

impl Store {
    pub(crate) fn visible(&self) -> SequenceNumber {
        self.visible.load(Ordering::Acquire)
    }

    /// Every write up to this number survives a power cut.
    pub(crate) fn persisted(&self) -> SequenceNumber {
        self.persisted.load(Ordering::Acquire)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshots.take(|| self.visible())
    }

    pub(crate) fn check_snapshot(&self, snapshot: &Snapshot) -> Result<()> {
        if snapshot.is_of(&self.snapshots) {
            Ok(())
        } else {
            Err(Error::invalid("the snapshot was taken from another store"))
        }
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.options.read_only {
            return Err(Error::invalid(
                "the store is open read-only; reopen it to write",
            ));
        }
        self.check_poison()
    }

    pub(crate) fn check_poison(&self) -> Result<()> {
        self.poison.get().map_or(Ok(()), |cause| {
            self.tell_of_poison();
            Err(cause.clone())
        })
    }

    pub(crate) fn check_can_persist(&self) -> Result<()> {
        let region = self.region.description();
        if !region.can_persist {
            return Err(Error::invalid(format!(
                "a {} store with its arenas on {} cannot persist single writes; call flush(), or \
                 open it with another durability on a disk",
                self.durability, region.medium
            )));
        }
        // A region that emulates power safety on tmpfs was asked for, tables on tmpfs included.
        if !self.file_system.survives_power_cut && !region.emulated {
            return Err(Error::invalid(format!(
                "nothing on {} survives a power cut; put the store on a disk, or write without \
                 `sync`",
                self.file_system.name
            )));
        }
        Ok(())
    }

    /// Refuses all writes from now on and answers all waiters. Returns the error that writers get,
    /// this time included.
    pub(crate) fn poison(&self, cause: Error) -> Error {
        let poisoned = match cause {
            Error::Poisoned { .. } => cause,
            cause => Error::Poisoned {
                cause: Arc::new(cause),
            },
        };
        let mut is_first = false;
        let poison = self.poison.get_or_init(|| {
            is_first = true;
            poisoned
        });
        if is_first {
            self.background.answer(poison);
            self.jobs.ended(Err(poison.clone()));
            self.untold_poison.store(true, Ordering::Release);
            self.tell_of_poison();
        }
        poison.clone()
    }

    /// Tells subscribers of the poison, once. Not while somebody has the ledger, who may be this very
    /// thread: a subscriber is a caller's code and may ask for statistics, which need it. So everybody
    /// who meets the poison comes here again, the close at the latest.
    #[cold]
    fn tell_of_poison(&self) {
        let is_free = self.untold_poison.load(Ordering::Acquire)
            && self.ledger.try_lock().is_some()
            && self.untold_poison.swap(false, Ordering::AcqRel);
        if let Some(poison) = self.poison.get().filter(|_| is_free) {
            self.events.told(|| trace::poisoned(&self.path, poison));
        }
    }

    /// Runs a step. A panic in it, or in a thread that it started, poisons the store. A step that
    /// failed in a forked child has failed by that, and takes no lock to say so.
    pub(crate) fn guard<T>(&self, step: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut done = catch(step, work);
        match &mut done {
            Err(error) if self.is_inherited() => *error = Error::Forked,
            Err(error @ Error::Panicked { .. }) => *error = self.poison(error.clone()),
            Err(_) => self.tell_of_poison(),
            Ok(_) => {}
        }
        done
    }

    pub(crate) fn poisoned(&self) -> Option<Error> {
        self.poison.get().cloned()
    }

    /// Replaces what readers see.
    pub(crate) fn change_view(&self, change: impl FnOnce(&mut View)) {
        self.view.change(|view| {
            let before = Arc::clone(&view.version);
            change(view);
            if !Arc::ptr_eq(&view.version, &before) {
                self.backlog
                    .update(&view.version, &self.options, &self.default_form);
                self.weigh_blocks(&view.version);
            }
        });
    }

    /// Whether some MemTable of the view has been flushed since.
    pub(crate) fn is_outdated(&self, view: &View) -> bool {
        let oldest = view.memtables.last();
        let present = self.view.load();
        oldest.is_some_and(|oldest| {
            !present
                .memtables
                .iter()
                .any(|table| Arc::ptr_eq(table, oldest))
        })
    }

    pub(crate) fn writer(&self) -> Result<&Mutex<Option<Writer>>> {
        self.check_writable()?;
        Ok(&self.writer)
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;
