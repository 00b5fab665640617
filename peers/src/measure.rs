//! The clocks: latencies, processor time, bytes sent to storage, memory.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::Result;

/// Which of two values is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    More,
    Less,
}

/// One figure of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    pub name: String,
    pub better: Better,
    pub value: f64,
}

impl Metric {
    pub fn more(name: impl Into<String>, value: f64) -> Self {
        let (name, better) = (name.into(), Better::More);
        Metric {
            name,
            better,
            value,
        }
    }

    pub fn less(name: impl Into<String>, value: f64) -> Self {
        let (name, better) = (name.into(), Better::Less);
        Metric {
            name,
            better,
            value,
        }
    }
}

pub fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// Latencies of operations, to three digits.
pub struct Latencies(Histogram<u64>);

impl Latencies {
    pub fn new() -> Result<Self> {
        // A minute is longer than any store may take; more is counted as a minute.
        Ok(Latencies(Histogram::new_with_bounds(1, 60_000_000_000, 3)?))
    }

    pub fn record(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanoseconds);
    }

    pub fn add(&mut self, other: &Latencies) -> Result<()> {
        Ok(self.0.add(&other.0)?)
    }

    pub fn quantile_us(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1000.0
    }

    pub fn longest_us(&self) -> f64 {
        self.0.max() as f64 / 1000.0
    }

    /// The median and the tail, as metrics of one operation.
    pub fn metrics(&self, operation: &str) -> [Metric; 3] {
        [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)].map(|(name, quantile)| {
            Metric::less(
                format!("{operation} {name}, us"),
                self.quantile_us(quantile),
            )
        })
    }
}

/// Times operations that follow each other: one reading of the clock each.
pub struct Laps {
    last: Instant,
    pub latencies: Latencies,
}

impl Laps {
    pub fn start() -> Result<Self> {
        let latencies = Latencies::new()?;
        Ok(Laps {
            last: Instant::now(),
            latencies,
        })
    }

    pub fn lap(&mut self) {
        let now = Instant::now();
        self.latencies.record(now - self.last);
        self.last = now;
    }

    /// Leaves out the time since the last operation.
    pub fn skip(&mut self) {
        self.last = Instant::now();
    }

    /// When the last operation ended.
    pub fn last(&self) -> Instant {
        self.last
    }
}

/// What this process has used so far.
pub struct Usage {
    processor: Duration,
    /// Bytes of dirtied pages and of direct writes: what the device has to take, if every page is
    /// written back once. Nothing is counted on tmpfs.
    written_bytes: u64,
}

impl Usage {
    pub fn now() -> Result<Self> {
        Ok(Usage {
            processor: Duration::try_from(clock_gettime(ClockId::ProcessCPUTime))?,
            written_bytes: procfs::process::Process::myself()?.io()?.write_bytes,
        })
    }

    pub fn processor_us_since(&self, earlier: &Usage) -> f64 {
        (self.processor - earlier.processor).as_secs_f64() * 1e6
    }

    pub fn written_bytes_since(&self, earlier: &Usage) -> u64 {
        self.written_bytes - earlier.written_bytes
    }
}

/// The most memory that this process ever had resident, mapped files included.
pub fn peak_memory_bytes() -> Result<u64> {
    let status = procfs::process::Process::myself()?.status()?;
    let peak = status.vmhwm.ok_or("/proc/self/status has no VmHWM")?;
    Ok(peak * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_recorded() {
        let mut latencies = Latencies::new().unwrap();
        for microseconds in 1..=1000 {
            latencies.record(Duration::from_micros(microseconds));
        }
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.002;
        assert!(near(latencies.quantile_us(0.5), 500.0));
        assert!(near(latencies.quantile_us(0.99), 990.0));
        assert!(near(latencies.longest_us(), 1000.0));
    }

    #[test]
    fn usage_grows_with_what_is_used() {
        let before = Usage::now().unwrap();
        let file = tempfile::tempfile_in(".").unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 1 << 20], 0).unwrap();
        let after = Usage::now().unwrap();
        assert!(after.written_bytes_since(&before) >= 1 << 20);
        assert!(after.processor_us_since(&before) > 0.0);
        assert!(peak_memory_bytes().unwrap() > 1 << 20);
    }
}
