//! An open file of the kernel, buffered or direct.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::buffer::spare_capacity;
use rustix::fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2, pwritev2, retry_on_intr};

use super::direct::DirectFile;
use super::lock::RealLock;
use super::{passing, write_back};
use crate::{Error, File, Lock, LockKind, OpenMode, OpenOptions, Operation, Purpose, Result};

#[derive(Debug)]
pub(super) struct RealFile {
    path: PathBuf,
    /// Also of a direct file, for accesses that cannot go past the page cache.
    buffered: fs::File,
    direct: Option<DirectFile>,
}

impl RealFile {
    /// Takes an open file. `again` opens it once more by its name, with flags beside those of the first
    /// opening.
    pub(super) fn new(
        buffered: fs::File,
        path: PathBuf,
        options: OpenOptions,
        again: impl FnOnce(OFlags) -> io::Result<fs::File>,
    ) -> io::Result<Self> {
        let direct = if options.direct {
            open_direct(&buffered, options, again)?
        } else {
            None
        };
        Ok(RealFile {
            path,
            buffered,
            direct,
        })
    }

    fn error(&self, operation: Operation, source: io::Error) -> Error {
        Error::new(operation, &self.path, source)
    }
}

/// Opens a second, direct descriptor of the file behind `buffered`, if its file system has such.
fn open_direct(
    buffered: &fs::File,
    options: OpenOptions,
    again: impl FnOnce(OFlags) -> io::Result<fs::File>,
) -> io::Result<Option<DirectFile>> {
    // Through the descriptor, not the name: a rename in between must not lead to another file.
    let own = format!("/proc/self/fd/{}", buffered.as_raw_fd());
    let mut open = fs::OpenOptions::new();
    open.read(true)
        .write(options.mode != OpenMode::Read)
        .custom_flags(OFlags::DIRECT.bits().cast_signed());
    let opened = match open.open(own) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => again(OFlags::DIRECT),
        outcome => outcome,
    };
    match opened {
        Ok(file) if is_same(&file, buffered)? => DirectFile::new(file, options.polled).map(Some),
        Ok(_) => Err(io::Error::other(
            "the file was replaced while it was opened",
        )),
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_same(one: &fs::File, other: &fs::File) -> io::Result<bool> {
    let (one, other) = (one.metadata()?, other.metadata()?);
    Ok(one.ino() == other.ino() && one.dev() == other.dev())
}

/// Writes once, and has the kernel sync that range alone. The write may be cut short.
fn write_synced(file: &fs::File, bytes: &[u8], offset: u64) -> rustix::io::Result<usize> {
    let slices = [IoSlice::new(bytes)];
    retry_on_intr(|| pwritev2(file, &slices, offset, ReadWriteFlags::DSYNC))
}

/// Reads until the buffer is full or the file ends.
pub(super) fn read_full(file: &fs::File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        let read = match &self.direct {
            Some(_) if matches!(purpose, Purpose::Compaction | Purpose::Migration) => {
                passing::read(&self.buffered, buffer, offset)
            }
            Some(direct) => direct.read_at(&self.buffered, buffer, offset),
            None => read_full(&self.buffered, buffer, offset),
        };
        read.map_err(|source| self.error(Operation::Read, source))
    }

    fn write_at(&self, bytes: &[u8], offset: u64, _purpose: Purpose) -> Result<()> {
        let written = match &self.direct {
            Some(direct) => direct.write_at(&self.buffered, bytes, offset),
            None => self.buffered.write_all_at(bytes, offset),
        };
        written.map_err(|source| self.error(Operation::Write, source))
    }

    fn append(&self, bytes: &[u8], purpose: Purpose) -> Result<u64> {
        let offset = self.length_bytes()?;
        self.write_at(bytes, offset, purpose)?;
        Ok(offset)
    }

    fn allocate(&self, length_bytes: u64) -> Result<()> {
        if length_bytes == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::KEEP_SIZE;
        retry_on_intr(|| fallocate(&self.buffered, flags, 0, length_bytes))
            .map_err(|errno| self.error(Operation::Allocate, errno.into()))?;
        // Blocks shared with a copy (xfs) would have to be copied at the first write to them.
        let flags = flags | FallocateFlags::UNSHARE_RANGE;
        match retry_on_intr(|| fallocate(&self.buffered, flags, 0, length_bytes)) {
            Err(Errno::OPNOTSUPP | Errno::INVAL) => Ok(()),
            unshared => unshared.map_err(|errno| self.error(Operation::Allocate, errno.into())),
        }
    }

    fn truncate(&self, length_bytes: u64) -> Result<()> {
        if length_bytes >= self.length_bytes()? {
            return Ok(());
        }
        let cut = self.buffered.set_len(length_bytes);
        cut.map_err(|source| self.error(Operation::Truncate, source))
    }

    fn start_read(&self, offset: u64, length_bytes: u64) -> bool {
        let mut byte = [0];
        let mut buffers = [IoSliceMut::new(&mut byte)];
        let probed = preadv2(&self.buffered, &mut buffers, offset, ReadWriteFlags::NOWAIT);
        let is_absent = self.direct.is_none() && probed == Err(Errno::AGAIN);
        is_absent
            && NonZeroU64::new(length_bytes).is_some_and(|length| {
                fadvise(&self.buffered, offset, Some(length), Advice::WillNeed).is_ok()
            })
    }

    fn start_write_back(&self, offset: u64, length_bytes: u64) -> Result<()> {
        // Direct writes are on their way already.
        if length_bytes == 0 || self.direct.is_some() {
            return Ok(());
        }
        write_back::start(&self.buffered, offset, length_bytes)
            .map_err(|source| self.error(Operation::WriteBack, source))
    }

    fn sync(&self, _purpose: Purpose) -> Result<()> {
        // One descriptor is enough: a sync is of the file, and direct writes need it too, for the
        // device's cache and for the length.
        let synced = self.buffered.sync_data();
        synced.map_err(|source| self.error(Operation::Sync, source))
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        if self.direct.is_none() {
            match write_synced(&self.buffered, bytes, offset) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                Ok(count) if count < bytes.len() => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(self.error(Operation::Write, errno.into())),
            }
        }
        self.write_at(bytes, offset, purpose)?;
        self.sync(purpose)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.buffered.as_fd())
    }

    fn length_bytes(&self) -> Result<u64> {
        let metadata = self.buffered.metadata();
        let metadata = metadata.map_err(|source| self.error(Operation::Length, source))?;
        Ok(metadata.len())
    }

    fn lock(&self, kind: LockKind) -> Result<Box<dyn Lock>> {
        let lock = self
            .buffered
            .try_clone()
            .and_then(|file| RealLock::take(file, self.path.clone(), kind));
        let lock = lock.map_err(|source| self.error(Operation::Lock, source))?;
        Ok(Box::new(lock))
    }

    fn links(&self) -> Result<u64> {
        let metadata = self.buffered.metadata();
        let metadata = metadata.map_err(|source| self.error(Operation::Length, source))?;
        Ok(metadata.nlink())
    }

    fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<()> {
        if self.read_at(buffer, offset, purpose)? < buffer.len() {
            return Err(Error::unexpected_end(&self.path));
        }
        Ok(())
    }

    fn read_vec_at(&self, length: usize, offset: u64, purpose: Purpose) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length);
        if self.direct.is_some() || bytes.capacity() > length {
            // A direct read goes through aligned memory; spare capacity would be filled, too.
            bytes.resize(length, 0);
            self.read_exact_at(&mut bytes, offset, purpose)?;
            return Ok(bytes);
        }
        while bytes.len() < length {
            let at = offset.saturating_add(bytes.len() as u64);
            match pread(&self.buffered, spare_capacity(&mut bytes), at) {
                Ok(0) => return Err(Error::unexpected_end(&self.path)),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(self.error(Operation::Read, errno.into())),
            }
        }
        Ok(bytes)
    }
}
