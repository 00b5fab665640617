//! Entries of a store, written to a file or a pipe, a row each.

mod resume;
mod rows;

pub use resume::{LastRow, resume_point};
pub use rows::Rows;

/// The columns of a row.
pub const KEY: &str = "key";
pub const VALUE: &str = "value";
