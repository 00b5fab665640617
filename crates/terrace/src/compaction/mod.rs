//! Merging tables: policies decide what, `execute` does it, and the drop rules say which versions
//! the output still needs.

mod merging;

pub(crate) use merging::MergingCursor;
