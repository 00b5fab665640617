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
    files: Vec<fs::File>,
}

impl Lock for RealLock {}

impl Drop for RealLock {
    fn drop(&mut self) {
        for file in &self.files {
            // Closing would not do: a child that another thread has forked, and that has not
            // called `exec` yet, holds the open file too. A failure leaves what closing does.
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

impl RealLock {
    /// An exclusive lock makes the file if it is missing and locks its directory too. A shared one
    /// writes nothing: where the file is missing (a copy that left it out) it locks the directory
    /// instead, which the next exclusive holder will find locked.
    pub(super) fn take(path: &Path, kind: LockKind) -> io::Result<Self> {
        let mut lock = RealLock { files: Vec::new() };
        match kind {
            LockKind::Exclusive => {
                let mut options = fs::OpenOptions::new();
                options.read(true).write(true).create(true).truncate(false);
                lock.add(
                    options.open(path)?,
                    FlockOperation::NonBlockingLockExclusive,
                )?;
                let directory = fs::File::open(directory_of(path))?;
                lock.add(directory, FlockOperation::NonBlockingLockExclusive)?;
            }
            LockKind::Shared => {
                let file = match fs::File::open(path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        fs::File::open(directory_of(path))?
                    }
                    outcome => outcome?,
                };
                lock.add(file, FlockOperation::NonBlockingLockShared)?;
            }
        }
        Ok(lock)
    }

    fn add(&mut self, file: fs::File, operation: FlockOperation) -> io::Result<()> {
        retry_on_intr(|| flock(&file, operation))?;
        self.files.push(file);
        Ok(())
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
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
        let flags = fcntl_getfl(&lock.files[0]).unwrap();
        assert_eq!(flags & OFlags::ACCMODE, OFlags::RDONLY);
        set_mode(directory.path(), 0o755).unwrap();
    }

    #[test]
    fn a_dropped_lock_is_free_even_if_a_forked_child_has_the_file_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("LOCK");
        let lock = RealLock::take(&path, LockKind::Exclusive).unwrap();
        let _inherited = lock.files[0].try_clone().unwrap();
        drop(lock);
        RealLock::take(&path, LockKind::Exclusive).unwrap();
    }

    #[test]
    fn a_shared_lock_makes_no_file_and_still_keeps_an_exclusive_one_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("LOCK");
        let first = RealLock::take(&path, LockKind::Shared).unwrap();
        let second = RealLock::take(&path, LockKind::Shared).unwrap();
        assert!(!path.exists());
        assert!(RealLock::take(&path, LockKind::Exclusive).is_err());
        drop((first, second));
        let _owner = RealLock::take(&path, LockKind::Exclusive).unwrap();
        assert!(RealLock::take(&path, LockKind::Shared).is_err());
    }
}
