//! Locks of files, which only this process can have: the device has one host.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use terrace_storage::{FileIdentity, Lock, LockKind, Result};

use super::disk::Disk;

/// Holders by file: shared ones, or -1 for one alone.
#[derive(Debug, Default)]
pub struct Locks(HashMap<u64, i64>);

impl Locks {
    /// Takes a lock.
    pub fn take(&mut self, file: u64, kind: LockKind) -> io::Result<()> {
        let holders = self.0.entry(file).or_default();
        *holders = match (kind, *holders) {
            (LockKind::Exclusive, 0) => -1,
            (LockKind::Shared, 0..) => *holders + 1,
            _ => return Err(io::ErrorKind::WouldBlock.into()),
        };
        Ok(())
    }

    fn release(&mut self, file: u64) {
        match self.0.get(&file).copied() {
            Some(holders @ 2..) => drop(self.0.insert(file, holders - 1)),
            _ => drop(self.0.remove(&file)),
        }
    }
}

/// A held lock, which keeps its file as an open handle does.
#[derive(Debug)]
pub struct FlatLock {
    disk: Arc<Disk>,
    file: u64,
}

impl FlatLock {
    /// Takes a lock on a file that is there.
    pub fn take(disk: &Arc<Disk>, file: u64, kind: LockKind) -> io::Result<FlatLock> {
        let mut state = disk.state();
        state.locks.take(file, kind)?;
        if let Some(node) = state.files.get_mut(&file) {
            node.handles += 1;
        }
        drop(state);
        Ok(FlatLock {
            disk: Arc::clone(disk),
            file,
        })
    }
}

impl Lock for FlatLock {
    fn identity(&self) -> Result<FileIdentity> {
        Ok(identity(self.file))
    }
}

impl Drop for FlatLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        state.locks.release(self.file);
        state.close(self.file);
    }
}

/// Returns the identity of a file of the one device.
pub fn identity(file: u64) -> FileIdentity {
    FileIdentity {
        device: 0,
        inode: file,
    }
}
