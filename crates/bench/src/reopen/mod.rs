//! How soon a killed store answers again, and whether it has all that it acknowledged.
//!
//! A run is two processes (`process`): the first fills an empty store and dies of SIGKILL at the
//! last acknowledgement, the second opens the store that is left. Nothing is synced in between and
//! no cache is dropped. The page cache outlives a process, so this is the start after a crash of
//! the program, not after one of the machine.

mod process;
mod table;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::arguments::Reopen;
use crate::contest::child::{self, Job, Task};
use crate::contest::progress::Shown;
use crate::contest::turns::{fresh_directory, has_failed, order, rotated, some_are_left};
use crate::contest::{self, Program};
use crate::keys::KeyForm;
use crate::measure::space;
use crate::outcome::{Failure, Machine};
use crate::output::Output;
use crate::store::Contestant;
use crate::told::OwnOptions;
use crate::values::Sizes;
use crate::workload::Dataset;
use crate::{Result, machine, told, work};

pub(crate) use process::{Filled, Reopened, Rows, fill_and_die, reopen};

/// Filled part of the write buffers by default: much to recover, and still no reason to flush for a
/// store that waits until a buffer is full and has another one. If tables hold data nevertheless,
/// the store itself chose to flush.
const FILLED: (u64, u64) = (3, 5);

/// Findings and conditions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReopenReport {
    /// The command, as you would type it.
    pub command: String,
    /// Title in words: records and sizes.
    pub title: String,
    /// Name and value of each condition that was the same for all.
    pub conditions: Vec<(String, String)>,
    /// The machine, in words. The cost of the harness there is not measured.
    pub machine: Machine,
    /// Repeat by repeat, stores in the order in which they were named.
    pub runs: Vec<ReopenRun>,
    /// Stores that failed or lost a record, each in its last run.
    #[serde(default)]
    pub failures: Vec<Failure>,
}

/// A store that was filled, killed and opened again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReopenRun {
    /// The contestant.
    pub store: String,
    /// The repeat, counted from 0.
    pub repeat: u32,
    /// Events that an acknowledged write survived.
    pub durability: String,
    /// Settings of the store.
    pub settings: Vec<(String, String)>,
    /// Records that were acknowledged before the kill, and all read and compared behind it.
    pub records: u64,
    /// Of these, those that were not found. Always 0: a store that lost one is an error.
    pub lost: u64,
    /// Time from the first put to the last acknowledgement, seconds.
    pub filled_s: f64,
    /// Time until the store was open, us.
    pub open_us: f64,
    /// Time from then until the first get had returned, us.
    pub first_get_us: f64,
    /// Bytes fetched from the device until the store was open: the page cache has the written bytes.
    #[serde(default)]
    pub open_read_bytes: u64,
    /// Bytes of the store's files as the killed process left them, as allocated.
    pub space_bytes: u64,
}

/// The work to do.
pub(crate) struct Setup {
    pub contestants: Vec<Contestant>,
    pub own: OwnOptions,
    pub rows: Rows,
    pub repeats: u32,
    pub directory: PathBuf,
}

/// Runs the command and shows its findings.
///
/// # Errors
/// Arguments that make no sense, a store that fails or loses a record, and output that cannot be
/// written.
pub fn run(program: &Program, asked: &Reopen, command: &str) -> Result<()> {
    contest::check_directory(&asked.runs.directory)?;
    let setup = setup(program, asked)?;
    let (runs, failures) = hold(program, &setup)?;
    let report = ReopenReport {
        command: command.into(),
        title: format!("reopen: {}", setup.rows.dataset.describe()),
        conditions: conditions(asked, &setup),
        machine: machine::describe(&setup.directory),
        runs,
        failures,
    };
    let output = Output {
        json: asked.runs.json,
        html: None,
    };
    output.print(&report, || table::table(&report))?;
    Failure::none_of(&report.failures)
}

fn setup(program: &Program, asked: &Reopen) -> Result<Setup> {
    if asked.records == Some(0) || asked.value_bytes == 0 {
        return Err("there must be at least one record, and one byte in a value".into());
    }
    let contestants = told::contestants(program, &asked.stores)?;
    let own = told::own_options(&asked.stores, &contestants)?;
    Ok(Setup {
        contestants,
        own,
        rows: rows(asked),
        repeats: asked.runs.repeats(),
        directory: asked.runs.directory.clone(),
    })
}

