//! An open file on an emulated device: the places of its requests, and its dirty bytes.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::device::EmulatedDevice;
use super::queue::Dirty;
use super::speed::Place;
use super::turn::Turn;
use crate::layered_file::{FileCall, FileLayer};
use crate::{Error, File, FileIdentity, Operation, Result};

/// Reads of more bytes ask for the file's length: a buffer may be longer than the rest of the file.
const MAX_UNCHECKED_BYTES: u64 = 4096;

/// The layer of an open file.
#[derive(Debug)]
pub(super) struct EmulatedFile {
    device: Arc<EmulatedDevice>,
    inner: Arc<dyn File>,
    path: PathBuf,
    /// Identity in the device's space, where that is bounded.
    identity: Option<FileIdentity>,
    ends: Mutex<Ends>,
    dirty: Mutex<Dirty>,
}

/// Ends of the last read and of the last write.
#[derive(Debug, Default)]
struct Ends {
    read: Option<u64>,
    written: Option<u64>,
}

/// Returns the place of a request, and moves the end of its direction.
fn place(end: &mut Option<u64>, offset: u64, bytes: u64) -> Place {
    let place = match *end == Some(offset) {
        true => Place::Next,
        false => Place::Elsewhere,
    };
    *end = Some(offset.saturating_add(bytes));
    place
}

impl EmulatedFile {
    pub(super) fn new(
        device: Arc<EmulatedDevice>,
        inner: Arc<dyn File>,
        path: PathBuf,
        identity: Option<FileIdentity>,
    ) -> Self {
        EmulatedFile {
            device,
            inner,
            path,
            identity,
            ends: Mutex::new(Ends::default()),
            dirty: Mutex::new(Dirty::default()),
        }
    }

    fn read(&self, bytes: u64, offset: u64) -> Result<Option<Turn>> {
        let bytes = match bytes > MAX_UNCHECKED_BYTES {
            true => bytes.min(self.inner.length_bytes()?.saturating_sub(offset)),
            false => bytes,
        };
        if bytes == 0 {
            return Ok(None);
        }
        let place = place(&mut self.ends.lock().read, offset, bytes);
        Ok(self.device.read(bytes, place))
    }

    /// Returns the bytes and the place of a write, once there is space for it.
    fn begin_write(&self, bytes: usize, offset: Option<u64>) -> Result<(u64, Place)> {
        let bytes = bytes as u64;
        let offset = match offset {
            Some(offset) => offset,
            None => self.inner.length_bytes()?,
        };
        self.reserve(Operation::Write, offset.saturating_add(bytes))?;
        let place = place(&mut self.ends.lock().written, offset, bytes);
        Ok((bytes, place))
    }

    fn write(&self, bytes: usize, offset: Option<u64>) -> Result<Option<Turn>> {
        let (bytes, place) = self.begin_write(bytes, offset)?;
        let mut dirty = self.dirty.lock();
        Ok(match self.inner.is_direct() {
            true => self.device.write_direct(bytes, place, &mut dirty),
            false => self.device.write(bytes, place, &mut dirty),
        })
    }

    fn write_durable(&self, bytes: usize, offset: u64) -> Result<Option<Turn>> {
        let (bytes, place) = self.begin_write(bytes, Some(offset))?;
        let mut dirty = self.dirty.lock();
        Ok(self.device.write_durable(bytes, place, &mut dirty))
    }

    /// Takes space for the file up to `end_bytes`.
    fn reserve(&self, operation: Operation, end_bytes: u64) -> Result<()> {
        let Some(identity) = self.identity else {
            return Ok(());
        };
        let length_bytes = self.inner.length_bytes()?;
        let space = self.device.space();
        space
            .reserve(identity, length_bytes, end_bytes)
            .map_err(|source| Error::new(operation, &self.path, source))
    }

    fn truncate(&self, length_bytes: u64) {
        self.dirty.lock().change();
        if let Some(identity) = self.identity {
            self.device.space().cut(identity, length_bytes);
        }
    }
}

impl FileLayer for EmulatedFile {
    type Call = Option<Turn>;

    fn begin(&self, call: FileCall) -> Result<Option<Turn>> {
        match call {
            FileCall::Read { bytes, offset, .. } => self.read(bytes as u64, offset),
            FileCall::Write { bytes, offset, .. } => self.write(bytes, offset),
            FileCall::WriteDurable { bytes, offset, .. } => self.write_durable(bytes, offset),
            FileCall::Sync(_) => Ok(self.device.sync(&mut self.dirty.lock())),
            FileCall::StartWriteBack => {
                self.device.start_write_back(&mut self.dirty.lock());
                Ok(None)
            }
            // There is no page cache to read into.
            FileCall::StartRead => {
                let source = io::Error::from(io::ErrorKind::Unsupported);
                Err(Error::new(Operation::Read, &self.path, source))
            }
            FileCall::Allocate { length_bytes } => {
                self.reserve(Operation::Allocate, length_bytes)?;
                self.dirty.lock().change();
                Ok(None)
            }
            FileCall::Truncate { length_bytes } => {
                self.truncate(length_bytes);
                Ok(None)
            }
            FileCall::Examine | FileCall::Lock => Ok(None),
        }
    }

    fn shows_descriptor(&self) -> bool {
        false
    }
}

impl Drop for EmulatedFile {
    fn drop(&mut self) {
        self.device.start_write_back(self.dirty.get_mut());
    }
}
