//! The rate that background writes keep to, in a store that was given one.

use std::sync::Arc;

use terrace_lsm::compaction::rate::{RateLimits, rate_limit};
use terrace_storage::{Clock, LimitedStorage, RateLimiter, Storage};

use crate::db::statistics::WriteRateStatistics;
use crate::options::Options;

/// A limiter, and the limits that its rate follows from.
#[derive(Debug)]
pub(crate) struct WriteRate {
    limits: RateLimits,
    limiter: Arc<RateLimiter>,
}

impl WriteRate {
    /// Makes the rate of a store; `None` if the options give none.
    pub(crate) fn of(options: &Options, clock: Arc<dyn Clock>) -> Option<Self> {
        let bytes_per_second = options.background_bytes_per_second?;
        Some(WriteRate {
            limits: RateLimits {
                bytes_per_second,
                level0_merge: options.level0_merge,
                level0_slowdown: options.level0_slowdown,
                debt_slowdown_bytes: options.constants.debt_slowdown_bytes,
            },
            limiter: Arc::new(RateLimiter::new(Some(bytes_per_second), clock)),
        })
    }

    /// Returns the storage that keeps to the rate.
    pub(crate) fn limit(&self, storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
        Arc::new(LimitedStorage::new(storage, Arc::clone(&self.limiter)))
    }

    /// Follows a change of the debt of merges. Merges that wait already get the new rate, too.
    pub(crate) fn follow(&self, debt_bytes: u64, level0_sub_levels: usize) {
        let rate = rate_limit(debt_bytes, level0_sub_levels, self.limits);
        self.limiter.set_rate(rate);
    }

    /// Lifts the limit as the store closes: no thread waits any more.
    pub(crate) fn lift(&self) {
        self.limiter.lift();
    }

    pub(crate) fn statistics(&self) -> WriteRateStatistics {
        WriteRateStatistics {
            configured_bytes_per_second: self.limits.bytes_per_second,
            present_bytes_per_second: self.limiter.bytes_per_second(),
            waits: self.limiter.waits(),
            waited: self.limiter.waited(),
        }
    }
}
