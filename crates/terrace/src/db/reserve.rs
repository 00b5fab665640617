//! A reserve of space: a full disk is no dead end.
//!
//! Every delete writes first, and so does the merge that gives its space back. So the file `RESERVE`
//! keeps empty blocks of the file system. A step that makes room removes it when it meets a full disk:
//! an opening, a flush, a merge, an edit of the manifest. While it is gone, no arena is begun for new
//! values; deletes go on. The store makes it again once twice its size is free and no flush waits.
//!
//! The blocks are allocated, not filled with zeros: a file system that compresses keeps no block of
//! zeros. Where the file system cannot allocate them there is no reserve. Its absence is never a reason
//! to refuse anything.

use std::time::Duration;

use terrace_lsm::sync::atomic::{AtomicU32, Ordering};
use terrace_lsm::sync::{Instant, Mutex};
use terrace_storage::{ErrorKind, OpenMode, OpenOptions, Purpose};

use crate::db::Store;
use crate::db::file_names::RESERVE;
use crate::db::owners::{Files, Reads};
use crate::event::EventKind;
use crate::{Error, Result};

/// The reserve is one part in this many of the bytes in tables.
const SHARE: u64 = 32;
/// The largest reserve.
const MAX_BYTES: u64 = 64 << 20;
/// Bytes in tables below which there is no reserve: a small store fits into space that others give
/// back.
const MIN_TABLE_BYTES: u64 = 8 << 20;

/// Time between giving the reserve back and making it again.
const PAUSE: Duration = Duration::from_secs(1);
/// Number of groups of deletes that do not wait for merges after one that met a full disk.
const PASSING_GROUPS: u32 = 256;

/// The state of the file.
#[derive(Default)]
pub(crate) struct Reserve {
    state: Mutex<State>,
    /// Number of groups of deletes that still pass. The next one tries to wait for merges like all
    /// others.
    passing: AtomicU32,
}

#[derive(Clone, Copy, Default)]
struct State {
    held_bytes: u64,
    /// Time at which a full disk took the reserve, if it was not made again.
    gone_since: Option<Instant>,
    /// Bytes that were given back without notice to listeners yet.
    untold_bytes: Option<u64>,
    /// Whether the file system allocates no blocks.
    is_unsupported: bool,
}

/// The next step for the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Keep,
    Remove,
    /// A new file of this size takes the place of the present one.
    Make(u64),
}

/// Returns the reserve of a store with this number of bytes in tables.
fn wanted_bytes(table_bytes: u64) -> u64 {
    if table_bytes < MIN_TABLE_BYTES {
        return 0;
    }
    (table_bytes / SHARE).min(MAX_BYTES)
}

/// Returns the next step for a reserve of `held_bytes`. It follows the tables in large steps only.
fn next(held_bytes: u64, wanted_bytes: u64, free_bytes: u64) -> Next {
    if wanted_bytes == 0 {
        return if held_bytes > 0 {
            Next::Remove
        } else {
            Next::Keep
        };
    }
    let is_near = wanted_bytes / 2 <= held_bytes && held_bytes <= wanted_bytes.saturating_mul(2);
    let is_room_for_two = free_bytes.saturating_add(held_bytes) >= wanted_bytes.saturating_mul(2);
    match held_bytes > wanted_bytes || is_room_for_two {
        true if !is_near => Next::Make(wanted_bytes),
        _ => Next::Keep,
    }
}

impl Reserve {
    /// Notes that a group of writes met a full disk. Deletes do not ask for a while, since each would
    /// wait for a merge that fails.
    pub(crate) fn met_full_disk(&self) {
        self.passing.store(PASSING_GROUPS, Ordering::Relaxed);
    }

    /// Returns whether deletes pass without waiting for merges at present.
    pub(crate) fn deletes_skip_waiting(&self) -> bool {
        self.passing.load(Ordering::Relaxed) > 0
    }

    /// Counts a group of deletes that passes. For the leader.
    pub(crate) fn count_skipped(&self) {
        let passing = &self.passing;
        // Zero stays.
        let _ = passing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(1)
        });
    }

    /// Returns the state, with the news that listeners do not know; from now on they count as
    /// known. A store that wants no reserve lacks none.
    fn take_news(&self, wanted_bytes: u64) -> State {
        let mut state = self.state.lock();
        if wanted_bytes == 0 {
            state.gone_since = None;
        }
        let seen = *state;
        state.untold_bytes = None;
        seen
    }

    /// Notes how the making of a file ended. Returns whether a reserve that was gone is there again.
    fn note_made(&self, bytes: u64, made: terrace_storage::Result<()>) -> bool {
        let mut state = self.state.lock();
        match made {
            Ok(()) => {
                state.held_bytes = bytes;
                state.gone_since.take().is_some()
            }
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                // No later step brings it back: the store goes on without.
                state.is_unsupported = true;
                state.gone_since = None;
                false
            }
            Err(_) => false,
        }
    }
}

