//! The check of a store that no process has open: opens it to read and calls `Db::verify`, which
//! has the rules. An opening that damage refuses is a finding.

use std::path::Path;

use terrace::{Db, Error, Options, Problem, Result, VerifyReport};

/// Checks a store that no process has open for writing. It checks the manifest, every frame in the
/// arenas, every block of every table with its order, counts and filter, and that ages order all
/// versions of every key. Writes nothing. `progress` hears of every table, with how many there are.
///
/// # Errors
/// Those that keep it from looking: no store, a lock, an unreadable directory. Damage is no error
/// of this function: it is in the report.
pub fn verify(
    path: &Path,
    options: Options,
    progress: impl FnMut(usize, usize),
) -> Result<VerifyReport> {
    let options = Options {
        read_only: true,
        create_if_missing: false,
        ..options
    };
    let db = match Db::open(path, options) {
        Ok(db) => db,
        Err(error) if is_damage(&error) => {
            let mut report = VerifyReport::default();
            report.problems.push(Problem::of(path, error));
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    db.verify(progress)
}

/// Whether the error says that bytes are wrong, and not that they could not be looked at.
fn is_damage(error: &Error) -> bool {
    matches!(
        error,
        Error::Corruption { .. } | Error::Unsupported { .. } | Error::RegionLost { .. }
    )
}
