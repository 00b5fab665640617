//! Deleting the files of tables that no version lists any more, a little at a time. And in the same
//! way emptying a block cache or a read buffer that gives its memory away.
//!
//! Removing a large file at once holds up every sync beside it. So its end is cut off in steps,
//! with pauses in which others get their turn, and only the last step removes the name. No thread
//! waits for it: a file left at a close or a crash, whole or cut, is an orphan that the next
//! opening removes.
//!
//! A file with another name, in a checkpoint, is not cut: it would be cut there, too.
//!
//! A file that is cut must have no reader. The obsolete list sees to that: a table enters it when
//! the last version and the last listing of it are gone. A reader of a table holds one of the two
//! as long: a lookup its view, a cursor over a sub-level and a merge the tables themselves.
//!
//! Files are cut and removed by their names, so each step looks first whether the directory is still
//! the owner's.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use terrace_lsm::data_files::{Placed, Stage};
use terrace_lsm::sync::atomic::{AtomicUsize, Ordering};
use terrace_lsm::sync::{Mutex, thread};
use terrace_storage::{File, OpenMode, OpenOptions};

use crate::Result;
use crate::db::Store;
use crate::db::owners::{Files, Metrics};
use crate::event::EventKind;
use crate::options::Background;

/// Bytes that one step gives back to the file system.
const STEP_BYTES: u64 = 4 << 20;
/// Time for others between two steps.
const PAUSE: Duration = Duration::from_millis(2);
/// Tables that may wait before deleting goes on without pauses.
const MOST_WAITING: usize = 32;

/// Tables whose files are still there.
#[derive(Default)]
pub(crate) struct Deletions {
    waiting: Mutex<Waiting>,
    /// Number of tables that wait: a thread that asks for it must not wait for a file system.
    count: AtomicUsize,
}

#[derive(Default)]
struct Waiting {
    /// Each with the bytes that it has in the books of its tier.
    files: VecDeque<(Placed, u64)>,
    /// The file of the first of them, open, and the bytes it still has.
    cutting: Option<(Arc<dyn File>, u64)>,
}

impl Store {
    /// Takes a step of the deletion worker: it drops a part of the blocks or entries that are to
    /// leave, cuts a file once, or removes the name of a short one.
    pub(crate) fn deletion_step(&self) -> Result<bool> {
        if self.files.let_blocks_go() || self.let_entries_go() {
            self.pause();
            return Ok(true);
        }
        if self.files.tables_to_delete() == 0 {
            self.look_after_reserve();
            return Ok(false);
        }
        if !self.owns_tables() {
            return Ok(false);
        }
        let mut waiting = self.files.deletions.waiting.lock();
        self.files.collect_obsolete(&mut waiting);
        let Some(&(placed, _)) = waiting.files.front() else {
            return Ok(false);
        };
        let is_cut = self.has_space_to_wait()
            && self
                .files
                .cut(placed, &mut waiting.cutting)
                .is_ok_and(|is_cut| is_cut);
        if !is_cut {
            let removed = self.files.remove_first(&mut waiting);
            drop(waiting);
            self.metrics.tell(removed.into_iter().collect());
            // There is room for one more. Without threads the next compaction asks for it: a migration asks for
            // deletions, and two callers in these steps would wait for each other.
            if self.options.background == Background::Threads {
                self.lifecycle.background.migration_wanted(self);
            }
            return Ok(true);
        }
        let hurried = waiting.files.len() > MOST_WAITING;
        drop(waiting);
        if !hurried {
            self.pause();
        }
        Ok(true)
    }

    fn pause(&self) {
        if self.options.background == Background::Threads {
            thread::sleep(PAUSE);
        }
    }

    /// Returns whether the tables in the directory are this store's, as far as it can know. An
    /// older copy that was restored into the directory lists the very tables that are obsolete
    /// here. After a failed edit, the tables that the manifest lists are unknown. A table that
    /// stays is an orphan at most, which the next opening removes.
    pub(crate) fn owns_tables(&self) -> bool {
        let ledger = self.manifest_log.ledger.lock();
        let Some(manifest) = &ledger.manifest else {
            return false;
        };
        self.lifecycle.poisoned().is_none() && self.check_ownership(manifest).is_ok()
    }

    /// Removes every waiting file at once: their space is needed. Returns the number of files.
    pub(crate) fn delete_now(&self) -> usize {
        if !self.owns_tables() {
            return 0;
        }
        let mut removed = Vec::new();
        let mut waiting = self.files.deletions.waiting.lock();
        self.files.collect_obsolete(&mut waiting);
        while !waiting.files.is_empty() {
            removed.extend(self.files.remove_first(&mut waiting));
        }
        drop(waiting);
        let files = removed.len();
        self.metrics.tell(removed);
        files
    }

    /// Returns whether a few more arenas and tables have space: else files are not deleted slowly.
    fn has_space_to_wait(&self) -> bool {
        let needed_bytes =
            (self.options.arena_bytes + self.options.default_keyspace.table_bytes) * 8;
        let free_bytes = self.files.room_bytes(false);
        free_bytes.is_ok_and(|free_bytes| free_bytes >= needed_bytes)
    }
}

impl Files {
    fn collect_obsolete(&self, waiting: &mut Waiting) {
        for (placed, bytes) in self.obsolete.take() {
            self.tables.remove(placed);
            waiting.files.push_back((placed, bytes));
            self.deletions.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Cuts one step off the end of a table's file; false if it is short enough to be removed.
    fn cut(&self, placed: Placed, cutting: &mut Option<(Arc<dyn File>, u64)>) -> Result<bool> {
        if cutting.is_none() {
            let options = OpenOptions::buffered(OpenMode::ReadWrite);
            let file = self.data.open(placed, options)?;
            if file.links()? > 1 {
                return Ok(false);
            }
            let length_bytes = file.length_bytes()?;
            *cutting = Some((file, length_bytes));
        }
        let Some((file, length_bytes)) = cutting else {
            return Ok(false);
        };
        if *length_bytes <= STEP_BYTES {
            return Ok(false);
        }
        *length_bytes -= STEP_BYTES;
        file.truncate(*length_bytes)?;
        Ok(true)
    }

    /// Removes the first file, and returns its number. A file that cannot be removed now is an
    /// orphan, removed by the next opening.
    fn remove_first(&self, waiting: &mut Waiting) -> Option<u64> {
        waiting.cutting = None;
        let (placed, bytes) = waiting.files.pop_front()?;
        self.deletions.count.fetch_sub(1, Ordering::Relaxed);
        self.data.remove(placed, Stage::Listed).ok()?;
        self.space.forget_file(placed, bytes);
        Some(placed.file.number)
    }

    /// Returns the number of tables whose files wait to be deleted.
    pub(crate) fn tables_to_delete(&self) -> usize {
        self.deletions.count.load(Ordering::Relaxed) + self.obsolete.count()
    }
}

impl Metrics {
    /// Records the event, without the lock: a listener is a caller's code.
    fn tell(&self, tables: Vec<u64>) {
        if !tables.is_empty() {
            self.events.record(EventKind::TablesDeleted { tables });
        }
    }
}
