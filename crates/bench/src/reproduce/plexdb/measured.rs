//! Measurements of each point, read off its runs.

use serde::{Deserialize, Serialize};

use super::contests::{ABSENT, READS, SCANS};
use crate::outcome::{Contest, PhaseOutcome, RunOutcome, Sample};
use crate::report::figures::median;

/// The least that a device reads at a time.
const PAGE_BYTES: f64 = 4096.0;

/// One quantity over repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The value in the middle.
    pub median: f64,
    /// The least value of a repeat.
    pub least: f64,
    /// The greatest value of a repeat.
    pub most: f64,
}

impl Figure {
    /// Returns the figure; `None` of nothing.
    pub fn of(values: &[f64]) -> Option<Figure> {
        Some(Figure {
            median: median(values.iter().copied())?,
            least: values.iter().copied().reduce(f64::min)?,
            most: values.iter().copied().reduce(f64::max)?,
        })
    }
}

/// One point.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// Bytes of files without logs, for each byte of distinct keys and values.
    pub space: Space,
    /// Bytes written for each byte of keys and values that came in.
    pub written: Written,
    /// Writes a second, to the last acknowledgement.
    pub writes_per_second: Figure,
    /// The same to settled.
    pub settled_writes_per_second: Figure,
    /// Reads of records that are there.
    pub reads: Option<Lookups>,
    /// Reads of keys that are not.
    pub absent: Option<Lookups>,
    /// Scans of rows in order, each scan one of these lookups.
    #[serde(default)]
    pub scans: Option<Lookups>,
}

/// How much of a disk tables take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// Average over the time in which the second half of all writes came in.
    pub mean: Figure,
    /// The most at any moment, from the first write to settled.
    pub peak: Figure,
    /// When nothing was left to do.
    pub settled: Figure,
}

/// How often a byte is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Written {
    /// Writes to tables, until the last write was acknowledged, by the store's own count.
    pub load_tables: Option<Figure>,
    /// The same until nothing was left to do.
    pub settled_tables: Option<Figure>,
    /// All that the process wrote until then and did not drop, logs included, by the system's count.
    pub settled_process: Figure,
}

impl Written {
    /// Returns the figure of tables where the store counts it, else that of the process.
    pub fn usual(&self) -> Figure {
        self.settled_tables.unwrap_or(self.settled_process)
    }
}

/// Reads of a settled store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lookups {
    /// How many a second.
    pub per_second: Figure,
    /// Bytes that the process fetched from the device for each.
    pub device_bytes: Figure,
    /// Requests to the device, by any process, for each; `None` where it has no counters.
    pub device_reads: Option<Figure>,
    /// The share of them that can have asked the device, at most: one that does fetches a page at least.
    pub device_share: Figure,
}

/// Returns all points of a contest, in its order. `data_bytes` is of distinct keys and values.
pub fn measured(contest: &Contest, data_bytes: u64) -> Vec<Measured> {
    let mut all: Vec<Measured> = Vec::new();
    for run in &contest.runs {
        if !all.iter().any(|point| point.name == run.store) {
            let runs = contest.runs.iter().filter(|other| other.store == run.store);
            all.extend(of_runs(&runs.collect::<Vec<_>>(), data_bytes));
        }
    }
    all
}

fn of_runs(runs: &[&RunOutcome], data_bytes: u64) -> Option<Measured> {
    let figure = |read: &dyn Fn(&Load<'_>) -> Option<f64>| {
        let values = runs.iter().filter_map(|run| read(&Load::of(run)));
        Figure::of(&values.collect::<Vec<_>>())
    };
    let space = |bytes: f64| Some(bytes / data_bytes.max(1) as f64);
    Some(Measured {
        name: runs.first()?.store.clone(),
        space: Space {
            mean: figure(&|load| space(load.mean_space_bytes()?))?,
            peak: figure(&|load| space(load.peak_space_bytes()))?,
            settled: figure(&|load| space(load.settled_space_bytes()))?,
        },
        written: Written {
            load_tables: figure(&|load| {
                load.amplified(|phase| phase.acknowledged_table_bytes_written)
            }),
            settled_tables: figure(&|load| load.amplified(|phase| phase.table_bytes_written)),
            settled_process: figure(&|load| load.amplified(|phase| Some(written(phase))))?,
        },
        writes_per_second: figure(&|load| load.rate(|phase| Some(phase.acknowledged_s)))?,
        settled_writes_per_second: figure(&|load| load.rate(|phase| phase.settled_s))?,
        reads: lookups(runs, READS),
        absent: lookups(runs, ABSENT),
        scans: lookups(runs, SCANS),
    })
}

