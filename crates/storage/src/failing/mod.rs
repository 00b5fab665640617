//! A storage that fails on demand, around any other.

mod plan;
#[cfg(test)]
mod tests;

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use plan::{Fault, FaultFilter, FaultPlan};

use crate::{
    DirectoryEntry, File, FileSystem, Lock, LockKind, OpenOptions, Operation, Purpose, Result,
    Storage,
};

/// A storage whose operations fail, or wait, as a [`FaultPlan`] says.
///
/// ```
/// use std::{path::Path, sync::Arc};
/// use terrace_storage::*;
///
/// let plan = FaultPlan::new(FaultFilter::everything().operations(&[Operation::Write]));
/// let inner = Arc::new(SimulatedStorage::new(1, CrashSwitch::new()));
/// let storage = FailingStorage::new(inner, plan.clone());
/// let options = OpenOptions::buffered(OpenMode::CreateNew);
/// let file = storage.open(Path::new("/f"), options).unwrap();
///
/// plan.fail_at(1, Fault::NoSpace);
/// file.append(b"first", Purpose::Other).unwrap();
/// let error = file.append(b"second", Purpose::Other).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NoSpace);
/// file.append(b"third", Purpose::Other).unwrap();
/// ```
#[derive(Debug)]
pub struct FailingStorage {
    inner: Arc<dyn Storage>,
    plan: FaultPlan,
}

impl FailingStorage {
    /// Passes to `inner` what `plan` lets through.
    pub fn new(inner: Arc<dyn Storage>, plan: FaultPlan) -> Self {
        FailingStorage { inner, plan }
    }

    fn check(&self, operation: Operation, path: &Path) -> Result<()> {
        self.check_both(operation, path, path)
    }

    fn check_both(&self, operation: Operation, from: &Path, to: &Path) -> Result<()> {
        match self.plan.next(operation, None, &[from, to]) {
            Some(fault) => Err(fault.error(operation, from)),
            None => Ok(()),
        }
    }
}

impl Storage for FailingStorage {
    fn open(&self, path: &Path, options: OpenOptions) -> Result<Arc<dyn File>> {
        self.check(Operation::Open, path)?;
        Ok(Arc::new(FailingFile {
            inner: self.inner.open(path, options)?,
            plan: self.plan.clone(),
            path: path.to_path_buf(),
            syncs_are_lost: AtomicBool::new(false),
        }))
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        self.check(Operation::CreateDirectory, path)?;
        self.inner.create_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        self.check(Operation::SyncDirectory, path)?;
        self.inner.sync_directory(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.check_both(Operation::Rename, from, to)?;
        self.inner.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.check_both(Operation::Link, from, to)?;
        self.inner.link(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.check(Operation::Remove, path)?;
        self.inner.remove(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        self.check(Operation::List, path)?;
        self.inner.list(path)
    }

    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn Lock>> {
        self.check(Operation::Lock, path)?;
        self.inner.lock(path, kind)
    }

    fn free_space_bytes(&self, path: &Path) -> Result<u64> {
        self.check(Operation::FreeSpace, path)?;
        self.inner.free_space_bytes(path)
    }

    fn file_system(&self, path: &Path) -> Result<FileSystem> {
        self.check(Operation::FileSystem, path)?;
        self.inner.file_system(path)
    }

    fn can_poll(&self) -> bool {
        self.inner.can_poll()
    }

    fn boot_id(&self) -> Result<[u8; 16]> {
        self.check(Operation::BootId, Path::new("boot id"))?;
        self.inner.boot_id()
    }
}

#[derive(Debug)]
struct FailingFile {
    inner: Arc<dyn File>,
    plan: FaultPlan,
    path: PathBuf,
    /// Set by [`Fault::SyncLost`].
    syncs_are_lost: AtomicBool,
}

impl FailingFile {
    fn next(&self, operation: Operation, purpose: Option<Purpose>) -> Option<Fault> {
        self.plan.next(operation, purpose, &[&self.path])
    }

    fn check(&self, operation: Operation, purpose: Option<Purpose>) -> Result<()> {
        match self.next(operation, purpose) {
            Some(fault) => Err(fault.error(operation, &self.path)),
            None => Ok(()),
        }
    }

    /// Fails a write if it is to fail, after `write` has written the part that it leaves.
    fn check_write(
        &self,
        bytes: &[u8],
        purpose: Purpose,
        write: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let Some(fault) = self.next(Operation::Write, Some(purpose)) else {
            return Ok(());
        };
        match fault {
            Fault::ShortWrite => write(bytes.split_at(bytes.len() / 2).0)?,
            Fault::WriteKept => write(bytes)?,
            _ => {}
        }
        Err(fault.error(Operation::Write, &self.path))
    }
}

impl File for FailingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        self.check(Operation::Read, Some(purpose))?;
        self.inner.read_at(buffer, offset, purpose)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        let write = |part: &[u8]| self.inner.write_at(part, offset, purpose);
        self.check_write(bytes, purpose, write)?;
        write(bytes)
    }

    fn append(&self, bytes: &[u8], purpose: Purpose) -> Result<u64> {
        let append = |part: &[u8]| self.inner.append(part, purpose);
        self.check_write(bytes, purpose, |part| append(part).map(drop))?;
        append(bytes)
    }

    fn allocate(&self, length_bytes: u64) -> Result<()> {
        self.check(Operation::Allocate, None)?;
        self.inner.allocate(length_bytes)
    }

    fn truncate(&self, length_bytes: u64) -> Result<()> {
        self.check(Operation::Truncate, None)?;
        self.inner.truncate(length_bytes)
    }

    fn start_read(&self, offset: u64, length_bytes: u64) -> bool {
        self.inner.start_read(offset, length_bytes)
    }

    fn start_write_back(&self, offset: u64, length_bytes: u64) -> Result<()> {
        self.check(Operation::WriteBack, None)?;
        self.inner.start_write_back(offset, length_bytes)
    }

    fn sync(&self, purpose: Purpose) -> Result<()> {
        let fault = self.next(Operation::Sync, Some(purpose));
        if fault == Some(Fault::SyncLost) {
            self.syncs_are_lost.store(true, Ordering::Relaxed);
        }
        let reaches_medium = matches!(fault, None | Some(Fault::SyncKept));
        if reaches_medium && !self.syncs_are_lost.load(Ordering::Relaxed) {
            self.inner.sync(purpose)?;
        }
        match fault {
            Some(fault) => Err(fault.error(Operation::Sync, &self.path)),
            None => Ok(()),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }

    fn length_bytes(&self) -> Result<u64> {
        self.check(Operation::Length, None)?;
        self.inner.length_bytes()
    }

    fn links(&self) -> Result<u64> {
        self.check(Operation::Length, None)?;
        self.inner.links()
    }

    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.check(Operation::Read, Some(purpose))?;
        self.inner.read_exact_at(buffer, offset, purpose)
    }
}
