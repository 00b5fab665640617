//! The work of the two processes of a run.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::measure::usage::Io;
use crate::run::Progress;
use crate::settings::Settings;
use crate::store::{Contestant, Store};
use crate::workload::Dataset;

/// Input of both processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rows {
    /// All its records are written, in the order of their numbers; their keys are in none.
    pub dataset: Dataset,
    /// Seed from which values are made.
    pub seed: u64,
    /// Settings of the store.
    pub settings: Settings,
}

/// Report of the first process before it dies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Filled {
    /// Time from the first put to the last acknowledgement, seconds.
    pub acknowledged_s: f64,
}

/// Findings of the second process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reopened {
    pub durability: String,
    pub settings: Vec<(String, String)>,
    pub open_us: f64,
    pub first_get_us: f64,
    pub open_read_bytes: u64,
    pub lost: u64,
}

/// Records between two looks at the clock of progress.
const STEP: u64 = 1024;

/// Fills the store, tells it, and kills this process with the store open.
///
/// # Errors
/// It only returns if something went wrong.
pub fn fill_and_die(
    contestant: &Contestant,
    rows: &Rows,
    directory: &Path,
    progress: &dyn Fn(Progress),
    tell: impl FnOnce(&Filled) -> Result<()>,
) -> Result<()> {
    let opened = (contestant.open)(directory, &rows.settings)?;
    let filled = fill(opened.store.as_ref(), rows, progress)?;
    tell(&filled)?;
    kill_process(getpid(), Signal::KILL)?;
    Err("this process outlived SIGKILL".into())
}

/// Puts one record after the other, by one client.
pub fn fill(store: &dyn Store, rows: &Rows, progress: &dyn Fn(Progress)) -> Result<Filled> {
    let values = rows.dataset.values(rows.seed);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    for record in 0..rows.dataset.records {
        rows.dataset.key_form.write(record, &mut key);
        values.write_into(record, 0, &mut value);
        store.put(&key, &value)?;
        tell_at_steps(progress, "fill", record, rows);
    }
    Ok(Filled {
        acknowledged_s: begun.elapsed().as_secs_f64(),
    })
}

/// Opens the store that is left, and reads all of it.
///
/// # Errors
/// A record that is lost or has another value, and errors of the store itself.
pub fn reopen(
    contestant: &Contestant,
    rows: &Rows,
    directory: &Path,
    progress: &dyn Fn(Progress),
) -> Result<Reopened> {
    let mut reader = Reader::new(rows);
    let read_before = Io::now()?.read_bytes;
    let begun = Instant::now();
    let opened = (contestant.open)(directory, &rows.settings)?;
    let open_us = microseconds(begun.elapsed());
    let open_read_bytes = Io::now()?.read_bytes.saturating_sub(read_before);
    let store = opened.store.as_ref();

    let begun = Instant::now();
    reader.read(store, 0)?;
    let first_get_us = microseconds(begun.elapsed());

    let (mut lost, mut first_lost) = (0, None);
    for record in 0..rows.dataset.records {
        if !reader.read(store, record)? {
            lost += 1;
            first_lost.get_or_insert(record);
        }
        tell_at_steps(progress, "check", record, rows);
    }
    if let Some(first) = first_lost {
        return Err(format!(
            "of {} acknowledged records {lost} are lost, the first of them record {first}; \
             durability: {}",
            rows.dataset.records, opened.durability
        )
        .into());
    }
    opened.store.close()?;
    Ok(Reopened {
        durability: opened.durability,
        settings: opened.settings,
        open_us,
        first_get_us,
        open_read_bytes,
        lost,
    })
}

struct Reader<'a> {
    rows: &'a Rows,
    values: crate::values::Values,
    key: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn new(rows: &'a Rows) -> Self {
        Reader {
            rows,
            values: rows.dataset.values(rows.seed),
            key: Vec::new(),
        }
    }

    /// Returns whether the record is there. A record that is there must have the written value, to
    /// the byte.
    fn read(&mut self, store: &dyn Store, record: u64) -> Result<bool> {
        self.rows.dataset.key_form.write(record, &mut self.key);
        let mut wrong = None;
        let found = store.get(&self.key, &mut |value| {
            wrong = self.values.check(record, value).err();
        })?;
        match wrong {
            Some(mismatch) => Err(format!("key {}: {mismatch}", self.key.escape_ascii()).into()),
            None => Ok(found),
        }
    }
}

fn tell_at_steps(progress: &dyn Fn(Progress), phase: &str, record: u64, rows: &Rows) {
    if record.is_multiple_of(STEP) {
        progress(Progress {
            phase: phase.into(),
            operations: record,
            of: rows.dataset.records,
        });
    }
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
