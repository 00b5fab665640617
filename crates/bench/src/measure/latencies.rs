//! Latencies by kind of operation, to three digits.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::Result;
use crate::operation::OperationKind;
use crate::outcome::Latency;

/// A minute is longer than any store may take; a longer operation is counted as a minute.
const LONGEST_NS: u64 = 60_000_000_000;

/// Points of a distribution that a report gets: enough for a smooth line.
const CDF_POINTS: usize = 200;

/// The latencies of one client, or of several together.
pub struct Latencies {
    /// Histograms in the order of [`OperationKind::ALL`]. Each grows with its longest latency: a client is
    /// to take little of the memory that bounds its store.
    by_kind: Vec<Histogram<u64>>,
}

impl Latencies {
    /// Makes empty latencies.
    pub fn new() -> Result<Self> {
        let one = || Histogram::new(3);
        let by_kind = OperationKind::ALL
            .iter()
            .map(|_| one())
            .collect::<std::result::Result<_, _>>()?;
        Ok(Latencies { by_kind })
    }

    /// Counts one operation.
    pub fn record(&mut self, kind: OperationKind, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(histogram) = self.by_kind.get_mut(kind as usize) {
            // Never fails: the histogram grows.
            let _ = histogram.record(nanoseconds.min(LONGEST_NS));
        }
    }

    /// Takes up another client's.
    pub fn add(&mut self, other: &Latencies) -> Result<()> {
        for (histogram, more) in self.by_kind.iter_mut().zip(&other.by_kind) {
            histogram.add(more)?;
        }
        Ok(())
    }

    /// Returns all that were recorded, of all kinds together.
    pub fn of_all(&self) -> Result<Latency> {
        let mut all = Histogram::new(3)?;
        for histogram in &self.by_kind {
            all.add(histogram)?;
        }
        Ok(summary(&all))
    }

    /// Returns all that were recorded, by kind; kinds without an operation are left out.
    pub fn summaries(&self) -> BTreeMap<OperationKind, Latency> {
        OperationKind::ALL
            .into_iter()
            .zip(&self.by_kind)
            .filter(|(_, histogram)| !histogram.is_empty())
            .map(|(kind, histogram)| (kind, summary(histogram)))
            .collect()
    }
}

fn summary(histogram: &Histogram<u64>) -> Latency {
    let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1000.0;
    Latency {
        count: histogram.len(),
        mean_us: histogram.mean() / 1000.0,
        p50_us: at(0.5),
        p90_us: at(0.9),
        p99_us: at(0.99),
        p999_us: at(0.999),
        p9999_us: at(0.9999),
        max_us: histogram.max() as f64 / 1000.0,
        cdf: distribution(histogram),
    }
}

/// Returns points evenly spaced up to the median, and then closer and closer to the longest: people
/// look for tails.
fn distribution(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let count = histogram.len() as f64;
    let decades = count.log10().max(1.0);
    let half = CDF_POINTS / 2;
    let body = (0..half).map(|i| 0.5 * i as f64 / half as f64);
    let tail = (0..half).map(|i| 1.0 - 0.5 * 10f64.powf(-decades * i as f64 / half as f64));
    let mut points: Vec<(f64, f64)> = body
        .chain(tail)
        .map(|quantile| {
            (
                histogram.value_at_quantile(quantile) as f64 / 1000.0,
                quantile,
            )
        })
        .collect();
    points.push((histogram.max() as f64 / 1000.0, 1.0));
    // Of points with one latency the last counts: its share of operations took at most that.
    points.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 = next.1;
        }
        same
    });
    points
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The value at a quantile is that of the sorted list, to three digits.
        #[test]
        fn percentiles_are_those_of_exact_sorting(
            mut nanoseconds in prop::collection::vec(1u64..10_000_000_000, 1..2000)
        ) {
            let mut latencies = Latencies::new().unwrap();
            for &time in &nanoseconds {
                latencies.record(OperationKind::Read, Duration::from_nanos(time));
            }
            nanoseconds.sort_unstable();
            let found = &latencies.summaries()[&OperationKind::Read];
            for (quantile, us) in [
                (0.5, found.p50_us), (0.9, found.p90_us), (0.99, found.p99_us),
                (0.999, found.p999_us), (1.0, found.max_us),
            ] {
                let rank = (quantile * nanoseconds.len() as f64).ceil() as usize;
                let exact = nanoseconds[rank.max(1) - 1] as f64 / 1000.0;
                prop_assert!((us / exact - 1.0).abs() < 0.0015, "{quantile}: {us} for {exact}");
            }
        }
    }

    #[test]
    fn a_distribution_ends_at_the_longest_and_never_falls() {
        let mut latencies = Latencies::new().unwrap();
        for i in 1..=100_000u64 {
            latencies.record(OperationKind::Scan, Duration::from_nanos(i * 37 % 100_003));
        }
        let summaries = latencies.summaries();
        assert_eq!(summaries.len(), 1);
        let found = &summaries[&OperationKind::Scan];
        assert_eq!(found.cdf.last().unwrap(), &(found.max_us, 1.0));
        assert!(
            found
                .cdf
                .windows(2)
                .all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1)
        );
    }

    #[test]
    fn what_takes_hours_counts_as_a_minute() {
        let mut latencies = Latencies::new().unwrap();
        latencies.record(OperationKind::Insert, Duration::from_secs(7200));
        let max_us = latencies.summaries()[&OperationKind::Insert].max_us;
        assert!((max_us / 60e6 - 1.0).abs() < 0.001);
    }
}
