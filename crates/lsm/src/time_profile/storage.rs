//! System calls as stages of the operation that makes them.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use terrace_storage::{
    Access, Directory, DirectoryLayer, File, LayeredDirectory, Lock, LockKind, Operation, Purpose,
    Result, Storage,
};

use super::current::Within;
use super::{Stage, stage};

/// A storage whose calls are stages. The innermost layer: waits of outer layers are not its time.
#[derive(Debug)]
pub struct TimedStorage(pub Arc<dyn Storage>);

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

    fn lock(&self, kind: LockKind) -> Result<Box<dyn Lock>> {
        self.0.lock(kind)
    }

    fn links(&self) -> Result<u64> {
        let _call = stage(Stage::OtherCall);
        self.0.links()
    }

    fn is_direct(&self) -> bool {
        self.0.is_direct()
    }
}

#[derive(Clone, Copy, Debug)]
struct TimedLayer;

impl DirectoryLayer for TimedLayer {
    type Call = Within;

    fn begin(&self, operation: Operation, _: &Path, _: &[&str]) -> Result<Within> {
        Ok(stage(match operation {
            Operation::SyncDirectory => Stage::SyncCall,
            _ => Stage::OtherCall,
        }))
    }

    fn wrap(&self, file: Arc<dyn File>, _: &Path, _: &str) -> Arc<dyn File> {
        Arc::new(TimedFile(file))
    }
}

impl Storage for TimedStorage {
    fn directory(&self, path: &Path, access: Access) -> Result<Arc<dyn Directory>> {
        let inner = self.0.directory(path, access)?;
        Ok(Arc::new(LayeredDirectory::new(inner, TimedLayer)))
    }

    fn create_directory_for(&self, path: &Path, access: Access) -> Result<()> {
        self.0.create_directory_for(path, access)
    }

    fn can_poll(&self) -> bool {
        self.0.can_poll()
    }

    fn boot_id(&self) -> Result<[u8; 16]> {
        self.0.boot_id()
    }
}