fn rows(asked: &Reopen) -> Rows {
    let mut dataset = Dataset {
        records: 1,
        key_form: KeyForm::Ycsb,
        sizes: Sizes::Fixed {
            bytes: asked.value_bytes,
        },
        compression_ratio: 1.0,
    };
    let tiny = asked.runs.tiny;
    let told = told::settings(&asked.stores, tiny, 0);
    let buffers_bytes = told.write_buffer_bytes * u64::from(told.write_buffers);
    let fitting = buffers_bytes * FILLED.0 / FILLED.1 / dataset.expected_bytes();
    let most = if tiny { work::TINY } else { u64::MAX };
    dataset.records = asked.records.unwrap_or(fitting).clamp(1, most);
    Rows {
        dataset,
        seed: asked.runs.seed,
        settings: told::settings(&asked.stores, tiny, dataset.expected_bytes()),
    }
}

/// Returns the conditions that are the same for all, for people.
fn conditions(asked: &Reopen, setup: &Setup) -> Vec<(String, String)> {
    let data_bytes = setup.rows.dataset.expected_bytes();
    let mut conditions = vec![
        ("data".to_owned(), told::mib(data_bytes)),
        (
            "kill".to_owned(),
            "SIGKILL at the last acknowledgement; no sync until it is opened, page cache warm"
                .to_owned(),
        ),
        ("memory".to_owned(), told::memory(&setup.rows.settings)),
    ];
    conditions.extend(told::conditions(&asked.stores));
    conditions.push(("seed".to_owned(), asked.runs.seed.to_string()));
    conditions
}

/// Makes all runs. Returns them and the stores that failed, each with its first failure; the others
/// go on.
pub(crate) fn hold(program: &Program, setup: &Setup) -> Result<(Vec<ReopenRun>, Vec<Failure>)> {
    let (mut runs, mut failures) = (Vec::new(), Vec::new());
    let mut shown = Shown::new(setup.repeats as usize * setup.contestants.len());
    for repeat in 0..setup.repeats {
        for contestant in rotated(&setup.contestants, repeat) {
            if has_failed(contestant, &failures) {
                shown.skip();
                continue;
            }
            shown.begin(contestant.name, repeat, "");
            match one(program, setup, contestant, repeat, &mut shown) {
                Ok(run) => {
                    shown.line(&format!(
                        "  {}: open after {:.0} us, first get {:.0} us",
                        run.store, run.open_us, run.first_get_us
                    ));
                    runs.push(run);
                }
                Err(error) => {
                    let failure = Failure::of(contestant, repeat, "", &error);
                    shown.failed(&failure);
                    failures.push(failure);
                    some_are_left(&setup.contestants, &failures)?;
                }
            }
        }
    }
    shown.finish();
    order(&mut runs, &setup.contestants, |run| {
        (run.repeat, &run.store)
    });
    Ok((runs, failures))
}

fn one(
    program: &Program,
    setup: &Setup,
    contestant: &Contestant,
    repeat: u32,
    shown: &mut Shown,
) -> Result<ReopenRun> {
    let directory = fresh_directory(&setup.directory)?;
    let mut rows = setup.rows.clone();
    rows.settings.own = setup.own.get(contestant.name).cloned().unwrap_or_default();
    let job = |task| Job {
        contestant: contestant.name.into(),
        directory: directory.path().to_path_buf(),
        memory_group: None,
        parent: std::process::id(),
        task,
    };
    let fill = job(Task::Fill(rows.clone()));
    let filled: Filled = child::start_to_be_killed(program, &fill, |now| shown.progress(&now))?;
    let space_bytes = space::allocated_bytes(directory.path())?;
    let records = rows.dataset.records;
    let reopened: Reopened = child::start(program, &job(Task::Reopen(rows)), |now| {
        shown.progress(&now)
    })?;
    Ok(ReopenRun {
        store: contestant.name.into(),
        repeat,
        durability: reopened.durability,
        settings: reopened.settings,
        records,
        lost: reopened.lost,
        filled_s: filled.acknowledged_s,
        open_us: reopened.open_us,
        first_get_us: reopened.first_get_us,
        open_read_bytes: reopened.open_read_bytes,
        space_bytes,
    })
}

#[cfg(test)]
mod tests;