impl Store {
    /// Takes over the reserve of an earlier opening, whatever its size.
    pub(crate) fn find_reserve(&self) -> Result<()> {
        let entries = self.files.directory.list()?;
        let found = entries.iter().find(|entry| entry.name == RESERVE);
        let wanted_bytes = wanted_bytes(self.reads.table_bytes());
        let is_short = || -> Result<bool> {
            Ok(wanted_bytes > 0 && self.files.directory.free_space_bytes()? < wanted_bytes * 2)
        };
        let mut state = self.files.reserve.state.lock();
        match found {
            Some(entry) => state.held_bytes = entry.length_bytes.max(1),
            None => state.gone_since = is_short()?.then(Instant::now),
        }
        Ok(())
    }

    /// Does a step; if the disk is full, again without the reserve.
    pub(crate) fn with_reserve<T>(&self, step: impl Fn() -> Result<T>) -> Result<T> {
        match step() {
            Err(error) if self.gives_reserve_for(&error) => step(),
            done => done,
        }
    }

    /// Gives the reserve back to a step that failed for want of space, if the reserve is enough for it.
    /// Otherwise the store would make and remove it again and again beside a merge that needs more.
    pub(crate) fn gives_reserve_for(&self, error: &Error) -> bool {
        let is_enough = match error {
            // The capacity of a tier is full: its own reserve is for that.
            Error::NoSpace { path, .. } if self.files.space.is_bounded(path) => false,
            Error::NoSpace { needed_bytes, .. } => {
                let free_bytes = self.files.directory.free_space_bytes().unwrap_or(0);
                free_bytes.saturating_add(self.files.reserve_bytes()) >= *needed_bytes
            }
            error => error.is_no_space(),
        };
        is_enough && self.give_reserve_back()
    }

    /// Removes the reserve. Returns false if there is none.
    fn give_reserve_back(&self) -> bool {
        let mut state = self.files.reserve.state.lock();
        if state.held_bytes == 0 {
            return false;
        }
        let removed = self.files.directory.remove(RESERVE);
        let is_given_back = removed.is_ok();
        match removed {
            Ok(()) => state.untold_bytes = Some(state.held_bytes),
            // Somebody else has removed it, and may have used the space.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => return false,
        }
        state.held_bytes = 0;
        state.gone_since = Some(Instant::now());
        drop(state);
        if !is_given_back {
            return false;
        }
        // Before the sync, btrfs gives nothing back.
        if let Err(error) = self.files.directory.sync() {
            self.poison(error.into());
        }
        true
    }

    /// Removes tables that deleted ranges hide. Returns false if there is none, or in a listener's
    /// call: its thread may be the one that removes some.
    pub(crate) fn gives_hidden_tables(&self) -> bool {
        let may_wait = self.metrics.events.may_wait().is_ok();
        may_wait && self.remove_all_hidden_tables().is_ok_and(|removed| removed)
    }

    /// Removes the files of arenas that are free. Returns false if that failed.
    pub(crate) fn gives_free_slots(&self) -> bool {
        // Before the sync, btrfs gives nothing back.
        self.remove_free_slots().is_ok() && self.manifest_log.arena_directory.sync().is_ok()
    }

    /// Fails while a full disk has the reserve and there is no space for another: the rest is for steps
    /// that make room.
    pub(crate) fn check_reserve(&self) -> Result<()> {
        self.check_tiers()?;
        if !self.files.lacks_reserve() {
            return Ok(());
        }
        let needed_bytes = wanted_bytes(self.reads.table_bytes()) * 2;
        let is_free =
            || -> Result<bool> { Ok(self.files.directory.free_space_bytes()? >= needed_bytes) };
        if is_free()? {
            return Ok(());
        }
        self.remove_free_slots()?;
        if is_free()? {
            return Ok(());
        }
        Err(Error::NoSpace {
            path: self.files.directory.shown(RESERVE),
            needed_bytes,
        })
    }

    /// Fails if tiers have no room for the tables of all arenas and of another one, beside their reserves.
    fn check_tiers(&self) -> Result<()> {
        if !self.files.space.is_limited() {
            return Ok(());
        }
        let needed_bytes = self.unflushed_table_bytes() + self.next_arena_bytes();
        match self.is_free(needed_bytes, false)? {
            true => Ok(()),
            false => Err(Error::NoSpace {
                path: self.files.path.clone(),
                needed_bytes,
            }),
        }
    }

