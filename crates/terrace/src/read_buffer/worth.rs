//! Whether the buffer is worth its cost to every write.
//!
//! While the buffer is awake, a write looks for its key there: a cache line from memory, and the
//! entry if there is one. A hit saves a get several times that. So the leader sets hits against
//! writes, a window of writes at a time, and puts the buffer to sleep when the balance is gone.
//! Asleep, it costs a write one store. Its entries are dropped, and its memory is the block
//! cache's. A surplus counts for a few windows, so that a burst of writes does not empty a buffer
//! that pays. A buffer that is still filling is judged by the hits that it would have full: judged
//! by those it has, one that pays later would be emptied again and again before it does.
//!
//! While the buffer sleeps, gets that read a table are counted. They wake it when there are enough
//! of them beside the writes that hits could pay. Their least number doubles with each time that
//! the buffer was put to sleep again: a workload that it cannot serve pays for trying less and less
//! often. Both counts fade, so that old ones keep it from nothing.

use terrace_lsm::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const IS_EXPLORED: bool = cfg!(all(test, feature = "shuttle"));

/// Writes from one comparison to the next.
pub(super) const WINDOW_WRITES: u64 = if IS_EXPLORED { 3 } else { 64 << 10 };
/// Number of writes that a hit pays for: measured are some 700 ns against 150.
const WRITES_PER_HIT: u64 = 4;
/// Maximum that is paid in advance, in writes.
const MOST_SURPLUS: u64 = if IS_EXPLORED { 1 } else { 4 * WINDOW_WRITES };
/// Divisor of its capacity: a buffer that takes that part of it in a window is still filling.
const FILLING_PART: u64 = 16;
/// Maximum factor for a filling buffer's hits.
const MOST_FORESEEN: u64 = 8;
/// Gets that wake a buffer which was put to sleep once.
const FEWEST_GETS: u64 = if IS_EXPLORED { 1 } else { 16 << 10 };
/// Maximum number of times that `FEWEST_GETS` doubles.
const MOST_DOUBLINGS: u32 = 8;
/// Number of gets of which one is counted, for all of them: they all count in one place.
const GETS_SAMPLED: u64 = if IS_EXPLORED { 1 } else { 16 };
/// Number of writes asleep after which earlier counts are halved.
const FADING_WRITES: u64 = 8 << 20;

/// Counters of the comparison. See the head of the file.
#[derive(Default)]
pub(super) struct Worth {
    /// Writes since the last comparison, and since the buffer fell asleep. Only the leader writes
    /// these and the next four.
    told: AtomicU64,
    spared: AtomicU64,
    /// Hits up to the last comparison, and the bytes held then.
    hits: AtomicU64,
    held_bytes: AtomicU64,
    /// Writes that hits have paid in advance.
    surplus: AtomicU64,
    /// Number of times that it was put to sleep; each window that pays halves it.
    sleeps: AtomicU32,
    gets: Gets,
}

/// Gets that read a table since the buffer fell asleep, on a line of their own.
#[derive(Default)]
#[repr(align(64))]
struct Gets(AtomicU64);

impl Worth {
    /// Counts the writes forwarded to an awake buffer. The leader calls it. Returns whether to
    /// compare.
    pub(super) fn told(&self, writes: u64) -> bool {
        let sum = self.told.load(Ordering::Relaxed) + writes;
        self.told.store(sum, Ordering::Relaxed);
        sum >= WINDOW_WRITES
    }

    /// Counts the writes that a sleeping buffer was spared. The leader calls it.
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

    /// Returns whether the buffer stays awake. The leader calls it when a window has ended, with
    /// the hits ever and the bytes taken of the capacity.
    pub(super) fn pays(&self, hits: u64, held_bytes: u64, capacity_bytes: u64) -> bool {
        let new_hits = hits.saturating_sub(self.hits.swap(hits, Ordering::Relaxed));
        let held_before_bytes = self.held_bytes.swap(held_bytes, Ordering::Relaxed);
        let new_hits = when_full(new_hits, [held_before_bytes, held_bytes], capacity_bytes);
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
        if !pays {
            self.held_bytes.store(0, Ordering::Relaxed);
        }
        pays
    }

    /// Counts a get of a key with this hash that read a table while the buffer was asleep. Returns
    /// whether the buffer is to wake.
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

/// Returns the hits that a window would have had if the buffer had been full. During it, the buffer
/// grew from the one size to the other. With gets that are drawn alike from all keys, hits grow as
/// the buffer does. With others the answer is too high, until the buffer is full.
fn when_full(hits: u64, held_bytes: [u64; 2], capacity_bytes: u64) -> u64 {
    let [before, after] = held_bytes;
    if after.saturating_sub(before) < (capacity_bytes / FILLING_PART).max(1) {
        return hits;
    }
    let mean_bytes = before.midpoint(after).max(1);
    let full =
        u128::from(hits) * u128::from(capacity_bytes.max(mean_bytes)) / u128::from(mean_bytes);
    hits.saturating_mul(MOST_FORESEEN)
        .min(u64::try_from(full).unwrap_or(u64::MAX))
}

/// Returns whether gets are enough to wake the buffer. Half of them may become hits.
fn is_enough(gets: u64, writes: u64, sleeps: u32) -> bool {
    let fewest = FEWEST_GETS << sleeps.saturating_sub(1).min(MOST_DOUBLINGS);
    gets >= fewest && (gets / 2).saturating_mul(WRITES_PER_HIT) >= writes
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const CAPACITY_BYTES: u64 = 1 << 20;

    /// Ends a window of writes, after `hits` of a full buffer.
    fn window(worth: &Worth, hits: u64) -> bool {
        assert!(worth.told(WINDOW_WRITES));
        worth.held_bytes.store(CAPACITY_BYTES, Ordering::Relaxed);
        worth.pays(hits, CAPACITY_BYTES, CAPACITY_BYTES)
    }

    #[test]
    fn hits_must_keep_up_with_writes() {
        let worth = Worth::default();
        assert!(!worth.told(WINDOW_WRITES - 1) && worth.told(1));
        assert!(worth.pays(WINDOW_WRITES / 4, 0, CAPACITY_BYTES));
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
    fn a_buffer_that_fills_is_judged_by_what_it_will_be() {
        let worth = Worth::default();
        let filling = |hits, held_bytes| {
            worth.told(WINDOW_WRITES);
            worth.pays(hits, held_bytes, CAPACITY_BYTES)
        };
        // A quarter of it was there on the average: four times the hits would be enough.
        let hits = WINDOW_WRITES / 16;
        assert!(filling(hits, CAPACITY_BYTES / 2));
        // The buffer takes no more, with as few hits as before.
        assert!(!filling(2 * hits, CAPACITY_BYTES / 2));
        // The buffer has woken, and fills again: without any hits.
        assert!(!filling(2 * hits, CAPACITY_BYTES / 2));
        assert!(filling(3 * hits, CAPACITY_BYTES / 2));
        assert_eq!(when_full(1, [0, CAPACITY_BYTES / 16], CAPACITY_BYTES), 8);
        assert_eq!(when_full(u64::MAX, [0, 1], 1), u64::MAX);
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
