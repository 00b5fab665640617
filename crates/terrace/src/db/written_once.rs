//! Small files that say whose a directory is: whole or absent.

use terrace_storage::{Directory, ErrorKind, OpenMode, OpenOptions, Purpose};

use crate::Result;

/// Writes a file under a temporary name, and gives it its own, durably.
pub(crate) fn write_by_rename(
    directory: &dyn Directory,
    (temporary_name, name): (&str, &str),
    bytes: &[u8],
) -> Result<()> {
    match directory.remove(temporary_name) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let file = directory.open(temporary_name, OpenOptions::buffered(OpenMode::CreateNew))?;
    file.write_at(bytes, 0, Purpose::Recovery)?;
    file.sync(Purpose::Recovery)?;
    directory.rename(temporary_name, name)?;
    Ok(directory.sync()?)
}
