//! A disk that takes its time, for one purpose.

use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use terrace_storage::{
    Access, Directory, DirectoryLayer, File, LayeredDirectory, Lock, LockKind, Operation, Purpose,
    Result, Storage,
};

#[derive(Debug)]
pub(super) struct SlowStorage {
    pub(super) inner: Arc<dyn Storage>,
    /// The purpose, and the duration of each read, write and sync for it.
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
    fn lock(&self, kind: LockKind) -> Result<Box<dyn Lock>> {
        self.0.lock(kind)
    }
    fn links(&self) -> Result<u64> {
        self.0.links()
    }
    fn is_direct(&self) -> bool {
        self.0.is_direct()
    }
}

#[derive(Clone, Debug)]
struct SlowLayer((Purpose, Duration));

impl DirectoryLayer for SlowLayer {
    type Call = ();

    fn begin(&self, _: Operation, _: &Path, _: &[&str]) -> Result<()> {
        Ok(())
    }

    fn wrap(&self, file: Arc<dyn File>, _: &Path, _: &str) -> Arc<dyn File> {
        Arc::new(SlowFile(file, self.0))
    }
}

impl Storage for SlowStorage {
    fn directory(&self, path: &Path, access: Access) -> Result<Arc<dyn Directory>> {
        let inner = self.inner.directory(path, access)?;
        Ok(Arc::new(LayeredDirectory::new(
            inner,
            SlowLayer(self.delay),
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
