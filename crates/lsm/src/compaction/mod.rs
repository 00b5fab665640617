//! Compaction: policies decide in pure functions, and one merge of cursors executes. Threads and files are
//! the caller's.

pub mod claim;
pub mod cost;
pub mod counted;
pub mod debt;
pub mod drop_rules;
pub mod estimates;
pub(crate) mod lateness;
pub mod legality;
pub mod merge;
pub mod oldest_snapshot;
pub mod output;
pub(crate) mod output_ranges;
pub mod parts;
pub mod placement;
pub mod policy;
pub mod rate;
pub mod run;
pub mod slices;
pub mod space;
pub mod table_ends;
pub mod targets;
pub mod tiny_tables;

use crate::cursor::{Cursor, MergingCursor};

/// A merge of any cursors over versions.
pub type Versions = MergingCursor<Box<dyn Cursor + Send>>;

#[cfg(test)]
mod tests;
