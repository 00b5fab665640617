//! The health of a cache's device: failures that repeat turn the cache off.

use terrace_lsm::sync::atomic::{AtomicU64, Ordering};

/// Weight of a failure, in successes.
const FAILURE: u64 = 8;
/// Weight at which the device counts as broken: eight failures in a row.
const BROKEN: u64 = 64;

/// Failures of a device, less those that its successes make good.
#[derive(Debug, Default)]
pub(super) struct Health(AtomicU64);

impl Health {
    /// Counts a failure. Returns whether the device is broken.
    pub(super) fn failed(&self) -> bool {
        self.0.fetch_add(FAILURE, Ordering::Relaxed) + FAILURE >= BROKEN
    }

    pub(super) fn succeeded(&self) {
        // Mostly it is 0, and no reader writes.
        if self.0.load(Ordering::Relaxed) > 0 {
            let _ = self
                .0
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |failures| {
                    failures.checked_sub(1)
                });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_break_a_device_and_rare_ones_do_not() {
        let health = Health::default();
        for _ in 0..7 {
            assert!(!health.failed());
        }
        assert!(health.failed());
        let health = Health::default();
        for _ in 0..100 {
            assert!(!health.failed());
            (0..8).for_each(|_| health.succeeded());
        }
    }
}
