//! A storage that closes tables where no descriptor is left, and tries again.

use std::path::Path;
use std::sync::Arc;

use terrace_lsm::table::{closes_tables_for, sparing};
use terrace_storage::{
    Access, Directory, DirectoryLayer, Error, File, LayeredDirectory, Operation, Result, Storage,
};

/// A storage that closes spare tables when an opening finds no descriptor.
#[derive(Debug)]
pub(crate) struct SparingStorage(pub(crate) Arc<dyn Storage>);

#[derive(Clone, Debug)]
struct SparingLayer;

impl DirectoryLayer for SparingLayer {
    type Call = ();

    fn begin(&self, _: Operation, _: &Path, _: &[&str]) -> Result<()> {
        Ok(())
    }

    fn wrap(&self, file: Arc<dyn File>, _: &Path, _: &str) -> Arc<dyn File> {
        file
    }

    fn tries_again(&self, attempts: usize, error: &Error) -> bool {
        closes_tables_for(attempts, error)
    }
}

impl Storage for SparingStorage {
    fn directory(&self, path: &Path, access: Access) -> Result<Arc<dyn Directory>> {
        let inner = sparing(|| self.0.directory(path, access))?;
        Ok(Arc::new(LayeredDirectory::new(inner, SparingLayer)))
    }

    fn create_directory_for(&self, path: &Path, access: Access) -> Result<()> {
        sparing(|| self.0.create_directory_for(path, access))
    }

    fn can_poll(&self) -> bool {
        self.0.can_poll()
    }

    fn boot_id(&self) -> Result<[u8; 16]> {
        sparing(|| self.0.boot_id())
    }
}
