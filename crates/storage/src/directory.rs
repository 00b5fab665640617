//! An open directory: the seam between a store and the names of its files.
//!
//! Each call resolves a path again, and may reach another file each time. An open directory stays
//! the one that was opened, though it is renamed or another takes its place. So an owner opens its
//! directory once and reaches every file by a name of one component.

use std::any::Any;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use crate::{Error, FilePlace, FileSystem, Lock, LockKind, Operation, Result};

/// Users that may open the files and directories that are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Access {
    /// The owner only: files have mode 0600, directories 0700.
    #[default]
    Owner,
    /// Those that the process's umask admits: files have mode 0666, directories 0777, less the umask.
    Umask,
}

impl Access {
    /// Returns the mode of a new file, before the umask.
    pub const fn file_mode(self) -> u32 {
        match self {
            Access::Owner => 0o600,
            Access::Umask => 0o666,
        }
    }

    /// Returns the mode of a new directory, before the umask.
    pub const fn directory_mode(self) -> u32 {
        match self {
            Access::Owner => 0o700,
            Access::Umask => 0o777,
        }
    }
}

/// Identity of a file or directory under all its names. A number may be given again once the file
/// is gone and closed by all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Number of the file system.
    pub device: u64,
    /// Number of the inode in it.
    pub inode: u64,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The file's name, without its directory.
    pub name: String,
    /// Length of a regular file in bytes; 0 for anything else, and for an entry that cannot be examined.
    pub length_bytes: u64,
    /// Whether it is a directory. A symbolic link is none.
    pub is_directory: bool,
}

impl DirectoryEntry {
    /// Returns whether the entry is the file system's own: an ext4 or XFS has `lost+found` at its root.
    /// A directory with nothing but it is an empty one.
    pub fn is_of_file_system(&self) -> bool {
        self.is_directory && self.name == "lost+found"
    }
}

/// An open directory. Every name has one component: it is not empty, `.` or `..`, and holds neither
/// `/` nor NUL; any other is [`ErrorKind::Other`](crate::ErrorKind::Other).
///
/// Symbolic links are never followed, and only regular files are opened:
/// [`ErrorKind::NotAFile`](crate::ErrorKind::NotAFile) tells of anything else under a name.
pub trait Directory: FilePlace {
    /// Renames a file, atomically replacing an existing one. Durable after [`FilePlace::sync`].
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Renames a file to a name that is free. Durable after [`FilePlace::sync`].
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`](crate::ErrorKind::AlreadyExists) if there is such a name.
    fn rename_new(&self, from: &str, to: &str) -> Result<()>;
    /// Gives a file a second name, in this directory or another. Durable after a sync of `target`.
    fn link(&self, from: &str, target: &dyn Directory, to: &str) -> Result<()>;
    /// Takes a lock on a file, without waiting. An exclusive one creates the file if it is absent; a
    /// shared one writes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) for a shared lock on an absent file.
    /// [`ErrorKind::Locked`](crate::ErrorKind::Locked) if another holder conflicts.
    fn lock(&self, name: &str, kind: LockKind) -> Result<Box<dyn Lock>>;
    /// Returns the file system that holds the directory.
    fn file_system(&self) -> Result<FileSystem>;
    /// Returns the directory's own identity.
    fn identity(&self) -> Result<FileIdentity>;
    /// Returns the identity of the file, or the link, under a name.
    fn identity_of(&self, name: &str) -> Result<FileIdentity>;
    /// Returns whether the directory was removed (its link count is 0): nothing made in it can be
    /// found again.
    fn is_removed(&self) -> Result<bool>;
    /// Returns the kernel's descriptor; `None` where the directory is not the kernel's.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Returns the directory below all layers, so that [`Directory::link`] can tell its kind.
    fn innermost(&self) -> &dyn Any;
}

/// Checks that a name has one component.
pub(crate) fn check_name(operation: Operation, directory: &Path, name: &str) -> Result<()> {
    let is_component = !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']);
    if is_component {
        return Ok(());
    }
    let source = io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{name:?} is no name of one component"),
    );
    Err(Error::new(operation, directory, source))
}

/// Returns the directory of a path, and the name in it.
pub(crate) fn split(operation: Operation, path: &Path) -> Result<(&Path, &str)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name else {
        let source = io::Error::new(
            io::ErrorKind::InvalidInput,
            "it does not end in a file's name",
        );
        return Err(Error::new(operation, path, source));
    };
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => Ok((parent, name)),
        _ => Ok((Path::new("."), name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_component() {
        let check = |name| check_name(Operation::Open, Path::new("/d"), name);
        for name in ["a", "a.b", "...", "arena-1", "a b", "é"] {
            check(name).unwrap();
        }
        for name in ["", ".", "..", "/", "a/b", "/a", "a/", "../a", "a\0b"] {
            check(name).unwrap_err();
        }
    }
}