fn written(phase: &PhaseOutcome) -> u64 {
    let usage = &phase.usage;
    usage
        .write_bytes
        .saturating_sub(usage.cancelled_write_bytes)
}

/// The phases of a run that write.
struct Load<'a>(Vec<&'a PhaseOutcome>);

impl<'a> Load<'a> {
    fn of(run: &'a RunOutcome) -> Self {
        let writes = |phase: &&PhaseOutcome| phase.user_written_bytes > 0;
        Load(run.phases.iter().filter(writes).collect())
    }

    fn operations(&self) -> u64 {
        self.0.iter().map(|phase| phase.operations).sum()
    }

    /// Returns the mean space of the samples between half of the writes and the last
    /// acknowledgement.
    fn mean_space_bytes(&self) -> Option<f64> {
        let half = self.operations() / 2;
        let mut before = 0;
        let mut bytes = Vec::new();
        for phase in &self.0 {
            let counts = |sample: &&Sample| {
                before + sample.operations >= half && sample.at_s <= phase.acknowledged_s
            };
            let samples = phase.timeline.iter().filter(counts);
            bytes.extend(samples.map(|sample| sample.table_space_bytes as f64));
            before += phase.operations;
        }
        // A load that is over before it is looked at has its end only.
        match bytes.is_empty() {
            true => self.0.last().map(|phase| phase.table_space_bytes as f64),
            false => Some(bytes.iter().sum::<f64>() / bytes.len() as f64),
        }
    }

    fn peak_space_bytes(&self) -> f64 {
        let peaks = self.0.iter().map(|phase| phase.peak_table_space_bytes);
        peaks.max().unwrap_or(0) as f64
    }

    fn settled_space_bytes(&self) -> f64 {
        self.0
            .last()
            .map_or(0.0, |phase| phase.table_space_bytes as f64)
    }

    /// Returns the bytes for each byte that came in; `None` if a phase does not tell.
    fn amplified(&self, read: fn(&PhaseOutcome) -> Option<u64>) -> Option<f64> {
        let written = self
            .0
            .iter()
            .map(|phase| read(phase))
            .sum::<Option<u64>>()?;
        let came_in: u64 = self.0.iter().map(|phase| phase.user_written_bytes).sum();
        (came_in > 0).then(|| written as f64 / came_in as f64)
    }

    fn rate(&self, seconds: fn(&PhaseOutcome) -> Option<f64>) -> Option<f64> {
        let seconds = self
            .0
            .iter()
            .map(|phase| seconds(phase))
            .sum::<Option<f64>>()?;
        (seconds > 0.0).then(|| self.operations() as f64 / seconds)
    }
}

fn lookups(runs: &[&RunOutcome], name: &str) -> Option<Lookups> {
    let phases = runs.iter().flat_map(|run| &run.phases);
    let phases: Vec<&PhaseOutcome> = phases.filter(|phase| phase.name == name).collect();
    let figure = |read: &dyn Fn(&PhaseOutcome) -> Option<f64>| {
        let values = phases.iter().filter_map(|phase| read(phase));
        Figure::of(&values.collect::<Vec<_>>())
    };
    let each = |phase: &PhaseOutcome, count: f64| Some(count / phase.operations.max(1) as f64);
    let bytes = |phase: &PhaseOutcome| phase.usage.read_bytes as f64;
    Some(Lookups {
        per_second: figure(&|phase| Some(phase.completed_per_second()))?,
        device_bytes: figure(&|phase| each(phase, bytes(phase)))?,
        device_reads: figure(&|phase| each(phase, phase.usage.device_reads? as f64)),
        device_share: figure(&|phase| {
            let pages = bytes(phase) / PAGE_BYTES;
            let reads = phase.usage.device_reads.map_or(pages, |reads| reads as f64);
            each(phase, pages.min(reads)).map(|share| share.min(1.0))
        })?,
    })
}

#[cfg(test)]
mod tests;
