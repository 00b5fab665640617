//! Keys spread over a table, for dividing it into parts of known size.

use super::reader::{CursorOptions, TableReader};
use crate::Result;

/// With fewer partitions than this their entries are taken, too.
const ENOUGH: usize = 16;

impl TableReader {
    /// Returns user keys in order, with about as many bytes of the file between one and the next.
    /// They are the last keys (or separators from the next) of the index partitions, or of the data
    /// blocks if partitions are few.
    pub fn sampled_keys(&self, options: CursorOptions) -> Result<Vec<Vec<u8>>> {
        let coarse = self.top_index();
        if coarse.len() == 0 {
            return Ok(self.sampled_starts());
        }
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

    /// Returns about as many starts of range tombstones, for a table that holds nothing else.
    fn sampled_starts(&self) -> Vec<Vec<u8>> {
        let ranges = self.range_tombstones();
        let all = ranges.into_iter().flat_map(|ranges| ranges.iter());
        let mut starts: Vec<_> = all.map(|tombstone| tombstone.start.to_vec()).collect();
        starts.sort_unstable();
        starts.dedup();
        let step = starts.len().div_ceil(ENOUGH).max(1);
        starts.into_iter().step_by(step).collect()
    }
}
