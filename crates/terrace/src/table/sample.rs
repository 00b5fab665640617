//! Keys spread over a table, for dividing it into parts of known size.

use std::sync::Arc;

use super::block::BlockCursor;
use super::reader::{CursorOptions, TableReader};
use crate::Result;

/// With fewer partitions than this their entries are taken, too.
const ENOUGH: usize = 16;

impl TableReader {
    /// User keys in order, with about as many bytes of the file between one and the next: the last
    /// keys (or what separates them from the next) of the index partitions, or of the data blocks
    /// if partitions are few.
    pub(crate) fn sampled_keys(&self, options: CursorOptions) -> Result<Vec<Vec<u8>>> {
        let (mut coarse, mut handles) = (Vec::new(), Vec::new());
        let top = self.properties().top_index;
        let mut cursor = BlockCursor::new(Arc::clone(self.top_index()));
        let malformed = |fault| self.source().corruption(top, fault);
        cursor.seek_to_first().map_err(malformed)?;
        while cursor.valid() {
            coarse.push(cursor.key().user_key.to_vec());
            handles.push(self.child_handle(cursor.value(), cursor.position(), top)?);
            cursor.next().map_err(malformed)?;
        }
        if coarse.len() >= ENOUGH {
            return Ok(coarse);
        }
        let mut fine = Vec::new();
        for handle in handles {
            let mut cursor = BlockCursor::new(self.block(handle, options)?);
            let malformed = |fault| self.source().corruption(handle, fault);
            cursor.seek_to_first().map_err(malformed)?;
            while cursor.valid() {
                fine.push(cursor.key().user_key.to_vec());
                cursor.next().map_err(malformed)?;
            }
        }
        Ok(fine)
    }
}
