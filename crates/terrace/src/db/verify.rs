//! Every checksum and every rule of a store.

use std::path::{Path, PathBuf};

use terrace_lsm::levels::check_age_rule;
use terrace_lsm::table::CursorOptions;
use terrace_storage::Purpose;

use crate::{Db, Error, Recovery, Result};

/// Findings of a verification.
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
    /// Writes that the opening found in arenas and in no table.
    pub recovery: Recovery,
    /// The faults; none for a sound store.
    pub problems: Vec<Problem>,
}

/// One fault.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Problem {
    /// The file, or the store's directory for faults between files.
    pub file: PathBuf,
    /// The fault there.
    pub error: Error,
}

/// Checks the present tables of an open store, and the frames in its arenas.
pub(crate) fn verify_live(db: &Db, progress: impl FnMut(usize, usize)) -> Result<VerifyReport> {
    db.own_store()?.lifecycle.check_open()?;
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
        if store.lifecycle.is_inherited() {
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
    if report.problems.is_empty() && !store.lifecycle.is_inherited() {
        let options = CursorOptions::uncached(Purpose::Other);
        match check_age_rule(
            version,
            store.files.opener(options),
            store.files.range_reader(),
        ) {
            Ok(None) => {}
            Ok(Some(violation)) => {
                let table = version.table_with(&violation);
                let file = table.map_or_else(
                    || path.to_path_buf(),
                    |table| store.files.data.path(table.placed()),
                );
                report.found(path, Error::corruption(&file, 0, violation.to_string()));
            }
            Err(error) => report.found(path, error),
        }
    }
}

impl VerifyReport {
    fn found(&mut self, directory: &Path, error: Error) {
        self.problems.push(Problem::of(directory, error));
    }
}

impl Problem {
    /// Returns a fault with the file that it names, or else the store's directory.
    pub fn of(directory: &Path, error: Error) -> Self {
        let file = match &error {
            Error::Corruption { file, .. } | Error::Unsupported { file, .. } => file.clone(),
            Error::RegionLost { path, .. } => path.clone(),
            Error::Io(error) => error.path().to_path_buf(),
            _ => directory.to_path_buf(),
        };
        Problem { file, error }
    }
}
