//! The space of an emulated device.
//!
//! The storage below may hold the files of several devices, so its free space says nothing about one. The
//! space counts the files in the directories that were opened through the device: each once, up to its
//! length or its reserved end. A count begins with a look at all of them. After that it rises with each
//! write, and a look follows only when it reaches the capacity: removed files are found then.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Access, FileIdentity, Storage};

/// The bytes that files may take, and those that they take.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// `None`: as much as the storage below has, and nothing is counted.
    capacity_bytes: Option<u64>,
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    directories: Vec<(Arc<dyn Storage>, PathBuf)>,
    /// Ends up to which files have space.
    ends: HashMap<FileIdentity, u64>,
    /// Bytes of all files, or more; `None` before a look.
    used_bytes: Option<u64>,
}

impl Space {
    /// Returns an empty space.
    pub(super) fn new(capacity_bytes: u64) -> Self {
        Space {
            capacity_bytes: Some(capacity_bytes),
            files: Mutex::new(Files::default()),
        }
    }

    /// Adds the files of a directory.
    pub(super) fn add(&self, storage: &Arc<dyn Storage>, directory: &Path) {
        if self.capacity_bytes.is_none() {
            return;
        }
        let mut files = self.files.lock();
        let is_known = files
            .directories
            .iter()
            .any(|(known, path)| Arc::ptr_eq(known, storage) && path == directory);
        if !is_known {
            let entry = (Arc::clone(storage), directory.to_path_buf());
            files.directories.push(entry);
            files.used_bytes = None;
        }
    }

    /// Returns the identity of a file, if the space is bounded.
    pub(super) fn identity(
        &self,
        storage: &Arc<dyn Storage>,
        directory: &Path,
        name: &str,
    ) -> Option<FileIdentity> {
        self.capacity_bytes?;
        let directory = storage.directory(directory, Access::Owner).ok()?;
        directory.identity_of(name).ok()
    }

    /// Takes space for a file of some length up to an end.
    ///
    /// # Errors
    /// `StorageFull` if there is not enough.
    pub(super) fn reserve(
        &self,
        file: FileIdentity,
        length_bytes: u64,
        end_bytes: u64,
    ) -> io::Result<()> {
        let Some(capacity_bytes) = self.capacity_bytes else {
            return Ok(());
        };
        let mut files = self.files.lock();
        let held_bytes = files.end(file).max(length_bytes);
        let more_bytes = end_bytes.saturating_sub(held_bytes);
        if more_bytes == 0 {
            return Ok(());
        }
        let mut used_bytes = files.used_bytes.unwrap_or(u64::MAX);
        if used_bytes.saturating_add(more_bytes) > capacity_bytes {
            used_bytes = files.look();
        }
        let used_bytes = used_bytes.saturating_add(more_bytes);
        if used_bytes > capacity_bytes {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        files.used_bytes = Some(used_bytes);
        files.ends.insert(file, end_bytes);
        Ok(())
    }

    /// Gives the space behind a file's new end back.
    pub(super) fn cut(&self, file: FileIdentity, length_bytes: u64) {
        if self.capacity_bytes.is_some() {
            let mut files = self.files.lock();
            let end_bytes = files.end(file).min(length_bytes);
            files.ends.insert(file, end_bytes);
        }
    }

    /// Returns the bytes that may still be taken, of those that the storage below has.
    pub(super) fn free_bytes(&self, below: u64) -> u64 {
        let Some(capacity_bytes) = self.capacity_bytes else {
            return below;
        };
        below.min(capacity_bytes.saturating_sub(self.files.lock().look()))
    }
}

impl Files {
    fn end(&self, file: FileIdentity) -> u64 {
        self.ends.get(&file).copied().unwrap_or(0)
    }

    /// Counts the bytes of all files. Those of a directory that cannot be read are none.
    fn look(&mut self) -> u64 {
        let mut seen = HashSet::new();
        let mut used_bytes: u64 = 0;
        for (storage, path) in &self.directories {
            let Ok(directory) = storage.directory(path, Access::Owner) else {
                continue;
            };
            for entry in directory.list().unwrap_or_default() {
                let Ok(file) = directory.identity_of(&entry.name) else {
                    continue;
                };
                if !entry.is_directory && seen.insert(file) {
                    let held_bytes = self.end(file).max(entry.length_bytes);
                    used_bytes = used_bytes.saturating_add(held_bytes);
                }
            }
        }
        self.ends.retain(|file, _| seen.contains(file));
        self.used_bytes = Some(used_bytes);
        used_bytes
    }
}
