//! The process that imports until it is killed, and the one that kills it.
//!
//! The victim writes a line to its standard output, a pipe, for each batch, *after* the store has
//! acknowledged the batch. So each row reported in the pipe is acknowledged, even after a kill.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use terrace::{Db, Keyspace};

use crate::demo::{options, unicode};
use crate::failure::{Failure, Result};
use crate::import::{ImportError, Observer, Plan, import};
use crate::output::print;

/// Small batches, so that many acknowledgements come before and after the kill.
pub const BATCH_ROWS: usize = 10;

const SIGKILL: i32 = 9;

/// Imports into a new store as the child, and reports each batch.
pub fn run(directory: &Path) -> Result<()> {
    let db = Db::open(directory, options())?;
    let plan = Plan {
        keyspace: Keyspace::clone(&db),
        batch_rows: BATCH_ROWS,
        sync: false,
        skip_bad: false,
        obsolete: None,
    };
    let mut rows = unicode::rows().map_err(|error| Failure::Usage(error.to_string()))?;
    import(&mut rows, &db, &plan, None, &mut Teller).map_err(|error| match error {
        ImportError::Record { error, .. } => Failure::Usage(error.to_string()),
        ImportError::Failure(failure) => failure,
    })?;
    Ok(db.close()?)
}

struct Teller;

impl Observer for Teller {
    fn acknowledged(&mut self, rows: u64, _last: &[u8]) -> Result<()> {
        print(format!("{rows}\n"))
    }

    fn skipped(&mut self, _line: u64, _what: &str) {}
}

/// How a victim ended.
pub struct Killed {
    /// Rows that it had reported.
    pub acknowledged: u64,
    /// It was still importing.
    pub in_mid_import: bool,
}

/// Starts a victim and kills it with SIGKILL at a random moment between a fifth and four fifths of
/// its way.
pub fn start_and_kill(directory: &Path, total_rows: u64) -> Result<Killed> {
    let failed = |error| Failure::io("the demo's child process", error);
    let program = std::env::current_exe().map_err(failed)?;
    let mut child = Command::new(program)
        .arg("demo-child")
        .arg(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let told = child
        .stdout
        .take()
        .ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
    let mut told = BufReader::new(told);

    let kill_at = total_rows / 5 + random() % (total_rows * 3 / 5);
    let mut acknowledged = 0;
    while acknowledged < kill_at {
        match next(&mut told).map_err(failed)? {
            Some(rows) => acknowledged = rows,
            None => break,
        }
    }
    // SIGKILL: the process cannot catch it, and nothing of it runs again.
    child.kill().map_err(failed)?;
    let status = child.wait().map_err(failed)?;
    // The pipe has its reports from before its death.
    while let Some(rows) = next(&mut told).map_err(failed)? {
        acknowledged = rows;
    }
    match status.signal() {
        Some(SIGKILL) => Ok(Killed {
            acknowledged,
            in_mid_import: acknowledged < total_rows,
        }),
        None if status.success() => Ok(Killed {
            acknowledged,
            in_mid_import: false,
        }),
        _ => Err(failed(io::Error::other(format!(
            "it failed by itself ({status})"
        )))),
    }
}

/// Returns the rows that the next whole line reports.
fn next(told: &mut impl BufRead) -> io::Result<Option<u64>> {
    let mut line = String::new();
    told.read_line(&mut line)?;
    Ok(line.strip_suffix('\n').and_then(|rows| rows.parse().ok()))
}

/// Returns a number from the standard library's random hash keys; that is random enough here.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
