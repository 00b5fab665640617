//! The machine's clock, with waits that end within microseconds of their deadline.
//!
//! A sleep is late: by the kernel's timer slack of 50 us, and by the time until an idle processor wakes,
//! some 40 us in a guest. So the slack is set to 1 ns, and a wait sleeps until shortly before its
//! deadline and then watches the clock. The time to watch follows the lateness of the sleeps.
//!
//! Many waits beside each other need every processor for their requests. So watchers yield, and few waits
//! watch after a sleep: the others sleep up to their deadline, which is less late on busy processors.
//! Waits too short for a sleep always watch, because a sleep takes more of a processor than some yields.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::{Clock, SystemClock};

/// Bounds of the time to watch.
const MIN_WATCHED_NS: u64 = 10_000;
const MAX_WATCHED_NS: u64 = 150_000;
/// Steps of the time to watch: after a late sleep, and after another. One sleep of nine is late then.
const LONGER_NS: u64 = 4_000;
const SHORTER_NS: u64 = 500;
/// A shorter wait has no sleep.
const MIN_SLEPT_WAIT_NS: u64 = 120_000;
/// Time from a timer's end to the thread's on a busy processor.
const WAKE_NS: u64 = 4_000;

thread_local! {
    static HAS_SHARP_TIMERS: Cell<bool> = const { Cell::new(false) };
}

/// The machine's monotonic clock, for waits of tens of microseconds. Threads that wait by it keep a timer
/// slack of 1 ns.
#[derive(Debug)]
pub struct PreciseClock {
    clock: SystemClock,
    watched_ns: AtomicU64,
    /// Number of threads asleep.
    sleepers: AtomicUsize,
    /// Number of threads asleep of which each watches afterwards.
    max_watchers: usize,
}

impl PreciseClock {
    /// Returns a clock that begins at zero now.
    pub fn new() -> Self {
        let processors = std::thread::available_parallelism();
        PreciseClock {
            clock: SystemClock::new(),
            watched_ns: AtomicU64::new(MAX_WATCHED_NS / 2),
            sleepers: AtomicUsize::new(0),
            max_watchers: processors.map_or(1, |processors| processors.get().div_ceil(2)),
        }
    }

    /// Sleeps until shortly before the deadline, and returns the time then.
    fn sleep_before(&self, now_ns: u64, deadline_ns: u64) -> u64 {
        let watched_ns = self.watched_ns.load(Ordering::Relaxed);
        let woken_ns = self.sleep_until(now_ns, deadline_ns.saturating_sub(watched_ns));
        // Another thread's step may be lost.
        let next_ns = match woken_ns > deadline_ns {
            true => watched_ns + LONGER_NS,
            false => watched_ns - SHORTER_NS,
        };
        let next_ns = next_ns.clamp(MIN_WATCHED_NS, MAX_WATCHED_NS);
        self.watched_ns.store(next_ns, Ordering::Relaxed);
        woken_ns
    }

    fn sleep_until(&self, now_ns: u64, wake_ns: u64) -> u64 {
        if wake_ns <= now_ns {
            return now_ns;
        }
        sharpen_timers();
        self.sleep(Duration::from_nanos(wake_ns - now_ns));
        self.now_ns()
    }

    /// Sleeps for most of the time, and returns the time then.
    fn sleep_through(&self, now_ns: u64, deadline_ns: u64) -> u64 {
        let sleepers = self.sleepers.fetch_add(1, Ordering::Relaxed);
        let woken_ns = if sleepers < self.max_watchers {
            self.sleep_before(now_ns, deadline_ns)
        } else {
            self.sleep_until(now_ns, deadline_ns.saturating_sub(WAKE_NS))
        };
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        woken_ns
    }
}

impl Default for PreciseClock {
    fn default() -> Self {
        PreciseClock::new()
    }
}

impl Clock for PreciseClock {
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn sleep(&self, time: Duration) {
        self.clock.sleep(time);
    }

    fn wait_until(&self, deadline_ns: u64) -> u64 {
        let mut now_ns = self.now_ns();
        if deadline_ns.saturating_sub(now_ns) >= MIN_SLEPT_WAIT_NS {
            now_ns = self.sleep_through(now_ns, deadline_ns);
        }
        while now_ns < deadline_ns {
            std::thread::yield_now();
            now_ns = self.now_ns();
        }
        now_ns
    }
}

/// Takes the slack from the thread's timers, once. Sleeps are later where the kernel refuses.
fn sharpen_timers() {
    if !HAS_SHARP_TIMERS.replace(true) {
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_never_ends_before_its_deadline() {
        let clock = PreciseClock::new();
        for wait_ns in [0, 1_000, 50_000, 300_000, 2_000_000] {
            let deadline_ns = clock.now_ns() + wait_ns;
            assert!(clock.wait_until(deadline_ns) >= deadline_ns);
            assert!(clock.now_ns() >= deadline_ns);
        }
        assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1);
    }
}
