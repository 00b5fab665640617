//! The file that a measurement writes, and its removal.

use std::process;
use std::sync::Arc;

use terrace_storage::{Directory, ErrorKind, File, OpenMode, OpenOptions};

use super::content::{Content, PAGE_BYTES};
use super::error::{Error, Result};

/// A file that is removed when it goes out of scope, also by an error or a panic.
///
/// Its name stays until then, although a file without a name would vanish even if the process is killed:
/// btrfs writes no log for a file without a name, and so its syncs would be too quick.
pub(super) struct ProbeFile {
    directory: Arc<dyn Directory>,
    name: String,
    file: Arc<dyn File>,
    is_named: bool,
}

impl ProbeFile {
    /// Makes the file.
    ///
    /// # Errors
    /// [`Error::Occupied`] if there is one of this name: only files that this call makes are removed.
    pub(super) fn create(directory: Arc<dyn Directory>) -> Result<ProbeFile> {
        let name = name();
        match directory.open(&name, OpenOptions::direct(OpenMode::CreateNew)) {
            Ok(file) => Ok(ProbeFile {
                directory,
                name,
                file,
                is_named: true,
            }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Error::Occupied {
                path: directory.shown(&name),
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the open file.
    pub(super) fn file(&self) -> &dyn File {
        &*self.file
    }

    /// Refuses bytes from a page on that are not those that were written.
    pub(super) fn check(&self, content: Content, bytes: &[u8], first_page: u64) -> Result<()> {
        match content.first_wrong_page(bytes, first_page) {
            None => Ok(()),
            Some(page) => Err(Error::WrongBytes {
                path: self.directory.shown(&self.name),
                offset_bytes: page * PAGE_BYTES as u64,
            }),
        }
    }

    /// Removes the file.
    ///
    /// # Errors
    /// That of the first attempt. A second one follows.
    pub(super) fn remove(mut self) -> Result<()> {
        self.directory.remove(&self.name)?;
        self.is_named = false;
        Ok(())
    }
}

impl Drop for ProbeFile {
    fn drop(&mut self) {
        if self.is_named {
            // The cause of the early end is the error that counts.
            let _ = self.directory.remove(&self.name);
        }
    }
}

/// Returns the file's name, which no file of a store has.
pub(super) fn name() -> String {
    format!("terrace-probe-{}.tmp", process::id())
}
