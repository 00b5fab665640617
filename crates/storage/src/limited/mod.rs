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

use crate::layered::{DirectoryLayer, LayeredDirectory};
use crate::{Access, Directory, File, Lock, LockKind, Operation, Purpose, Result, Storage};

/// A storage on which each write asks a [`RateLimiter`] first. Reads and syncs do not.
#[derive(Debug)]
pub struct LimitedStorage {
    inner: Arc<dyn Storage>,
    limiter: Arc<RateLimiter>,
}

impl LimitedStorage {
    /// Limits the writes to `inner`.
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

    fn lock(&self, kind: LockKind) -> Result<Box<dyn Lock>> {
        self.inner.lock(kind)
    }

    fn links(&self) -> Result<u64> {
        self.inner.links()
    }

    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }
}

#[derive(Clone, Debug)]
struct LimitedLayer(Arc<RateLimiter>);

impl DirectoryLayer for LimitedLayer {
    type Call = ();

    fn begin(&self, _: Operation, _: &Path, _: &[&str]) -> Result<()> {
        Ok(())
    }

    fn wrap(&self, inner: Arc<dyn File>, _: &Path, _: &str) -> Arc<dyn File> {
        let limiter = Arc::clone(&self.0);
        Arc::new(LimitedFile { inner, limiter })
    }
}

impl Storage for LimitedStorage {
    fn directory(&self, path: &Path, access: Access) -> Result<Arc<dyn Directory>> {
        let inner = self.inner.directory(path, access)?;
        Ok(Arc::new(LayeredDirectory::new(
            inner,
            LimitedLayer(Arc::clone(&self.limiter)),
        )))
    }

    fn create_directory_for(&self, path: &Path, access: Access) -> Result<()> {
        self.inner.create_directory_for(path, access)
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
