//! System calls as stages of the operation that makes them.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use terrace_storage::{
    DirectoryEntry, File, FileSystem, Lock, LockKind, OpenOptions, Purpose, Result, Storage,
};

use super::{Stage, stage};

/// A storage whose calls are stages. The innermost layer: what others wait for is not its time.
#[derive(Debug)]
pub(crate) struct TimedStorage(pub(crate) Arc<dyn Storage>);

#[derive(Debug)]
struct TimedFile(Arc<dyn File>);

impl File for TimedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        let _call = stage(Stage::ReadCall);
        self.0.read_at(buffer, offset, purpose)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<()> {
        let _call = stage(Stage::ReadCall);
        self.0.read_exact_at(buffer, offset, purpose)
    }

    fn read_vec_at(&self, length: usize, offset: u64, purpose: Purpose) -> Result<Vec<u8>> {
        let _call = stage(Stage::ReadCall);
        self.0.read_vec_at(length, offset, purpose)
    }

    fn start_read(&self, offset: u64, length_bytes: u64) -> bool {
        let _call = stage(Stage::ReadCall);
        self.0.start_read(offset, length_bytes)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        let _call = stage(Stage::WriteCall);
        self.0.write_at(bytes, offset, purpose)
    }

    fn append(&self, bytes: &[u8], purpose: Purpose) -> Result<u64> {
        let _call = stage(Stage::WriteCall);
        self.0.append(bytes, purpose)
    }

    fn start_write_back(&self, offset: u64, length_bytes: u64) -> Result<()> {
        let _call = stage(Stage::WriteCall);
        self.0.start_write_back(offset, length_bytes)
    }

    fn sync(&self, purpose: Purpose) -> Result<()> {
        let _call = stage(Stage::SyncCall);
        self.0.sync(purpose)
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        let _call = stage(Stage::SyncCall);
        self.0.write_durable_at(bytes, offset, purpose)
    }

    fn allocate(&self, length_bytes: u64) -> Result<()> {
        let _call = stage(Stage::OtherCall);
        self.0.allocate(length_bytes)
    }

    fn truncate(&self, length_bytes: u64) -> Result<()> {
        let _call = stage(Stage::OtherCall);
        self.0.truncate(length_bytes)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor()
    }

    fn length_bytes(&self) -> Result<u64> {
        let _call = stage(Stage::OtherCall);
        self.0.length_bytes()
    }

    fn links(&self) -> Result<u64> {
        let _call = stage(Stage::OtherCall);
        self.0.links()
    }

    fn is_direct(&self) -> bool {
        self.0.is_direct()
    }
}

impl Storage for TimedStorage {
    fn open(&self, path: &Path, options: OpenOptions) -> Result<Arc<dyn File>> {
        let _call = stage(Stage::OtherCall);
        Ok(Arc::new(TimedFile(self.0.open(path, options)?)))
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        self.0.create_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        let _call = stage(Stage::SyncCall);
        self.0.sync_directory(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let _call = stage(Stage::OtherCall);
        self.0.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let _call = stage(Stage::OtherCall);
        self.0.link(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let _call = stage(Stage::OtherCall);
        self.0.remove(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        self.0.list(path)
    }

    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn Lock>> {
        self.0.lock(path, kind)
    }

    fn free_space_bytes(&self, path: &Path) -> Result<u64> {
        let _call = stage(Stage::OtherCall);
        self.0.free_space_bytes(path)
    }

    fn file_system(&self, path: &Path) -> Result<FileSystem> {
        self.0.file_system(path)
    }

    fn can_poll(&self) -> bool {
        self.0.can_poll()
    }

    fn boot_id(&self) -> Result<[u8; 16]> {
        self.0.boot_id()
    }
}
