//! A store in a child that was forked from its owner.
//!
//! The child has a copy of the store, but none of its threads, and the locks that these held stay
//! held. Files, their locks and mappings are the parent's, too. So every call of an inherited
//! handle is refused by one load before any lock is taken, and handles that are dropped are leaked:
//! a drop would wait for threads, remove the socket, and give the lock of the store away.
//!
//! A child may open stores of its own. But `parking_lot` keeps a table of the threads that wait, and
//! it still names those of the parent, on stacks that new threads get: their wakes would be lost. So
//! a child of a process that had a store open does without threads, and uses its stores in one.
//!
//! A caller's code may fork in the middle of a call. So a change of a file is refused as well
//! ([`CountingStorage`](terrace_storage::CountingStorage)), and a leader looks again before it
//! stores a frame. A step whose listener forked ends at once in the child
//! ([`Store::guard`](crate::db::Store::guard)): another thread may have held any lock on its further way.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_storage::{self as storage, ForkMark, Operation};

use crate::db::owners::{Lifecycle, Writes};
use crate::db::statistics::Statistics;
use crate::options::{Background, Options};
use crate::{Error, Result};

/// The open stores of this process. One word: two first openings at the same time must not take
/// each other's stores for a parent's.
static STORES: AtomicU64 = AtomicU64::new(0);
/// Bits above it hold the number of the process; those below, the number of stores it has open.
const PROCESS_SHIFT: u32 = 32;
/// Bit that says that an ancestor had a store open when it forked.
const IS_INHERITED: u64 = 1 << (PROCESS_SHIFT - 1);

/// Returns the word as the process with a number goes on with it: stores of another process are the
/// parent's.
fn entered(stores: u64, process: u64) -> u64 {
    let own = process << PROCESS_SHIFT;
    let (of, open) = (
        stores >> PROCESS_SHIFT << PROCESS_SHIFT,
        stores % IS_INHERITED,
    );
    if of == own {
        return stores;
    }
    let is_inherited = open > 0 || stores & IS_INHERITED != 0;
    own | if is_inherited { IS_INHERITED } else { 0 }
}

/// Makes the mark of an opening.
pub fn mark(path: &Path) -> Result<ForkMark> {
    // A child inherits the state of the thread's generator, and would give its own stores and tables
    // the numbers that its parent gives. The kernel's generator fails at most early in a boot.
    let _ = rand::rng().reseed();
    let mark = ForkMark::new()
        .map_err(|error| Error::from(storage::Error::new(Operation::Open, path, error)))?;
    let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
    let _ = STORES.fetch_update(set, fetch, |stores| Some(entered(stores, mark.process())));
    Ok(mark)
}

/// Refuses a store with threads where they would not work: those of a store, and those that open one
/// for reading.
///
/// # Errors
/// [`Error::InvalidArgument`] in a child of a process that had a store open.
pub(crate) fn check_threads(options: &Options) -> Result<()> {
    let is_inherited = STORES.load(Ordering::Relaxed) & IS_INHERITED != 0;
    if is_inherited && options.background == Background::Threads {
        return Err(Error::invalid(
            "this process was forked while a store was open, whose locks may stay held here; open \
             the store with Background::Inline and use it in one thread, or call exec first",
        ));
    }
    Ok(())
}

/// An open store among those of its process, until it is dropped. With any options, threads of the
/// program may wait for its locks, or use it for reading.
pub(crate) struct Counted(ForkMark);

impl Counted {
    pub(crate) fn new(mark: ForkMark) -> Self {
        STORES.fetch_add(1, Ordering::Relaxed);
        Counted(mark)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.0.is_inherited() {
            STORES.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Keeps a handle's store for as long as the process lives.
pub(crate) fn leak<T: ?Sized>(kept: &Arc<T>) {
    std::mem::forget(Arc::clone(kept));
}

impl Lifecycle {
    /// # Errors
    /// [`Error::Forked`] in a child of the process that opened the store.
    #[inline(always)]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.is_inherited() {
            return Err(Error::Forked);
        }
        Ok(())
    }

    /// Returns true in a child of the process that opened the store.
    #[inline(always)]
    pub(crate) fn is_inherited(&self) -> bool {
        self.mark.is_inherited()
    }
}

impl Writes {
    /// Returns the statistics that a child may see: nothing that a lock guards.
    pub(crate) fn statistics_of_inherited(&self) -> Statistics {
        Statistics {
            durability: self.durability,
            poisoned: Some(Error::Forked),
            ..Statistics::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_stores_are_inherited_by_children_and_not_by_their_own_process() {
        let first = entered(0, 1);
        assert_eq!(first & IS_INHERITED, 0);
        assert_eq!(entered(first + 1, 1), first + 1, "another opening");
        assert_eq!(entered(first, 2) & IS_INHERITED, 0, "none was open");
        let child = entered(first + 2, 2);
        assert_eq!(child, 2 << PROCESS_SHIFT | IS_INHERITED);
        assert_eq!(entered(child, 2), child);
        assert_eq!(entered(child, 3), 3 << PROCESS_SHIFT | IS_INHERITED);
    }
}
