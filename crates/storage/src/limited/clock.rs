//! The time for rate limits and for the ages of stored data.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time that callers read and wait for: the machine's, or a test's.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the nanoseconds since some moment that stays the same.
    fn now_ns(&self) -> u64;

    /// Returns the seconds since 1970, by the calendar: stored times are read after a restart, too.
    fn unix_seconds(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    }

    /// Sleeps for about `time`. It may return early: the caller reads the time again.
    fn sleep(&self, time: Duration);

    /// Waits until `deadline_ns` or later, and returns the time then.
    fn wait_until(&self, deadline_ns: u64) -> u64 {
        loop {
            let now_ns = self.now_ns();
            match deadline_ns.checked_sub(now_ns) {
                None | Some(0) => return now_ns,
                Some(left_ns) => self.sleep(Duration::from_nanos(left_ns)),
            }
        }
    }
}

/// The machine's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock(Instant);

impl SystemClock {
    /// Returns a clock that begins at zero now.
    pub fn new() -> Self {
        SystemClock(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
