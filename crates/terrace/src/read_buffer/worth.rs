//! Whether the buffer is worth what every write pays for it.
//!
//! While the buffer is awake, a write looks for its key there: a cache line from memory, and the
//! entry if there is one. A hit saves a get several times that. So the leader compares hits and
//! writes, a window of writes at a time, and puts the buffer to sleep if they are too few; asleep,
//! it costs a write one store. What it held is dropped, and its memory is the block cache's.
//!
//! Asleep, gets that read a table are counted. They wake the buffer when there are enough of them
//! beside the writes that hits could pay, and never before a number that doubles with each time that
//! it was put to sleep again: a workload that it cannot serve pays for trying less and less often.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const IS_EXPLORED: bool = cfg!(all(test, feature = "shuttle"));

/// Writes from one comparison to the next.
pub(super) const WINDOW_WRITES: u64 = if IS_EXPLORED { 3 } else { 64 << 10 };
/// A hit pays for so many writes: measured are some 700 ns against 150.
const WRITES_PER_HIT: u64 = 4;
/// Gets that wake a buffer which was put to sleep once.
const FEWEST_GETS: u64 = if IS_EXPLORED { 1 } else { 16 << 10 };
/// So often that number doubles at most.
const MOST_DOUBLINGS: u32 = 8;

/// What is counted for it. See the head of the file.
#[derive(Default)]
pub(super) struct Worth {
    /// Writes since the last comparison, and since the buffer fell asleep. Only the leader writes them.
    told: AtomicU64,
    spared: AtomicU64,
    /// Hits up to the last comparison. Only the leader writes it.
    hits: AtomicU64,
    /// How often in a row it was put to sleep. Only the leader writes it.
    sleeps: AtomicU32,
    asleep: Asleep,
}

/// Gets that read a table since the buffer fell asleep, on a line of their own.
#[derive(Default)]
#[repr(align(64))]
struct Asleep(AtomicU64);

impl Worth {
    /// The leader's: counts the writes that an awake buffer was told of. Whether to compare.
    pub(super) fn told(&self, writes: u64) -> bool {
        let sum = self.told.load(Ordering::Relaxed) + writes;
        self.told.store(sum, Ordering::Relaxed);
        sum >= WINDOW_WRITES
    }

    /// The leader's: counts the writes that a sleeping buffer was spared.
    pub(super) fn spared(&self, writes: u64) {
        let sum = self.spared.load(Ordering::Relaxed) + writes;
        self.spared.store(sum, Ordering::Relaxed);
    }

    /// The leader's, when a window has ended with so many hits ever: whether the buffer stays awake.
    pub(super) fn pays(&self, hits: u64) -> bool {
        let new_hits = hits.saturating_sub(self.hits.swap(hits, Ordering::Relaxed));
        let writes = self.told.swap(0, Ordering::Relaxed);
        let pays = new_hits.saturating_mul(WRITES_PER_HIT) >= writes;
        let sleeps = self.sleeps.load(Ordering::Relaxed);
        let sleeps = if pays { 0 } else { sleeps.saturating_add(1) };
        self.sleeps.store(sleeps, Ordering::Relaxed);
        self.spared.store(0, Ordering::Relaxed);
        self.asleep.0.store(0, Ordering::Relaxed);
        pays
    }

    /// A get has read a table while the buffer was asleep: whether it is to wake.
    pub(super) fn wakes(&self) -> bool {
        let sleeps = self.sleeps.load(Ordering::Relaxed);
        if sleeps == 0 {
            return true;
        }
        let gets = self.asleep.0.fetch_add(1, Ordering::Relaxed) + 1;
        let writes = self.spared.load(Ordering::Relaxed);
        is_enough(gets, writes, sleeps)
    }
}

/// Half of the gets may become hits.
fn is_enough(gets: u64, writes: u64, sleeps: u32) -> bool {
    let fewest = FEWEST_GETS << sleeps.saturating_sub(1).min(MOST_DOUBLINGS);
    gets >= fewest && (gets / 2).saturating_mul(WRITES_PER_HIT) >= writes
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn hits_must_keep_up_with_writes() {
        let worth = Worth::default();
        assert!(!worth.told(WINDOW_WRITES - 1) && worth.told(1));
        assert!(worth.pays(WINDOW_WRITES / 4));
        // The same number of hits as before: none in this window.
        worth.told(WINDOW_WRITES);
        assert!(!worth.pays(WINDOW_WRITES / 4));
    }

    #[test]
    fn a_buffer_that_was_of_no_use_waits_longer_each_time() {
        assert!(Worth::default().wakes(), "nobody has put it to sleep");
        assert!(!is_enough(FEWEST_GETS - 1, 0, 1) && is_enough(FEWEST_GETS, 0, 1));
        assert!(!is_enough(FEWEST_GETS, 0, 2) && is_enough(2 * FEWEST_GETS, 0, 2));
        assert!(is_enough(FEWEST_GETS << MOST_DOUBLINGS, 0, u32::MAX));
        // As many writes as gets are fine; ten times as many are not.
        assert!(is_enough(FEWEST_GETS, FEWEST_GETS, 1));
        assert!(!is_enough(FEWEST_GETS, 10 * FEWEST_GETS, 1));
    }
}
