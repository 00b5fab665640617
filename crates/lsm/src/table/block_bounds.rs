//! The longest contents of each kind of block. A reader asks before it allocates memory for them.
//!
//! A compressed block may stand for 32,768 times its bytes. So a reader believes a length only up to
//! the bound of its kind of block. The bound follows from the figures in the table's own footer, the
//! length of its file and the longest keys, values and blocks.

use super::format::{BLOCK_TRAILER_BYTES, MAX_BLOCK_BYTES, MAX_VALUE_BYTES};
use super::properties::TableProperties;
use crate::key::MAX_KEY_BYTES;

/// An entry's bytes beside its key and value, or a little more: its tag, three lengths and its place
/// among the restarts. The value of an entry of the index is a handle, which is counted here, too.
const ENTRY_BYTES: u64 = 64;
const LONGEST_KEY: u64 = MAX_KEY_BYTES as u64;

/// The expected contents of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// Entries of the table.
    Data,
    /// Places of data blocks.
    Partition,
    /// Places of partitions.
    TopIndex,
    /// Range tombstones.
    Ranges,
    /// Keys of the sample, and their versions.
    Sample,
    /// Footer, filter and sketch, which are never compressed.
    Plain,
}

/// The bounds of one table's blocks. The default knows no footer yet, and allows no compressed block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlockBounds {
    data: u64,
    partition: u64,
    top_index: u64,
    ranges: u64,
    sample: u64,
}

impl BlockBounds {
    pub(super) fn of(properties: &TableProperties) -> Self {
        let entries = |count: u64, bytes: u64| {
            let overhead = count.saturating_add(1).saturating_mul(ENTRY_BYTES);
            overhead.saturating_add(bytes)
        };
        let keys = properties.user_key_bytes;
        let all_data = entries(
            properties.entries,
            keys.saturating_add(properties.value_bytes),
        );
        // Each block of the index names others, no two the same, by keys no longer than one in each.
        let blocks = properties.file_bytes / (BLOCK_TRAILER_BYTES as u64 + 1);
        let blocks = blocks.min(properties.entries);
        let index = entries(blocks, keys.min(blocks.saturating_mul(LONGEST_KEY)));
        let ranges = properties.range_tombstones.as_ref();
        let ranges = ranges.map_or(0, |ranges| ranges.count);
        let sampled = properties.key_sample.as_ref();
        let sampled = sampled.map_or(0, |sample| sample.versions.min(properties.entries));
        BlockBounds {
            data: all_data.min(entries(1, LONGEST_KEY + MAX_VALUE_BYTES + MAX_BLOCK_BYTES)),
            partition: index.min(entries(1, LONGEST_KEY + MAX_BLOCK_BYTES)),
            top_index: index,
            ranges: entries(ranges, ranges.saturating_mul(2 * LONGEST_KEY)),
            sample: entries(sampled, keys.min(sampled.saturating_mul(LONGEST_KEY))),
        }
    }

    /// Returns the most bytes that the contents of a block may have if it takes `stored` bytes of the
    /// file.
    pub(super) fn most(&self, contents: Contents, stored: usize) -> usize {
        let most = match contents {
            Contents::Data => self.data,
            Contents::Partition => self.partition,
            Contents::TopIndex => self.top_index,
            Contents::Ranges => self.ranges,
            Contents::Sample => self.sample,
            Contents::Plain => return stored,
        };
        usize::try_from(most).unwrap_or(usize::MAX)
    }
}
