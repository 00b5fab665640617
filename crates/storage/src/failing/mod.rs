//! A storage that fails on demand, around any other.

mod plan;
#[cfg(test)]
mod tests;

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use plan::{Fault, FaultFilter, FaultPlan};

use crate::layered::{DirectoryLayer, LayeredStorage};
use crate::{File, Lock, LockKind, Operation, Purpose, Result, Storage};

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
pub type FailingStorage = LayeredStorage<FailingLayer>;

impl FailingStorage {
    /// Passes to `inner` the operations that `plan` lets through.
    pub fn new(inner: Arc<dyn Storage>, plan: FaultPlan) -> Self {
        LayeredStorage::within(inner, FailingLayer(plan))
    }
}

/// The layer of a [`FailingStorage`].
#[derive(Clone, Debug)]
pub struct FailingLayer(FaultPlan);

impl DirectoryLayer for FailingLayer {
    type Call = ();

    fn begin(&self, operation: Operation, directory: &Path, names: &[&str]) -> Result<()> {
        let paths: Vec<PathBuf> = names.iter().map(|name| directory.join(name)).collect();
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let paths: &[&Path] = if paths.is_empty() {
            &[directory]
        } else {
            &paths
        };
        fail_as_planned(&self.0, operation, paths)
    }

    fn wrap(&self, inner: Arc<dyn File>, directory: &Path, name: &str) -> Arc<dyn File> {
        Arc::new(FailingFile {
            inner,
            plan: self.0.clone(),
            path: directory.join(name),
            syncs_are_lost: AtomicBool::new(false),
        })
    }
}

fn fail_as_planned(plan: &FaultPlan, operation: Operation, paths: &[&Path]) -> Result<()> {
    match (plan.next(operation, None, paths), paths.first()) {
        (Some(fault), Some(path)) => Err(fault.error(operation, path)),
        _ => Ok(()),
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

    fn lock(&self, kind: LockKind) -> Result<Box<dyn Lock>> {
        self.check(Operation::Lock, None)?;
        self.inner.lock(kind)
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
