//! Tables in the directory that no edit lists and that this release cannot judge.

use terrace_lsm::table::read_properties;
use terrace_storage::Directory;

use crate::Error;

/// Returns whether an unlisted table stays: another release wrote it, or it cannot be read. Only a
/// table that this release could have written is an orphan of a crash.
pub fn stays(directory: &dyn Directory, name: &str) -> bool {
    let properties = read_properties(directory, name);
    matches!(properties, Err(Error::Unsupported { .. } | Error::Io(_)))
}
