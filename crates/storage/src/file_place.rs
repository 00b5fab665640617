//! A place for whole files: the trait behind a tier.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{DirectoryEntry, File, OpenOptions, Result};

/// A place for whole files that do not change. A file is made once, written from its begin to its end, synced, and then
/// read in ranges until it is removed. Nothing is renamed, linked or locked. So a place need not be a directory of a
/// file system, and a table asks for no more.
///
/// Names are those of a [`Directory`](crate::Directory): each has one component.
///
/// ```
/// use std::path::Path;
/// use terrace_storage::{
///     Access, CrashSwitch, FilePlace, OpenMode, OpenOptions, Purpose, SimulatedStorage, Storage,
/// };
/// let storage = SimulatedStorage::new(1, CrashSwitch::new());
/// storage.create_directory(Path::new("/tables"))?;
/// let place = storage.directory(Path::new("/tables"), Access::Owner)?;
/// let place: &dyn FilePlace = &*place;
///
/// let file = place.open("1.table", OpenOptions::buffered(OpenMode::CreateNew))?;
/// file.write_at(b"entries", 0, Purpose::Flush)?;
/// file.sync(Purpose::Flush)?;
/// place.sync()?;
///
/// let file = place.open("1.table", OpenOptions::buffered(OpenMode::Read))?;
/// assert_eq!(file.read_vec_at(3, 2, Purpose::Read)?, b"tri");
/// place.remove("1.table")?;
/// assert!(place.list()?.is_empty());
/// # Ok::<(), terrace_storage::Error>(())
/// ```
pub trait FilePlace: Send + Sync + fmt::Debug {
    /// Returns the path by which the place was opened, for messages only: another may lie there
    /// by now.
    fn path(&self) -> &Path;
    /// Opens or creates a file.
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>>;
    /// Makes the names in the place durable.
    fn sync(&self) -> Result<()>;
    /// Removes a file's name. Durable after [`FilePlace::sync`].
    fn remove(&self, name: &str) -> Result<()>;
    /// Returns the names in the place, sorted. An entry that cannot be examined is listed all the
    /// same. A name that is made, replaced or removed meanwhile may be missing: ask for that by name.
    fn list(&self) -> Result<Vec<DirectoryEntry>>;
    /// Returns the bytes that an unprivileged writer may still allocate there.
    fn free_space_bytes(&self) -> Result<u64>;

    /// Returns the path that messages show for a name.
    fn shown(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}
