//! An open directory of a simulated disk.

use std::any::Any;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::disk::Disk;
use super::file::{SimulatedFile, SimulatedLock, identity};
use crate::directory::check_name;
use crate::{
    Directory, DirectoryEntry, Error, File, FileIdentity, FilePlace, FileSystem, Lock, LockKind,
    OpenMode, OpenOptions, Operation, Result,
};

/// A directory, known by its home: renaming it changes nothing here.
pub(super) struct SimulatedDirectory {
    pub(super) disk: Arc<Mutex<Disk>>,
    pub(super) home: PathBuf,
    pub(super) path: PathBuf,
}

impl SimulatedDirectory {
    /// Returns the key of a file in the directory.
    fn key(&self, operation: Operation, name: &str) -> Result<PathBuf> {
        check_name(operation, &self.path, name)?;
        Ok(self.home.join(name))
    }
}

impl FilePlace for SimulatedDirectory {
    fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        let key = self.key(Operation::Open, name)?;
        let inode = self.disk.lock().open(&key, options.mode)?;
        Ok(Arc::new(SimulatedFile {
            disk: Arc::clone(&self.disk),
            inode,
            path: self.shown(name),
            writable: options.mode != OpenMode::Read,
            direct: options.direct,
        }))
    }

    fn sync(&self) -> Result<()> {
        self.disk.lock().sync_directory(&self.home)
    }

    fn remove(&self, name: &str) -> Result<()> {
        let key = self.key(Operation::Remove, name)?;
        self.disk.lock().remove(&key)
    }

    fn list(&self) -> Result<Vec<DirectoryEntry>> {
        self.disk.lock().list(&self.home)
    }

    fn free_space_bytes(&self) -> Result<u64> {
        let disk = self.disk.lock();
        disk.check_alive(Operation::FreeSpace, &self.path)?;
        Ok(disk.free_bytes())
    }
}

impl Directory for SimulatedDirectory {
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let operation = Operation::Rename;
        let (from, to) = (self.key(operation, from)?, self.key(operation, to)?);
        self.disk.lock().rename(&from, &to)
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        let operation = Operation::Rename;
        let (from, to) = (self.key(operation, from)?, self.key(operation, to)?);
        let mut disk = self.disk.lock();
        if disk.identity_of(&to).is_ok() {
            let source = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(Error::new(operation, &to, source));
        }
        disk.rename(&from, &to)
    }

    fn link(&self, from: &str, target: &dyn Directory, to: &str) -> Result<()> {
        let operation = Operation::Link;
        let from = self.key(operation, from)?;
        let target = target.innermost().downcast_ref::<SimulatedDirectory>();
        let target = target.filter(|target| Arc::ptr_eq(&target.disk, &self.disk));
        let Some(target) = target else {
            let source = io::Error::from(io::ErrorKind::CrossesDevices);
            return Err(Error::new(operation, &from, source));
        };
        let to = target.key(operation, to)?;
        self.disk.lock().link(&from, &to)
    }

    fn lock(&self, name: &str, kind: LockKind) -> Result<Box<dyn Lock>> {
        let key = self.key(Operation::Lock, name)?;
        let inode = self.disk.lock().lock(&key, kind)?;
        Ok(Box::new(SimulatedLock {
            disk: Arc::clone(&self.disk),
            inode,
            path: self.shown(name),
        }))
    }

    fn file_system(&self) -> Result<FileSystem> {
        let disk = self.disk.lock();
        disk.check_alive(Operation::FileSystem, &self.path)?;
        Ok(FileSystem {
            name: "simulated".to_owned(),
            overwrites_in_place: true,
            survives_power_cut: true,
            has_descriptors: false,
        })
    }

    fn identity(&self) -> Result<FileIdentity> {
        self.disk
            .lock()
            .check_alive(Operation::Examine, &self.path)?;
        let mut hasher = DefaultHasher::new();
        self.home.hash(&mut hasher);
        Ok(FileIdentity {
            device: 1,
            inode: hasher.finish(),
        })
    }

    fn identity_of(&self, name: &str) -> Result<FileIdentity> {
        let key = self.key(Operation::Examine, name)?;
        Ok(identity(self.disk.lock().identity_of(&key)?))
    }

    fn is_removed(&self) -> Result<bool> {
        let disk = self.disk.lock();
        disk.check_alive(Operation::Examine, &self.path)?;
        Ok(disk.is_removed(&self.home))
    }

    fn innermost(&self) -> &dyn Any {
        self
    }
}

impl fmt::Debug for SimulatedDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: &Path = &self.path;
        f.debug_tuple("SimulatedDirectory").field(&path).finish()
    }
}
