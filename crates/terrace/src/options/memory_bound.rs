//! The sizes of a store whose memory is bounded by `Options::memory_bytes`. All functions are pure.
//!
//! A size that has its default follows from the bound, and one that was set is taken off first. The parts
//! of the sum are in [`Parts`]. The cache takes what the other parts leave, and holds filters and top
//! indexes of open tables besides blocks and records.
//!
//! docs/decisions/caches-and-memory.md has the figures, with which bounded stores were measured.

use std::fmt;

use terrace_lsm::table::FILTER_BUILD_BYTES_PER_KEY;

use crate::options::{ForwardPolicy, Options};
use crate::{Error, Result};

const MIB: u64 = 1 << 20;

/// The smallest cache that a bound must leave.
const MIN_CACHE_BYTES: u64 = 4 * MIB;
/// The smallest arena that follows from a bound.
const MIN_ARENA_BYTES: u64 = 256 << 10;
/// Buffers of one compaction: a window of 256 KiB for each of a usual number of inputs, a window that is
/// read ahead, and the output.
const COMPACTION_BYTES: u64 = 8 * MIB;
/// The smallest reserve for the program's threads and the free memory of its allocator.
const MIN_RESERVE_BYTES: u64 = 8 * MIB;
/// Part of the bound that a filter may take while it is built, and the least that it may take.
const FILTER_PART: u64 = 40;
const MIN_FILTER_BYTES: u64 = MIB;
/// Part of the cache that filters and top indexes of open tables may take.
const TABLES_PART: u64 = 2;
/// Part of the cache that all transactions together may take.
const TRANSACTIONS_PART: u64 = 4;

/// The parts of a store's memory, in bytes.
struct Parts {
    arenas: u64,
    pinned: u64,
    compactions: u64,
    reserve: u64,
    cache: u64,
}

impl Parts {
    fn sum(&self) -> u64 {
        let parts = [self.arenas, self.pinned, self.compactions, self.reserve];
        parts.into_iter().fold(self.cache, u64::saturating_add)
    }
}

/// Shows bytes in MiB, with a fraction where they are not whole.
struct Mebibytes(u64);

impl fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % MIB {
            0 => write!(f, "{} MiB", self.0 / MIB),
            _ => write!(f, "{:.1} MiB", self.0 as f64 / MIB as f64),
        }
    }
}

impl Options {
    /// Returns the options that an opening goes by. Without [`Options::memory_bytes`] these are the same
    /// ones. With it, every size that has its default follows from the bound, and tables are read past
    /// the page cache.
    ///
    /// ```
    /// let options = terrace::Options {
    ///     memory_bytes: Some(512 << 20),
    ///     ..terrace::Options::default()
    /// };
    /// let resolved = options.resolved()?;
    /// assert!(resolved.direct_io);
    /// assert!(resolved.cache_bytes > 256 << 20);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] with the sum of the sizes, where it is larger than the bound.
    pub fn resolved(&self) -> Result<Options> {
        match self.memory_bytes {
            Some(bound_bytes) => self.within(bound_bytes),
            None => Ok(self.clone()),
        }
    }

    /// Returns the maximum bytes of filters and top indexes of open tables, `None` for no maximum.
    pub(crate) fn max_tables_bytes(&self) -> Option<u64> {
        self.memory_bytes.map(|_| self.cache_bytes / TABLES_PART)
    }

    /// Returns the maximum bytes of all transactions together.
    pub(crate) fn max_transactions_bytes(&self) -> u64 {
        self.memory_bytes
            .map_or(u64::MAX, |_| self.cache_bytes / TRANSACTIONS_PART)
    }

    /// Returns the maximum number of keys in the filter of a table. Millions of tiny records would else
    /// take more memory for a moment than all buffers of their compaction.
    pub(crate) fn max_filter_keys(&self) -> u64 {
        let max_bytes = |bound_bytes: u64| (bound_bytes / FILTER_PART).max(MIN_FILTER_BYTES);
        let max_keys = |bound_bytes| max_bytes(bound_bytes) / FILTER_BUILD_BYTES_PER_KEY;
        self.memory_bytes.map_or(u64::MAX, max_keys)
    }

