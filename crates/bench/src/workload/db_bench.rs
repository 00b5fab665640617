//! The benchmarks of LevelDB's and RocksDB's db_bench.

mod client;

use serde::{Deserialize, Serialize};

use super::{Dataset, LoadOrder, Phase, PhaseKind};

pub(super) use client::streams;

/// Which.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Benchmark {
    /// `fillseq`: all records in order.
    FillSequential {
        /// Each client writes all records, as stock db_bench has it, or its own part of them.
        repeated: bool,
    },
    /// `fillrandom`: as many writes as records, drawn with repeats: about 37 % are left out.
    FillRandom,
    /// `overwrite`: the same over a full store.
    Overwrite,
    /// `fillsync`: `fillrandom` with a thousandth of the writes, each synced.
    FillSync,
    /// `readrandom`
    ReadRandom,
    /// `readmissing`: reads of keys that lie between present ones.
    ReadMissing,
    /// `readseq`: each client scans the whole store, as one operation.
    ReadSequential,
    /// `readreverse`: the same backwards.
    ReadReverse,
    /// `seekrandom`
    SeekRandom {
        /// Rows read at each place: the one found, and db_bench's `seek_nexts`.
        rows: u64,
    },
    /// `readwhilewriting`: `readrandom`, and one more client that overwrites until they are done.
    ReadWhileWriting {
        /// The writer's pace; `None` for as fast as it can.
        writes_per_second: Option<f64>,
    },
    /// `deleterandom`: drawn with repeats.
    DeleteRandom,
}

/// Names of the benchmarks, and their descriptions.
pub const BENCHMARKS: [(&str, &str); 11] = [
    ("fillseq", "all records in the order of keys"),
    ("fillrandom", "random records, with repeats"),
    ("overwrite", "random records again"),
    ("fillsync", "a thousandth of fillrandom, each write synced"),
    ("readrandom", "reads of random records"),
    ("readmissing", "reads of keys that are not there"),
    ("readseq", "a scan of everything"),
    ("readreverse", "a scan of everything backwards"),
    ("seekrandom", "seeks to random records"),
    ("readwhilewriting", "readrandom beside one writer"),
    ("deleterandom", "random records deleted"),
];

impl Benchmark {
    /// Returns one of [`BENCHMARKS`], by default settings; clients share the records of `fillseq`.
    pub fn named(name: &str) -> Option<Benchmark> {
        Some(match name {
            "fillseq" => Benchmark::FillSequential { repeated: false },
            "fillrandom" => Benchmark::FillRandom,
            "overwrite" => Benchmark::Overwrite,
            "fillsync" => Benchmark::FillSync,
            "readrandom" => Benchmark::ReadRandom,
            "readmissing" => Benchmark::ReadMissing,
            "readseq" => Benchmark::ReadSequential,
            "readreverse" => Benchmark::ReadReverse,
            "seekrandom" => Benchmark::SeekRandom { rows: 1 },
            "readwhilewriting" => Benchmark::ReadWhileWriting {
                writes_per_second: None,
            },
            "deleterandom" => Benchmark::DeleteRandom,
            _ => return None,
        })
    }

