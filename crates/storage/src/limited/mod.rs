//! A storage whose background writes keep to a rate.
//!
//! A store without a limit does not have this layer, and pays nothing for it.

mod bucket;
mod clock;
mod limiter;

pub use clock::{Clock, SystemClock};
pub use limiter::RateLimiter;

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use crate::{
    DirectoryEntry, File, FileSystem, Lock, LockKind, OpenOptions, Purpose, Result, Storage,
};

/// A storage on which each write asks a [`RateLimiter`] first. Reads and syncs do not.
#[derive(Debug)]
pub struct LimitedStorage {
    inner: Arc<dyn Storage>,
    limiter: Arc<RateLimiter>,
}

impl LimitedStorage {
    /// Limits what is written to `inner`.
    pub fn new(inner: Arc<dyn Storage>, limiter: Arc<RateLimiter>) -> Self {
        LimitedStorage { inner, limiter }
    }
}

#[derive(Debug)]
struct LimitedFile {
    inner: Arc<dyn File>,
    limiter: Arc<RateLimiter>,
}

impl File for LimitedFile {
    fn write_at(&self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.limiter.pass(bytes.len() as u64, purpose);
        self.inner.write_at(bytes, offset, purpose)
    }

    fn append(&self, bytes: &[u8], purpose: Purpose) -> Result<u64> {
        self.limiter.pass(bytes.len() as u64, purpose);
        self.inner.append(bytes, purpose)
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.limiter.pass(bytes.len() as u64, purpose);
        self.inner.write_durable_at(bytes, offset, purpose)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        self.inner.read_at(buffer, offset, purpose)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.inner.read_exact_at(buffer, offset, purpose)
    }

    fn read_vec_at(&self, length: usize, offset: u64, purpose: Purpose) -> Result<Vec<u8>> {
        self.inner.read_vec_at(length, offset, purpose)
    }

    fn allocate(&self, length_bytes: u64) -> Result<()> {
        self.inner.allocate(length_bytes)
    }

    fn truncate(&self, length_bytes: u64) -> Result<()> {
        self.inner.truncate(length_bytes)
    }

    fn start_read(&self, offset: u64, length_bytes: u64) -> bool {
        self.inner.start_read(offset, length_bytes)
    }

    fn start_write_back(&self, offset: u64, length_bytes: u64) -> Result<()> {
        self.inner.start_write_back(offset, length_bytes)
    }

    fn sync(&self, purpose: Purpose) -> Result<()> {
        self.inner.sync(purpose)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }

    fn length_bytes(&self) -> Result<u64> {
        self.inner.length_bytes()
    }

    fn links(&self) -> Result<u64> {
        self.inner.links()
    }

    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }
}

impl Storage for LimitedStorage {
    fn open(&self, path: &Path, options: OpenOptions) -> Result<Arc<dyn File>> {
        Ok(Arc::new(LimitedFile {
            inner: self.inner.open(path, options)?,
            limiter: Arc::clone(&self.limiter),
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

    fn can_poll(&self) -> bool {
        self.inner.can_poll()
    }

    fn boot_id(&self) -> Result<[u8; 16]> {
        self.inner.boot_id()
    }
}

#[cfg(test)]
mod tests;