    fn within(&self, bound_bytes: u64) -> Result<Options> {
        let unset = Options::default();
        let mut options = self.clone();
        let arena_bytes = follow(&mut options.arena_bytes, unset.arena_bytes, || {
            arena_bytes_within(bound_bytes).min(unset.arena_bytes)
        });
        follow(
            &mut options.compaction_threads,
            unset.compaction_threads,
            || compaction_threads_within(bound_bytes).min(unset.compaction_threads),
        );
        let mut parts = Parts {
            arenas: arena_bytes.saturating_mul(options.max_arenas as u64),
            pinned: options.pinned_bytes(),
            compactions: COMPACTION_BYTES.saturating_mul(options.compaction_threads as u64),
            reserve: 0,
            cache: 0,
        };
        parts.reserve = reserve_bytes(bound_bytes, parts.compactions);
        let left_bytes = bound_bytes.saturating_sub(parts.sum());
        parts.cache = follow(&mut options.cache_bytes, unset.cache_bytes, || {
            left_bytes.max(MIN_CACHE_BYTES)
        });
        if parts.sum() > bound_bytes {
            return Err(self.does_not_fit(bound_bytes, &parts));
        }
        options.use_little_memory(&unset);
        Ok(options)
    }

    /// Sets the options that are no sizes, as suits a store that has little memory.
    fn use_little_memory(&mut self, unset: &Options) {
        self.direct_io = true;
        self.poll_reads.get_or_insert(true);
        let buffer = &mut self.read_buffer;
        follow(
            &mut buffer.share_percent,
            unset.read_buffer.share_percent,
            || 90,
        );
        // New records stay in memory when their arena is flushed, as the page cache would have had them.
        follow(&mut buffer.policy, unset.read_buffer.policy, || {
            ForwardPolicy::All
        });
        // Arenas are small: a compaction into level 1 is to bring enough.
        follow(&mut self.level0_merge, unset.level0_merge, || {
            12.min(self.level0_slowdown)
        });
        let keyspace = &mut self.default_keyspace;
        let level1_bytes = unset.default_keyspace.level1_bytes;
        follow(&mut keyspace.level1_bytes, level1_bytes, || {
            self.arena_bytes.saturating_mul(16)
        });
    }

    fn does_not_fit(&self, bound_bytes: u64, parts: &Parts) -> Error {
        let shown = |bytes| Mebibytes(bytes).to_string();
        Error::invalid(format!(
            "memory_bytes is {}, and the sizes need {}: arenas {} (max_arenas x arena_bytes), pinned \
             memory {}, compactions {} (compaction_threads x {}), cache_bytes {}, and {} in reserve; raise \
             memory_bytes, or leave the sizes that are set at their defaults, from which they follow it",
            shown(bound_bytes),
            shown(parts.sum()),
            shown(parts.arenas),
            shown(parts.pinned),
            shown(parts.compactions),
            shown(COMPACTION_BYTES),
            shown(parts.cache),
            shown(parts.reserve),
        ))
    }
}

/// Sets an option that has its default. Returns its value.
fn follow<T: Clone + PartialEq>(option: &mut T, unset: T, following: impl FnOnce() -> T) -> T {
    if *option == unset {
        *option = following();
    }
    option.clone()
}

/// Returns a twentieth of the bound, in whole pages. Flushes and compactions of larger arenas would write
/// less, and the memory would be missed by readers.
fn arena_bytes_within(bound_bytes: u64) -> u64 {
    let bytes = (bound_bytes / 20).max(MIN_ARENA_BYTES);
    bytes - bytes % terrace_region::CAPACITY_STEP_BYTES
}

/// Returns the number of compactions whose buffers take a twentieth of the bound together.
fn compaction_threads_within(bound_bytes: u64) -> usize {
    let threads = bound_bytes / 20 / COMPACTION_BYTES;
    usize::try_from(threads).unwrap_or(usize::MAX).max(1)
}