    /// Makes or removes the file, as the tables and the free space require, and reports the change. A
    /// failed step is tried again the next time. For the deletion worker.
    pub(crate) fn look_after_reserve(&self) {
        if self.options.read_only || self.lifecycle.closing.load(Ordering::Acquire) {
            return;
        }
        let wanted_bytes = wanted_bytes(self.reads.table_bytes());
        let state = self.files.reserve.take_news(wanted_bytes);
        if let Some(bytes) = state.untold_bytes {
            self.metrics
                .events
                .record(EventKind::ReserveGivenBack { bytes });
        }
        let may_change = next(state.held_bytes, wanted_bytes, u64::MAX) != Next::Keep;
        if may_change
            && !state.is_unsupported
            && !self.reads.reserve_waits(&state)
            && self.owns_tables()
        {
            let free_bytes = self.files.directory.free_space_bytes().unwrap_or(0);
            self.change_reserve(next(state.held_bytes, wanted_bytes, free_bytes));
        }
    }

    /// Takes the step. No lock is held while files are made: an edit that meets a full disk must
    /// not wait for them.
    fn change_reserve(&self, next: Next) {
        if next == Next::Keep || !self.files.remove_reserve() {
            return;
        }
        let Next::Make(bytes) = next else {
            return;
        };
        let made = self.files.allocate_reserve(bytes);
        if made.is_err() {
            let _ = self.files.directory.remove(RESERVE);
        }
        if self.files.reserve.note_made(bytes, made) {
            self.metrics.events.record(EventKind::ReserveMade { bytes });
        }
    }
}

impl Files {
    fn allocate_reserve(&self, bytes: u64) -> terrace_storage::Result<()> {
        let options = OpenOptions::buffered(OpenMode::CreateNew);
        let file = self.directory.open(RESERVE, options)?;
        file.allocate(bytes)?;
        // The file's length is the size of the reserve. The block is allocated, and overwriting it
        // takes none.
        file.write_at(&[0], bytes.saturating_sub(1), Purpose::Other)?;
        file.sync(Purpose::Other)
    }

    /// Returns true if a full disk took the reserve and it was not made again.
    pub(crate) fn lacks_reserve(&self) -> bool {
        self.reserve.state.lock().gone_since.is_some()
    }

    /// Removes the file, if there is one. Returns false if it stays.
    fn remove_reserve(&self) -> bool {
        let mut state = self.reserve.state.lock();
        if state.held_bytes > 0
            && let Err(error) = self.directory.remove(RESERVE)
            && error.kind() != ErrorKind::NotFound
        {
            return false;
        }
        state.held_bytes = 0;
        true
    }

    /// Returns the bytes that the reserve holds.
    pub(crate) fn reserve_bytes(&self) -> u64 {
        self.reserve.state.lock().held_bytes
    }
}

impl Reads {
    /// Returns whether a reserve that was given back is not to be made again yet: a flush waits for
    /// space, or the step that met a full disk needs time to use it.
    fn reserve_waits(&self, state: &State) -> bool {
        let is_early = |since: Instant| since.elapsed() < PAUSE;
        let waits = || self.view.load().memtables.len() > 1;
        state
            .gone_since
            .is_some_and(|since| is_early(since) || waits())
    }

    fn table_bytes(&self) -> u64 {
        let view = self.view.load();
        view.version
            .tables()
            .map(|(_, table)| table.size_bytes)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_thirty_second_of_the_tables_is_kept() {
        assert_eq!(wanted_bytes(8 * MIB - 1), 0);
        assert_eq!(wanted_bytes(8 * MIB), MIB / 4);
        assert_eq!(wanted_bytes(1 << 30), 32 * MIB);
        assert_eq!(wanted_bytes(1 << 40), 64 * MIB);
    }

    #[test]
    fn it_is_made_where_twice_its_size_is_free() {
        assert_eq!(next(0, 10, 19), Next::Keep);
        assert_eq!(next(0, 10, 20), Next::Make(10));
        assert_eq!(next(0, 0, 100), Next::Keep);
        assert_eq!(next(5, 0, 0), Next::Remove);
    }

    #[test]
    fn it_follows_the_tables_in_large_steps() {
        for held in 5..=20 {
            assert_eq!(next(held, 10, 100), Next::Keep, "{held}");
        }
        assert_eq!(next(4, 10, 100), Next::Make(10));
        assert_eq!(next(4, 10, 15), Next::Keep, "no room");
        assert_eq!(next(21, 10, 0), Next::Make(10), "smaller at any time");
    }
}
