//! Which operations are timed, and which are watched stage by stage.
//!
//! A thread counts its operations in windows and takes one of each window, at a place that it
//! draws. So each operation is taken with the same probability, and no rhythm of the caller's hides
//! from it. Threads that live for a few operations count as others do. An operation that is not
//! taken costs a decrement.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// Operations in a window.
const WINDOW: u32 = 28;
/// Of this many that were taken one is watched; the others are timed as a whole, undisturbed.
const WATCHED_OF_TAKEN: u32 = 8;
/// Of this many operations one is timed.
pub const TIMED_ONE_IN: u32 = WINDOW * WATCHED_OF_TAKEN / (WATCHED_OF_TAKEN - 1);
/// Of this many operations one is watched.
pub(super) const WATCHED_ONE_IN: u32 = WINDOW * WATCHED_OF_TAKEN;

const _: () = assert!(TIMED_ONE_IN * (WATCHED_OF_TAKEN - 1) == WATCHED_ONE_IN);

/// The treatment of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    Nothing,
    /// How long it takes is recorded.
    Timed,
    /// It is watched.
    Watched,
}

struct Draws {
    /// Operations until one is taken, that one included; 0 before the thread's first.
    left: Cell<u32>,
    /// Operations of the window behind it.
    behind: Cell<u32>,
    state: Cell<u32>,
}

thread_local! {
    static DRAWS: Draws = const {
        Draws { left: Cell::new(0), behind: Cell::new(0), state: Cell::new(0) }
    };
}

/// Draws for this thread's next operation.
#[inline(always)]
pub fn sample() -> Sampling {
    DRAWS.with(|draws| {
        let left = draws.left.get();
        if left > 1 {
            draws.left.set(left - 1);
            return Sampling::Nothing;
        }
        draws.end_of_count(left)
    })
}

impl Draws {
    #[cold]
    fn end_of_count(&self, left: u32) -> Sampling {
        let place = 1 + self.random(WINDOW);
        let before = self.behind.replace(WINDOW - place);
        if left == 0 {
            // The thread's first window begins with this operation.
            self.left.set(place);
            return sample();
        }
        self.left.set(before + place);
        match self.random(WATCHED_OF_TAKEN) {
            0 => Sampling::Watched,
            _ => Sampling::Timed,
        }
    }

    /// Draws a number below `limit`, by xorshift.
    fn random(&self, limit: u32) -> u32 {
        static THREADS: AtomicU32 = AtomicU32::new(0);
        let mut drawn = self.state.get();
        if drawn == 0 {
            // Each thread draws its own numbers; neighbours' are to differ from the first one on.
            let number = THREADS.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            let mixed = number.wrapping_mul(0x9e37_79b9);
            drawn = (mixed ^ (mixed >> 15)).wrapping_mul(0x85eb_ca6b) | 1;
        }
        drawn ^= drawn << 13;
        drawn ^= drawn >> 17;
        drawn ^= drawn << 5;
        self.state.set(drawn);
        // The upper bits are the better ones.
        ((u64::from(drawn) * u64::from(limit)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts how many of `operations` operations were timed and watched.
    fn count(operations: u32) -> (usize, usize) {
        let drawn: Vec<Sampling> = (0..operations).map(|_| sample()).collect();
        let of = |wanted| drawn.iter().filter(|drawn| **drawn == wanted).count();
        (of(Sampling::Timed), of(Sampling::Watched))
    }

    #[test]
    fn draws_are_made_at_the_rates_that_are_told() {
        assert_eq!((TIMED_ONE_IN, WATCHED_ONE_IN), (32, 224));
        let (timed, watched) = count(320_000);
        assert!((9_500..10_500).contains(&timed), "{timed}");
        assert!((1_250..1_600).contains(&watched), "{watched}");
    }

    #[test]
    fn threads_of_a_few_operations_are_drawn_as_others_are() {
        let few = || count(10);
        let threads = (0..4_000).map(|_| std::thread::spawn(few).join().unwrap());
        let (timed, watched) = threads.fold((0, 0), |all, few| (all.0 + few.0, all.1 + few.1));
        assert!((1_100..1_400).contains(&timed), "{timed} of 40,000");
        assert!((120..240).contains(&watched), "{watched} of 40,000");
    }

    #[test]
    fn no_rhythm_hides_from_the_draw() {
        std::thread::spawn(|| {
            let mut taken = [0; 28];
            for operation in 0..560_000 {
                taken[operation % 28] += u32::from(sample() != Sampling::Nothing);
            }
            assert!(
                taken.iter().all(|taken| (550..900).contains(taken)),
                "{taken:?}"
            );
        })
        .join()
        .unwrap();
    }
}
