//! The statistics of the read buffer.

/// Contents of the read buffer, and its work since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ReadBufferStatistics {
    /// Gets that it answered.
    pub hits: u64,
    /// Those of them whose answer was that the key is absent.
    pub absent_hits: u64,
    /// Gets that it could not answer.
    pub misses: u64,
    /// Writes that it stored.
    pub forwards_stored: u64,
    /// Writes whose key it did not hold, or not the room for.
    pub forwards_skipped: u64,
    /// Reads that it took in.
    pub fills_taken: u64,
    /// Reads that it refused because a write may have overtaken them.
    pub fills_dropped: u64,
    /// Entries that made room for others.
    pub evictions: u64,
    /// Number of times that it was put to sleep, because hits did not pay for its cost to writes.
    pub sleeps: u64,
    /// Memory that it takes, bookkeeping included.
    pub bytes: u64,
    /// Maximum memory that it may take now. While scans are many and gets are few, it leaves a part to
    /// blocks.
    pub capacity_bytes: u64,
}

impl ReadBufferStatistics {
    /// Returns the hits of all gets, from 0 to 1; `None` before the first.
    pub fn hit_ratio(&self) -> Option<f64> {
        let gets = self.hits + self.misses;
        (gets > 0).then(|| self.hits as f64 / gets as f64)
    }
}
