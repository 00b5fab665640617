//! Durations of operations, in histograms of bounded size.
//!
//! A get takes about a microsecond, so reading the clock twice and recording each would be felt.
//! Gets and writes are therefore sampled: a few of each thread, drawn at random
//! ([`sample`](fn@terrace_lsm::time_profile::sample)). Rare, long operations in the background are
//! recorded each time. No thread ever waits for a histogram: a sample that finds it in use is
//! dropped.

use std::time::Duration;

use hdrhistogram::Histogram;
use terrace_lsm::sync::Instant;
use terrace_lsm::time_profile::TIMED_ONE_IN;

/// Longest time that is recorded; a longer one is recorded as this.
const LONGEST_NANOSECONDS: u64 = 100_000_000_000;
/// Two digits are kept, so a figure is at most 1 % off, and a histogram takes 31 KiB.
const DIGITS: u8 = 2;
/// Digits of histograms of which a store has many.
const COARSE_DIGITS: u8 = 1;

/// The histograms of a store.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    pub(crate) get: Latency,
    pub(crate) write: Latency,
    pub(crate) sync: Latency,
    pub(crate) flush: Latency,
    pub(crate) slice: Latency,
}

impl Latencies {
    pub(crate) fn statistics(&self) -> LatencyStatistics {
        LatencyStatistics {
            get: self.get.distribution(TIMED_ONE_IN),
            write: self.write.distribution(TIMED_ONE_IN),
            sync: self.sync.distribution(1),
            flush: self.flush.distribution(1),
            slice: self.slice.distribution(1),
        }
    }
}

/// One histogram. Not of [`sync`](terrace_lsm::sync)'s primitives: no caller's order depends on it.
#[derive(Debug)]
pub(crate) struct Latency(Option<parking_lot::Mutex<Histogram<u64>>>);

impl Default for Latency {
    fn default() -> Self {
        Latency::of_digits(DIGITS)
    }
}

impl Latency {
    /// Returns a histogram that takes 4 KiB, and is at most 10 % off.
    pub(crate) fn coarse() -> Self {
        Latency::of_digits(COARSE_DIGITS)
    }

    fn of_digits(digits: u8) -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NANOSECONDS, digits);
        Latency(histogram.ok().map(parking_lot::Mutex::new))
    }

    pub(crate) fn record(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(mut histogram) = self.0.as_ref().and_then(parking_lot::Mutex::try_lock) {
            histogram.saturating_record(nanoseconds);
        }
    }

    /// Times `operation`.
    pub(crate) fn time<T>(&self, operation: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = operation();
        self.record(began.elapsed());
        done
    }

    pub(crate) fn distribution(&self, one_in: u32) -> Distribution {
        let Some(histogram) = &self.0 else {
            return Distribution::default();
        };
        let histogram = histogram.lock();
        let at = |quantile| Duration::from_nanos(histogram.value_at_quantile(quantile));
        let count = histogram.len();
        Distribution {
            one_in,
            count,
            sum: Duration::from_secs_f64(histogram.mean() * count as f64 / 1e9),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: Duration::from_nanos(histogram.max()),
        }
    }
}

/// Durations of operations since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct LatencyStatistics {
    /// Reads of one key.
    pub get: Distribution,
    /// Batches, from the call to the acknowledgement; the time that a writer was held back is in
    /// it.
    pub write: Distribution,
    /// Persisting writes in arenas because a write asked for it.
    pub sync: Distribution,
    /// Flushes.
    pub flush: Distribution,
    /// Building slices of merges.
    pub slice: Distribution,
}

/// Durations of one kind of operation: quantiles of the timed ones, each at most 1 % too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Distribution {
    /// Number of operations of which one was timed, on average.
    pub one_in: u32,
    /// Number of operations that were timed.
    pub count: u64,
    /// The time that these took together.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "sum_seconds", with = "terrace_lsm::serial::seconds")
    )]
    pub sum: Duration,
    /// Half of them took no longer.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "p50_seconds", with = "terrace_lsm::serial::seconds")
    )]
    pub p50: Duration,
    /// Nine of ten took no longer.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "p90_seconds", with = "terrace_lsm::serial::seconds")
    )]
    pub p90: Duration,
    /// 99 of 100 took no longer.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "p99_seconds", with = "terrace_lsm::serial::seconds")
    )]
    pub p99: Duration,
    /// 999 of 1,000 took no longer.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "p999_seconds", with = "terrace_lsm::serial::seconds")
    )]
    pub p999: Duration,
    /// The longest of them.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "max_seconds", with = "terrace_lsm::serial::seconds")
    )]
    pub max: Duration,
}

impl Distribution {
    /// Returns the mean of the timed operations; zero if there are none.
    pub fn mean(&self) -> Duration {
        let nanoseconds = self.sum.as_nanos() / u128::from(self.count.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_is_one_per_cent_off_at_most() {
        let latency = Latency::default();
        for microseconds in 1..=1000 {
            latency.record(Duration::from_micros(microseconds));
        }
        let shown = latency.distribution(1);
        let near = |shown: Duration, microseconds: f64| {
            let off = shown.as_secs_f64() * 1e6 / microseconds - 1.0;
            assert!(off.abs() < 0.01, "{shown:?} for {microseconds} us");
        };
        assert_eq!((shown.one_in, shown.count), (1, 1000));
        near(shown.p50, 500.0);
        near(shown.p90, 900.0);
        near(shown.p99, 990.0);
        near(shown.p999, 999.0);
        near(shown.max, 1000.0);
        near(shown.sum, 500_500.0);
        near(shown.mean(), 500.5);
        assert_eq!(Distribution::default().mean(), Duration::ZERO);
    }

    #[test]
    fn what_is_too_long_or_comes_at_a_bad_moment_harms_nobody() {
        let latency = Latency::default();
        latency.record(Duration::MAX);
        let histogram = latency.0.as_ref().unwrap().lock();
        latency.record(Duration::from_secs(1));
        drop(histogram);
        assert_eq!(latency.distribution(1).count, 1);
        assert!(latency.distribution(1).max >= Duration::from_secs(100));
        assert_eq!(Latency::default().distribution(1).max, Duration::ZERO);
    }
}
