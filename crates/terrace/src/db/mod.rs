//! The store: the state of an open one, and the public handle to it.
//!
//! `write` and `read` are the two paths, each readable top to bottom; `flush` and `compact` move
//! writes downwards; `open` brings it all back. This file holds the parts that they share.

mod arena_changes;
mod arena_ranges;
mod arena_space;
pub(crate) mod arenas;
pub(crate) mod attendant;
pub(crate) mod background;
pub(crate) mod backlog;
pub(crate) mod bell;
pub(crate) mod buffered_reads;
pub(crate) mod changes;
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
pub(crate) mod entries;
pub(crate) mod events;
pub(crate) mod file_names;
pub(crate) mod flush;
pub(crate) mod footprint;
pub(crate) mod fork;
pub(crate) mod handle;
pub(crate) mod ingest;
pub(crate) mod iterator;
pub(crate) mod jobs;
pub(crate) mod key_range;
pub(crate) mod keyspace;
mod keyspace_batch;
pub(crate) mod keyspaces;
pub(crate) mod latencies;
pub(crate) mod ledger;
pub(crate) mod level0_probes;
pub(crate) mod lock_order;
pub(crate) mod memory_budget;
pub(crate) mod monitor;
pub(crate) mod multi_get;
pub(crate) mod open;
mod owner_file;
pub(crate) mod owners;
pub(crate) mod ownership;
pub(crate) mod passed_over;
pub(crate) mod persist_timer;
pub(crate) mod pins;
pub(crate) mod policy_moment;
pub(crate) mod range_cover;
pub(crate) mod read;
pub(crate) mod recover;
mod recovered_arenas;
pub(crate) mod region_home;
pub(crate) mod regions;
#[cfg(feature = "serde")]
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
pub(crate) mod tiers;
pub(crate) mod tombstones;
pub(crate) mod transactions;
pub(crate) mod unlisted;
pub(crate) mod unsupported_tables;
pub(crate) mod value;
pub(crate) mod verify;
pub(crate) mod view;
pub(crate) mod visitors;
pub(crate) mod wait_for_lock;
pub(crate) mod write;
pub(crate) mod write_rate;

use std::sync::Arc;

use terrace_lsm::guard::catch;
use terrace_lsm::keyspace_options::KeyspaceOptions;
use terrace_lsm::sync::atomic::Ordering;

use crate::db::events::trace;
use crate::db::lock_order::{OrderedMutex, place};
use crate::db::owners::{Compactor, Files, Lifecycle, ManifestLog, Metrics, Reads, Writes};
use crate::db::snapshot::Snapshot;
use crate::db::view::View;
use crate::db::write::Writer;
use crate::options::Options;
use crate::{Error, Result, SequenceNumber};

/// An open store: its settings, and the owners of all else. Each owner has its own locks; `owners.rs`
/// names them and their order.
pub(crate) struct Store {
    pub(crate) options: Options,
    /// The options of the default keyspace.
    pub(crate) default_form: KeyspaceOptions,
    pub(crate) writes: Writes,
    pub(crate) reads: Reads,
    pub(crate) compactor: Compactor,
    pub(crate) metrics: Metrics,
    pub(crate) manifest_log: ManifestLog,
    pub(crate) files: Files,
    /// The last field: its locks are released when everything else is gone.
    pub(crate) lifecycle: Lifecycle,
}

impl Store {
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.lifecycle.check_open()?;
        if self.options.read_only {
            return Err(Error::invalid(
                "the store is open read-only; reopen it to write",
            ));
        }
        self.check_poison()
    }

    pub(crate) fn check_poison(&self) -> Result<()> {
        self.lifecycle.poison.get().map_or(Ok(()), |cause| {
            self.tell_of_poison();
            Err(cause.clone())
        })
    }

    pub(crate) fn check_can_persist(&self) -> Result<()> {
        let region = self.writes.region.description();
        if !region.can_persist {
            return Err(Error::invalid(format!(
                "a {} store with its arenas on {} cannot persist single writes; call flush(), or \
                 open it with another durability on a disk",
                self.writes.durability, region.medium
            )));
        }
        // A region that emulates power safety on tmpfs was asked for, tables on tmpfs included.
        if !self.files.file_system.survives_power_cut && !region.emulated {
            return Err(Error::invalid(format!(
                "nothing on {} survives a power cut; put the store on a disk, or write without \
                 `sync`",
                self.files.file_system.name
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
        let poison = self.lifecycle.poison.get_or_init(|| {
            is_first = true;
            poisoned
        });
        if is_first {
            self.lifecycle.background.answer(poison);
            self.compactor.jobs.ended(Err(poison.clone()));
            self.lifecycle.untold_poison.store(true, Ordering::Release);
            self.tell_of_poison();
        }
        poison.clone()
    }

    /// Tells subscribers of the poison, once. Not while a thread has the ledger, perhaps this very
    /// one: a subscriber is a caller's code and may ask for statistics, which need it. So every
    /// thread that meets the poison comes here again, the close at the latest.
    #[cold]
    fn tell_of_poison(&self) {
        let is_free = self.lifecycle.untold_poison.load(Ordering::Acquire)
            && self.manifest_log.ledger.try_lock().is_some()
            && self.lifecycle.untold_poison.swap(false, Ordering::AcqRel);
        if let Some(poison) = self.lifecycle.poison.get().filter(|_| is_free) {
            self.metrics
                .events
                .told(|| trace::poisoned(&self.files.path, poison));
        }
    }

    /// Runs a step. A panic in it, or in a thread that it started, poisons the store. A step that
    /// failed in a forked child has failed by that, and takes no lock to say so.
    pub(crate) fn guard<T>(&self, step: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut done = catch(step, work);
        match &mut done {
            Err(error) if self.lifecycle.is_inherited() => *error = Error::Forked,
            Err(error @ Error::Panicked { .. }) => *error = self.poison(error.clone()),
            Err(_) => self.tell_of_poison(),
            Ok(_) => {}
        }
        done
    }

    /// Replaces the view of readers.
    pub(crate) fn change_view(&self, change: impl FnOnce(&mut View)) {
        self.reads.view.change(|view| {
            let before = Arc::clone(&view.version);
            change(view);
            if !Arc::ptr_eq(&view.version, &before) {
                self.writes
                    .backlog
                    .update(&view.version, &self.options, &self.default_form);
                self.weigh_blocks(&view.version);
            }
        });
    }

    pub(crate) fn writer(&self) -> Result<&OrderedMutex<{ place::WRITER }, Option<Writer>>> {
        self.check_writable()?;
        Ok(&self.writes.writer)
    }
}

impl Reads {
    /// Refuses a snapshot of another store.
    pub(crate) fn check_snapshot(&self, snapshot: &Snapshot) -> Result<()> {
        if snapshot.is_of(&self.snapshots) {
            Ok(())
        } else {
            Err(Error::invalid("the snapshot was taken from another store"))
        }
    }

    /// Returns whether some MemTable of the view has been flushed since.
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

    /// Returns the highest number that readers may see.
    pub(crate) fn visible(&self) -> SequenceNumber {
        self.visible.load(Ordering::Acquire)
    }
}

impl Lifecycle {
    /// Fails if the store is closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// Returns the failure after which the store refuses writes, if there was one.
    pub(crate) fn poisoned(&self) -> Option<Error> {
        self.poison.get().cloned()
    }
}

impl Writes {
    /// Returns the number up to which every write survives a power cut.
    pub(crate) fn persisted(&self) -> SequenceNumber {
        self.persisted.load(Ordering::Acquire)
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;
