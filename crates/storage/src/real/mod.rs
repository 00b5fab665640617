//! The file systems of the machine, through the kernel.

mod direct;
mod directory;
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
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use self::directory::RealDirectory;
use crate::{Access, Directory, Error, Operation, Result, Storage};

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

/// Returns the directory that holds the name of `path`.
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
fn create_one_directory(path: &Path, access: Access) -> io::Result<()> {
    let created = fs::DirBuilder::new()
        .mode(access.directory_mode())
        .create(path);
    let existed = match created {
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
    fn directory(&self, path: &Path, access: Access) -> Result<Arc<dyn Directory>> {
        let directory = RealDirectory::open(path, access)
            .map_err(|source| Error::new(Operation::OpenDirectory, path, source))?;
        Ok(Arc::new(directory))
    }

    fn create_directory_for(&self, path: &Path, access: Access) -> Result<()> {
        // Where the walk up begins the directory exists, but perhaps not durably.
        let mut pending: Vec<PathBuf> = Vec::new();
        for ancestor in path.ancestors().filter(|path| !path.as_os_str().is_empty()) {
            pending.push(ancestor.to_path_buf());
            if ancestor.is_dir() {
                break;
            }
        }
        while let Some(directory) = pending.pop() {
            create_one_directory(&directory, access)
                .map_err(|source| Error::new(Operation::CreateDirectory, &directory, source))?;
        }
        Ok(())
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

/// Reads a UUID: 32 hexadecimal digits, with dashes.
fn parse_boot_id(text: &str) -> io::Result<[u8; 16]> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    let is_number = digits.len() == 32 && digits.chars().all(|c| c.is_ascii_hexdigit());
    match u128::from_str_radix(&digits, 16) {
        Ok(number) if is_number => Ok(number.to_be_bytes()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "not a UUID")),
    }
}
