//! The engine's parts for the crate `terrace-tools`, beyond the interface of an application.
//!
//! This module promises no stability: everything here may change with any release, together with
//! `terrace-tools`.

use terrace_lsm::compaction::policy::settings::PolicySettings;

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
