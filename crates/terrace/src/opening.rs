//! The number of an opening of a store.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, Result};

/// One opening of one store: handles of another opening do not count here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening(u64);

impl Opening {
    /// Makes a number that no other opening in this process has.
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Opening(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Refuses a batch that is to hold, or holds, writes to keyspaces of another opening.
    pub(crate) fn check(self, of_batch: Opening) -> Result<()> {
        if of_batch == self {
            return Ok(());
        }
        Err(Error::invalid(
            "the batch holds writes to a keyspace of another store, or of another opening of this \
             one",
        ))
    }
}
