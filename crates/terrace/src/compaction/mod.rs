//! Merging tables: policies decide, in pure functions; merges are executed elsewhere.

pub(crate) mod claim;
pub(crate) mod counted;
pub(crate) mod debt;
pub(crate) mod drop_rules;
pub(crate) mod estimates;
pub(crate) mod legality;
pub(crate) mod merge;
pub(crate) mod oldest_snapshot;
pub(crate) mod output_ranges;
pub(crate) mod overdue;
pub(crate) mod parts;
pub(crate) mod policy;
pub(crate) mod rate;
pub(crate) mod run;
pub(crate) mod slices;
pub(crate) mod space;
pub(crate) mod table_ends;
pub(crate) mod targets;
pub(crate) mod tiny_tables;

use crate::cursor::{Cursor, MergingCursor};

/// A merge of whatever holds versions.
pub(crate) type Versions = MergingCursor<Box<dyn Cursor + Send>>;

#[cfg(test)]
mod tests;
