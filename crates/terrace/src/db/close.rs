//! Closing a store.

use crate::Result;
use crate::db::Store;
use crate::inspect::socket::Server;
use crate::levels::{CleanClose, Edit};
use crate::sync::atomic::Ordering;

impl Store {
    /// Ends the store: nothing is accepted any more, what was written is persisted (or, if it is
    /// `Volatile`, flushed), background work stops, the lock is released. The first failure is
    /// returned; everything is released in any case.
    pub(crate) fn close(&self) -> Result<()> {
        // Whoever closes at the same time waits, and gets the same answer.
        let mut outcome = self.close_outcome.lock();
        if let Some(outcome) = &*outcome {
            return outcome.clone();
        }
        self.closing.store(true, Ordering::Release);
        // While the lock is held: the next owner's socket has the same name.
        let inspection = self.inspection.lock().take();
        let asked_for = inspection.map(Server::close);
        self.persist_timer.stop();
        self.tombstone_timer.stop();
        if let Some(write_rate) = self.backlog.write_rate() {
            write_rate.lift();
        }
        let finished = if self.options.read_only {
            Ok(())
        } else {
            self.finish()
        };
        self.stop_background();
        self.visitors.close();
        self.closed.store(true, Ordering::Release);
        if let Some(asked_for) = asked_for {
            asked_for.end();
        }
        self.locks.lock().clear();
        if let Some(manifest) = &mut self.ledger.lock().manifest {
            manifest.unlock();
        }
        self.ownership.release();
        *outcome = Some(finished.clone());
        finished
    }

    /// The owner's part of closing: no more writes, then what was written is made safe and the
    /// manifest says that nothing is missing.
    fn finish(&self) -> Result<()> {
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
}
