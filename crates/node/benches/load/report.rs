//! Measurements and their medians.

use std::time::Duration;

/// One run of one peer.
#[derive(Clone, Copy, Default)]
pub struct Sample {
    /// Operations a second.
    pub rate: f64,
    /// Bytes of values a second.
    pub bytes_per_second: f64,
    /// Latencies: of half the operations, of 99 % and of 99.9 %.
    pub latencies: [Duration; 3],
}

impl Sample {
    /// Sums up operations that took `seconds` in all.
    pub fn new(mut latencies: Vec<Duration>, bytes: u64, seconds: f64) -> Self {
        latencies.sort_unstable();
        let last = latencies.len().saturating_sub(1);
        let at = |share: f64| {
            let rank = (latencies.len() as f64 * share) as usize;
            latencies.get(rank.min(last)).copied().unwrap_or_default()
        };
        Sample {
            rate: latencies.len() as f64 / seconds,
            bytes_per_second: bytes as f64 / seconds,
            latencies: [at(0.5), at(0.99), at(0.999)],
        }
    }
}

/// A number of each run.
struct Numbers {
    name: String,
    unit: &'static str,
    runs: Vec<f64>,
}

/// The rows of a figure, in the order in which they were first measured.
#[derive(Default)]
pub struct Report {
    rows: Vec<(String, Vec<Sample>)>,
    numbers: Vec<Numbers>,
}

impl Report {
    /// Adds a run of a peer.
    pub fn add(&mut self, name: &str, sample: Sample) {
        match self.rows.iter_mut().find(|(of, _)| of == name) {
            Some((_, samples)) => samples.push(sample),
            None => self.rows.push((name.to_owned(), vec![sample])),
        }
    }

    /// Adds a number of a run, such as a ratio of two samples.
    pub fn note(&mut self, name: &str, unit: &'static str, number: f64) {
        match self.numbers.iter_mut().find(|of| of.name == name) {
            Some(numbers) => numbers.runs.push(number),
            None => self.numbers.push(Numbers {
                name: name.to_owned(),
                unit,
                runs: vec![number],
            }),
        }
    }

    /// Prints the median of each row, and the least and the most of its runs.
    pub fn print(&self) {
        for (name, samples) in &self.rows {
            let rates = Spread::of(samples.iter().map(|sample| sample.rate));
            let bytes = Spread::of(samples.iter().map(|sample| sample.bytes_per_second));
            let latency = |at: usize| {
                let seconds = samples.iter().map(|sample| sample.latencies[at]);
                let median = Spread::of(seconds.map(|latency| latency.as_secs_f64())).median;
                Duration::from_secs_f64((median * 1e7).round() / 1e7)
            };
            println!(
                "{name}: {:.0}/s ({:.0} to {:.0}), {:.1} MB/s, p50 {:?}, p99 {:?}, p99.9 {:?}",
                rates.median,
                rates.least,
                rates.most,
                bytes.median / 1e6,
                latency(0),
                latency(1),
                latency(2)
            );
        }
        for Numbers { name, unit, runs } in &self.numbers {
            let Spread {
                median,
                least,
                most,
            } = Spread::of(runs.iter().copied());
            println!("{name}: {median:.3}{unit} ({least:.3} to {most:.3})");
        }
        println!();
    }
}

struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(numbers: impl Iterator<Item = f64>) -> Self {
        let mut numbers: Vec<f64> = numbers.collect();
        numbers.sort_by(f64::total_cmp);
        let at = |at: usize| numbers.get(at).copied().unwrap_or_default();
        Spread {
            least: at(0),
            median: at(numbers.len() / 2),
            most: at(numbers.len().saturating_sub(1)),
        }
    }
}
