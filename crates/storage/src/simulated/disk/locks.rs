//! Locks on files, held by handles and gone after a crash.

use std::io;
use std::path::Path;

use super::{Disk, HeldLock, error};
use crate::simulated::names::InodeNumber;
use crate::{LockKind, Operation, Result};

impl Disk {
    /// Locks a file and counts a handle on it, to be given back with [`Disk::unlock`].
    pub(in crate::simulated) fn lock(
        &mut self,
        path: &Path,
        kind: LockKind,
    ) -> Result<InodeNumber> {
        let operation = Operation::Lock;
        self.check_alive(operation, path)?;
        let number = match self.names.inode(path) {
            Some(number) => number,
            None if kind == LockKind::Shared => {
                return Err(error(operation, path, io::ErrorKind::NotFound));
            }
            None => self.create(operation, path)?,
        };
        self.lock_inode(number, path, kind)?;
        Ok(number)
    }

    /// Locks an open file and counts a handle on it, to be given back with [`Disk::unlock`].
    pub(in crate::simulated) fn lock_inode(
        &mut self,
        number: InodeNumber,
        path: &Path,
        kind: LockKind,
    ) -> Result<()> {
        let operation = Operation::Lock;
        let lock = match (self.locks.get(&number), kind) {
            (None, LockKind::Exclusive) => HeldLock::Exclusive,
            (None, LockKind::Shared) => HeldLock::Shared { holders: 1 },
            (Some(HeldLock::Shared { holders }), LockKind::Shared) => HeldLock::Shared {
                holders: holders + 1,
            },
            (Some(_), _) => return Err(error(operation, path, io::ErrorKind::WouldBlock)),
        };
        self.locks.insert(number, lock);
        self.inode_mut(number, operation, path)?.handles += 1;
        Ok(())
    }

    pub(in crate::simulated) fn unlock(&mut self, number: InodeNumber) {
        match self.locks.get_mut(&number) {
            Some(HeldLock::Shared { holders }) if *holders > 1 => *holders -= 1,
            _ => {
                self.locks.remove(&number);
            }
        }
        self.close(number);
    }
}
