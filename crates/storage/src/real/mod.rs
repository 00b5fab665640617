//! The file systems of the machine, through the kernel.

mod direct;
mod file;
mod file_system;
mod lock;
mod passing;
mod polling;
#[cfg(test)]
mod tests;
mod write_back;

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use self::file::RealFile;
use self::lock::RealLock;
use crate::{
    DirectoryEntry, Error, File, FileSystem, Lock, LockKind, OpenOptions, Operation, Result,
    Storage,
};

/// The file systems of the machine.
///
/// ```
/// # fn main() -> terrace_storage::Result<()> {
/// use terrace_storage::*;
///
/// let directory = tempfile::tempdir().unwrap();
/// let path = directory.path().join("file");
/// let file = RealStorage.open(&path, OpenOptions::direct(OpenMode::CreateNew))?;
/// file.append(b"any length, any offset", Purpose::Other)?;
/// file.sync(Purpose::Other)?;
/// RealStorage.sync_directory(directory.path())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RealStorage;

fn sync_directory(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options
        .read(true)
        .custom_flags(OFlags::DIRECTORY.bits().cast_signed());
    options.open(path)?.sync_all()
}

/// The directory that holds the name of `path`.
fn parent(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    if parent.as_os_str().is_empty() {
        return Some(Path::new("."));
    }
    Some(parent)
}

/// Creates one directory whose parent exists.
///
/// The parent is synced even if the directory is there already: the process that made it may have
/// died before its own sync. A parent that may not be opened is no obstacle then.
fn create_one_directory(path: &Path) -> io::Result<()> {
    let existed = match fs::create_dir(path) {
        Ok(()) => false,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => true,
        Err(error) => return Err(error),
    };
    match parent(path).map_or(Ok(()), sync_directory) {
        Err(error) if existed && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        outcome => outcome,
    }
}

impl Storage for RealStorage {
    fn open(&self, path: &Path, options: OpenOptions) -> Result<Arc<dyn File>> {
        let file = RealFile::open(path, options);
        let file = file.map_err(|source| Error::new(Operation::Open, path, source))?;
        Ok(Arc::new(file))
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        // Where the walk up begins the directory exists, but perhaps not durably.
        let mut pending: Vec<PathBuf> = Vec::new();
        for ancestor in path.ancestors().filter(|path| !path.as_os_str().is_empty()) {
            pending.push(ancestor.to_path_buf());
            if ancestor.is_dir() {
                break;
            }
        }
        while let Some(directory) = pending.pop() {
            create_one_directory(&directory)
                .map_err(|source| Error::new(Operation::CreateDirectory, &directory, source))?;
        }
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        sync_directory(path).map_err(|source| Error::new(Operation::SyncDirectory, path, source))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|source| Error::new(Operation::Rename, from, source))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        fs::hard_link(from, to).map_err(|source| Error::new(Operation::Link, from, source))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|source| Error::new(Operation::Remove, path, source))
    }

    fn list(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        list(path).map_err(|source| Error::new(Operation::List, path, source))
    }

    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn Lock>> {
        let lock = RealLock::take(path, kind);
        let lock = lock.map_err(|source| Error::new(Operation::Lock, path, source))?;
        Ok(Box::new(lock))
    }

    fn free_space_bytes(&self, path: &Path) -> Result<u64> {
        let status = rustix::io::retry_on_intr(|| rustix::fs::statvfs(path))
            .map_err(|errno| Error::new(Operation::FreeSpace, path, errno.into()))?;
        Ok(status.f_bavail.saturating_mul(status.f_frsize))
    }

    fn file_system(&self, path: &Path) -> Result<FileSystem> {
        file_system::of_path(path).map_err(|source| Error::new(Operation::FileSystem, path, source))
    }

    fn can_poll(&self) -> bool {
        polling::is_possible()
    }

    fn boot_id(&self) -> Result<[u8; 16]> {
        let path = Path::new("/proc/sys/kernel/random/boot_id");
        fs::read_to_string(path)
            .and_then(|text| parse_boot_id(&text))
            .map_err(|source| Error::new(Operation::BootId, path, source))
    }
}

fn list(path: &Path) -> io::Result<Vec<DirectoryEntry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let metadata = match fs::metadata(entry.path()) {
            Ok(metadata) => metadata,
            // Removed since the directory was read, or a link that leads nowhere.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let is_directory = metadata.is_dir();
        entries.push(DirectoryEntry {
            name: entry.file_name().to_string_lossy().into_owned(),
            length_bytes: if is_directory { 0 } else { metadata.len() },
            is_directory,
        });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Reads a UUID: 32 hexadecimal digits, with dashes.
fn parse_boot_id(text: &str) -> io::Result<[u8; 16]> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    let is_number = digits.len() == 32 && digits.chars().all(|c| c.is_ascii_hexdigit());
    match u128::from_str_radix(&digits, 16) {
        Ok(number) if is_number => Ok(number.to_be_bytes()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "not a UUID")),
    }
}
