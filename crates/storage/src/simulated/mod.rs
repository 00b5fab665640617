//! A file system in memory that crashes.
//!
//! Goal: from a seed, this reaches every state in which a real file system may be found after the
//! death of a process or a power cut, and none that POSIX forbids. It keeps apart:
//!
//! - *written* and *durable*: a write is at once visible to every reader and survives a kill, but
//!   only a sync takes it beyond a power cut. Until then any of its sectors may be lost alone, and
//!   the file's length may fall back on its own.
//! - *synced* and *durable*: a sync that failed may have lost pages that later syncs believe to be there.
//! - *the file* and *its name*: syncing a file does not make its name durable, syncing a directory
//!   does not make the contents of its files durable.
//! - *names among each other*: changes of different names survive independently of their order;
//!   changes of one name only in order. A rename is whole or absent, in both directories.
//!
//! It is stricter than ext4 or xfs, whose journals keep the order of all names: a store that is
//! right here depends on no such favour.

mod content;
mod crash;
mod directory;
mod disk;
mod file;
#[cfg(test)]
mod legality_tests;
mod names;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

pub use crash::CrashKind;

use self::directory::SimulatedDirectory;
use self::disk::Disk;
use self::names::normalise;
use crate::{Access, CrashSwitch, Directory, Operation, Result, Storage};

/// The size of a disk for which no other is set.
const DEFAULT_CAPACITY_BYTES: u64 = 1 << 30;

/// A file system in memory, deterministic from a seed, that can lose power. Clones share it.
///
/// ```
/// # fn main() -> terrace_storage::Result<()> {
/// use std::path::Path;
/// use terrace_storage::*;
///
/// let storage = SimulatedStorage::new(1, CrashSwitch::new());
/// let path = Path::new("/data/file");
/// storage.create_directory(Path::new("/data"))?;
/// let file = storage.open(path, OpenOptions::buffered(OpenMode::CreateNew))?;
/// file.append(b"kept", Purpose::Other)?;
/// file.sync(Purpose::Other)?;
/// storage.sync_directory(Path::new("/data"))?;
///
/// let storage = storage.crash(CrashKind::PowerCut, 2, CrashSwitch::new());
/// let file = storage.open(path, OpenOptions::buffered(OpenMode::Read))?;
/// assert_eq!(file.length_bytes()?, 4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SimulatedStorage {
    disk: Arc<Mutex<Disk>>,
}

impl SimulatedStorage {
    /// Returns an empty file system of 1 GiB.
    pub fn new(seed: u64, switch: CrashSwitch) -> Self {
        Self::from_disk(Disk::new(seed, DEFAULT_CAPACITY_BYTES, switch))
    }

    fn from_disk(disk: Disk) -> Self {
        SimulatedStorage {
            disk: Arc::new(Mutex::new(disk)),
        }
    }

    /// Returns the storage that the next process finds if the machine dies now. All locks are gone.
    ///
    /// This storage stays as it is: a test may call this at many points of one run. A test that has
    /// threads at work freezes the switch first, so that files and memory stop at one moment.
    pub fn crash(&self, kind: CrashKind, seed: u64, switch: CrashSwitch) -> SimulatedStorage {
        Self::from_disk(self.disk.lock().after_crash(kind, seed, switch))
    }

    /// Sets the size of the disk; it may be less than the bytes in use.
    pub fn set_capacity_bytes(&self, capacity_bytes: u64) {
        self.disk.lock().capacity_bytes = capacity_bytes;
    }

    /// Returns the size of the disk.
    pub fn capacity_bytes(&self) -> u64 {
        self.disk.lock().capacity_bytes
    }

    /// Loses the writes to a file since its last sync, like a kernel that cannot write pages back
    /// and takes them for clean. Reads still see them, and later syncs leave them where they are. A
    /// page that is written again is whole.
    pub fn lose_unsynced(&self, path: &Path) -> Result<()> {
        self.disk.lock().lose_unsynced(&normalise(path))
    }

    /// Renames a directory, with everything in it, to a path where none is. Directories that are open
    /// stay open. Durable at once.
    pub fn rename_directory(&self, from: &Path, to: &Path) -> Result<()> {
        let to = normalise(to);
        self.disk.lock().move_directory(&normalise(from), Some(&to))
    }

    /// Removes a directory with the names in it. Files that are open stay open. Durable at once.
    pub fn remove_directory(&self, path: &Path) -> Result<()> {
        self.disk.lock().move_directory(&normalise(path), None)
    }
}

impl Storage for SimulatedStorage {
    fn directory(&self, path: &Path, _access: Access) -> Result<Arc<dyn Directory>> {
        let home = self.disk.lock().directory(&normalise(path))?;
        Ok(Arc::new(SimulatedDirectory {
            disk: Arc::clone(&self.disk),
            home,
            path: path.to_path_buf(),
        }))
    }

    fn create_directory_for(&self, path: &Path, _access: Access) -> Result<()> {
        self.disk.lock().create_directory(&normalise(path))
    }

    fn can_poll(&self) -> bool {
        false
    }

    fn boot_id(&self) -> Result<[u8; 16]> {
        let disk = self.disk.lock();
        disk.check_alive(Operation::BootId, Path::new("simulated"))?;
        Ok(disk.boot_id())
    }
}

impl fmt::Debug for SimulatedStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedStorage").finish_non_exhaustive()
    }
}
