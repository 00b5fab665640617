//! The pace at which a host moves the bytes of buffers that it holds.

use std::time::{Duration, Instant};

/// The time in which a host that holds buffers moves [`STEADY_BYTES`], or it is slow.
const PATIENCE: Duration = Duration::from_millis(500);
const STEADY_BYTES: usize = 128 << 10;

/// The bytes that a host moved since it was last seen to keep up.
pub(super) struct Pace {
    since: Instant,
    bytes: usize,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Pace {
            since: now,
            bytes: 0,
        }
    }

    /// Takes note of bytes that came from the host or went to it.
    pub(super) fn moved(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Returns whether the host has been slow for a while. A host without buffers is not.
    pub(super) fn is_slow(&mut self, now: Instant, holds_buffers: bool) -> bool {
        if !holds_buffers || self.bytes >= STEADY_BYTES {
            *self = Pace::new(now);
        }
        now.duration_since(self.since) > PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_slow_while_it_holds_buffers_and_moves_little() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut pace = Pace::new(start);
        assert!(!pace.is_slow(at(2000), false));
        assert!(!pace.is_slow(at(2400), true));
        pace.moved(STEADY_BYTES - 1);
        assert!(pace.is_slow(at(2600), true));
        pace.moved(1);
        assert!(!pace.is_slow(at(2700), true));
        assert!(!pace.is_slow(at(3200), true));
        assert!(pace.is_slow(at(3201), true));
        assert!(!pace.is_slow(at(3300), false));
    }
}
