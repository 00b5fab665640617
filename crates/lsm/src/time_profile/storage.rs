//! System calls as stages of the operation that makes them.

use std::path::Path;
use std::sync::Arc;

use terrace_storage::{
    DirectoryLayer, File, FileCall, FileLayer, LayeredFile, LayeredStorage, Operation, Result,
    Storage,
};

use super::current::Within;
use super::{Stage, stage};

/// Returns a storage whose calls are stages. The innermost layer: waits of outer layers are not its time.
pub fn timed(storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
    Arc::new(LayeredStorage::within(storage, TimedLayer))
}

#[derive(Clone, Copy, Debug)]
struct TimedLayer;

impl FileLayer for TimedLayer {
    /// A lock is no stage: it does not wait.
    type Call = Option<Within>;

    fn begin(&self, call: FileCall) -> Result<Option<Within>> {
        Ok(Some(stage(match call {
            FileCall::Read { .. } | FileCall::StartRead => Stage::ReadCall,
            FileCall::Write { .. } | FileCall::StartWriteBack => Stage::WriteCall,
            FileCall::Sync(_) | FileCall::WriteDurable { .. } => Stage::SyncCall,
            FileCall::Lock => return Ok(None),
            _ => Stage::OtherCall,
        })))
    }
}

impl DirectoryLayer for TimedLayer {
    type Call = Within;

    fn begin(&self, operation: Operation, _: &Path, _: &[&str]) -> Result<Within> {
        Ok(stage(match operation {
            Operation::SyncDirectory => Stage::SyncCall,
            _ => Stage::OtherCall,
        }))
    }

    fn wrap(&self, file: Arc<dyn File>, _: &Path, _: &str) -> Arc<dyn File> {
        Arc::new(LayeredFile::new(file, TimedLayer))
    }
}
