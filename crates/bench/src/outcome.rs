//! Outcome of a run of one contestant: the JSON between processes and of `--json`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use terrace::TimeProfile;

use crate::operation::OperationKind;
use crate::store::Contestant;
use crate::{Error, Result};

/// Findings of a contest and its conditions: all that a report needs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Contest {
    /// The command, as you would type it.
    pub command: String,
    /// Title in words: workload, records, sizes, distribution, update style, regime of memory.
    pub title: String,
    /// Name and value of each condition that was the same for all: seed, records, clients, limits.
    pub conditions: Vec<(String, String)>,
    /// The machine, in words, and the cost of the harness on it.
    pub machine: Machine,
    /// Runs in the order in which they were made.
    pub runs: Vec<RunOutcome>,
    /// Stores that failed, each in its last run.
    #[serde(default)]
    pub failures: Vec<Failure>,
}

impl Contest {
    /// Checks that no store has failed.
    ///
    /// # Errors
    /// All failures, with their stores and errors.
    pub fn succeeded(&self) -> Result<()> {
        Failure::none_of(&self.failures)
    }
}

/// A store that erred or gave a wrong answer, which ended its part in the contest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// The contestant.
    pub store: String,
    /// The repeat, counted from 0.
    pub repeat: u32,
    /// The conditions, as they stand behind the names of phases.
    pub label: String,
    /// The error.
    pub error: String,
}

impl Failure {
    /// Makes the failure of a run under these conditions.
    pub fn of(contestant: &Contestant, repeat: u32, label: &str, error: &Error) -> Failure {
        Failure {
            store: contestant.name.into(),
            repeat,
            label: label.into(),
            error: error.to_string(),
        }
    }

    /// Checks that there is no failure.
    ///
    /// # Errors
    /// All failures, with their stores and errors.
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
    /// Cost of the harness itself, by phase; empty where it was not measured.
    #[serde(default)]
    pub harness: Vec<HarnessCost>,
}

/// Approximate cost of the harness itself for an operation, measured against a map of few records,
/// whose own time is in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HarnessCost {
    /// The phase.
    pub phase: String,
    /// ns an operation, with one client.
    pub nanoseconds: f64,
}

/// One run: one store through all phases of a plan.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunOutcome {
    /// The contestant.
    pub store: String,
    /// The repeat, counted from 0.
    pub repeat: u32,
    /// The conditions, as they stand behind the names of its phases.
    #[serde(default)]
    pub label: String,
    /// Events that an acknowledged write survived.
    pub durability: String,
    /// Settings of the store.
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
    /// Operations of clients that only kept the measured ones company: in bytes and in `usage`, and
    /// nowhere else.
    #[serde(default)]
    pub operations_beside: u64,
    /// Client threads whose operations are measured.
    pub clients: u32,
    /// Requested operations a second; `None` in a closed loop.
    pub rate: Option<f64>,
    /// Time from the first operation to the last acknowledgement, seconds.
    pub acknowledged_s: f64,
    /// From the first operation until nothing was left to flush or merge; `None` where the phase
    /// writes nothing.
    pub settled_s: Option<f64>,
    /// Latencies by kind of operation. In an open loop a latency counts from the moment the
    /// operation was due.
    pub latencies: BTreeMap<OperationKind, Latency>,
    /// The longest time in which no client completed anything, ms.
    pub longest_gap_ms: f64,
    /// When that gap began, seconds from the first operation.
    pub longest_gap_at_s: f64,
    /// Reads that found a record: equal for every store with one client, as `missing` and `scanned`
    /// are.
    pub found: u64,
    /// Reads that found none.
    pub missing: u64,
    /// Rows that scans visited.
    pub scanned: u64,
    /// Bytes of keys and values that clients wrote.
    pub user_written_bytes: u64,
    /// Bytes of keys and values that clients read.
    pub user_read_bytes: u64,
    /// Cost for the process and the device, to settled and synced.
    pub usage: Usage,
    /// Bytes of the store's files at the end, as allocated on the disk.
    pub space_bytes: u64,
    /// The same without the files that the store names as beside tables: logs, journals, arenas,
    /// manifests.
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
    /// Background work of the store meanwhile.
    pub marks: Vec<Mark>,
    /// Where the time of its operations went, to settled, if the store watches itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_profile: Option<TimeProfile>,
}

impl PhaseOutcome {
    /// Returns the operations completed a second, to the last acknowledgement.
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

/// Cost of a phase, as the kernel counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time of the process in user space, seconds.
    pub user_s: f64,
    /// The same in the kernel, seconds.
    pub system_s: f64,
    /// `write_bytes` of `/proc/self/io`: pages dirtied and direct writes.
    pub write_bytes: u64,
    /// `cancelled_write_bytes`: the part of `write_bytes` dropped (truncated, removed) before it
    /// was written.
    pub cancelled_write_bytes: u64,
    /// `read_bytes`: bytes really fetched from the device.
    pub read_bytes: u64,
    /// Bytes written to the device, by any process; `None` where it has no counters.
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
    /// Time in which the host of a virtual machine withheld its processors, all together, seconds.
    /// Gaps and tails of a phase with much of it are the host's as well. `None` where the kernel
    /// does not tell.
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
    /// Its kind.
    pub kind: MarkKind,
    /// Its begin, seconds since the first operation.
    pub from_s: f64,
    /// Its end, likewise.
    pub to_s: f64,
}

/// A kind of mark in a plot over time.
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
