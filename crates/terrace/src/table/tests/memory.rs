//! A storage of files in memory, for tests that need to see and change every byte.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use terrace_storage::{
    DirectoryEntry, Error, File, FileSystem, Lock, LockKind, OpenMode, OpenOptions, Operation,
    Purpose, Result, Storage,
};

#[derive(Debug, Default)]
pub(super) struct MemoryStorage {
    files: Mutex<BTreeMap<PathBuf, Arc<MemoryFile>>>,
}

#[derive(Debug, Default)]
struct MemoryFile {
    path: PathBuf,
    bytes: Mutex<Vec<u8>>,
}

impl MemoryStorage {
    pub(super) fn bytes(&self, path: &str) -> Vec<u8> {
        self.files.lock()[Path::new(path)].bytes.lock().clone()
    }

    pub(super) fn put(&self, path: &str, bytes: Vec<u8>) {
        let file = MemoryFile {
            path: PathBuf::from(path),
            bytes: Mutex::new(bytes),
        };
        self.files.lock().insert(file.path.clone(), Arc::new(file));
    }
}

fn not_found(operation: Operation, path: &Path) -> Error {
    Error::new(operation, path, io::ErrorKind::NotFound.into())
}

impl File for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64, _: Purpose) -> Result<usize> {
        let bytes = self.bytes.lock();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, _: Purpose) -> Result<()> {
        let mut held = self.bytes.lock();
        let end = offset as usize + bytes.len();
        if held.len() < end {
            held.resize(end, 0);
        }
        held[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn append(&self, bytes: &[u8], purpose: Purpose) -> Result<u64> {
        let offset = self.length_bytes()?;
        self.write_at(bytes, offset, purpose)?;
        Ok(offset)
    }

    fn allocate(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self, _: Purpose) -> Result<()> {
        Ok(())
    }

    fn length_bytes(&self) -> Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<()> {
        if self.read_at(buffer, offset, purpose)? == buffer.len() {
            return Ok(());
        }
        let source = io::ErrorKind::UnexpectedEof.into();
        Err(Error::new(Operation::Read, &self.path, source))
    }
}

impl Storage for MemoryStorage {
    fn open(&self, path: &Path, options: OpenOptions) -> Result<Arc<dyn File>> {
        if options.mode == OpenMode::CreateNew {
            self.put(path.to_str().unwrap(), Vec::new());
        }
        let files = self.files.lock();
        let file = files.get(path).ok_or(not_found(Operation::Open, path))?;
        Ok(Arc::clone(file) as Arc<dyn File>)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let removed = self.files.lock().remove(path);
        removed.map(drop).ok_or(not_found(Operation::Remove, path))
    }

    fn create_directory(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn sync_directory(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn rename(&self, _: &Path, _: &Path) -> Result<()> {
        unimplemented!("tables are not renamed")
    }

    fn link(&self, _: &Path, _: &Path) -> Result<()> {
        unimplemented!("tables are not linked")
    }

    fn list(&self, _: &Path) -> Result<Vec<DirectoryEntry>> {
        let entry = |path: &PathBuf| DirectoryEntry {
            name: path.file_name().unwrap().to_str().unwrap().to_owned(),
            length_bytes: 0,
            is_directory: false,
        };
        Ok(self.files.lock().keys().map(entry).collect())
    }

    fn lock(&self, _: &Path, _: LockKind) -> Result<Box<dyn Lock>> {
        unimplemented!("tables are not locked")
    }

    fn free_space_bytes(&self, _: &Path) -> Result<u64> {
        Ok(u64::MAX)
    }

    fn file_system(&self, _: &Path) -> Result<FileSystem> {
        unimplemented!("tables do not ask")
    }

    fn boot_id(&self) -> Result<[u8; 16]> {
        Ok([0; 16])
    }
}
