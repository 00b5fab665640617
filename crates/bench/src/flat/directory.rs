//! The one directory.

use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_storage::{
    Directory, DirectoryEntry, Error, File, FileIdentity, FilePlace, FileSystem, Lock, LockKind,
    OpenMode, OpenOptions, Operation, Result,
};

use super::disk::{CHUNK_BYTES, Disk};
use super::file::FlatFile;
use super::lock::{FlatLock, identity};
use super::state::State;

/// The longest name, as file systems of the kernel have it.
const MAX_NAME_BYTES: usize = 255;

/// The directory of a device.
#[derive(Debug)]
pub struct FlatDirectory {
    disk: Arc<Disk>,
    path: PathBuf,
}

impl FlatDirectory {
    /// Opens it under a path.
    pub fn new(disk: Arc<Disk>, path: PathBuf) -> Self {
        FlatDirectory { disk, path }
    }

    fn error(&self, operation: Operation, name: &str, kind: io::ErrorKind) -> Error {
        Error::new(operation, &self.path.join(name), kind.into())
    }

    /// Checks that a name has one component.
    fn check(&self, operation: Operation, name: &str) -> Result<()> {
        let is_name = !matches!(name, "" | "." | "..")
            && !name.contains(['/', '\0'])
            && name.len() <= MAX_NAME_BYTES;
        match is_name {
            true => Ok(()),
            false => Err(self.error(operation, name, io::ErrorKind::InvalidInput)),
        }
    }

    fn find(&self, state: &State, operation: Operation, name: &str) -> Result<u64> {
        self.check(operation, name)?;
        let found = state.names.get(name).copied();
        found.ok_or_else(|| self.error(operation, name, io::ErrorKind::NotFound))
    }
}

impl FilePlace for FlatDirectory {
    fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        self.check(Operation::Open, name)?;
        let mut state = self.disk.state();
        let file = match (state.names.get(name).copied(), options.mode) {
            (Some(_), OpenMode::CreateNew) => {
                return Err(self.error(Operation::Open, name, io::ErrorKind::AlreadyExists));
            }
            (None, OpenMode::CreateNew) => state.create(name),
            _ => self.find(&state, Operation::Open, name)?,
        };
        if let Some(node) = state.files.get_mut(&file) {
            node.handles += 1;
        }
        drop(state);
        Ok(Arc::new(FlatFile::new(
            Arc::clone(&self.disk),
            file,
            self.path.join(name),
            options.mode != OpenMode::Read,
            options.direct,
        )))
    }

    fn sync(&self) -> Result<()> {
        let committed = self.disk.commit_names();
        committed.map_err(|source| Error::new(Operation::SyncDirectory, &self.path, source))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut state = self.disk.state();
        self.find(&state, Operation::Remove, name)?;
        state.remove_name(name);
        Ok(())
    }

    fn list(&self) -> Result<Vec<DirectoryEntry>> {
        let state = self.disk.state();
        let entries = state.names.iter().map(|(name, file)| DirectoryEntry {
            name: name.clone(),
            length_bytes: state.files.get(file).map_or(0, |node| node.length),
            is_directory: false,
        });
        Ok(entries.collect())
    }

    fn free_space_bytes(&self) -> Result<u64> {
        Ok(self.disk.state().space.available() * CHUNK_BYTES)
    }
}

impl Directory for FlatDirectory {
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut state = self.disk.state();
        let file = self.find(&state, Operation::Rename, from)?;
        self.check(Operation::Rename, to)?;
        // Two names of one file stay, as POSIX has it.
        if state.names.get(to) != Some(&file) {
            state.name(to, file);
            state.remove_name(from);
        }
        Ok(())
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        let mut state = self.disk.state();
        let file = self.find(&state, Operation::Rename, from)?;
        self.check(Operation::Rename, to)?;
        if state.names.contains_key(to) {
            return Err(self.error(Operation::Rename, to, io::ErrorKind::AlreadyExists));
        }
        state.name(to, file);
        state.remove_name(from);
        Ok(())
    }

    fn link(&self, from: &str, target: &dyn Directory, to: &str) -> Result<()> {
        let target = target.innermost().downcast_ref::<FlatDirectory>();
        let mut state = self.disk.state();
        let file = self.find(&state, Operation::Link, from)?;
        if target.is_none_or(|target| !Arc::ptr_eq(&target.disk, &self.disk)) {
            return Err(self.error(Operation::Link, from, io::ErrorKind::CrossesDevices));
        }
        self.check(Operation::Link, to)?;
        if state.names.contains_key(to) {
            return Err(self.error(Operation::Link, to, io::ErrorKind::AlreadyExists));
        }
        state.name(to, file);
        Ok(())
    }

    fn lock(&self, name: &str, kind: LockKind) -> Result<Box<dyn Lock>> {
        self.check(Operation::Lock, name)?;
        let mut state = self.disk.state();
        let file = match (state.names.get(name).copied(), kind) {
            (Some(file), _) => file,
            (None, LockKind::Exclusive) => state.create(name),
            (None, LockKind::Shared) => {
                return Err(self.error(Operation::Lock, name, io::ErrorKind::NotFound));
            }
        };
        drop(state);
        let lock = FlatLock::take(&self.disk, file, kind);
        let named = |source| Error::new(Operation::Lock, &self.path.join(name), source);
        Ok(Box::new(lock.map_err(named)?))
    }

    fn file_system(&self) -> Result<FileSystem> {
        Ok(FileSystem {
            name: "flat files on blocks".to_owned(),
            overwrites_in_place: true,
            survives_power_cut: true,
            has_descriptors: false,
        })
    }

    fn identity(&self) -> Result<FileIdentity> {
        Ok(identity(0))
    }

    fn identity_of(&self, name: &str) -> Result<FileIdentity> {
        let state = self.disk.state();
        Ok(identity(self.find(&state, Operation::Examine, name)?))
    }

    fn is_removed(&self) -> Result<bool> {
        Ok(false)
    }

    fn innermost(&self) -> &dyn Any {
        self
    }
}
