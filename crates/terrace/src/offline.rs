//! The engine's parts for the crate `terrace-tools`, beyond the interface of an application.
//!
//! This module promises no stability: everything here may change with any release, together with
//! `terrace-tools`.
//!
//! Beside an open store: [`attend`] starts a service that ends with the store, and [`PolicyMoment`] has
//! all that compaction policies go by. Without a store: the names of files, and the engine's arithmetic.

use terrace_lsm::compaction::policy::settings::PolicySettings;

pub use crate::db::attendant::{Attendant, Attended, attend};
pub use crate::db::files::{NEW_SOCKET, SOCKET, table_number};
pub use crate::db::jobs::Claimed;
pub use crate::db::keyspaces::MAX_KEYSPACE_NAME_BYTES;
pub use crate::db::policy_moment::{PolicyMoment, PolicyQuestion};
pub use crate::write_buffer::slowdown::{Limits, Pressure, Slowdown, slowdown};

use crate::write_buffer::memtable::MemTable;
use crate::{Options, Result};

/// Refuses options that no store can work with.
///
/// # Errors
/// [`Error::InvalidArgument`](crate::Error::InvalidArgument), naming the option and the values that it
/// accepts.
pub fn check_options(options: &Options) -> Result<()> {
    options.check()
}

/// Returns the settings that the compaction policy goes by.
pub fn policy_settings(options: &Options) -> PolicySettings {
    options.policy_settings()
}

/// Returns the index budget that is sure to take this many records in an empty index.
pub fn index_bytes_for(records: u64) -> u64 {
    MemTable::index_bytes_for(records)
}
