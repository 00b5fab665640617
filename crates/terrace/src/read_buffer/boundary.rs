//! Whether gets or scans have the memory that the read buffer shares with the block cache.
//!
//! A scan cannot use the buffer, which does not know the keys between two of its entries: a store
//! that is scanned would have nearly all of its memory where no scan looks. So while there are many
//! more seeks than gets, the buffer keeps a small part of its memory for those few. Blocks have the
//! rest. Once gets are as many, the buffer grows again. Between the two ratios nothing
//! changes.
//!
//! Seeks are counted, not rows: a backup that walks through everything seeks once, and is not to
//! drive out the entries of gets. Only seeks whose blocks are to be kept count, and only where
//! enough of them find a block missing: more memory would not serve the others better.
//!
//! The memory takes long to fill again. So the larger it is, the more seeks or gets it takes to
//! change hands. The number doubles after each time that it did, until the memory stays.

use terrace_lsm::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Seeks and gets from one look to the next.
const WINDOW: u64 = 8 << 10;
/// Seeks for each get from which on scans have the memory,
const SEEKS_PER_GET: u64 = 8;
/// if at least one seek in this number misses a block.
const SEEKS_PER_MISS: u64 = 8;
/// Number of gets of which one is counted, for all of them.
const GETS_SAMPLED: u64 = 16;
/// Maximum number of times that the seeks and gets of a change double.
const MOST_DOUBLINGS: u32 = 6;

/// Counters of the comparison. See the head of the file.
#[derive(Default)]
pub(super) struct Boundary {
    is_yielded: AtomicBool,
    /// Number of comparisons after which the memory changed hands, less those after which it did
    /// not.
    changes: AtomicU32,
    /// Gets, and below them block misses, up to the last comparison.
    gets: AtomicU64,
    block_misses: AtomicU64,
    seeks: Line,
    /// Gets that read a table while the memory is yielded.
    table_gets: Line,
}

/// Counts of other parts since the store was opened.
#[derive(Clone, Copy)]
pub(super) struct Ever {
    pub(super) gets: u64,
    /// Blocks that the cache had not; `None` where the caller does not know.
    pub(super) block_misses: Option<u64>,
}

/// A counter on a line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Line(AtomicU64);

impl Line {
    /// Adds `more`, which divides the window. Returns whether a window is over.
    fn count(&self, more: u64) -> bool {
        let sum = self.0.fetch_add(more, Ordering::Relaxed) + more;
        sum.is_multiple_of(WINDOW)
    }
}

impl Boundary {
    /// Returns whether scans have the memory.
    #[inline]
    pub(super) fn is_yielded(&self) -> bool {
        self.is_yielded.load(Ordering::Relaxed)
    }

    /// Gives the memory to gets again.
    pub(super) fn give_back(&self) {
        self.is_yielded.store(false, Ordering::Relaxed);
    }

    /// Counts a scan that was positioned. Returns whether to look.
    pub(super) fn sought(&self) -> bool {
        self.seeks.count(1)
    }

    /// Counts a get of a key with this hash that read a table. Returns whether to look.
    #[inline]
    pub(super) fn read_table(&self, hash: u64) -> bool {
        self.is_yielded()
            && hash.is_multiple_of(GETS_SAMPLED)
            && self.table_gets.count(GETS_SAMPLED)
    }

    /// Compares, if there were enough seeks and gets. Returns whether the memory changes hands.
    pub(super) fn look(&self, ever: Ever, fewest: u64) -> bool {
        let seeks = self.seeks.0.load(Ordering::Relaxed);
        let since =
            |now: u64, before: &AtomicU64| now.saturating_sub(before.load(Ordering::Relaxed));
        let gets = since(ever.gets, &self.gets);
        let changes = self.changes.load(Ordering::Relaxed);
        if seeks + gets < fewest.max(WINDOW) << changes {
            return false;
        }
        let misses = ever.block_misses.map(|now| since(now, &self.block_misses));
        self.seeks.0.store(0, Ordering::Relaxed);
        self.gets.store(ever.gets, Ordering::Relaxed);
        if let Some(now) = ever.block_misses {
            self.block_misses.store(now, Ordering::Relaxed);
        }
        let was = self.is_yielded();
        let is = is_yielded(was, seeks, gets, misses.unwrap_or(0));
        let changes = match is == was {
            true => changes.saturating_sub(1),
            false => (changes + 1).min(MOST_DOUBLINGS),
        };
        self.changes.store(changes, Ordering::Relaxed);
        self.is_yielded.swap(is, Ordering::Relaxed) != is
    }
}