    /// Returns its name in db_bench.
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::FillSequential { .. } => "fillseq",
            Benchmark::FillRandom => "fillrandom",
            Benchmark::Overwrite => "overwrite",
            Benchmark::FillSync => "fillsync",
            Benchmark::ReadRandom => "readrandom",
            Benchmark::ReadMissing => "readmissing",
            Benchmark::ReadSequential => "readseq",
            Benchmark::ReadReverse => "readreverse",
            Benchmark::SeekRandom { .. } => "seekrandom",
            Benchmark::ReadWhileWriting { .. } => "readwhilewriting",
            Benchmark::DeleteRandom => "deleterandom",
        }
    }

    /// Returns whether it begins with an empty store.
    pub fn fills(self) -> bool {
        matches!(
            self,
            Benchmark::FillSequential { .. } | Benchmark::FillRandom | Benchmark::FillSync
        )
    }

    /// Returns whether it puts or deletes.
    pub(super) fn writes(self) -> bool {
        match self {
            Benchmark::FillSequential { .. }
            | Benchmark::FillRandom
            | Benchmark::FillSync
            | Benchmark::Overwrite
            | Benchmark::ReadWhileWriting { .. }
            | Benchmark::DeleteRandom => true,
            Benchmark::ReadRandom
            | Benchmark::ReadMissing
            | Benchmark::ReadSequential
            | Benchmark::ReadReverse
            | Benchmark::SeekRandom { .. } => false,
        }
    }

    /// Returns whether records may be missing after it that were there before, or were never
    /// written.
    fn leaves_gaps(self) -> bool {
        matches!(
            self,
            Benchmark::FillRandom | Benchmark::FillSync | Benchmark::DeleteRandom
        )
    }

    /// Describes it in words.
    pub fn describe(self) -> String {
        match self {
            Benchmark::FillSequential { repeated: true } => {
                "all records in order, by each client".to_owned()
            }
            Benchmark::FillSequential { repeated: false } => LoadOrder::Parts.describe().to_owned(),
            Benchmark::SeekRandom { rows: 2.. } | Benchmark::ReadWhileWriting { .. } => {
                self.describe_with_numbers()
            }
            _ => {
                let known = BENCHMARKS.iter().find(|(name, _)| *name == self.name());
                known.map_or("", |(_, about)| about).to_owned()
            }
        }
    }

    fn describe_with_numbers(self) -> String {
        match self {
            Benchmark::SeekRandom { rows } => format!("seeks to random records and {rows} rows"),
            Benchmark::ReadWhileWriting {
                writes_per_second: Some(rate),
            } => format!("readrandom beside one writer of {rate:.0} writes a second"),
            _ => "readrandom beside one writer as fast as it can".to_owned(),
        }
    }
}

/// Phases of benchmarks in a row. Where the first one needs a store with data in it, `fillseq` comes
/// before. `operations` is of all clients together and by default the number of records.
pub fn phases(
    benchmarks: &[Benchmark],
    dataset: &Dataset,
    operations: Option<u64>,
    clients: u32,
) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    let mut sparse = false;
    let fill = Benchmark::FillSequential { repeated: false };
    let fill = benchmarks
        .first()
        .filter(|first| !first.fills())
        .map(|_| fill);
    for benchmark in fill.iter().chain(benchmarks) {
        let mut phase = phase(*benchmark, dataset, operations, clients);
        sparse &= !benchmark.fills();
        phase.sparse = sparse;
        sparse |= benchmark.leaves_gaps();
        phases.push(phase);
    }
    phases
}

/// KVBDEV's run: 15 clients that each write a million records of 4 B and 32 KB, the same ones, in
/// order; scaled down by the number of records.
pub fn kvbdev(dataset: &Dataset, clients: u32) -> Phase {
    let benchmark = Benchmark::FillSequential { repeated: true };
    Phase {
        name: "kvbdev".to_owned(),
        ..phase(benchmark, dataset, None, clients)
    }
}

fn phase(benchmark: Benchmark, dataset: &Dataset, operations: Option<u64>, clients: u32) -> Phase {
    let operations = match benchmark {
        Benchmark::FillSequential { repeated: true } => dataset.records * u64::from(clients),
        Benchmark::FillSequential { repeated: false } | Benchmark::FillRandom => dataset.records,
        Benchmark::FillSync => (dataset.records / 1000).max(1),
        Benchmark::ReadSequential | Benchmark::ReadReverse => u64::from(clients),
        _ => operations.unwrap_or(dataset.records),
    };
    let kind = PhaseKind::DbBench(benchmark);
    Phase {
        starts_empty: benchmark.fills(),
        needs_power_cut_safety: benchmark == Benchmark::FillSync,
        ..Phase::new(benchmark.name(), kind, operations, clients)
    }
}
