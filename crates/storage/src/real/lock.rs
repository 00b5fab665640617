//! Advisory locks on whole files (`flock`).
//!
//! A `flock` belongs to the open file, not to the process: two in one process conflict like two in
//! different ones (unlike `fcntl` locks), and the kernel releases it when the process dies.

use std::fs;
use std::io;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock, fstat};
use rustix::io::retry_on_intr;

use super::directory::identity;
use crate::{Error, FileIdentity, ForkMark, Lock, LockKind, Operation, Result};

/// Held until it is dropped.
#[derive(Debug)]
pub(super) struct RealLock {
    file: fs::File,
    path: PathBuf,
    mark: ForkMark,
}

impl Lock for RealLock {
    fn identity(&self) -> Result<FileIdentity> {
        let status = fstat(&self.file)
            .map_err(|errno| Error::new(Operation::Examine, &self.path, errno.into()))?;
        Ok(identity(&status))
    }
}

impl Drop for RealLock {
    fn drop(&mut self) {
        // A child shares the open file: to unlock it there would take the lock from its parent.
        if self.mark.is_inherited() {
            return;
        }
        // Closing would not do: a child that another thread has forked, and that has not called
        // `exec` yet, holds the open file too. If this call fails, closing has to do.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl RealLock {
    /// Locks an open file; the lock is that of this opening and its copies.
    pub(super) fn take(file: fs::File, path: PathBuf, kind: LockKind) -> io::Result<Self> {
        let operation = match kind {
            LockKind::Exclusive => FlockOperation::NonBlockingLockExclusive,
            LockKind::Shared => FlockOperation::NonBlockingLockShared,
        };
        let mark = ForkMark::new()?;
        retry_on_intr(|| flock(&file, operation))?;
        Ok(RealLock { file, path, mark })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fork::tests as fork;

    #[test]
    fn a_dropped_lock_is_free_even_if_a_forked_child_has_the_file_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("LOCK");
        let take = || {
            let file = fs::File::create(&path).unwrap();
            RealLock::take(file, path.clone(), LockKind::Exclusive).unwrap()
        };
        let lock = take();
        let _inherited = lock.file.try_clone().unwrap();
        drop(lock);
        take();
    }

    #[test]
    fn a_lock_that_a_child_drops_stays_its_parents() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("LOCK");
        let take = || {
            let file = fs::File::create(&path).unwrap();
            RealLock::take(file, path.clone(), LockKind::Exclusive)
        };
        let mut lock = Some(take().unwrap());
        assert!(fork::holds_in_child(fork::fork, || {
            drop(lock.take());
            take().is_err()
        }));
        assert_eq!(take().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(lock);
        take().unwrap();
    }
}
