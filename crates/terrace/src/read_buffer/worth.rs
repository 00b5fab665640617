//! Whether the buffer is worth what every write pays for it.
//!
//! While the buffer is awake, a write looks for its key there: a cache line from memory, and the
//! entry if there is one. A hit saves a get several times that. So the leader sets hits against
//! writes, a window of writes at a time, and puts the buffer to sleep when the balance is gone;
//! asleep, it costs a write one store. What it held is dropped, and its memory is the block cache's.
//! A surplus counts for a few windows, so that a burst of writes does not end what pays.
//!
//! Asleep, gets that read a table are counted. They wake the buffer when there are enough of them
//! beside the writes that hits could pay, and not before a number that doubles with each time that
//! it was put to sleep again: a workload that it cannot serve pays for trying less and less often.
//! Both counts fade, so that what was long ago keeps it from nothing.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const IS_EXPLORED: bool = cfg!(all(test, feature = "shuttle"));

/// Writes from one comparison to the next.
pub(super) const WINDOW_WRITES: u64 = if IS_EXPLORED { 3 } else { 64 << 10 };
/// A hit pays for so many writes: measured are some 700 ns against 150.
const WRITES_PER_HIT: u64 = 4;
/// The most that is paid in advance, in writes.
const MOST_SURPLUS: u64 = if IS_EXPLORED { 1 } else { 4 * WINDOW_WRITES };
/// Gets that wake a buffer which was put to sleep once.
const FEWEST_GETS: u64 = if IS_EXPLORED { 1 } else { 16 << 10 };
/// So often that number doubles at most.
const MOST_DOUBLINGS: u32 = 8;
/// One get in so many is counted, for as many: they all count in one place.
const GETS_SAMPLED: u64 = if IS_EXPLORED { 1 } else { 16 };
/// After so many writes asleep, what was counted counts half.
const FADING_WRITES: u64 = 8 << 20;

/// What is counted for it. See the head of the file.
#[derive(Default)]
pub(super) struct Worth {
    /// Writes since the last comparison, and since the buffer fell asleep. Only the leader writes
    /// these and the next three.
    told: AtomicU64,
    spared: AtomicU64,
    /// Hits up to the last comparison.
    hits: AtomicU64,
    /// What hits have paid in advance, in writes.
    surplus: AtomicU64,
    /// How often it was put to sleep, less what it has paid since.
    sleeps: AtomicU32,
    gets: Gets,
}

/// Gets that read a table since the buffer fell asleep, on a line of their own.
#[derive(Default)]
#[repr(align(64))]
struct Gets(AtomicU64);

impl Worth {
    /// The leader's: counts the writes that an awake buffer was told of. Whether to compare.
    pub(super) fn told(&self, writes: u64) -> bool {
        let sum = self.told.load(Ordering::Relaxed) + writes;
        self.told.store(sum, Ordering::Relaxed);
        sum >= WINDOW_WRITES
    }

    /// The leader's: counts the writes that a sleeping buffer was spared.
    pub(super) fn spared(&self, writes: u64) {
        let mut sum = self.spared.load(Ordering::Relaxed) + writes;
        if sum >= FADING_WRITES {
            sum /= 2;
            // A get that is counted at the same time may count for nothing, or whole.
            let gets = self.gets.0.load(Ordering::Relaxed);
            self.gets.0.store(gets / 2, Ordering::Relaxed);
        }
        self.spared.store(sum, Ordering::Relaxed);
    }

    /// The leader's, when a window has ended with so many hits ever: whether the buffer stays awake.
    pub(super) fn pays(&self, hits: u64) -> bool {
        let new_hits = hits.saturating_sub(self.hits.swap(hits, Ordering::Relaxed));
        let writes = self.told.swap(0, Ordering::Relaxed);
        let paid = new_hits.saturating_mul(WRITES_PER_HIT);
        let balance = self.surplus.load(Ordering::Relaxed).saturating_add(paid);
        let pays = balance >= writes;
        let surplus = balance.saturating_sub(writes).min(MOST_SURPLUS);
        self.surplus.store(surplus, Ordering::Relaxed);
        let sleeps = self.sleeps.load(Ordering::Relaxed);
        let sleeps = if pays {
            sleeps / 2
        } else {
            sleeps.saturating_add(1)
        };
        self.sleeps.store(sleeps, Ordering::Relaxed);
        self.spared.store(0, Ordering::Relaxed);
        self.gets.0.store(0, Ordering::Relaxed);
        pays
    }

    /// A get of a key with this hash has read a table while the buffer was asleep: whether it is to
    /// wake.
    pub(super) fn wakes(&self, hash: u64) -> bool {
        let sleeps = self.sleeps.load(Ordering::Relaxed);
        if sleeps == 0 {
            return true;
        }
        if !hash.is_multiple_of(GETS_SAMPLED) {
            return false;
        }
        let gets = self.gets.0.fetch_add(GETS_SAMPLED, Ordering::Relaxed) + GETS_SAMPLED;
        is_enough(gets, self.spared.load(Ordering::Relaxed), sleeps)
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

    /// A window of writes, after so many hits.
    fn window(worth: &Worth, hits: u64) -> bool {
        assert!(worth.told(WINDOW_WRITES));
        worth.pays(hits)
    }

    #[test]
    fn hits_must_keep_up_with_writes() {
        let worth = Worth::default();
        assert!(!worth.told(WINDOW_WRITES - 1) && worth.told(1));
        assert!(worth.pays(WINDOW_WRITES / 4));
        // The same number of hits as before: none in this window.
        assert!(!window(&worth, WINDOW_WRITES / 4));
    }

    #[test]
    fn a_surplus_outlasts_a_burst_but_not_a_load() {
        let worth = Worth::default();
        let hits = 100 * WINDOW_WRITES;
        assert!(window(&worth, hits));
        let lasted = (0..100).take_while(|_| window(&worth, hits)).count();
        assert_eq!(lasted as u64, MOST_SURPLUS / WINDOW_WRITES);
    }

    #[test]
    fn a_buffer_that_was_of_no_use_waits_longer_each_time() {
        assert!(Worth::default().wakes(1), "nobody has put it to sleep");
        assert!(!is_enough(FEWEST_GETS - 1, 0, 1) && is_enough(FEWEST_GETS, 0, 1));
        assert!(!is_enough(FEWEST_GETS, 0, 2) && is_enough(2 * FEWEST_GETS, 0, 2));
        assert!(is_enough(FEWEST_GETS << MOST_DOUBLINGS, 0, u32::MAX));
        // As many writes as gets are fine; ten times as many are not.
        assert!(is_enough(FEWEST_GETS, FEWEST_GETS, 1));
        assert!(!is_enough(FEWEST_GETS, 10 * FEWEST_GETS, 1));
    }

    #[test]
    fn a_long_load_is_forgotten_when_reads_follow_it() {
        let worth = Worth::default();
        assert!(!window(&worth, 0));
        (0..1000).for_each(|_| worth.spared(1 << 20));
        let gets = (0..).take_while(|_| !worth.wakes(0)).count() as u64;
        assert!(gets * GETS_SAMPLED <= FADING_WRITES, "{gets}");
    }
}
