//! Closing a store.

use std::sync::Arc;

use terrace_lsm::levels::{ArenaEnd, ArenaHome, CleanClose, Edit};
use terrace_lsm::sync::atomic::Ordering;

use crate::Result;
use crate::db::Store;
use crate::db::flush::ToFlush;
use crate::db::write::Writer;
use crate::thread_start;

impl Store {
    /// Ends the store: it accepts no more writes, persists earlier ones (or, if it is `Volatile`,
    /// flushes them), stops background work, and releases the lock. Returns the first failure;
    /// everything is released in any case, after a panic too.
    pub(crate) fn close(&self) -> Result<()> {
        self.metrics.events.may_wait()?;
        // A thread that closes at the same time waits, and gets the same answer.
        let mut outcome = self.lifecycle.close_outcome.lock();
        if let Some(outcome) = &*outcome {
            return outcome.clone();
        }
        self.lifecycle.closing.store(true, Ordering::Release);
        // While the lock is held: the next owner's socket has the same name.
        let attendant = self.lifecycle.attendant.lock().take();
        let end_requests = attendant.map(|attendant| attendant.close());
        self.lifecycle.persist_timer.stop();
        self.lifecycle.tombstone_timer.stop();
        self.lifecycle.placement_timer.stop();
        if let Some(write_rate) = self.writes.backlog.write_rate() {
            write_rate.lift();
        }
        let finished = self.guard("close", || match self.options.read_only {
            true => Ok(()),
            false => self.finish(),
        });
        // A listener has forked, and what follows takes locks.
        self.lifecycle.check_process()?;
        let stopped = self.guard("close", || {
            self.stop_background();
            Ok(())
        });
        self.files.caches.close();
        *self.lifecycle.counted.lock() = None;
        self.files.visitors.close();
        self.lifecycle.closed.store(true, Ordering::Release);
        if let Some(end_requests) = end_requests {
            end_requests();
        }
        self.lifecycle.locks.lock().clear();
        self.files.tier_locks.lock().clear();
        if let Some(manifest) = &mut self.manifest_log.ledger.lock().manifest {
            manifest.unlock();
        }
        self.lifecycle.ownership.release();
        let closed = finished.and(stopped);
        *outcome = Some(closed.clone());
        closed
    }

    /// Closes the store for the last handle, so no caller is left to see a failure. In an event
    /// listener that drops the handle it would wait for the listener; there another thread does it.
    pub(crate) fn close_dropped(self: &Arc<Self>) {
        if self.metrics.events.may_wait().is_ok() {
            let _ = self.close();
            return;
        }
        let store = Arc::clone(self);
        // Where no thread is to be had the store stays open until the process ends.
        let _ = thread_start::start("terrace-close", move || store.close());
    }

    /// Does the owner's part of closing: ends writes, then makes earlier ones safe, and notes in
    /// the manifest that nothing is missing.
    fn finish(&self) -> Result<()> {
        let writer = self.writes.as_leader_to_close();
        self.stop_background();
        let Some(writer) = writer else { return Ok(()) };
        if let Some(cause) = self.lifecycle.poisoned() {
            return Err(cause);
        }
        let can_persist = self.writes.region.description().can_persist;
        // Frames that failed are wiped out: the next opening looks for none behind the noted end.
        let sealed = self.seal(&writer.active);
        if let Err(error) = &sealed
            && !(error.is_no_space() && can_persist)
        {
            return sealed;
        }
        let view = self.reads.view.load_full();
        let oldest_first: Vec<_> = view.memtables.iter().rev().cloned().collect();
        if !can_persist {
            let retired = oldest_first
                .iter()
                .map(|table| table.arena().generation())
                .collect();
            self.flush_all(ToFlush::Held(&oldest_first), retired, writer.last_sequence)?;
            return self.note_clean_close(&writer);
        }
        for table in &oldest_first {
            let persisted = table.arena().persist();
            persisted.map_err(|error| self.persist_failed(error))?;
        }
        self.writes
            .persisted
            .store(writer.last_sequence, Ordering::Release);
        // All writes survive. Without the note the next opening searches the arenas, as after a kill. A
        // region directory may be exchanged only after a note.
        let needs_note = matches!(self.manifest_log.arena_home, ArenaHome::Region { .. });
        match sealed.and_then(|()| self.note_clean_close(&writer)) {
            Err(error)
                if error.is_no_space() && !needs_note && self.lifecycle.poisoned().is_none() =>
            {
                Ok(())
            }
            noted => noted,
        }
    }

    fn note_clean_close(&self, writer: &Writer) -> Result<()> {
        let clean_close = Some(CleanClose {
            last_sequence: writer.last_sequence,
        });
        self.record(
            &mut self.manifest_log.ledger.lock(),
            Edit {
                clean_close,
                arena_ends: self.arena_ends(),
                ..Edit::default()
            },
        )
    }

    /// Returns the ends of the frames in all arenas that can hold some. The writer is gone and the
    /// background has stopped, so no end moves any more.
    fn arena_ends(&self) -> Vec<ArenaEnd> {
        let view = self.reads.view.load_full();
        let spares = self.writes.arenas.lock().spares.clone();
        let in_use = view.memtables.iter().map(|table| table.arena());
        let ends = in_use.chain(&spares).map(|arena| ArenaEnd {
            generation: arena.generation(),
            end_bytes: arena.end_bytes() as u64,
        });
        ends.collect()
    }
}
