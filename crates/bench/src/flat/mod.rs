//! Files on a device of blocks: one directory, in chunks of a fixed size.
//!
//! It stands for the file system of a host that has a remote device, so that a store of
//! `terrace` can live on a namespace of blocks. Nothing is cached but the last block of a file: each
//! write is a write of the device when it returns, and each sync a flush.
//!
//! - [`blocks`]: the device
//! - `table`: the names, lengths and chunks, as bytes
//! - `space`: chunks that are free, and those that are free after the next flush
//! - `state`: the files of a mounted device; `disk`: the device, and commits of its table
//! - `directory`, `file`, `lock`: the traits of `terrace_storage`

pub mod blocks;
mod directory;
mod disk;
mod file;
mod lock;
mod space;
mod state;
mod table;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_storage::{Access, Directory, Error, Operation, RealStorage, Result, Storage};

use self::blocks::Blocks;
use self::directory::FlatDirectory;
use self::disk::Disk;

/// A device of blocks with one directory of files.
#[derive(Clone, Debug)]
pub struct FlatStorage {
    disk: Arc<Disk>,
    /// The only directory.
    path: PathBuf,
}

impl FlatStorage {
    /// Makes an empty directory on a device. The former contents are gone.
    ///
    /// # Errors
    /// The device is too small, or fails.
    pub fn format(blocks: Arc<dyn Blocks>, path: &Path) -> io::Result<Self> {
        Ok(FlatStorage {
            disk: Arc::new(Disk::format(blocks)?),
            path: path.to_owned(),
        })
    }

    /// Opens the directory that a device has, under a path of the caller's choice.
    ///
    /// # Errors
    /// The device has none, or fails.
    pub fn mount(blocks: Arc<dyn Blocks>, path: &Path) -> io::Result<Self> {
        Ok(FlatStorage {
            disk: Arc::new(Disk::mount(blocks)?),
            path: path.to_owned(),
        })
    }
}

impl Storage for FlatStorage {
    fn directory(&self, path: &Path, _access: Access) -> Result<Arc<dyn Directory>> {
        if path != self.path {
            let source = io::Error::from(io::ErrorKind::NotFound);
            return Err(Error::new(Operation::OpenDirectory, path, source));
        }
        let directory = FlatDirectory::new(Arc::clone(&self.disk), path.to_owned());
        Ok(Arc::new(directory))
    }

    fn create_directory_for(&self, path: &Path, _access: Access) -> Result<()> {
        if path == self.path {
            return Ok(());
        }
        let source = io::Error::from(io::ErrorKind::Unsupported);
        Err(Error::new(Operation::CreateDirectory, path, source))
    }

    fn can_poll(&self) -> bool {
        false
    }

    /// Returns the machine's: a write that has returned is with the device, which outlives this process.
    fn boot_id(&self) -> Result<[u8; 16]> {
        RealStorage.boot_id()
    }
}