/// Returns the memory beside all sizes and the buffers of compactions. Both together are a tenth of the
/// bound, but 40 MiB are enough up to 800 MiB, and a twentieth beyond that.
fn reserve_bytes(bound_bytes: u64, compactions_bytes: u64) -> u64 {
    let both_bytes = (bound_bytes / 10).min((40 * MIB).max(bound_bytes / 20));
    let bytes = both_bytes.saturating_sub(compactions_bytes);
    bytes.max(MIN_RESERVE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn bounded(bytes: u64) -> Options {
        Options {
            memory_bytes: Some(bytes),
            compaction_threads: 1,
            ..Options::default()
        }
    }

    #[test]
    fn sizes_follow_the_bound_and_fill_it() {
        let sizes = |bytes| {
            let options = bounded(bytes).resolved().unwrap();
            assert_eq!(
                options.default_keyspace.level1_bytes,
                16 * options.arena_bytes
            );
            assert_eq!(options.pinned_bytes(), 0);
            assert_eq!(options.max_batch_bytes(), (bytes / 8).min(256 * MIB));
            assert!(options.direct_io);
            assert_eq!(options.poll_reads, Some(true));
            assert_eq!(options.max_tables_bytes(), Some(options.cache_bytes / 2));
            options.check().unwrap();
            (options.arena_bytes / KIB, options.cache_bytes / KIB)
        };
        assert_eq!(sizes(32 * MIB), (1636, 11476));
        assert_eq!(sizes(64 * MIB), (3276, 39324));
        assert_eq!(sizes(650 * MIB), (33280, 524800));
        assert_eq!(sizes(1000 * MIB), (51200, 819200));
        assert_eq!(sizes(16 << 30), (64 << 10, 15_741_747));
    }

    #[test]
    fn sizes_that_were_set_are_taken_off_first() {
        let options = Options {
            arena_bytes: 8 * MIB,
            max_arenas: 2,
            level0_merge: 5,
            poll_reads: Some(false),
            ..bounded(100 * MIB)
        };
        let resolved = options.resolved().unwrap();
        assert_eq!(resolved.arena_bytes, 8 * MIB);
        assert_eq!(resolved.arena_index_bytes(), 4 * MIB);
        assert_eq!(resolved.level0_merge, 5);
        assert_eq!(resolved.poll_reads, Some(false));
        assert_eq!(resolved.cache_bytes, (100 - 16 - 8 - 8) * MIB);
        let cached = Options {
            cache_bytes: 10 * MIB,
            ..options
        };
        assert_eq!(cached.resolved().unwrap().cache_bytes, 10 * MIB);
    }

    #[test]
    fn a_resolved_store_is_resolved_to_itself() {
        let resolved = bounded(200 * MIB).resolved().unwrap();
        let again = resolved.resolved().unwrap();
        assert_eq!(format!("{again:?}"), format!("{resolved:?}"));
        let unbounded = Options::default();
        let resolved = unbounded.resolved().unwrap();
        assert_eq!(format!("{resolved:?}"), format!("{unbounded:?}"));
    }

    #[test]
    fn a_sum_above_the_bound_is_refused_with_its_parts() {
        let error = Options {
            cache_bytes: 100 * MIB,
            ..bounded(100 * MIB)
        }
        .check()
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid argument: memory_bytes is 100 MiB, and the sizes need 131 MiB: arenas 15 MiB \
             (max_arenas x arena_bytes), pinned memory 0 MiB, compactions 8 MiB (compaction_threads x \
             8 MiB), cache_bytes 100 MiB, and 8 MiB in reserve; raise memory_bytes, or leave the sizes \
             that are set at their defaults, from which they follow it"
        );
        bounded(32 * MIB).check().unwrap();
        let error = bounded(16 * MIB).check().unwrap_err().to_string();
        assert!(
            error.contains("memory_bytes is 16777216; it must be from"),
            "{error}"
        );
    }

    #[test]
    fn many_threads_of_compactions_take_no_more_than_a_twentieth() {
        assert_eq!(compaction_threads_within(64 * MIB), 1);
        assert_eq!(compaction_threads_within(1000 * MIB), 6);
        assert_eq!(reserve_bytes(1000 * MIB, 48 * MIB), 8 * MIB);
    }
}
