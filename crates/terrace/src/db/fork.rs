//! A store in a child that was forked from its owner.
//!
//! The child has a copy of the store, but none of its threads, and the locks that these held stay
//! held. Files, their locks and mappings are the parent's, too. So every call of an inherited
//! handle is refused by one load before any lock is taken, and handles that are dropped are leaked:
//! a drop would wait for threads, remove the socket, and give the lock of the store away.
//!
//! A child may open stores of its own. But `parking_lot` keeps a table of the threads that wait, and
//! it still names those of the parent, on stacks that new threads get: their wakes would be lost. So
//! a child of a process that had threads at work does without threads.
//!
//! A caller's code may fork in the middle of a call. So a change of a file is refused as well
//! ([`CountingStorage`](terrace_storage::CountingStorage)), and a leader looks again before it
//! stores a frame.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use terrace_storage::{self as storage, ForkMark, Operation};

use crate::db::Store;
use crate::db::statistics::Statistics;
use crate::options::{Background, Options};
use crate::{Error, Result};

/// The process that the next two are about.
static PROCESS: AtomicU64 = AtomicU64::new(0);
/// Its open stores that have threads.
static THREADED: AtomicUsize = AtomicUsize::new(0);
/// Those of all its ancestors that it inherited.
static INHERITED: AtomicUsize = AtomicUsize::new(0);

/// Makes the mark of an opening.
pub(crate) fn mark(path: &Path) -> Result<ForkMark> {
    // A child inherits the state of the thread's generator, and would give its own stores and tables
    // the numbers that its parent gives. The kernel's generator fails at most early in a boot.
    let _ = rand::rng().reseed();
    let mark = ForkMark::new()
        .map_err(|error| Error::from(storage::Error::new(Operation::Open, path, error)))?;
    if PROCESS.swap(mark.process(), Ordering::Relaxed) != mark.process() {
        INHERITED.fetch_add(THREADED.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }
    Ok(mark)
}

/// Refuses a store with threads where they would not work.
///
/// # Errors
/// [`Error::InvalidArgument`] in a child of a process that had such a store open.
pub(crate) fn check_threads(options: &Options) -> Result<()> {
    if has_threads(options) && INHERITED.load(Ordering::Relaxed) > 0 {
        return Err(Error::invalid(
            "this process was forked while a store with background threads was open, whose locks \
             stay held here; open the store with Background::Inline, or call exec first",
        ));
    }
    Ok(())
}

fn has_threads(options: &Options) -> bool {
    options.background == Background::Threads && !options.read_only
}

/// Keeps a handle's store for as long as the process lives.
pub(crate) fn leak<T: ?Sized>(kept: &Arc<T>) {
    std::mem::forget(Arc::clone(kept));
}

impl Store {
    /// Returns true in a child of the process that opened the store.
    #[inline(always)]
    pub(crate) fn is_inherited(&self) -> bool {
        self.mark.is_inherited()
    }

    /// # Errors
    /// [`Error::Forked`] in a child of the process that opened the store.
    #[inline(always)]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.is_inherited() {
            return Err(Error::Forked);
        }
        Ok(())
    }

    /// Counts the store among those with threads, if it is to have some.
    pub(crate) fn threads_begin(&self) {
        THREADED.fetch_add(usize::from(has_threads(&self.options)), Ordering::Relaxed);
    }

    /// The threads have ended.
    pub(crate) fn threads_ended(&self) {
        THREADED.fetch_sub(usize::from(has_threads(&self.options)), Ordering::Relaxed);
    }

    /// Returns the statistics that a child may see: nothing that a lock guards.
    pub(crate) fn statistics_of_inherited(&self) -> Statistics {
        Statistics {
            durability: self.durability,
            poisoned: Some(Error::Forked),
            ..Statistics::default()
        }
    }
}
