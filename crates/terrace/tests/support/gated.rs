//! A file system on which the writes of one purpose wait until they are let through.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use terrace_storage::{
    DirectoryEntry, File, FileSystem, Lock, LockKind, OpenOptions, Purpose, Result, Storage,
};

/// Shared with the test, which opens it: how many writes may pass, and whether one had to wait.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<AtomicU64>, Arc<AtomicBool>);

impl Gate {
    pub fn open(&self) {
        self.0.store(u64::MAX, Ordering::SeqCst);
    }

    /// Lets some writes through and no more.
    pub fn close_after(&self, writes: u64) {
        self.0.store(writes, Ordering::SeqCst);
    }

    /// Whether a write has come to the gate and found it closed.
    pub fn is_reached(&self) -> bool {
        self.1.load(Ordering::SeqCst)
    }

    fn pass(&self) {
        let one_less = |left: u64| match left {
            0 => None,
            u64::MAX => Some(u64::MAX),
            left => Some(left - 1),
        };
        while self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
            .is_err()
        {
            self.1.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[derive(Debug)]
pub struct GatedStorage {
    pub inner: Arc<dyn Storage>,
    pub purpose: Purpose,
    pub gate: Gate,
}

#[derive(Debug)]
struct GatedFile {
    inner: Arc<dyn File>,
    purpose: Purpose,
    gate: Gate,
}

impl File for GatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        self.inner.read_at(buffer, offset, purpose)
    }
    fn write_at(&self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        if purpose == self.purpose {
            self.gate.pass();
        }
        self.inner.write_at(bytes, offset, purpose)
    }
    fn append(&self, bytes: &[u8], purpose: Purpose) -> Result<u64> {
        if purpose == self.purpose {
            self.gate.pass();
        }
        self.inner.append(bytes, purpose)
    }
    fn allocate(&self, length_bytes: u64) -> Result<()> {
        self.inner.allocate(length_bytes)
    }
    fn truncate(&self, length_bytes: u64) -> Result<()> {
        self.inner.truncate(length_bytes)
    }
    fn start_write_back(&self, offset: u64, length_bytes: u64) -> Result<()> {
        self.inner.start_write_back(offset, length_bytes)
    }
    fn sync(&self, purpose: Purpose) -> Result<()> {
        self.inner.sync(purpose)
    }
    fn length_bytes(&self) -> Result<u64> {
        self.inner.length_bytes()
    }
    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.inner.read_exact_at(buffer, offset, purpose)
    }
}

impl Storage for GatedStorage {
    fn open(&self, path: &Path, options: OpenOptions) -> Result<Arc<dyn File>> {
        let inner = self.inner.open(path, options)?;
        Ok(Arc::new(GatedFile {
            inner,
            purpose: self.purpose,
            gate: self.gate.clone(),
        }))
    }
    fn create_directory(&self, path: &Path) -> Result<()> {
        self.inner.create_directory(path)
    }
    fn sync_directory(&self, path: &Path) -> Result<()> {
        self.inner.sync_directory(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.link(from, to)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)
    }
    fn list(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        self.inner.list(path)
    }
    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn Lock>> {
        self.inner.lock(path, kind)
    }
    fn free_space_bytes(&self, path: &Path) -> Result<u64> {
        self.inner.free_space_bytes(path)
    }
    fn file_system(&self, path: &Path) -> Result<FileSystem> {
        self.inner.file_system(path)
    }
    fn boot_id(&self) -> Result<[u8; 16]> {
        self.inner.boot_id()
    }
}
