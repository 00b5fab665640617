//! Every checksum and every rule of a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_lsm::levels::check_age_rule;
use terrace_lsm::table::{CursorOptions, table_name};
use terrace_storage::{Purpose, SystemClock};

use crate::options::Options;
use crate::{Db, Error, Recovery, Result};

/// What a verification found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Tables listed and read whole.
    pub tables: usize,
    /// Data blocks in them.
    pub blocks: u64,
    /// Versions in them.
    pub entries: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// What is in arenas and in no table yet.
    pub recovery: Recovery,
    /// What is wrong; empty for a sound store.
    pub problems: Vec<Problem>,
}

/// One fault.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Problem {
    /// The file, or the store's directory for faults between files.
    pub file: PathBuf,
    /// What is wrong there.
    pub error: Error,
}

/// Checks a store that nobody has open for writing: the manifest, every frame in the arenas, every
/// block of every table with its order, counts and filter, and that ages order all versions of
/// every key. Writes nothing. `progress` is told of every table, with how many there are.
///
/// # Errors
/// Those that keep it from looking: no store, a lock, an unreadable directory. Damage is no error
/// of this function: it is in the report.
pub fn verify(
    path: &Path,
    options: Options,
    progress: impl FnMut(usize, usize),
) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    let options = Options {
        read_only: true,
        create_if_missing: false,
        ..options
    };
    let db = match Db::open_with(path, options, Arc::new(SystemClock::new()), None) {
        Ok(db) => db,
        Err(error) if is_damage(&error) => {
            report.found(path, error);
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    verify_open(&db, &mut report, progress);
    Ok(report)
}

/// The same of a store that is open: what its tables hold at this moment, and the frames in its
/// arenas.
pub(crate) fn verify_live(db: &Db, progress: impl FnMut(usize, usize)) -> Result<VerifyReport> {
    db.own_store()?.check_open()?;
    let mut report = VerifyReport::default();
    verify_open(db, &mut report, progress);
    // `progress` is a caller's code, which may have forked.
    db.own_store()?;
    Ok(report)
}

fn verify_open(db: &Db, report: &mut VerifyReport, mut progress: impl FnMut(usize, usize)) {
    let store = db.store();
    let path = &*store.files.path;
    report.recovery = store.metrics.recovery.clone();
    let view = store.reads.view.load_full();
    let version = &view.version;
    for memtable in &view.memtables {
        if let Err(error) = memtable.arena().verify() {
            report.found(path, store.region_error(error));
        }
    }
    let count = version.tables().count();
    for (at, (_, table)) in version.tables().enumerate() {
        progress(at, count);
        if store.is_inherited() {
            return;
        }
        let checked = table
            .open(&store.files.tables)
            .and_then(|reader| reader.verify());
        match checked {
            Ok(check) => {
                report.tables += 1;
                report.blocks += check.data_blocks;
                report.entries += check.entries;
                report.bytes += table.size_bytes;
            }
            Err(error) => report.found(path, error),
        }
    }
    progress(count, count);
    if report.problems.is_empty() && !store.is_inherited() {
        let options = CursorOptions::uncached(Purpose::Other);
        match check_age_rule(version, store.opener(options), store.range_reader()) {
            Ok(None) => {}
            Ok(Some(violation)) => {
                let table = version.table_with(&violation);
                let file = table.map_or_else(
                    || path.to_path_buf(),
                    |table| store.files.directory.shown(&table_name(table.number)),
                );
                report.found(path, Error::corruption(&file, 0, violation.to_string()));
            }
            Err(error) => report.found(path, error),
        }
    }
}

/// Whether the error says that bytes are wrong, and not that they could not be looked at.
fn is_damage(error: &Error) -> bool {
    matches!(
        error,
        Error::Corruption { .. } | Error::Unsupported { .. } | Error::RegionLost { .. }
    )
}

impl VerifyReport {
    fn found(&mut self, directory: &Path, error: Error) {
        let file = match &error {
            Error::Corruption { file, .. } | Error::Unsupported { file, .. } => file.clone(),
            Error::RegionLost { path, .. } => path.clone(),
            Error::Io(error) => error.path().to_path_buf(),
            _ => directory.to_path_buf(),
        };
        self.problems.push(Problem { file, error });
    }
}
