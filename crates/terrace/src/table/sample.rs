//! Keys spread over a table, for dividing it into parts of known size.

use super::reader::{CursorOptions, TableReader};
use crate::Result;

/// With fewer partitions than this their entries are taken, too.
const ENOUGH: usize = 16;

impl TableReader {
    /// User keys in order, with about as many bytes of the file between one and the next: the last
    /// keys (or what separates them from the next) of the index partitions, or of the data blocks
    /// if partitions are few.
    pub(crate) fn sampled_keys(&self, options: CursorOptions) -> Result<Vec<Vec<u8>>> {
        let coarse = self.top_index();
        if coarse.len() >= ENOUGH {
            return Ok(coarse.user_keys().collect());
        }
        let mut fine = Vec::new();
        for at in 0..coarse.len() {
            if let Some(partition) = self.partition(at, options)? {
                fine.extend(partition.user_keys());
            }
        }
        Ok(fine)
    }
}
