//! Handles on a simulated disk: open files and held locks.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::disk::Disk;
use super::names::InodeNumber;
use crate::{Error, File, FileIdentity, Lock, LockKind, Operation, Purpose, Result};

pub(super) struct SimulatedFile {
    pub(super) disk: Arc<Mutex<Disk>>,
    pub(super) inode: InodeNumber,
    pub(super) path: PathBuf,
    pub(super) writable: bool,
    /// As requested: here every read is alike.
    pub(super) direct: bool,
}

impl SimulatedFile {
    fn check_writable(&self, operation: Operation) -> Result<()> {
        if self.writable {
            return Ok(());
        }
        let source = io::Error::from(rustix::io::Errno::BADF);
        Err(Error::new(operation, &self.path, source))
    }
}

impl File for SimulatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64, _purpose: Purpose) -> Result<usize> {
        let disk = self.disk.lock();
        disk.read(self.inode, &self.path, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, _purpose: Purpose) -> Result<()> {
        self.check_writable(Operation::Write)?;
        let mut disk = self.disk.lock();
        disk.write(self.inode, &self.path, bytes, Some(offset))?;
        Ok(())
    }

    fn append(&self, bytes: &[u8], _purpose: Purpose) -> Result<u64> {
        self.check_writable(Operation::Write)?;
        let mut disk = self.disk.lock();
        disk.write(self.inode, &self.path, bytes, None)
    }

    fn allocate(&self, length_bytes: u64) -> Result<()> {
        self.check_writable(Operation::Allocate)?;
        let mut disk = self.disk.lock();
        disk.allocate(self.inode, &self.path, length_bytes)
    }

    fn truncate(&self, length_bytes: u64) -> Result<()> {
        if length_bytes >= self.length_bytes()? {
            return Ok(());
        }
        self.check_writable(Operation::Truncate)?;
        let mut disk = self.disk.lock();
        disk.truncate(self.inode, &self.path, length_bytes)
    }

    fn sync(&self, _purpose: Purpose) -> Result<()> {
        self.disk.lock().sync(self.inode, &self.path)
    }

    fn length_bytes(&self) -> Result<u64> {
        self.disk.lock().length_bytes(self.inode, &self.path)
    }

    fn lock(&self, kind: LockKind) -> Result<Box<dyn Lock>> {
        let mut disk = self.disk.lock();
        disk.lock_inode(self.inode, &self.path, kind)?;
        Ok(Box::new(SimulatedLock {
            disk: Arc::clone(&self.disk),
            inode: self.inode,
            path: self.path.clone(),
        }))
    }

    fn links(&self) -> Result<u64> {
        self.disk.lock().links(self.inode, &self.path)
    }

    fn is_direct(&self) -> bool {
        self.direct
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<()> {
        if self.read_at(buffer, offset, purpose)? < buffer.len() {
            return Err(Error::unexpected_end(&self.path));
        }
        Ok(())
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        self.disk.lock().close(self.inode);
    }
}

impl fmt::Debug for SimulatedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimulatedFile").field(&self.path).finish()
    }
}

pub(super) struct SimulatedLock {
    pub(super) disk: Arc<Mutex<Disk>>,
    pub(super) inode: InodeNumber,
    pub(super) path: PathBuf,
}

impl Lock for SimulatedLock {
    fn identity(&self) -> Result<FileIdentity> {
        Ok(identity(self.inode))
    }
}

/// Returns the identity of an inode of the one disk that there is.
pub(super) fn identity(inode: InodeNumber) -> FileIdentity {
    FileIdentity { device: 0, inode }
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.disk.lock().unlock(self.inode);
    }
}

impl fmt::Debug for SimulatedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: &Path = &self.path;
        f.debug_tuple("SimulatedLock").field(&path).finish()
    }
}
