//! An open file.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use terrace_storage::{Error, File, Lock, LockKind, Operation, Purpose, Result};

use super::blocks::BLOCK_BYTES;
use super::disk::{Disk, locked};
use super::lock::FlatLock;

/// The block that was written last, if it is not full: the next append begins in it.
#[derive(Clone, Debug)]
pub struct Tail {
    block: u64,
    bytes: Vec<u8>,
}

/// A file of a device.
pub struct FlatFile {
    disk: Arc<Disk>,
    file: u64,
    path: PathBuf,
    is_writable: bool,
    is_direct: bool,
    writing: Arc<Mutex<Option<Tail>>>,
}

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Zeros of a gap that are written at once.
const ZEROS_BYTES: u64 = 1 << 20;

impl FlatFile {
    /// Takes over a handle that was counted.
    pub fn new(
        disk: Arc<Disk>,
        file: u64,
        path: PathBuf,
        is_writable: bool,
        is_direct: bool,
    ) -> Self {
        let writing = disk
            .state()
            .files
            .get(&file)
            .map(|node| Arc::clone(&node.writing));
        FlatFile {
            disk,
            file,
            path,
            is_writable,
            is_direct,
            writing: writing.unwrap_or_default(),
        }
    }

    fn error(&self, operation: Operation) -> impl Fn(io::Error) -> Error + '_ {
        move |source| Error::new(operation, &self.path, source)
    }

    fn check_writable(&self, operation: Operation) -> Result<()> {
        match self.is_writable {
            true => Ok(()),
            false => Err(self.error(operation)(io::Error::other(
                "the file is open for reading",
            ))),
        }
    }

    fn length(&self) -> u64 {
        let state = self.disk.state();
        state.files.get(&self.file).map_or(0, |node| node.length)
    }

    /// Writes bytes, and before them the zeros of a gap; the caller holds `tail`.
    fn write(&self, tail: &mut Option<Tail>, bytes: &[u8], offset: u64) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let end = offset
            .checked_add(bytes.len() as u64)
            .ok_or(io::ErrorKind::FileTooLarge)?;
        self.disk.reserve(self.file, end)?;
        let mut length = self.length();
        while length < offset {
            let zeros = vec![0; (offset - length).min(ZEROS_BYTES) as usize];
            self.write_part(tail, &zeros, length, length)?;
            length += zeros.len() as u64;
        }
        self.write_part(tail, bytes, offset, length)
    }

    /// Writes whole blocks around bytes that begin at or before the file's end.
    fn write_part(
        &self,
        tail: &mut Option<Tail>,
        bytes: &[u8],
        offset: u64,
        length: u64,
    ) -> io::Result<()> {
        let end = offset + bytes.len() as u64;
        let (first, behind) = (offset / BLOCK, end.div_ceil(BLOCK));
        let mut blocks = vec![0; (behind - first) as usize * BLOCK_BYTES];
        // Bytes behind the file's end are zeros. The chunk may have held others before.
        let in_first = (offset - first * BLOCK) as usize;
        if in_first > 0 {
            let kept = self.old_block(tail.as_ref(), first, length)?;
            copy(&mut blocks, 0, &kept);
        }
        let in_last = (end % BLOCK) as usize;
        if in_last > 0 && end < length && (in_first == 0 || behind - first > 1) {
            let kept = self.old_block(tail.as_ref(), behind - 1, length)?;
            let at = blocks.len() - BLOCK_BYTES;
            copy(&mut blocks, at, &kept);
        }
        copy(&mut blocks, in_first, bytes);
        *tail = None;
        self.disk.write(self.file, first, &blocks)?;
        if in_last > 0 {
            let bytes = blocks.split_off(blocks.len() - BLOCK_BYTES);
            *tail = Some(Tail {
                block: behind - 1,
                bytes,
            });
        }
        if let Some(node) = self.disk.state().files.get_mut(&self.file)
            && node.length < end
        {
            node.length = end;
            node.is_changed = true;
        }
        Ok(())
    }

    /// Returns the bytes of a block that are before the file's end.
    fn old_block(&self, tail: Option<&Tail>, block: u64, length: u64) -> io::Result<Vec<u8>> {
        let kept = length.saturating_sub(block * BLOCK).min(BLOCK) as usize;
        let mut bytes = match tail {
            Some(tail) if tail.block == block => tail.bytes.clone(),
            _ if kept == 0 => Vec::new(),
            _ => {
                let mut bytes = vec![0; BLOCK_BYTES];
                self.disk.read(self.file, block, &mut bytes)?;
                bytes
            }
        };
        bytes.truncate(kept);
        Ok(bytes)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.length().saturating_sub(offset);
        let count = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let wanted = buffer.get_mut(..count).unwrap_or_default();
        if wanted.is_empty() {
            return Ok(0);
        }
        let first = offset / BLOCK;
        let behind = (offset + count as u64).div_ceil(BLOCK);
        if offset.is_multiple_of(BLOCK) && wanted.len().is_multiple_of(BLOCK_BYTES) {
            self.disk.read(self.file, first, wanted)?;
            return Ok(count);
        }
        let mut blocks = vec![0; (behind - first) as usize * BLOCK_BYTES];
        self.disk.read(self.file, first, &mut blocks)?;
        let at = (offset - first * BLOCK) as usize;
        if let Some(found) = blocks.get(at..at + count) {
            wanted.copy_from_slice(found);
        }
        Ok(count)
    }
}

