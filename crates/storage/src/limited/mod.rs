//! A storage whose background writes keep to a rate.
//!
//! A store without a limit does not have this layer, and pays nothing for it.

mod bucket;
mod clock;
mod limiter;

pub use clock::{Clock, SystemClock};
pub use limiter::RateLimiter;

use std::path::Path;
use std::sync::Arc;

use crate::layered::{DirectoryLayer, LayeredStorage};
use crate::layered_file::{FileCall, FileLayer, LayeredFile};
use crate::{File, Operation, Result, Storage};

/// A storage on which each write asks a [`RateLimiter`] first. Reads and syncs do not.
pub type LimitedStorage = LayeredStorage<LimitedLayer>;

impl LimitedStorage {
    /// Limits the writes to `inner`.
    pub fn new(inner: Arc<dyn Storage>, limiter: Arc<RateLimiter>) -> Self {
        LayeredStorage::within(inner, LimitedLayer(limiter))
    }
}

/// The layer of a [`LimitedStorage`].
#[derive(Clone, Debug)]
pub struct LimitedLayer(Arc<RateLimiter>);

impl FileLayer for LimitedLayer {
    type Call = ();

    fn begin(&self, call: FileCall) -> Result<()> {
        if let FileCall::Write { bytes, purpose, .. }
        | FileCall::WriteDurable { bytes, purpose, .. } = call
        {
            self.0.pass(bytes as u64, purpose);
        }
        Ok(())
    }
}

impl DirectoryLayer for LimitedLayer {
    type Call = ();

    fn begin(&self, _: Operation, _: &Path, _: &[&str]) -> Result<()> {
        Ok(())
    }

    fn wrap(&self, file: Arc<dyn File>, _: &Path, _: &str) -> Arc<dyn File> {
        Arc::new(LayeredFile::new(file, self.clone()))
    }
}

#[cfg(test)]
mod tests;
