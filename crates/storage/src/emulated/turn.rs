//! The wait of a caller for its request, and the time by which waits are too long.
//!
//! Timers are late, by tens of microseconds in a guest, and a loop of requests would lose that time with
//! each. So a thread remembers by how much it was late, and its next request arrives as much earlier.

use std::cell::Cell;
use std::sync::Arc;

use super::device::EmulatedDevice;

/// Longest lateness that counts. A thread that waits longer for a processor would do so on a real device,
/// too.
const MAX_LATE_NS: u64 = 250_000;

thread_local! {
    static LATE_NS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the time by which the thread's last wait was too long, once.
pub(super) fn take_late_ns() -> u64 {
    LATE_NS.take()
}

/// A request under way. Its end waits until the device is done.
#[derive(Debug)]
pub struct Turn {
    device: Arc<EmulatedDevice>,
    deadline_ns: u64,
    /// Whether it counts among the reads elsewhere.
    is_elsewhere: bool,
}

impl Turn {
    pub(super) fn new(device: Arc<EmulatedDevice>, deadline_ns: u64) -> Self {
        Turn {
            device,
            deadline_ns,
            is_elsewhere: false,
        }
    }

    /// Counts it among the reads elsewhere until its end.
    pub(super) fn elsewhere(mut self) -> Self {
        self.is_elsewhere = true;
        self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let ended_ns = self.device.clock().wait_until(self.deadline_ns);
        let late_ns = ended_ns.saturating_sub(self.deadline_ns);
        LATE_NS.set(late_ns.min(MAX_LATE_NS));
        if self.is_elsewhere {
            self.device.end_elsewhere();
        }
    }
}
