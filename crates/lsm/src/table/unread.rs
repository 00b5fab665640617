//! The block that a lookup would have to read from the table's device. It is for callers that look up many keys, and
//! let the device begin with all of them.

use super::format::BlockHandle;
use super::reader::{CursorOptions, TableReader};
use crate::Result;
use crate::key::{InternalKey, SequenceNumber};

/// A data block that is neither in the cache nor copied to a faster device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    handle: BlockHandle,
}

impl TableReader {
    /// Returns the block that [`TableReader::get`] would read from the file; `None` if it would
    /// read none.
    pub fn unread_block(
        &self,
        key: &[u8],
        hash: u64,
        snapshot: SequenceNumber,
        options: CursorOptions,
    ) -> Result<Option<Unread>> {
        if !self.may_contain(hash) {
            return Ok(None);
        }
        let target = InternalKey::seek(key, snapshot);
        let at = self.top_index().position(target);
        let Some(partition) = self.partition(at, options.of_lookup())? else {
            return Ok(None);
        };
        let handle = partition.child(partition.position(target));
        let handle = handle.filter(|handle| !self.is_at_hand(*handle));
        Ok(handle.map(|handle| Unread { handle }))
    }

    /// Lets the device begin to read a block; false if it is in the page cache already.
    pub fn start_read(&self, unread: Unread) -> bool {
        let BlockHandle {
            offset,
            length_bytes,
        } = unread.handle;
        self.source().file.start_read(offset, length_bytes)
    }
}
