//! What a run of one contestant gave: the JSON between processes and of `--json`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use terrace::TimeProfile;

use crate::operation::OperationKind;
use crate::store::Contestant;
use crate::{Error, Result};

/// Everything a contest found, and under what conditions: all that a report needs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Contest {
    /// What was run, as it would be typed.
    pub command: String,
    /// In words: workload, records, sizes, distribution, update style, regime of memory.
    pub title: String,
    /// Name and value of whatever was the same for all: seed, records, clients, limits.
    pub conditions: Vec<(String, String)>,
    /// The machine, in words, and what the harness costs on it.
    pub machine: Machine,
    /// Runs in the order in which they were made.
    pub runs: Vec<RunOutcome>,
    /// Stores that failed, each in its last run.
    #[serde(default)]
    pub failures: Vec<Failure>,
}

impl Contest {
    /// That no store has failed.
    ///
    /// # Errors
    /// Those that have, and in what.
    pub fn succeeded(&self) -> Result<()> {
        Failure::none_of(&self.failures)
    }
}

/// A store that erred or gave a wrong answer, which ended its part in the contest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// The contestant.
    pub store: String,
    /// In which repeat, counted from 0.
    pub repeat: u32,
    /// Under which conditions: as behind the names of phases.
    pub label: String,
    /// What went wrong.
    pub error: String,
}

impl Failure {
    /// Of a run under these conditions.
    pub fn of(contestant: &Contestant, repeat: u32, label: &str, error: &Error) -> Failure {
        Failure {
            store: contestant.name.into(),
            repeat,
            label: label.into(),
            error: error.to_string(),
        }
    }

    /// That there is none.
    ///
    /// # Errors
    /// There are: who failed, and in what.
    pub fn none_of(failures: &[Failure]) -> Result<()> {
        if failures.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = failures.iter().map(Failure::to_string).collect();
        Err(texts.join("\n").into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure {
            store,
            repeat,
            label,
            error,
        } = self;
        let repeat = repeat + 1;
        write!(
            f,
            "FAILED: {store}{label}, repeat {repeat}: {error}; it has no more figures"
        )
    }
}

/// The machine of a contest, and the day.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub processor: String,
    /// How many of them the process may use.
    pub processors: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// File system of the stores' directory, and its device.
    pub file_system: String,
    /// The day in UTC, as in `2026-11-27`; empty in reports of earlier versions.
    #[serde(default)]
    pub day: String,
    /// What the harness itself takes, by phase; empty where nobody looked.
    #[serde(default)]
    pub harness: Vec<HarnessCost>,
}

/// What the harness itself takes for an operation, about: measured against a map of few records, whose
/// own time is in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HarnessCost {
    /// Of which phase.
    pub phase: String,
    /// ns an operation, with one client.
    pub nanoseconds: f64,
}

/// One run: one store through all phases of a plan.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunOutcome {
    /// The contestant.
    pub store: String,
    /// Which repeat, counted from 0.
    pub repeat: u32,
    /// Under which conditions: what stands behind the names of its phases.
    #[serde(default)]
    pub label: String,
    /// What an acknowledged write survived.
    pub durability: String,
    /// What the store was told.
    pub settings: Vec<(String, String)>,
    /// The phases, in order.
    pub phases: Vec<PhaseOutcome>,
}

