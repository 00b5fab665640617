//! The deadline of one wait for the device.

use std::time::{Duration, Instant};

use super::Wait;

/// How long one poll may go on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    Now,
    WhenIdle,
    /// None is further away than the clock goes.
    At(Option<Instant>),
}

/// How long a poll may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    Forever,
    For(Duration),
}

impl Limit {
    pub(super) fn new(wait: Wait) -> Self {
        match wait {
            Wait::No => Limit::Now,
            Wait::Yes => Limit::WhenIdle,
            Wait::AtMost(time) => Limit::At(Instant::now().checked_add(time)),
        }
    }

    /// Returns true if the poll waits at all: then it uses up the waker's call.
    pub(super) fn is_wait(self) -> bool {
        !matches!(self, Limit::Now)
    }

    /// Returns how long the poll may still sleep; none if it is over.
    pub(super) fn left(self, is_idle: bool) -> Option<Sleep> {
        match self {
            Limit::Now => None,
            Limit::WhenIdle => (!is_idle).then_some(Sleep::Forever),
            Limit::At(None) => Some(Sleep::Forever),
            Limit::At(Some(end)) => {
                let left = end.saturating_duration_since(Instant::now());
                (!left.is_zero()).then_some(Sleep::For(left))
            }
        }
    }
}
