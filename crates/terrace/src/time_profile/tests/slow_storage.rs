//! A disk that takes its time, for one purpose.

use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use terrace_storage::{
    DirectoryEntry, File, FileSystem, Lock, LockKind, OpenOptions, Purpose, Result, Storage,
};

#[derive(Debug)]
pub(super) struct SlowStorage {
    pub(super) inner: Arc<dyn Storage>,
    /// Reads, writes and syncs for it last so long.
    pub(super) delay: (Purpose, Duration),
}

#[derive(Debug)]
struct SlowFile(Arc<dyn File>, (Purpose, Duration));

impl SlowFile {
    fn delayed(&self, purpose: Purpose) -> &dyn File {
        if purpose == self.1.0 {
            sleep(self.1.1);
        }
        &*self.0
    }
}

impl File for SlowFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        self.delayed(purpose).read_at(buffer, offset, purpose)
    }
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.delayed(purpose).read_exact_at(buffer, offset, purpose)
    }
    fn read_vec_at(&self, length: usize, offset: u64, purpose: Purpose) -> Result<Vec<u8>> {
        self.delayed(purpose).read_vec_at(length, offset, purpose)
    }
    fn write_at(&self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.delayed(purpose).write_at(bytes, offset, purpose)
    }
    fn append(&self, bytes: &[u8], purpose: Purpose) -> Result<u64> {
        self.delayed(purpose).append(bytes, purpose)
    }
    fn sync(&self, purpose: Purpose) -> Result<()> {
        self.delayed(purpose).sync(purpose)
    }
    fn allocate(&self, length_bytes: u64) -> Result<()> {
        self.0.allocate(length_bytes)
    }
    fn truncate(&self, length_bytes: u64) -> Result<()> {
        self.0.truncate(length_bytes)
    }
    fn length_bytes(&self) -> Result<u64> {
        self.0.length_bytes()
    }
    fn links(&self) -> Result<u64> {
        self.0.links()
    }
    fn is_direct(&self) -> bool {
        self.0.is_direct()
    }
}

impl Storage for SlowStorage {
    fn open(&self, path: &Path, options: OpenOptions) -> Result<Arc<dyn File>> {
        let file = self.inner.open(path, options)?;
        Ok(Arc::new(SlowFile(file, self.delay)))
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
