//! Times that writers were held back, by cause.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::stall_cause::StallCause;

/// Time by cause.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    nanoseconds: [AtomicU64; StallCause::ALL.len()],
    longest_nanoseconds: AtomicU64,
    /// Whether the leader is being held back now.
    now: AtomicBool,
}

/// A time during which writers are held back.
pub(crate) struct Stall<'a>(&'a Stalls);

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        self.0.now.store(false, Ordering::Relaxed);
    }
}

impl Stalls {
    /// Begins a stall. Called by the leader only, before it waits.
    pub(crate) fn begin(&self) -> Stall<'_> {
        self.now.store(true, Ordering::Relaxed);
        Stall(self)
    }

    /// Returns whether a write that came now would wait behind one that is held back.
    pub(crate) fn is_stalled(&self) -> bool {
        self.now.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, cause: StallCause, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(total) = self.nanoseconds.get(cause as usize) {
            total.fetch_add(nanoseconds, Ordering::Relaxed);
        }
        self.longest_nanoseconds
            .fetch_max(nanoseconds, Ordering::Relaxed);
    }

    /// Adds a time that is long: taking a spare that is there costs microseconds and is no stall.
    pub(crate) fn add_if_long(&self, cause: StallCause, time: Duration) {
        if time > Duration::from_micros(50) {
            self.add(cause, time);
        }
    }

    pub(crate) fn of(&self, cause: StallCause) -> Duration {
        let total = self.nanoseconds.get(cause as usize);
        Duration::from_nanos(total.map_or(0, |total| total.load(Ordering::Relaxed)))
    }

    pub(crate) fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_nanoseconds.load(Ordering::Relaxed))
    }
}
