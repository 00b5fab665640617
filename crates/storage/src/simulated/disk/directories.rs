//! The names of a disk, and changes of them.

use std::io;
use std::path::{Path, PathBuf};

use super::{Disk, error};
use crate::simulated::names::{Change, InodeNumber};
use crate::{DirectoryEntry, Error, Operation, Result};

impl Disk {
    /// Returns the error of a directory's path that leads to nothing, or on through a file.
    fn missing(&self, operation: Operation, path: &Path) -> Error {
        let is_file = |path: &Path| {
            let key = self.names.key(path);
            key.is_some_and(|key| self.names.inode(&key).is_some())
        };
        let kind = if path.ancestors().any(is_file) {
            io::ErrorKind::NotADirectory
        } else {
            io::ErrorKind::NotFound
        };
        error(operation, path, kind)
    }

    /// Returns the home of the directory at a path.
    pub(in crate::simulated) fn directory(&self, path: &Path) -> Result<PathBuf> {
        let operation = Operation::OpenDirectory;
        self.check_alive(operation, path)?;
        let home = self.names.home(path);
        home.ok_or_else(|| self.missing(operation, path))
    }

    /// Fails if a directory was removed.
    pub(in crate::simulated) fn check_directory(
        &self,
        operation: Operation,
        home: &Path,
    ) -> Result<()> {
        if self.names.path_of(home).is_some() {
            return Ok(());
        }
        Err(error(operation, home, io::ErrorKind::NotFound))
    }

    pub(in crate::simulated) fn is_removed(&self, home: &Path) -> bool {
        self.names.path_of(home).is_none()
    }

    /// Fails unless a file may get this name: its directory exists, and it is not itself one.
    pub(super) fn check_new_name(&self, operation: Operation, path: &Path) -> Result<()> {
        if self.names.is_directory(path) {
            return Err(error(operation, path, io::ErrorKind::AlreadyExists));
        }
        self.check_parent(operation, path)
    }

    fn check_parent(&self, operation: Operation, path: &Path) -> Result<()> {
        self.check_directory(operation, path.parent().unwrap_or(Path::new("/")))
    }

    pub(super) fn existing(&self, operation: Operation, path: &Path) -> Result<InodeNumber> {
        if self.names.is_directory(path) {
            return Err(error(operation, path, io::ErrorKind::IsADirectory));
        }
        self.check_parent(operation, path)?;
        let inode = self.names.inode(path);
        inode.ok_or_else(|| error(operation, path, io::ErrorKind::NotFound))
    }

    pub(in crate::simulated) fn create_directory(&mut self, path: &Path) -> Result<()> {
        let operation = Operation::CreateDirectory;
        self.check_alive(operation, path)?;
        let mut missing: Vec<PathBuf> = path
            .ancestors()
            .take_while(|ancestor| self.names.home(ancestor).is_none())
            .map(Path::to_path_buf)
            .collect();
        while let Some(directory) = missing.pop() {
            let key = self.names.key(&directory);
            if key.is_some_and(|key| self.names.inode(&key).is_some()) {
                return Err(error(operation, &directory, io::ErrorKind::AlreadyExists));
            }
            self.step(operation, &directory)?;
            self.names.add_directory(&directory);
        }
        Ok(())
    }

    pub(in crate::simulated) fn sync_directory(&mut self, path: &Path) -> Result<()> {
        let operation = Operation::SyncDirectory;
        self.check_alive(operation, path)?;
        self.check_directory(operation, path)?;
        self.step(operation, path)?;
        self.names.sync_directory(path);
        self.discard_unreachable();
        Ok(())
    }

    /// Renames a directory to a free path, or removes it; both take its files with them.
    pub(in crate::simulated) fn move_directory(
        &mut self,
        from: &Path,
        to: Option<&Path>,
    ) -> Result<()> {
        let operation = Operation::Rename;
        self.check_alive(operation, from)?;
        if self.names.home(from).is_none() {
            return Err(self.missing(operation, from));
        }
        match to {
            Some(to) if self.names.home(to).is_some() => {
                return Err(error(operation, to, io::ErrorKind::AlreadyExists));
            }
            Some(to) => self.names.rename_directory(from, to),
            None => self.names.remove_directory(from),
        }
        Ok(())
    }

    pub(in crate::simulated) fn rename(&mut self, from: &Path, to: &Path) -> Result<()> {
        let operation = Operation::Rename;
        self.check_alive(operation, from)?;
        for path in [from, to] {
            self.check_parent(operation, path)?;
        }
        let number = self.existing(operation, from)?;
        if self.names.is_directory(to) {
            return Err(error(operation, to, io::ErrorKind::IsADirectory));
        }
        let replaced = self.names.inode(to);
        if replaced == Some(number) {
            // Two names of one file: POSIX asks that nothing happen.
            return Ok(());
        }
        self.step(operation, from)?;
        if let Some(replaced) = replaced {
            self.inode_mut(replaced, operation, to)?.names -= 1;
        }
        self.names.change(Change::Rename {
            from: from.to_path_buf(),
            to: to.to_path_buf(),
        });
        self.discard_unreachable();
        Ok(())
    }

    pub(in crate::simulated) fn link(&mut self, from: &Path, to: &Path) -> Result<()> {
        let operation = Operation::Link;
        self.check_alive(operation, from)?;
        let inode = self.existing(operation, from)?;
        self.check_new_name(operation, to)?;
        if self.names.inode(to).is_some() {
            return Err(error(operation, to, io::ErrorKind::AlreadyExists));
        }
        self.step(operation, from)?;
        self.inode_mut(inode, operation, from)?.names += 1;
        self.names.change(Change::Add {
            path: to.to_path_buf(),
            inode,
        });
        Ok(())
    }

    pub(in crate::simulated) fn remove(&mut self, path: &Path) -> Result<()> {
        let operation = Operation::Remove;
        self.check_alive(operation, path)?;
        let number = self.existing(operation, path)?;
        self.step(operation, path)?;
        self.inode_mut(number, operation, path)?.names -= 1;
        self.names.change(Change::Remove {
            path: path.to_path_buf(),
        });
        self.discard_unreachable();
        Ok(())
    }

    /// Returns the inode of a file, or a number of its own for a directory.
    pub(in crate::simulated) fn identity_of(&self, path: &Path) -> Result<InodeNumber> {
        self.check_alive(Operation::Examine, path)?;
        self.existing(Operation::Examine, path)
    }

    pub(in crate::simulated) fn list(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        self.check_alive(Operation::List, path)?;
        self.check_directory(Operation::List, path)?;
        let name = |path: &Path| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        let mut entries = Vec::new();
        for (file, number) in self.names.files(path) {
            entries.push(DirectoryEntry {
                name: name(file),
                length_bytes: self.length_bytes(number, file)?,
                is_directory: false,
            });
        }
        entries.extend(
            self.names
                .subdirectories(path)
                .map(|directory| DirectoryEntry {
                    name: name(directory),
                    length_bytes: 0,
                    is_directory: true,
                }),
        );
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
}