fn is_yielded(was: bool, seeks: u64, gets: u64, block_misses: u64) -> bool {
    let are_scans = seeks >= SEEKS_PER_GET.saturating_mul(gets);
    let miss_blocks = block_misses.saturating_mul(SEEKS_PER_MISS) >= seeks;
    are_scans && miss_blocks || was && seeks > gets
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn scans_have_the_memory_while_gets_are_few_and_blocks_are_missed() {
        let is = |was, seeks, gets| is_yielded(was, seeks, gets, seeks);
        assert!(is(false, 8, 1) && !is(false, 7, 1));
        assert!(is(true, 2, 1) && !is(true, 2, 2));
        assert!(!is(true, 0, 1));
        assert!(is_yielded(false, 800, 0, 100) && !is_yielded(false, 800, 0, 99));
        assert!(
            is_yielded(true, 800, 0, 0),
            "they are not missed because they have it"
        );
    }

    /// The boundary of a store whose seeks miss a block each, and whose gets read a table each.
    #[derive(Default)]
    struct Used {
        boundary: Boundary,
        gets: u64,
        seeks: u64,
    }

    impl Used {
        fn look(&self, fewest: u64) -> bool {
            let ever = Ever {
                gets: self.gets,
                block_misses: Some(self.seeks),
            };
            self.boundary.look(ever, fewest)
        }

        /// Does seeks and gets in turn. Returns how often the memory changed hands.
        fn with(&mut self, seeks: u64, gets: u64, fewest: u64) -> usize {
            let mut changes = 0;
            for number in 0..seeks.max(gets) {
                if number < gets {
                    self.gets += 1;
                    let is_over = self.boundary.read_table(number);
                    changes += usize::from(is_over && self.look(fewest));
                }
                if number < seeks {
                    self.seeks += 1;
                    let is_over = self.boundary.sought();
                    changes += usize::from(is_over && self.look(fewest));
                }
            }
            changes
        }
    }

    #[test]
    fn it_takes_a_window_of_seeks_and_then_two_of_gets() {
        let mut used = Used {
            gets: 100_000,
            ..Used::default()
        };
        assert!(!used.look(0), "many gets, and it is theirs");
        assert_eq!(used.with(WINDOW - 1, 0, 0), 0);
        assert_eq!(used.with(1, 0, 0), 1);
        assert!(used.boundary.is_yielded());
        assert_eq!(used.with(0, 2 * WINDOW - 1, 0), 0);
        assert_eq!(used.with(0, WINDOW, 0), 1);
        assert!(!used.boundary.is_yielded());
        // As many of each.
        assert_eq!(used.with(9 * WINDOW, 9 * WINDOW, 0), 0);
    }

    #[test]
    fn large_memory_changes_hands_later_and_all_memory_the_later_the_more_often() {
        let mut used = Used::default();
        assert_eq!(used.with(4 * WINDOW - 1, 0, 4 * WINDOW), 0);
        assert_eq!(used.with(1, 0, 4 * WINDOW), 1);

        let mut used = Used::default();
        let turns = (0..1000).map(|_| used.with(WINDOW, 0, 0) + used.with(0, 2 * WINDOW, 0));
        let turns = turns.sum::<usize>();
        assert!((2..100).contains(&turns), "{turns}");
        // The memory stays, and the number soon falls to 0.
        used.with(1000 * WINDOW, 0, 0);
        assert_eq!(used.boundary.changes.load(Ordering::Relaxed), 0);
    }
}
