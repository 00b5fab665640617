//! Advisory locks on whole files (`flock`).
//!
//! A `flock` belongs to the open file, not to the process: two in one process conflict like two in
//! different ones (unlike `fcntl` locks), and the kernel releases it when the process dies.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;

use crate::{Lock, LockKind};

/// Held until it is dropped.
#[derive(Debug)]
pub(super) struct RealLock {
    file: fs::File,
}

impl Lock for RealLock {}

impl Drop for RealLock {
    fn drop(&mut self) {
        // Closing would not do: a child that another thread has forked, and that has not called
        // `exec` yet, holds the open file too. A failure leaves what closing does.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl RealLock {
    pub(super) fn take(path: &Path, kind: LockKind) -> io::Result<Self> {
        let (file, operation) = match kind {
            LockKind::Exclusive => (
                open_or_create(path)?,
                FlockOperation::NonBlockingLockExclusive,
            ),
            LockKind::Shared => (fs::File::open(path)?, FlockOperation::NonBlockingLockShared),
        };
        retry_on_intr(|| flock(&file, operation))?;
        Ok(RealLock { file })
    }
}

fn open_or_create(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{OFlags, fcntl_getfl};

    use super::*;

    #[test]
    fn a_shared_lock_asks_only_to_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("LOCK");
        fs::write(&path, b"").unwrap();
        let set_mode = |path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        set_mode(path.as_path(), 0o444).unwrap();
        set_mode(directory.path(), 0o555).unwrap();
        let lock = RealLock::take(&path, LockKind::Shared).unwrap();
        // The superuser passes every permission check, so look at what was asked for.
        let flags = fcntl_getfl(&lock.file).unwrap();
        assert_eq!(flags & OFlags::ACCMODE, OFlags::RDONLY);
        set_mode(directory.path(), 0o755).unwrap();
    }

    #[test]
    fn a_dropped_lock_is_free_even_if_a_forked_child_has_the_file_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("LOCK");
        let lock = RealLock::take(&path, LockKind::Exclusive).unwrap();
        let _inherited = lock.file.try_clone().unwrap();
        drop(lock);
        RealLock::take(&path, LockKind::Exclusive).unwrap();
    }

    #[test]
    fn a_shared_lock_makes_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("LOCK");
        let error = RealLock::take(&path, LockKind::Shared).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!path.exists());
    }
}
