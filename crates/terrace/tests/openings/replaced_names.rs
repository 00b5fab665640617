//! A storage whose listings miss `CURRENT`, as a listing may that is made while the name is replaced.

use std::path::Path;
use std::sync::Arc;

use terrace_storage::{
    Access, Directory, DirectoryLayer, File, LayeredDirectory, Operation, Result, Storage,
};

const NAME: &str = "CURRENT";
const AWAY: &str = "CURRENT.tmp";

#[derive(Debug)]
pub struct ReplacedNames(pub Arc<dyn Storage>);

#[derive(Clone, Debug)]
struct Layer(Arc<dyn Directory>);

/// The name is away as long as the listing lasts.
struct Listing(Arc<dyn Directory>);

impl Drop for Listing {
    fn drop(&mut self) {
        self.0.rename(AWAY, NAME).unwrap();
    }
}

impl DirectoryLayer for Layer {
    type Call = Option<Listing>;

    fn begin(&self, operation: Operation, _: &Path, _: &[&str]) -> Result<Option<Listing>> {
        let hides = operation == Operation::List && self.0.rename(NAME, AWAY).is_ok();
        Ok(hides.then(|| Listing(Arc::clone(&self.0))))
    }

    fn wrap(&self, file: Arc<dyn File>, _: &Path, _: &str) -> Arc<dyn File> {
        file
    }
}

impl Storage for ReplacedNames {
    fn directory(&self, path: &Path, access: Access) -> Result<Arc<dyn Directory>> {
        let inner = self.0.directory(path, access)?;
        let layer = Layer(Arc::clone(&inner));
        Ok(Arc::new(LayeredDirectory::new(inner, layer)))
    }
    fn create_directory_for(&self, path: &Path, access: Access) -> Result<()> {
        self.0.create_directory_for(path, access)
    }
    fn can_poll(&self) -> bool {
        self.0.can_poll()
    }
    fn boot_id(&self) -> Result<[u8; 16]> {
        self.0.boot_id()
    }
}
