//! The cache of a tier in statistics.

use terrace_lsm::sync::atomic::{AtomicU64, Ordering};

use super::TierCache;

/// The cache of a tier for blocks of slower tiers. Counts begin with the opening of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TierCacheStatistics {
    /// Whether it is in use. It is not if its file could not be made, or if the tables leave no room for it. A
    /// file named `CACHE` that is none of a cache keeps it off, and so do failures of its device in a row.
    pub is_on: bool,
    /// Maximum bytes of its file.
    pub capacity_bytes: u64,
    /// Bytes of the blocks in it.
    pub block_bytes: u64,
    /// Number of these blocks.
    pub blocks: u64,
    /// Bytes of memory for its index and for the counts of reads.
    pub memory_bytes: u64,
    /// Blocks that lookups found in it.
    pub hits: u64,
    /// Blocks that lookups did not find in it.
    pub misses: u64,
    /// Blocks that it took in.
    pub admitted: u64,
    /// Blocks that it refused, since they are read too seldom.
    pub rejected: u64,
    /// Blocks that stayed when their segment was emptied.
    pub kept: u64,
    /// Blocks that went for others.
    pub evicted: u64,
    /// Entries that were damaged, or another's. Each was a miss.
    pub damaged: u64,
    /// Failed reads and writes of its file.
    pub failures: u64,
}

impl TierCacheStatistics {
    /// Returns the statistics of a cache that could not be opened.
    pub(super) fn of_none(capacity_bytes: u64) -> Self {
        TierCacheStatistics {
            capacity_bytes,
            ..TierCacheStatistics::default()
        }
    }
}

impl TierCache {
    pub(super) fn statistics(&self, capacity_bytes: u64) -> TierCacheStatistics {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (blocks, block_bytes) = (self.index.len(), self.index.block_bytes());
        TierCacheStatistics {
            is_on: self.is_on(),
            capacity_bytes,
            block_bytes,
            blocks,
            memory_bytes: count(&self.held_bytes),
            hits: count(&self.counts.hits),
            misses: count(&self.counts.misses),
            admitted: count(&self.counts.admitted),
            rejected: count(&self.counts.rejected),
            kept: count(&self.counts.kept),
            evicted: count(&self.counts.evicted),
            damaged: count(&self.counts.damaged),
            failures: self.file.failures(),
        }
    }
}
