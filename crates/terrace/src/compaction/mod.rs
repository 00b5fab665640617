//! Merging tables: policies decide, in pure functions; merges are executed elsewhere.

pub(crate) mod drop_rules;
pub(crate) mod legality;
pub(crate) mod merge;
pub(crate) mod merging;
pub(crate) mod policy;
