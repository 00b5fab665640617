//! Descriptors of the tables of all stores of a process: their number, and the choice of the tables
//! to close where there are too many.
//!
//! A process may have a limited number of files open, and the program around a store needs some of
//! them. The files of tables are the ones that can be spared. An open table goes on without its
//! file and opens it again when it reads ([`TableFile`]).
//!
//! A child of `fork` has a copy of the list, and of locks that may stay held. So it passes over the
//! stores of its parent.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use terrace_storage::{Error, ErrorKind, ForkMark};

use super::table_file::TableFile;
use crate::open_files;

/// Upper bound of the default, even if the process may open more: each table takes memory, too.
const MAX_DEFAULT_TABLES: usize = 1000;
/// The part of a reached limit that is closed at once: a look at all files pays for as many
/// openings.
const CLOSED_PART: usize = 16;

/// Those of stores that share a limit.
static OPEN_SHARED: AtomicUsize = AtomicUsize::new(0);
/// Rises with every opening of a file. The clock by which files are cold.
static OPENINGS: AtomicU64 = AtomicU64::new(1);
/// The stores of this process. Without a lock, which a child could find held.
static STORES: ArcSwapOption<Vec<Weak<TableFiles>>> = ArcSwapOption::const_empty();

/// The largest number of open tables, and of the bytes that they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLimit {
    pub(crate) tables: usize,
    /// Bytes of their filters and top indexes; `None` for no limit.
    pub(crate) metadata_bytes: Option<u64>,
    /// Whether the tables of all stores of the process count, or those of the store alone.
    is_shared: bool,
}

impl TableLimit {
    /// Returns a limit that the user chose for one store, or else the default.
    pub fn of(chosen: Option<usize>) -> Self {
        match chosen {
            Some(tables) => TableLimit {
                tables,
                metadata_bytes: None,
                is_shared: false,
            },
            None => TableLimit {
                tables: default_tables(open_files::process_limit()),
                metadata_bytes: None,
                is_shared: true,
            },
        }
    }

    /// Returns the limit with one on the bytes of filters and top indexes.
    pub fn with_metadata_bytes(self, bytes: Option<u64>) -> Self {
        TableLimit {
            metadata_bytes: bytes,
            ..self
        }
    }
}

/// Returns the default of the tables that are kept open. Half of the process's files are left to
/// the program, to arenas, and to tables that are being written.
fn default_tables(process_limit: Option<u64>) -> usize {
    let half = process_limit.map_or(u64::MAX, |limit| limit / 2);
    let half = usize::try_from(half).unwrap_or(usize::MAX);
    half.clamp(1, MAX_DEFAULT_TABLES)
}

/// Returns the time of the clock by which files are cold.
pub(super) fn now() -> u64 {
    OPENINGS.load(Ordering::Relaxed)
}

/// Calls until there is a descriptor for the call, or no table is left to be closed.
pub fn sparing<T>(call: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    let mut attempts = 1;
    loop {
        match call() {
            Err(error) if closes_tables_for(attempts, &error) => attempts += 1,
            outcome => return outcome,
        }
    }
}

/// Closes tables if that helps against the error of a call that was made `attempts` times. It does
/// not help against the machine's limit: other processes take the descriptors that are closed here.
pub fn closes_tables_for(attempts: usize, error: &Error) -> bool {
    /// Other threads may take the descriptors that were closed for the call.
    const MAX_ATTEMPTS: usize = 16;
    attempts < MAX_ATTEMPTS && error.kind() == ErrorKind::TooManyFiles && close_coldest()
}

/// Closes the coldest files of tables of all stores of the process, an eighth of them and a few at
/// least. Returns false if there is none.
fn close_coldest() -> bool {
    const FEW: usize = 8;
    let count = (open_files::open_tables() / 8).max(FEW);
    close_among(&stores(), count) > 0
}

/// Returns the stores that are this process's own.
fn stores() -> Vec<Arc<TableFiles>> {
    let stores = STORES.load();
    let open = stores.iter().flat_map(|stores| stores.iter());
    let open = open.filter_map(Weak::upgrade);
    open.filter(|store| !store.mark.is_inherited()).collect()
}

/// Closes `count` of the coldest files of some stores; returns the number of closed files.
fn close_among(stores: &[Arc<TableFiles>], count: usize) -> usize {
    let mut files: Vec<(u64, Arc<TableFile>)> = Vec::new();
    for store in stores {
        let listed = store.files.lock();
        let open = listed.iter().filter_map(Weak::upgrade);
        files.extend(
            open.filter(|file| file.is_open())
                .map(|file| (file.last_used(), file)),
        );
    }
    let count = count.min(files.len());
    if count < files.len() {
        files.select_nth_unstable_by_key(count, |(last_used, _)| *last_used);
        files.truncate(count);
    }
    files.iter().filter(|(_, file)| file.close()).count()
}

/// The files of one store's tables.
#[derive(Debug)]
pub(crate) struct TableFiles {
    mark: ForkMark,
    limit: TableLimit,
    open: AtomicUsize,
    files: Mutex<Vec<Weak<TableFile>>>,
}

impl TableFiles {
    /// Enters a store in the list of the process.
    pub(super) fn new(limit: TableLimit) -> std::io::Result<Arc<Self>> {
        let files = Arc::new(TableFiles {
            mark: ForkMark::new()?,
            limit,
            open: AtomicUsize::new(0),
            files: Mutex::default(),
        });
        STORES.rcu(|stores| {
            let stores = stores.iter().flat_map(|stores| stores.iter());
            let open = stores.filter(|store| store.strong_count() > 0);
            let stores = open.cloned().chain([Arc::downgrade(&files)]);
            Arc::new(stores.collect::<Vec<_>>())
        });
        Ok(files)
    }

    /// Lists a file, which counts while it is open.
    pub(super) fn enter(&self, file: &Arc<TableFile>) {
        const SLACK: usize = 64;
        let mut files = self.files.lock();
        if files.len() >= 2 * self.open.load(Ordering::Relaxed) + SLACK {
            files.retain(|file| file.strong_count() > 0);
        }
        files.push(Arc::downgrade(file));
    }

    /// Counts a file that is about to be opened, and closes colder ones if that is one too many.
    pub(super) fn count(self: &Arc<Self>) -> Counted {
        OPENINGS.fetch_add(1, Ordering::Relaxed);
        let own = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        open_files::count_opened();
        let shared = usize::from(self.limit.is_shared);
        let all = OPEN_SHARED.fetch_add(shared, Ordering::Relaxed) + shared;
        let counted = Counted(Arc::clone(self));
        let limit = self.limit.tables;
        let spared = limit / CLOSED_PART;
        if self.limit.is_shared && all > limit {
            let mut sharers = stores();
            sharers.retain(|store| store.limit.is_shared);
            close_among(&sharers, all - limit + spared);
        } else if !self.limit.is_shared && own > limit {
            close_among(&[Arc::clone(self)], own - limit + spared);
        }
        counted
    }
}

/// An open file in the counts of its store and its process.
#[derive(Debug)]
pub(super) struct Counted(Arc<TableFiles>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        open_files::count_closed();
        let shared = usize::from(self.0.limit.is_shared);
        OPEN_SHARED.fetch_sub(shared, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_half_of_what_the_process_may_open() {
        assert_eq!(default_tables(Some(1024)), 512);
        assert_eq!(default_tables(Some(64)), 32);
        assert_eq!(default_tables(Some(0)), 1);
        assert_eq!(default_tables(Some(1 << 20)), 1000);
        assert_eq!(default_tables(None), 1000);
        assert_eq!(TableLimit::of(Some(7)).tables, 7);
    }
}
