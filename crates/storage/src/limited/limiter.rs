//! Holds merges back to a rate of writing.
//!
//! Flushes and merges share the rate, and flushes go first. A flush takes its bytes at once, even
//! in advance, because writers stand still when it does not get on. A merge waits until nothing is
//! owed. So the two together keep to the rate unless flushes alone exceed it; then merges stand
//! until the rate is raised. The caller that sets the rate has to raise it when merges fall behind.
//! Bytes owed are forgotten once there is no limit for a while.
//!
//! Merges wait in line, one at the bucket and the others behind it. The bucket itself is locked for
//! arithmetic only, never while a thread sleeps. So a flush, a change of the rate and a reader of
//! the statistics find it free. Sleeps are short: a new rate is seen within one of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::bucket::Bucket;
use super::clock::Clock;
use crate::Purpose;

/// The longest sleep at a time.
const LONGEST_SLEEP_NS: u64 = 10_000_000;

/// A limit on the writes of flushes and merges, in bytes a second, that may be changed at any time.
///
/// ```
/// use std::sync::Arc;
/// use terrace_storage::{Purpose, RateLimiter, SystemClock};
///
/// let limiter = RateLimiter::new(Some(100 << 20), Arc::new(SystemClock::new()));
/// limiter.pass(1 << 20, Purpose::Flush);
/// // Waits until the ten milliseconds are over that the flush has taken in advance.
/// limiter.pass(1 << 10, Purpose::Compaction);
/// limiter.set_rate(None);
/// assert_eq!(limiter.bytes_per_second(), None);
/// ```
#[derive(Debug)]
pub struct RateLimiter {
    clock: Arc<dyn Clock>,
    bucket: Mutex<Bucket>,
    /// Held by the merge that is at the bucket, asleep or not.
    line: Mutex<()>,
    lifted: AtomicBool,
    waits: AtomicU64,
    waited_ns: AtomicU64,
}

impl RateLimiter {
    /// Returns a limiter with nothing saved up; `None` for no limit.
    pub fn new(bytes_per_second: Option<u64>, clock: Arc<dyn Clock>) -> Self {
        let now_ns = clock.now_ns();
        RateLimiter {
            clock,
            bucket: Mutex::new(Bucket::new(bytes_per_second, now_ns)),
            line: Mutex::new(()),
            lifted: AtomicBool::new(false),
            waits: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
        }
    }

    /// Sets the rate; `None` for no limit. It holds for merges that wait already, too.
    pub fn set_rate(&self, bytes_per_second: Option<u64>) {
        let now_ns = self.clock.now_ns();
        self.bucket.lock().set_rate(bytes_per_second, now_ns);
    }

    /// Returns the present rate; `None` for no limit.
    pub fn bytes_per_second(&self) -> Option<u64> {
        if self.lifted.load(Ordering::Relaxed) {
            return None;
        }
        self.bucket.lock().bytes_per_second()
    }

    /// Lets all writes through for good, waiting merges included.
    pub fn lift(&self) {
        self.lifted.store(true, Ordering::Relaxed);
    }

    /// Asks to write some bytes: a merge waits, a flush only counts, others do neither. The caller
    /// holds no lock that a writer, a reader or a flush needs.
    pub fn pass(&self, bytes: u64, purpose: Purpose) {
        if self.lifted.load(Ordering::Relaxed) {
            return;
        }
        match purpose {
            Purpose::Flush => {
                let now_ns = self.clock.now_ns();
                self.bucket.lock().take_in_advance(bytes, now_ns);
            }
            Purpose::Compaction | Purpose::Migration => self.wait(bytes),
            _ => {}
        }
    }

    fn wait(&self, bytes: u64) {
        let began_ns = self.clock.now_ns();
        let at_the_bucket = self.line.lock();
        let mut slept = false;
        while let Some(wait_ns) = self.take(bytes) {
            if self.lifted.load(Ordering::Relaxed) {
                break;
            }
            slept = true;
            let sleep_ns = wait_ns.min(LONGEST_SLEEP_NS);
            self.clock.sleep(Duration::from_nanos(sleep_ns));
        }
        // Or this thread would be back before the next one wakes.
        MutexGuard::unlock_fair(at_the_bucket);
        if slept {
            let waited_ns = self.clock.now_ns().saturating_sub(began_ns);
            self.waits.fetch_add(1, Ordering::Relaxed);
            self.waited_ns.fetch_add(waited_ns, Ordering::Relaxed);
        }
    }

    fn take(&self, bytes: u64) -> Option<u64> {
        let now_ns = self.clock.now_ns();
        self.bucket.lock().take(bytes, now_ns)
    }

    /// Returns the number of merges' writes that found bytes owed.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Returns the time that those writes waited, all threads together.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed))
    }
}
