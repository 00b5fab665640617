//! When a client begins its operations: each after the last, or at a rate.
//!
//! In a closed loop a store that stands still gets no requests meanwhile, so that its standstill is
//! one slow operation among thousands of quick ones. In an open loop operations are due at fixed
//! times, and a latency counts from then: operations queued behind the slow one show their wait.

use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A sleep wakes up late by up to this much; the rest of the wait is spent reading the clock.
const OVERSLEEP: Duration = Duration::from_micros(80);

/// The pace of one client.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Time between two of its operations, ns; `None` in a closed loop.
    interval_ns: Option<f64>,
    /// When its next operation is due, ns since the start.
    due_ns: f64,
    /// Processor time spent waiting: the harness's own.
    spun: Duration,
}

impl Pace {
    /// Makes the pace of client `index` of `clients`, which share `rate` operations a second and
    /// take turns.
    pub fn new(rate: Option<f64>, index: usize, clients: usize) -> Self {
        let interval_ns = rate.map(|rate| 1e9 * clients as f64 / rate);
        let first = interval_ns.unwrap_or(0.0) * index as f64 / clients as f64;
        Pace {
            interval_ns,
            due_ns: first,
            spun: Duration::ZERO,
        }
    }

    /// Waits until the next operation is due and returns since when its latency counts: since it was
    /// due, or since `last_ns`, when the last one was completed. Times are ns since the start.
    pub fn begin(&mut self, start: Instant, last_ns: u64) -> u64 {
        let Some(interval_ns) = self.interval_ns else {
            return last_ns;
        };
        let due = Duration::from_nanos(self.due_ns as u64);
        self.due_ns += interval_ns;
        self.wait_until(start, due);
        u64::try_from(due.as_nanos()).unwrap_or(u64::MAX)
    }

    fn wait_until(&mut self, start: Instant, due: Duration) {
        let ahead = due.saturating_sub(start.elapsed());
        if ahead.is_zero() {
            return;
        }
        // Not by the wall: other threads may have the processor meanwhile, and that is no time of ours.
        let before = thread_time();
        if ahead > OVERSLEEP {
            thread::sleep(ahead - OVERSLEEP);
        }
        while start.elapsed() < due {
            std::hint::spin_loop();
        }
        self.spun += thread_time().saturating_sub(before);
    }

    /// Returns the processor time that waiting has taken.
    pub fn spun(&self) -> Duration {
        self.spun
    }
}

/// Returns the processor time of this thread so far.
fn thread_time() -> Duration {
    // This clock never stands before zero.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With several threads for each processor most of a wait belongs to others.
    #[test]
    fn a_wait_counts_only_for_the_processor_time_that_it_took() {
        let processors = thread::available_parallelism().unwrap().get();
        thread::scope(|scope| {
            for _ in 0..4 * processors {
                scope.spawn(|| {
                    let mut pace = Pace::new(Some(10_000.0), 0, 1);
                    let (start, before) = (Instant::now(), thread_time());
                    for _ in 0..500 {
                        pace.begin(start, 0);
                    }
                    let used = thread_time() - before;
                    assert!(pace.spun() <= used, "{:?} of {used:?}", pace.spun());
                });
            }
        });
    }

    /// A late client does not wait: beside busy threads it takes many tries to have the processor
    /// for a while.
    #[test]
    fn a_wait_counts_whole() {
        let waits = || {
            let mut pace = Pace::new(Some(1_000.0), 0, 1);
            let (start, before) = (Instant::now(), thread_time());
            for _ in 0..20 {
                pace.begin(start, 0);
            }
            (pace.spun(), thread_time() - before)
        };
        let waited = (0..2_000).map(|_| waits());
        let mut waited = waited.filter(|(_, used)| *used > Duration::from_micros(500));
        let (spun, used) = waited.next().unwrap();
        assert!(spun >= used / 2, "{spun:?} of {used:?}");
    }

    #[test]
    fn in_a_closed_loop_an_operation_begins_when_the_last_one_ended() {
        let mut pace = Pace::new(None, 0, 1);
        assert_eq!(pace.begin(Instant::now(), 12_345), 12_345);
    }

    #[test]
    fn clients_take_turns_at_the_common_rate() {
        let start = Instant::now();
        let due = |index| {
            let mut pace = Pace::new(Some(100_000.0), index, 4);
            [0; 3].map(|last_ns| pace.begin(start, last_ns))
        };
        assert_eq!(due(0), [0, 40_000, 80_000]);
        assert_eq!(due(3), [30_000, 70_000, 110_000]);
    }

    #[test]
    fn nothing_begins_before_it_is_due_and_what_is_late_counts_from_then() {
        let start = Instant::now();
        let mut pace = Pace::new(Some(1000.0), 0, 1);
        assert_eq!(pace.begin(start, 0), 0);
        assert_eq!(pace.begin(start, 0), 1_000_000);
        assert!(start.elapsed() >= Duration::from_millis(1));
        thread::sleep(Duration::from_millis(5));
        let before = start.elapsed();
        assert_eq!(pace.begin(start, 0), 2_000_000);
        // It was due long ago, so there is nothing to wait for.
        assert!(start.elapsed() - before < Duration::from_millis(3));
    }
}
