//! The lock of a store: that of the manifest which `CURRENT` names.

use std::sync::Arc;
use std::time::Duration;

use terrace_storage::{Directory, ErrorKind, File, Lock, LockKind, OpenMode, OpenOptions};

use super::super::current::{self, Current};
use super::{manifest_file_name, named_and_missing};
use crate::table::sparing;
use crate::{Error, Result};

/// The manifest that `CURRENT` names, locked.
pub struct Locked {
    pub(crate) number: u64,
    pub(super) file: Arc<dyn File>,
    /// `None` where locks are mandatory, and would keep others from reading.
    pub lock: Option<Box<dyn Lock>>,
    pub(super) current: Current,
}

/// Opens and locks the manifest that `CURRENT` names. Another owner may make it name another one
/// meanwhile: then its lock is not this one, and all begins again.
///
/// # Errors
/// [`Error::Busy`] if another owner or reader has it locked; [`Error::NoStore`] if there is none.
pub fn lock_current(directory: &dyn Directory, kind: LockKind) -> Result<Locked> {
    let mode = match kind {
        LockKind::Exclusive => OpenMode::ReadWrite,
        LockKind::Shared => OpenMode::Read,
    };
    loop {
        let number = current::read(directory)?;
        let name = manifest_file_name(number);
        let locked = directory
            .open(&name, OpenOptions::buffered(mode))
            .map_err(Error::from)
            .and_then(|file| Ok((lock_file(directory, &*file, kind)?, file)));
        let current = Current::open(directory);
        let is_current = current::read(directory)? == number;
        match locked {
            Ok((lock, file)) if is_current => {
                return Ok(Locked {
                    number,
                    file,
                    lock,
                    current: current?,
                });
            }
            Err(error) if is_current => return Err(named_and_missing(directory, &name, error)),
            _ => {}
        }
    }
}

/// Locks an open manifest. On SMB a lock is mandatory: readers would be kept out, so there is none.
pub(super) fn lock_file(
    directory: &dyn Directory,
    file: &dyn File,
    kind: LockKind,
) -> Result<Option<Box<dyn Lock>>> {
    if matches!(directory.file_system()?.name.as_str(), "cifs" | "smb2") {
        return Ok(None);
    }
    // It takes a descriptor of its own.
    sparing(|| file.lock(kind))
        .map(Some)
        .map_err(|error| match error.kind() {
            ErrorKind::Locked => Error::Busy {
                path: directory.path().to_path_buf(),
                socket: None,
                waited: Duration::ZERO,
            },
            _ => error.into(),
        })
}
