//! Storages side by side, each for the directories below a path.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Access, Directory, Result, Storage};

/// A storage that passes each path on to the storage of its directory: a store on several devices that are
/// emulated, for instance.
///
/// ```
/// # fn main() -> terrace_storage::Result<()> {
/// use std::{path::Path, sync::Arc};
/// use terrace_storage::*;
///
/// let memory = |seed| Arc::new(SimulatedStorage::new(seed, CrashSwitch::new()));
/// let storage = StorageByDirectory::new(memory(1)).with("/slow", memory(2));
/// for path in ["/slow/tables", "/tables"] {
///     storage.create_directory(Path::new(path))?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StorageByDirectory {
    routes: Vec<(PathBuf, Arc<dyn Storage>)>,
    others: Arc<dyn Storage>,
}

impl StorageByDirectory {
    /// Passes all paths on to one storage.
    pub fn new(others: Arc<dyn Storage>) -> Self {
        StorageByDirectory {
            routes: Vec::new(),
            others,
        }
    }

    /// Passes the paths below a directory on to another storage. Of two that hold a path the first one counts.
    #[must_use]
    pub fn with(mut self, directory: impl Into<PathBuf>, storage: Arc<dyn Storage>) -> Self {
        self.routes.push((directory.into(), storage));
        self
    }

    fn of(&self, path: &Path) -> &dyn Storage {
        let mut routes = self.routes.iter();
        let found = routes.find(|(directory, _)| path.starts_with(directory));
        &**found.map_or(&self.others, |(_, storage)| storage)
    }
}

impl Storage for StorageByDirectory {
    fn directory(&self, path: &Path, access: Access) -> Result<Arc<dyn Directory>> {
        self.of(path).directory(path, access)
    }

    fn create_directory_for(&self, path: &Path, access: Access) -> Result<()> {
        self.of(path).create_directory_for(path, access)
    }

    /// Returns whether all of them can.
    fn can_poll(&self) -> bool {
        let mut storages = self.routes.iter().map(|(_, storage)| storage);
        self.others.can_poll() && storages.all(|storage| storage.can_poll())
    }

    fn boot_id(&self) -> Result<[u8; 16]> {
        self.others.boot_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CrashSwitch, SimulatedStorage};

    #[test]
    fn a_path_goes_to_the_storage_of_its_directory() {
        let [others, slow] = [1, 2].map(|seed| SimulatedStorage::new(seed, CrashSwitch::new()));
        let storage =
            StorageByDirectory::new(Arc::new(others.clone())).with("/slow", Arc::new(slow.clone()));
        for path in ["/slow/tables", "/slower"] {
            storage.create_directory(Path::new(path)).unwrap();
        }
        let has = |storage: &SimulatedStorage, path: &str| {
            storage.directory(Path::new(path), Access::Owner).is_ok()
        };
        assert!(has(&slow, "/slow/tables") && !has(&slow, "/slower"));
        assert!(has(&others, "/slower") && !has(&others, "/slow/tables"));
    }
}
