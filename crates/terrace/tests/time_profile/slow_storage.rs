//! A disk that takes its time, for one purpose.

use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use terrace_storage::{
    DirectoryLayer, File, FileCall, FileLayer, LayeredFile, LayeredStorage, Operation, Purpose,
    Result, Storage,
};

/// Returns a storage on which each read, write and sync for a purpose takes a time.
pub(super) fn delayed(
    inner: Arc<dyn Storage>,
    purpose: Purpose,
    delay: Duration,
) -> Arc<dyn Storage> {
    Arc::new(LayeredStorage::within(inner, SlowLayer(purpose, delay)))
}

#[derive(Clone, Copy, Debug)]
struct SlowLayer(Purpose, Duration);

impl FileLayer for SlowLayer {
    type Call = ();

    fn begin(&self, call: FileCall) -> Result<()> {
        let purpose = match call {
            FileCall::Read { purpose, .. }
            | FileCall::Write { purpose, .. }
            | FileCall::WriteDurable { purpose, .. }
            | FileCall::Sync(purpose) => purpose,
            _ => return Ok(()),
        };
        if purpose == self.0 {
            sleep(self.1);
        }
        Ok(())
    }
}

impl DirectoryLayer for SlowLayer {
    type Call = ();

    fn begin(&self, _: Operation, _: &Path, _: &[&str]) -> Result<()> {
        Ok(())
    }

    fn wrap(&self, file: Arc<dyn File>, _: &Path, _: &str) -> Arc<dyn File> {
        Arc::new(LayeredFile::new(file, *self))
    }
}
