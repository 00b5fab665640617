//! Whether gets or scans have the memory that the read buffer shares with the block cache.
//!
//! A scan cannot use the buffer, which does not know what lies between two of its entries: a store that
//! is scanned would have nearly all of its memory where no scan looks. So while there are many more
//! seeks than gets the buffer keeps a small part of its memory, for those few, and blocks have the rest;
//! once gets are as many, it grows again. Between the two ratios nothing changes.
//!
//! Seeks are counted, not rows: whoever walks through everything, for a backup, seeks once, and is not to
//! drive out what gets ask for.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Seeks and gets from one look to the next.
const WINDOW: u64 = 8 << 10;
/// With so many seeks for each get scans have the memory.
const SEEKS_PER_GET: u64 = 8;
/// One get in so many is counted, for as many.
const GETS_SAMPLED: u64 = 16;

/// What is counted for it. See the head of the file.
#[derive(Default)]
pub(super) struct Boundary {
    is_yielded: AtomicBool,
    /// Gets up to the last look.
    gets: AtomicU64,
    seeks: Line,
    /// While the memory is yielded: gets that read a table.
    table_gets: Line,
}

/// On a line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Line(AtomicU64);

impl Line {
    /// Counts so many, which divide the window. Whether a window of them is over.
    fn count(&self, more: u64) -> bool {
        let sum = self.0.fetch_add(more, Ordering::Relaxed) + more;
        sum.is_multiple_of(WINDOW)
    }
}

impl Boundary {
    /// Whether scans have the memory.
    #[inline]
    pub(super) fn is_yielded(&self) -> bool {
        self.is_yielded.load(Ordering::Relaxed)
    }

    /// A scan was positioned. Whether to look.
    pub(super) fn sought(&self) -> bool {
        self.seeks.count(1)
    }

    /// A get of a key with this hash has read a table. Whether to look.
    #[inline]
    pub(super) fn read_table(&self, hash: u64) -> bool {
        self.is_yielded()
            && hash.is_multiple_of(GETS_SAMPLED)
            && self.table_gets.count(GETS_SAMPLED)
    }

    /// Compares, after so many gets ever. Whether the memory changes hands.
    pub(super) fn look(&self, gets: u64) -> bool {
        let seeks = self.seeks.0.load(Ordering::Relaxed);
        let new_gets = gets.saturating_sub(self.gets.load(Ordering::Relaxed));
        if seeks + new_gets < WINDOW {
            return false;
        }
        self.seeks.0.store(0, Ordering::Relaxed);
        self.gets.store(gets, Ordering::Relaxed);
        let was = self.is_yielded();
        let is = is_yielded(was, seeks, new_gets);
        self.is_yielded.swap(is, Ordering::Relaxed) != is
    }
}

fn is_yielded(was: bool, seeks: u64, gets: u64) -> bool {
    if seeks >= SEEKS_PER_GET.saturating_mul(gets) {
        true
    } else {
        was && seeks > gets
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn scans_have_the_memory_while_gets_are_few() {
        assert!(is_yielded(false, 8, 1) && !is_yielded(false, 7, 1));
        assert!(is_yielded(true, 2, 1) && !is_yielded(true, 2, 2));
        assert!(!is_yielded(true, 0, 1));
    }

    /// So many seeks, and gets of which each reads a table, one after the other; how often it changed.
    fn after(boundary: &Boundary, gets_ever: &mut u64, seeks: u64, gets: u64) -> usize {
        let mut changes = 0;
        for number in 0..seeks.max(gets) {
            if number < gets {
                *gets_ever += 1;
                let is_over = boundary.read_table(number);
                changes += usize::from(is_over && boundary.look(*gets_ever));
            }
            if number < seeks {
                let is_over = boundary.sought();
                changes += usize::from(is_over && boundary.look(*gets_ever));
            }
        }
        changes
    }

    #[test]
    fn it_takes_a_window_of_seeks_and_one_of_gets() {
        let (boundary, mut gets) = (Boundary::default(), 100_000);
        assert!(!boundary.look(gets), "many gets, and it is theirs");
        assert_eq!(after(&boundary, &mut gets, WINDOW - 1, 0), 0);
        assert_eq!(after(&boundary, &mut gets, 1, 0), 1);
        assert!(boundary.is_yielded());
        assert_eq!(after(&boundary, &mut gets, 0, WINDOW - 1), 0);
        assert_eq!(after(&boundary, &mut gets, 0, WINDOW + 1), 1);
        assert!(!boundary.is_yielded());
        // As many of each.
        assert_eq!(after(&boundary, &mut gets, 9 * WINDOW, 9 * WINDOW), 0);
    }
}