/// One phase of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PhaseOutcome {
    /// Its name: `load`, `A`, `readrandom`, ...
    pub name: String,
    /// Operations acknowledged.
    pub operations: u64,
    /// Of clients that only kept the measured ones company: in bytes and in `usage`, and nowhere else.
    #[serde(default)]
    pub operations_beside: u64,
    /// Client threads whose operations are measured.
    pub clients: u32,
    /// Operations a second that were asked for; `None` in a closed loop.
    pub rate: Option<f64>,
    /// From the first operation to the last acknowledgement, seconds.
    pub acknowledged_s: f64,
    /// From the first operation until nothing was left to flush or merge; `None` where the phase
    /// writes nothing.
    pub settled_s: Option<f64>,
    /// By kind of operation. In an open loop a latency counts from the moment the operation was due.
    pub latencies: BTreeMap<OperationKind, Latency>,
    /// The longest time in which no client completed anything, ms, and when it began, seconds.
    pub longest_gap_ms: f64,
    /// When that gap began, seconds from the first operation.
    pub longest_gap_at_s: f64,
    /// Reads that found a record, that found none, and rows that scans visited: equal for every
    /// store with one client.
    pub found: u64,
    /// Reads that found none.
    pub missing: u64,
    /// Rows that scans visited.
    pub scanned: u64,
    /// Bytes of keys and values that clients wrote.
    pub user_written_bytes: u64,
    /// Bytes of keys and values that clients read.
    pub user_read_bytes: u64,
    /// What it cost the process and the device, to settled and synced.
    pub usage: Usage,
    /// Bytes of the store's files at the end, as allocated on the disk.
    pub space_bytes: u64,
    /// The same without the files that are beside tables, as the store tells: logs, journals, arenas, manifests.
    #[serde(default)]
    pub table_space_bytes: u64,
    /// The most of that at any moment of the phase, to settled, at which somebody looked.
    #[serde(default)]
    pub peak_table_space_bytes: u64,
    /// Bytes of tables that flushes and merges wrote, to the last acknowledgement, by the store's own
    /// count, if it has one.
    #[serde(default)]
    pub acknowledged_table_bytes_written: Option<u64>,
    /// The same to settled.
    #[serde(default)]
    pub table_bytes_written: Option<u64>,
    /// Bytes of keys and values that were alive at the end; 0 if unknown.
    pub live_bytes: u64,
    /// Every tenth of a second, or as often as the plan says; less often in long phases.
    pub timeline: Vec<Sample>,
    /// What the store did meanwhile.
    pub marks: Vec<Mark>,
    /// Where the time of its operations went, to settled, if the store watches itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_profile: Option<TimeProfile>,
}

impl PhaseOutcome {
    /// Operations completed a second, to the last acknowledgement.
    pub fn completed_per_second(&self) -> f64 {
        self.operations as f64 / self.acknowledged_s.max(f64::MIN_POSITIVE)
    }
}

/// Latencies of one kind of operation, us.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Mean, us.
    pub mean_us: f64,
    /// Median, us.
    pub p50_us: f64,
    /// 90th percentile, us.
    pub p90_us: f64,
    /// 99th percentile, us.
    pub p99_us: f64,
    /// 99.9th percentile, us.
    pub p999_us: f64,
    /// 99.99th percentile, us.
    pub p9999_us: f64,
    /// The greatest, us.
    pub max_us: f64,
    /// The distribution: latency in us, and the fraction of operations that took at most that.
    pub cdf: Vec<(f64, f64)>,
}

/// What a phase cost, as the kernel counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time of the process in user space, seconds.
    pub user_s: f64,
    /// The same in the kernel, seconds.
    pub system_s: f64,
    /// `write_bytes` of `/proc/self/io`: pages dirtied and direct writes.
    pub write_bytes: u64,
    /// `cancelled_write_bytes`: of these, what was dropped (truncated, removed) before it was written.
    pub cancelled_write_bytes: u64,
    /// `read_bytes`: what was really fetched from the device.
    pub read_bytes: u64,
    /// Bytes written to the device, by whomever; `None` where it has no counters.
    pub device_write_bytes: Option<u64>,
    /// Bytes read from it.
    pub device_read_bytes: Option<u64>,
    /// Read requests that reached it.
    pub device_reads: Option<u64>,
    /// Most memory of the process (`VmHWM`, reset at the phase's start where the kernel lets it), bytes:
    /// mapped files are in it, the page cache is not.
    pub peak_resident_bytes: u64,
    /// Most memory of its cgroup, page cache included, bytes; `None` without a cgroup.
    pub peak_cgroup_bytes: Option<u64>,
    /// Time in which the host of a virtual machine withheld its processors, all together, seconds: gaps
    /// and tails of a phase with much of it are the host's as well. `None` where the kernel does not tell.
    pub stolen_s: Option<f64>,
}

/// A moment of a phase. Counters are since the phase began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the first operation.
    pub at_s: f64,
    /// Operations completed.
    pub operations: u64,
    /// `write_bytes`.
    pub write_bytes: u64,
    /// `read_bytes`.
    pub read_bytes: u64,
    /// Bytes of the store's files.
    pub space_bytes: u64,
    /// The same without the files that are beside tables.
    #[serde(default)]
    pub table_space_bytes: u64,
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// Processor time, seconds.
    pub processor_s: f64,
}

/// A span of time in which a store did something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// What.
    pub kind: MarkKind,
    /// From, seconds since the first operation.
    pub from_s: f64,
    /// To.
    pub to_s: f64,
}

/// What is marked in a plot over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// A flush.
    Flush,
    /// A compaction.
    Compaction,
    /// Writers slowed down or stopped, as the store tells.
    Stall,
}