/// Copies bytes to a place that has room for them.
fn copy(to: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(room) = to.get_mut(at..at + bytes.len()) {
        room.copy_from_slice(bytes);
    }
}

impl File for FlatFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64, _purpose: Purpose) -> Result<usize> {
        self.read(buffer, offset)
            .map_err(self.error(Operation::Read))
    }

    fn write_at(&self, bytes: &[u8], offset: u64, _purpose: Purpose) -> Result<()> {
        self.check_writable(Operation::Write)?;
        let mut tail = locked(&self.writing);
        let written = self.write(&mut tail, bytes, offset);
        written.map_err(self.error(Operation::Write))
    }

    fn append(&self, bytes: &[u8], _purpose: Purpose) -> Result<u64> {
        self.check_writable(Operation::Write)?;
        let mut tail = locked(&self.writing);
        let offset = self.length();
        let written = self.write(&mut tail, bytes, offset);
        written.map_err(self.error(Operation::Write))?;
        Ok(offset)
    }

    fn allocate(&self, length_bytes: u64) -> Result<()> {
        self.check_writable(Operation::Allocate)?;
        let reserved = self.disk.reserve(self.file, length_bytes);
        reserved.map_err(self.error(Operation::Allocate))
    }

    fn truncate(&self, length_bytes: u64) -> Result<()> {
        if length_bytes >= self.length() {
            return Ok(());
        }
        self.check_writable(Operation::Truncate)?;
        let _writing = locked(&self.writing);
        self.disk.state().truncate(self.file, length_bytes);
        Ok(())
    }

    fn sync(&self, _purpose: Purpose) -> Result<()> {
        self.disk
            .sync(self.file)
            .map_err(self.error(Operation::Sync))
    }

    fn length_bytes(&self) -> Result<u64> {
        Ok(self.length())
    }

    fn lock(&self, kind: LockKind) -> Result<Box<dyn Lock>> {
        let lock = FlatLock::take(&self.disk, self.file, kind);
        Ok(Box::new(lock.map_err(self.error(Operation::Lock))?))
    }

    fn links(&self) -> Result<u64> {
        let state = self.disk.state();
        Ok(state.files.get(&self.file).map_or(0, |node| node.names))
    }

    fn is_direct(&self) -> bool {
        self.is_direct
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<()> {
        match self.read_at(buffer, offset, purpose)? < buffer.len() {
            true => Err(self.error(Operation::Read)(
                io::ErrorKind::UnexpectedEof.into(),
            )),
            false => Ok(()),
        }
    }
}

impl Drop for FlatFile {
    fn drop(&mut self) {
        self.disk.state().close(self.file);
    }
}

impl fmt::Debug for FlatFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FlatFile").field(&self.path).finish()
    }
}
