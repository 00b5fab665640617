//! The ownership of a store's directory: `LOCK` in it, held, and the proof that it is still there.
//!
//! A directory is owned, not a path: it is open, and moving it changes nothing. Two locks keep others
//! out. People see `LOCK` and remove it by mistake. So the opening that writes the manifest in use locks
//! that file, too, and removing `LOCK` lets no second owner in. Before each edit
//! of the manifest, the owner looks whether `LOCK` is the file that it has locked.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use terrace_lsm::sync::Mutex;
use terrace_storage::{Directory, ErrorKind, Lock, LockKind};

use crate::db::file_names;
use crate::db::file_names::SOCKET;
use crate::{Error, Result};

/// Attempts to lock a `LOCK` that took the place of the one held, and the pause between two.
const LOCK_ATTEMPTS: usize = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// An open directory whose `LOCK` is held.
pub struct Ownership {
    directory: Arc<dyn Directory>,
    /// `None` once it is given up, and for a reader without a file to be locked.
    lock: Mutex<Option<Box<dyn Lock>>>,
}

impl Ownership {
    /// Takes the lock of an owner.
    ///
    /// # Errors
    /// [`Error::Busy`] if another owner or reader holds it.
    pub fn take(directory: &Arc<dyn Directory>) -> Result<Self> {
        let lock = lock_as_owner(&**directory)?;
        Ok(Ownership::of(directory, Some(lock)))
    }

    /// Takes the lock of a reader, if there is a file to be locked: a copy may have left it out. The
    /// lock on the manifest tells of an owner.
    ///
    /// # Errors
    /// [`Error::Busy`] if an owner holds it.
    pub(crate) fn share(directory: &Arc<dyn Directory>) -> Result<Self> {
        let lock = lock_as_reader(&**directory)?;
        Ok(Ownership::of(directory, lock))
    }

    fn of(directory: &Arc<dyn Directory>, lock: Option<Box<dyn Lock>>) -> Self {
        Ownership {
            directory: Arc::clone(directory),
            lock: Mutex::new(lock),
        }
    }

    /// Checks that the directory has not been removed. A failure to look proves nothing: the error must
    /// not keep a frame that is stored from being persisted.
    ///
    /// # Errors
    /// [`Error::OwnershipLost`] if it has.
    pub(crate) fn check_not_removed(&self) -> Result<()> {
        if !matches!(self.directory.is_removed(), Ok(true)) {
            return Ok(());
        }
        Err(self.lost(
            "it was removed while the store was open; what was written since is in no file that can \
             be opened again",
        ))
    }

    fn lost(&self, detail: &str) -> Error {
        Error::OwnershipLost {
            path: self.directory.path().to_path_buf(),
            detail: detail.to_owned(),
        }
    }

    /// Gives the directory up.
    pub(crate) fn release(&self) {
        *self.lock.lock() = None;
    }

    /// Checks that the directory is still there and that its `LOCK` is the one held. If it was
    /// removed or replaced, the file that is there now is locked: no other process owns the store,
    /// since its manifest is locked, too.
    ///
    /// # Errors
    /// [`Error::OwnershipLost`] if the directory was removed, or another process holds `LOCK`.
    pub(crate) fn check(&self) -> Result<()> {
        let mut lock = self.lock.lock();
        let Some(held) = &*lock else {
            return Err(Error::Closed);
        };
        match self.directory.identity_of(file_names::LOCK) {
            Ok(found) if found == held.identity()? => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => self.check_not_removed()?,
            Err(error) => return Err(error.into()),
        }
        *lock = Some(self.lock_again()?);
        Ok(())
    }

    /// Locks the file that is `LOCK` now. A process that finds the manifest locked holds it for a
    /// moment.
    fn lock_again(&self) -> Result<Box<dyn Lock>> {
        for _ in 0..LOCK_ATTEMPTS {
            match self.directory.lock(file_names::LOCK, LockKind::Exclusive) {
                Err(error) if error.kind() == ErrorKind::Locked => thread::sleep(LOCK_PAUSE),
                locked => return Ok(locked?),
            }
        }
        Err(self.lost(
            "its LOCK was removed, and another process has made and locked a new one; close this \
             store, and open it again when that process has closed it",
        ))
    }
}

/// Locks a directory against owners and readers.
///
/// # Errors
/// [`Error::Busy`] if another owner or reader holds the lock.
pub(crate) fn lock_as_owner(directory: &dyn Directory) -> Result<Box<dyn Lock>> {
    let lock = directory.lock(file_names::LOCK, LockKind::Exclusive);
    lock.map_err(|error| busy_or(directory, error))
}

/// Locks a directory against owners; `None` where no file is there to be locked.
///
/// # Errors
/// [`Error::Busy`] if an owner holds the lock.
pub(crate) fn lock_as_reader(directory: &dyn Directory) -> Result<Option<Box<dyn Lock>>> {
    match directory.lock(file_names::LOCK, LockKind::Shared) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        lock => lock.map(Some).map_err(|error| busy_or(directory, error)),
    }
}

/// Returns the error of a lock that was not taken.
fn busy_or(directory: &dyn Directory, error: terrace_storage::Error) -> Error {
    match error.kind() {
        ErrorKind::Locked => busy(directory),
        _ => error.into(),
    }
}

/// Returns the error for a directory that another has locked, with the socket of its owner.
pub(crate) fn busy(directory: &dyn Directory) -> Error {
    Error::Busy {
        path: directory.path().to_path_buf(),
        socket: socket(directory),
        waited: Duration::ZERO,
    }
}

/// Returns the socket of the owner of a directory, if it has one.
fn socket(directory: &dyn Directory) -> Option<PathBuf> {
    let entries = directory.list().ok()?;
    let has_socket = entries.iter().any(|entry| entry.name == SOCKET);
    has_socket.then(|| directory.shown(SOCKET))
}

/// Adds the owner's socket to an error of a lock on one of its files.
pub fn with_socket(directory: &dyn Directory, error: Error) -> Error {
    match error {
        Error::Busy { .. } => busy(directory),
        error => error,
    }
}
