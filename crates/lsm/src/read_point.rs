//! The state that a reader sees.

use std::num::NonZeroU64;

use terrace_storage::Clock;

use crate::key::{MIN_OVERLAY_SEQUENCE, SequenceNumber};

/// The state that a reader sees: every write up to a number, as of a second. A reader whose records all
/// stay for ever takes no second.
///
/// ```
/// use terrace_lsm::read_point::ReadPoint;
/// let mut point = ReadPoint::at(7);
/// let first = point.seconds(&terrace_storage::SystemClock::new());
/// assert_eq!(point, ReadPoint::with_seconds(7, first));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPoint {
    sequence: SequenceNumber,
    /// Seconds since 1970; `None` before a record asks for them.
    seconds: Option<NonZeroU64>,
}

impl ReadPoint {
    /// Returns the state of every write up to a number. Its second is that of the first question for it.
    #[inline]
    pub const fn at(sequence: SequenceNumber) -> Self {
        ReadPoint {
            sequence,
            seconds: None,
        }
    }

    /// Returns the state of every write up to a number, as of a second since 1970.
    #[inline]
    pub const fn with_seconds(sequence: SequenceNumber, seconds: u64) -> Self {
        ReadPoint {
            sequence,
            // A clock at the first second, or before it, is wrong.
            seconds: match NonZeroU64::new(seconds) {
                None => Some(NonZeroU64::MIN),
                taken => taken,
            },
        }
    }

    /// Returns the number of the last write that the reader sees.
    #[inline]
    pub const fn sequence(self) -> SequenceNumber {
        self.sequence
    }

    /// Returns whether the reader sees a version with this number. It sees writes of the store up to the read
    /// point, and all versions of layers on top.
    #[inline]
    pub fn sees(self, sequence: SequenceNumber) -> bool {
        sequence <= self.sequence || sequence >= MIN_OVERLAY_SEQUENCE
    }

    /// Returns the second of this state. The first question takes it from the clock, and later ones get
    /// the same.
    #[inline]
    pub fn seconds(&mut self, clock: &dyn Clock) -> u64 {
        if self.seconds.is_none() {
            *self = ReadPoint::with_seconds(self.sequence, clock.unix_seconds());
        }
        self.seconds.map_or(0, NonZeroU64::get)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::key::MAX_STORED_SEQUENCE;

    /// A calendar that turns a page at each look.
    #[derive(Debug)]
    struct Calendar(AtomicU64);

    impl Clock for Calendar {
        fn now_ns(&self) -> u64 {
            0
        }
        fn unix_seconds(&self) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed)
        }
        fn sleep(&self, _: Duration) {}
    }

    #[test]
    fn a_read_point_takes_the_time_once() {
        let clock = Calendar(AtomicU64::new(100));
        let mut point = ReadPoint::at(7);
        assert_eq!((point.seconds(&clock), point.seconds(&clock)), (100, 100));
        let mut copy = point;
        assert_eq!((copy.seconds(&clock), copy.sequence()), (100, 7));
        let mut held = ReadPoint::with_seconds(7, 50);
        assert_eq!(held.seconds(&clock), 50);
        assert_eq!(ReadPoint::with_seconds(7, 0).seconds(&clock), 1);
    }

    #[test]
    fn a_read_point_sees_older_writes_and_the_layers_on_top() {
        let point = ReadPoint::at(7);
        assert!(point.sees(7) && !point.sees(8) && !point.sees(MAX_STORED_SEQUENCE));
        assert!(point.sees(MIN_OVERLAY_SEQUENCE));
        assert_eq!(size_of::<ReadPoint>(), 16);
    }
}
