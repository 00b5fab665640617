//! What is done to a store, each workload in a file of its own. Every workload compares values that
//! it reads back: a store that loses one has no figures.

mod load;
mod read;
mod read_while_load;
mod reopen;
mod sync;

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::measure::Metric;
use crate::settings::Settings;
use crate::store::Store;
use crate::stream::{Choice, Values, key};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Rows in random order, to the last acknowledgement and to settled.
    Load,
    /// Point reads, uniform and zipfian, and scans of 50 rows, of a settled store.
    Read,
    /// Point reads while another thread writes.
    ReadWhileLoad,
    /// Writes that survive a power cut, by one thread and by eight.
    Sync,
    /// The same on a file system in memory, where a sync costs nothing but the store's own work.
    Tmpfs,
    /// A store that was killed with its buffers full, to its first read.
    Reopen,
}

impl Workload {
    pub fn name(self) -> &'static str {
        match self {
            Workload::Load => "load",
            Workload::Read => "read",
            Workload::ReadWhileLoad => "read-while-load",
            Workload::Sync => "sync",
            Workload::Tmpfs => "tmpfs",
            Workload::Reopen => "reopen",
        }
    }

    /// The processes that a run takes, one after the other in the same directory.
    pub fn phases(self) -> &'static [Phase] {
        match self {
            Workload::Reopen => &[Phase::Fill, Phase::Measure],
            _ => &[Phase::Measure],
        }
    }
}

/// What one process does for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Writes, tells what was acknowledged, and dies by SIGKILL.
    Fill,
    Measure,
}

/// How much is done, and from which seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scale {
    pub rows: u64,
    /// The pace of `load` and `read-while-load`; as fast as it goes if `None`.
    pub rows_per_second: Option<u64>,
    pub value_bytes: usize,
    pub reads: u64,
    pub durable_writes: u64,
    pub seed: u64,
}

/// What a run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub durability: String,
    pub metrics: Vec<Metric>,
    /// Values that were read back and compared.
    pub compared: u64,
}

/// One run of a workload on a store type.
pub struct Run<'a> {
    pub settings: &'a Settings,
    pub scale: &'a Scale,
    pub directory: &'a Path,
    pub values: Values,
}

impl<'a> Run<'a> {
    pub fn new(settings: &'a Settings, scale: &'a Scale, directory: &'a Path) -> Self {
        Run {
            settings,
            scale,
            directory,
            values: Values::new(scale.value_bytes, scale.seed),
        }
    }

    /// Runs one phase of a workload.
    pub fn phase<S: Store>(&self, workload: Workload, phase: Phase) -> Result<Outcome> {
        match (workload, phase) {
            (Workload::Load, _) => load::run::<S>(self),
            (Workload::Read, _) => read::run::<S>(self),
            (Workload::ReadWhileLoad, _) => read_while_load::run::<S>(self),
            (Workload::Sync | Workload::Tmpfs, _) => sync::run::<S>(self),
            (Workload::Reopen, Phase::Fill) => reopen::fill::<S>(self),
            (Workload::Reopen, Phase::Measure) => reopen::run::<S>(self),
        }
    }

    fn open<S: Store>(&self) -> Result<S> {
        S::open(self.settings, self.directory)
    }

    /// Bytes that the user gave for some rows.
    fn user_bytes(&self, rows: u64) -> u64 {
        rows * (crate::stream::KEY_BYTES + self.scale.value_bytes) as u64
    }

    /// Waits for the moment of the row at `place` of a load that began at `began`, if loads have a
    /// pace and this one is ahead by more than a sleep is inexact. Whether it waited.
    fn keep_pace(&self, began: Instant, place: u64) -> bool {
        let Some(rows_per_second) = self.scale.rows_per_second else {
            return false;
        };
        let due = began + Duration::from_secs_f64(place as f64 / rows_per_second as f64);
        let ahead = due.saturating_duration_since(Instant::now());
        let waits = ahead > Duration::from_millis(1);
        if waits {
            sleep(ahead);
        }
        waits
    }

    fn put<S: Store>(&self, store: &S, row: u64) -> Result<()> {
        store.put(&key(row), self.values.of(row))
    }

    /// Reads a row and compares its value.
    fn check<S: Store>(&self, store: &S, row: u64) -> Result<()> {
        let expected = self.values.of(row);
        match store.get(&key(row), |found| found.map(|value| value == expected))? {
            Some(true) => Ok(()),
            Some(false) => Err(format!("row {row} has a wrong value").into()),
            None => Err(format!("row {row} is lost").into()),
        }
    }

    /// Compares all rows below `rows`, or as many at random as a moment allows; how many.
    fn check_many<S: Store>(&self, store: &S, rows: u64) -> Result<u64> {
        const MOST: u64 = 20_000;
        let sample = if rows <= MOST {
            (0..rows).collect()
        } else {
            Choice::Uniform.rows(rows, MOST, self.scale.seed)?
        };
        for row in &sample {
            self.check(store, *row)?;
        }
        Ok(sample.len() as u64)
    }
}

#[cfg(test)]
mod tests;
