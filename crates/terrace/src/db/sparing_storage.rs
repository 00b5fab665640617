//! A storage that closes tables where no descriptor is left, and tries again.

use std::path::Path;
use std::sync::Arc;

use terrace_lsm::table::closes_tables_for;
use terrace_storage::{DirectoryLayer, Error, File, LayeredStorage, Operation, Result, Storage};

/// Returns a storage that closes spare tables when an opening finds no descriptor.
pub(crate) fn spared(storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
    Arc::new(LayeredStorage::within(storage, SparingLayer))
}

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
