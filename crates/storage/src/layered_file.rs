//! Files with a layer around every call.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::{File, Lock, LockKind, Operation, Purpose, Result};

/// A call on an open file, as layers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileCall {
    /// A read.
    Read {
        /// The bytes asked for, and after the call those that there were.
        bytes: usize,
        /// Offset of the first of them.
        offset: u64,
        /// Their purpose.
        purpose: Purpose,
    },
    /// The hint that a range is read soon.
    StartRead,
    /// A write or an append.
    Write {
        /// The bytes.
        bytes: usize,
        /// Offset of the first of them; `None` at the end of the file.
        offset: Option<u64>,
        /// Their purpose.
        purpose: Purpose,
    },
    /// A write that is durable when the call returns.
    WriteDurable {
        /// The bytes.
        bytes: usize,
        /// Offset of the first of them.
        offset: u64,
        /// Their purpose.
        purpose: Purpose,
    },
    /// The hint that a range is synced soon.
    StartWriteBack,
    /// A sync, for a purpose.
    Sync(Purpose),
    /// A reservation of blocks.
    Allocate {
        /// Length up to which the file has blocks.
        length_bytes: u64,
    },
    /// A cut of the file's end.
    Truncate {
        /// Length of the rest.
        length_bytes: u64,
    },
    /// The question how long the file is, or how many names it has.
    Examine,
    /// A lock.
    Lock,
}

impl FileCall {
    /// Returns the operation, where the call changes the file or its place on the medium.
    pub fn change(self) -> Option<Operation> {
        Some(match self {
            FileCall::Write { .. } | FileCall::WriteDurable { .. } => Operation::Write,
            FileCall::StartWriteBack => Operation::WriteBack,
            FileCall::Sync(_) => Operation::Sync,
            FileCall::Allocate { .. } => Operation::Allocate,
            FileCall::Truncate { .. } => Operation::Truncate,
            FileCall::Read { .. } | FileCall::StartRead | FileCall::Examine | FileCall::Lock => {
                return None;
            }
        })
    }
}

/// The part of a layer that concerns one open file.
pub trait FileLayer: fmt::Debug + Send + Sync + 'static {
    /// Lives as long as the call below the layer.
    type Call;

    /// Begins a call, or fails it.
    fn begin(&self, call: FileCall) -> Result<Self::Call>;

    /// Takes note that a call succeeded.
    fn succeeded(&self, call: FileCall) {
        let _ = call;
    }

    /// Returns whether callers may map the file, past the layer.
    fn shows_descriptor(&self) -> bool {
        true
    }
}

/// A file within a layer.
#[derive(Debug)]
pub struct LayeredFile<L> {
    inner: Arc<dyn File>,
    layer: L,
}

impl<L: FileLayer> LayeredFile<L> {
    /// Puts a layer around an open file.
    pub fn new(inner: Arc<dyn File>, layer: L) -> Self {
        LayeredFile { inner, layer }
    }

    fn within<T>(&self, call: FileCall, inner: impl FnOnce(&dyn File) -> Result<T>) -> Result<T> {
        let _within = self.layer.begin(call)?;
        let outcome = inner(&*self.inner)?;
        self.layer.succeeded(call);
        Ok(outcome)
    }
}

impl<L: FileLayer> File for LayeredFile<L> {
    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        let _within = self.layer.begin(read(buffer.len(), offset, purpose))?;
        let count = self.inner.read_at(buffer, offset, purpose)?;
        self.layer.succeeded(read(count, offset, purpose));
        Ok(count)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.within(read(buffer.len(), offset, purpose), |file| {
            file.read_exact_at(buffer, offset, purpose)
        })
    }

    fn read_vec_at(&self, length: usize, offset: u64, purpose: Purpose) -> Result<Vec<u8>> {
        self.within(read(length, offset, purpose), |file| {
            file.read_vec_at(length, offset, purpose)
        })
    }

    fn start_read(&self, offset: u64, length_bytes: u64) -> bool {
        let begun = self.layer.begin(FileCall::StartRead);
        begun.is_ok_and(|_within| self.inner.start_read(offset, length_bytes))
    }

    fn write_at(&self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.within(write(bytes, Some(offset), purpose), |file| {
            file.write_at(bytes, offset, purpose)
        })
    }

    fn append(&self, bytes: &[u8], purpose: Purpose) -> Result<u64> {
        self.within(write(bytes, None, purpose), |file| {
            file.append(bytes, purpose)
        })
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        let call = FileCall::WriteDurable {
            bytes: bytes.len(),
            offset,
            purpose,
        };
        self.within(call, |file| file.write_durable_at(bytes, offset, purpose))
    }

    fn start_write_back(&self, offset: u64, length_bytes: u64) -> Result<()> {
        self.within(FileCall::StartWriteBack, |file| {
            file.start_write_back(offset, length_bytes)
        })
    }

    fn sync(&self, purpose: Purpose) -> Result<()> {
        self.within(FileCall::Sync(purpose), |file| file.sync(purpose))
    }

    fn allocate(&self, length_bytes: u64) -> Result<()> {
        self.within(FileCall::Allocate { length_bytes }, |file| {
            file.allocate(length_bytes)
        })
    }

    fn truncate(&self, length_bytes: u64) -> Result<()> {
        self.within(FileCall::Truncate { length_bytes }, |file| {
            file.truncate(length_bytes)
        })
    }

    fn length_bytes(&self) -> Result<u64> {
        self.within(FileCall::Examine, |file| file.length_bytes())
    }

    fn links(&self) -> Result<u64> {
        self.within(FileCall::Examine, |file| file.links())
    }

    fn lock(&self, kind: LockKind) -> Result<Box<dyn Lock>> {
        self.within(FileCall::Lock, |file| file.lock(kind))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner
            .descriptor()
            .filter(|_| self.layer.shows_descriptor())
    }

    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }
}

fn read(bytes: usize, offset: u64, purpose: Purpose) -> FileCall {
    FileCall::Read {
        bytes,
        offset,
        purpose,
    }
}

fn write(bytes: &[u8], offset: Option<u64>, purpose: Purpose) -> FileCall {
    FileCall::Write {
        bytes: bytes.len(),
        offset,
        purpose,
    }
}
