//! The one trait of a store under test.

use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use terrace::TimeProfile;

use crate::settings::Settings;
use crate::tables::Tables;

/// An error of a store, in words: a harness only passes it on.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Result of an action of a store or the harness.
pub type Result<T> = std::result::Result<T, Error>;

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To greater keys.
    Forward,
    /// To smaller keys.
    Backward,
}

/// A store under test, shared by all clients of a run.
///
/// A write that returns is acknowledged in the durability class that the store was opened in.
pub trait Store: Send + Sync {
    /// Sets a key's value.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a key.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Shows a key's value to `read`, borrowed where the store can lend it; false if there is none.
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Visits up to `limit` entries from `start` on, both ways `start` included; with no start, from
    /// the first (or last) entry.
    fn scan(
        &self,
        start: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()>;

    /// Returns its tables, if it was opened with [`Settings::tables`] and has transactions.
    fn tables(&self) -> Option<&dyn Tables> {
        None
    }

    /// Waits until everything is in tables and no flush or merge is due, and returns the moment. A
    /// store that can only be polled does not count the polling. A store that deletes files slowly
    /// does not count the wait for their space.
    fn settle(&self) -> Result<Instant>;

    /// Returns the background work. The harness asks ten times a second or more, so it must be
    /// cheap. By default there is none, as for a store that does not report any.
    fn activity(&self) -> Activity {
        Activity::default()
    }

    /// Returns whether a file, named by its path within the store's directory, holds the last
    /// writes (a log, a journal, an arena) or nothing of the data (a manifest). Its bytes are then
    /// counted apart from those of tables. By default none does.
    fn is_beside_tables(&self, _file: &Path) -> bool {
        false
    }

    /// Returns the bytes of tables that flushes and merges have written since it was opened, by the
    /// store's own count, if it has one.
    fn table_bytes_written(&self) -> Option<u64> {
        None
    }

    /// Returns where the time of its operations went since it was opened, if it watches itself.
    fn time_profile(&self) -> Option<TimeProfile> {
        None
    }

    /// Closes the store in order. By default dropping it is enough.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Background work of a store, as far as it reports any. Counts only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Flushes that have ended.
    pub flushes: u64,
    /// Compactions that have ended.
    pub compactions: u64,
    /// Whether a flush runs at this moment.
    pub flushing: bool,
    /// Whether a compaction runs at this moment.
    pub compacting: bool,
    /// Whether writers are slowed down or stopped at this moment; `None` if the store cannot tell.
    pub stalled: Option<bool>,
}

/// A store that has been opened, and how.
pub struct Opened {
    /// The store.
    pub store: Box<dyn Store>,
    /// Events that an acknowledged write survives, in the store's own words.
    pub durability: String,
    /// Its version, and each of its settings: name and value, to be printed.
    pub settings: Vec<(String, String)>,
}

/// A store that can take part: its name, and how it is opened in an empty directory or in one it made.
#[derive(Clone, Copy)]
pub struct Contestant {
    /// The name in `--stores` and reports.
    pub name: &'static str,
    /// A line for `--help`.
    pub about: &'static str,
    /// Opens it.
    pub open: fn(&Path, &Settings) -> Result<Opened>,
}
