//! What a reader pins: the MemTables and the version of the levels, as of one moment.

use std::sync::Arc;

use crate::levels::Version;
use crate::write_buffer::memtable::MemTable;

/// Everything there is to read. A reader loads it *before* it takes its number: then all versions
/// up to that number are in it, or in frames written after the reader began.
pub(crate) struct View {
    /// From the youngest (the active one, unless the store is read-only) to the oldest.
    pub(crate) memtables: Vec<Arc<MemTable>>,
    pub(crate) version: Arc<Version>,
}
