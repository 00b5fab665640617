//! Numbers of open files: those of tables in this process, and the limit of the process.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit};

/// Files of tables that are open in this process.
static OPEN_TABLES: AtomicUsize = AtomicUsize::new(0);

/// Counts the file of a table that is opened.
pub(crate) fn count_opened() {
    OPEN_TABLES.fetch_add(1, Ordering::Relaxed);
}

/// Counts the file of a table that is closed.
pub(crate) fn count_closed() {
    OPEN_TABLES.fetch_sub(1, Ordering::Relaxed);
}

/// Returns the number of files of tables that are open in this process.
pub(crate) fn open_tables() -> usize {
    OPEN_TABLES.load(Ordering::Relaxed)
}

/// Returns the number of files that this process may have open, `None` if there is no limit.
pub(crate) fn process_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}
