//! The block device or file below a node.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use terrace::Escaped;

use super::transfer;
use crate::block::BLOCK_BYTES;
use crate::error::{Error, Result};

/// How a medium is opened. A claim keeps out every other claim, mounted file systems included, for as
/// long as the medium is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only, without a claim: another process may write meanwhile.
    Read,
    /// Reads only, with a claim.
    ReadAlone,
    /// Reads and writes, with a claim.
    Write,
}

/// An open block device or regular file.
#[derive(Debug)]
pub struct Medium {
    /// The open file.
    pub file: Arc<File>,
    /// Size in bytes: whole blocks.
    pub bytes: u64,
    /// Path under which it was opened.
    pub path: PathBuf,
    /// Block device, not a regular file.
    pub is_block_device: bool,
    /// Requests pass by the page cache. False where the file system knows no direct I/O.
    pub direct: bool,
}

impl Medium {
    /// Opens a block device or a regular file, for direct I/O where the file system knows it.
    ///
    /// # Errors
    /// [`Error::Occupied`] if another process has a claim on it, or the kernel has mounted it.
    pub fn open(path: impl AsRef<Path>, access: Access) -> Result<Self> {
        let path = path.as_ref();
        let named = |source| Error::io(format!("open {}", Escaped::path(path)), source);
        // Opening some other things has effects, or waits: a look comes first.
        let is_block_device = is_block_device(path, &path.metadata().map_err(named)?)?;
        let (file, direct) =
            claim(path, flags(access, is_block_device)).map_err(|error| refusal(path, error))?;
        if is_block_device != self::is_block_device(path, &file.metadata().map_err(named)?)? {
            return Err(named(io::Error::other("it was replaced meanwhile")));
        }
        if !is_block_device && access != Access::Read {
            lock(&file, path)?;
        }
        let medium = Medium {
            bytes: whole_blocks(end_of(&file).map_err(named)?),
            file: Arc::new(file),
            path: path.to_owned(),
            is_block_device,
            direct,
        };
        medium.check()?;
        Ok(medium)
    }

    fn check(&self) -> Result<()> {
        if self.bytes == 0 {
            let what = format!("{} is smaller than a block", Escaped::path(&self.path));
            return Err(Error::InvalidArgument(what));
        }
        if !self.is_block_device {
            return Ok(());
        }
        let named = |error: Errno| {
            let what = format!("ask {} for its block size", Escaped::path(&self.path));
            Error::io(what, error.into())
        };
        let block_bytes = rustix::fs::ioctl_blksszget(&*self.file).map_err(named)?;
        if block_bytes as usize > BLOCK_BYTES {
            let path = Escaped::path(&self.path);
            let what = format!("{path} has blocks of {block_bytes} bytes, more than {BLOCK_BYTES}");
            return Err(Error::InvalidArgument(what));
        }
        Ok(())
    }

    /// Returns the size in bytes as the system gives it, with the bytes behind the last whole
    /// block.
    pub(super) fn end(&self) -> Result<u64> {
        end_of(&self.file)
            .map_err(|source| Error::io(format!("measure {}", Escaped::path(&self.path)), source))
    }

    /// Fills `bytes`, which are aligned as a [`Buffer`](crate::block::Buffer) is, from `offset`.
    ///
    /// # Errors
    /// The system's, and `UnexpectedEof` behind the end.
    pub fn read(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        let what = |length| {
            format!(
                "read {length} bytes at {offset} of {}",
                Escaped::path(&self.path)
            )
        };
        transfer::read_full(&self.file, bytes, offset)
            .map_err(|source| Error::io(what(bytes.len()), source))
    }

    /// Writes `bytes`, which are aligned as a [`Buffer`](crate::block::Buffer) is, at `offset`.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let what = |length| {
            format!(
                "write {length} bytes at {offset} of {}",
                Escaped::path(&self.path)
            )
        };
        transfer::write_full(&self.file, bytes, offset)
            .map_err(|source| Error::io(what(bytes.len()), source))
    }

    /// Makes all completed writes durable.
    ///
    /// # Errors
    /// The system's. Earlier writes may be lost then, even if a later flush succeeds.
    pub fn flush(&self) -> Result<()> {
        transfer::flush(&self.file)
            .map_err(|source| Error::io(format!("flush {}", Escaped::path(&self.path)), source))
    }
}

fn is_block_device(path: &Path, metadata: &std::fs::Metadata) -> Result<bool> {
    let kind = metadata.file_type();
    if kind.is_block_device() || kind.is_file() {
        return Ok(kind.is_block_device());
    }
    let what = format!(
        "{} is neither a block device nor a file",
        Escaped::path(path)
    );
    Err(Error::InvalidArgument(what))
}

fn flags(access: Access, is_block_device: bool) -> OFlags {
    let mut flags = match access {
        Access::Read | Access::ReadAlone => OFlags::RDONLY,
        Access::Write => OFlags::RDWR,
    };
    // Without O_CREAT this is the kernel's claim on a block device, which a mount has as well.
    if is_block_device && access != Access::Read {
        flags |= OFlags::EXCL;
    }
    flags | OFlags::CLOEXEC
}

/// Opens a file that is there, with direct I/O if the file system knows it.
pub(super) fn open_file(path: &Path, flags: OFlags) -> rustix::io::Result<(File, bool)> {
    let mode = Mode::empty();
    match rustix::fs::open(path, flags | OFlags::DIRECT, mode) {
        Ok(file) => Ok((file.into(), true)),
        Err(Errno::INVAL) => Ok((rustix::fs::open(path, flags, mode)?.into(), false)),
        Err(error) => Err(error),
    }
}

/// Opens a file that is there. One that is in use is tried for a while.
fn claim(path: &Path, flags: OFlags) -> rustix::io::Result<(File, bool)> {
    let begun = Instant::now();
    loop {
        match open_file(path, flags) {
            Err(Errno::BUSY) if begun.elapsed() < LOCK_PATIENCE => thread::sleep(LOCK_PAUSE),
            result => return result,
        }
    }
}

/// Time for which a claim is tried. A process that starts another one holds its files twice until
/// that one runs its own program. The kernel closes the files of a dead process when their requests
/// have ended. So a claim may outlive its owner by moments.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Claims a regular file for as long as it is open.
pub(super) fn lock(file: &File, path: &Path) -> Result<()> {
    let begun = Instant::now();
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if begun.elapsed() < LOCK_PATIENCE => thread::sleep(LOCK_PAUSE),
            Err(Errno::WOULDBLOCK) => {
                return Err(Error::Occupied {
                    path: path.to_owned(),
                    what: "another process has locked the file; stop that node first".into(),
                });
            }
            Err(error) => {
                return Err(Error::io(
                    format!("lock {}", Escaped::path(path)),
                    error.into(),
                ));
            }
        }
    }
}

fn refusal(path: &Path, error: Errno) -> Error {
    if error != Errno::BUSY {
        return Error::io(format!("open {}", Escaped::path(path)), error.into());
    }
    Error::Occupied {
        path: path.to_owned(),
        what: "the kernel or another process uses the device, as a mounted file system, swap, a \
               part of an array or another node; unmount or stop that first (lsblk shows it)"
            .into(),
    }
}

fn end_of(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

fn whole_blocks(bytes: u64) -> u64 {
    bytes - bytes % BLOCK_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Buffer;

    #[test]
    fn a_file_is_measured_in_whole_blocks() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![7; 3 * BLOCK_BYTES + 100]).unwrap();
        let medium = Medium::open(&path, Access::Write).unwrap();
        assert_eq!(medium.bytes, 3 * BLOCK_BYTES as u64);
        assert_eq!(medium.end().unwrap(), 3 * BLOCK_BYTES as u64 + 100);
        assert!(!medium.is_block_device);
        let mut buffer = Buffer::zeroed(1);
        medium.read(&mut buffer, 4096).unwrap();
        assert!(buffer.iter().all(|&byte| byte == 7));
        buffer.fill(8);
        medium.write(&buffer, 8192).unwrap();
        medium.flush().unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[8192], 8);
    }

    #[test]
    fn a_lock_that_outlives_its_owner_by_moments_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![0; BLOCK_BYTES]).unwrap();
        let claim = Medium::open(&path, Access::Write).unwrap();
        let late = thread::spawn(move || {
            thread::sleep(2 * LOCK_PAUSE);
            drop(claim);
        });
        Medium::open(&path, Access::Write).unwrap();
        late.join().unwrap();
    }

    #[test]
    fn a_claim_keeps_out_claims_but_no_reader() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![0; BLOCK_BYTES]).unwrap();
        let claim = Medium::open(&path, Access::Write).unwrap();
        for access in [Access::Write, Access::ReadAlone] {
            let error = Medium::open(&path, access).unwrap_err();
            assert!(matches!(error, Error::Occupied { .. }), "{error}");
        }
        Medium::open(&path, Access::Read).unwrap();
        drop(claim);
        Medium::open(&path, Access::Write).unwrap();
    }

    #[test]
    fn only_files_and_block_devices_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let error = Medium::open(directory.path(), Access::Read).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        let error = Medium::open("/dev/null", Access::Write).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        let path = directory.path().join("absent");
        let error = Medium::open(&path, Access::Read).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        std::fs::write(&path, b"less than a block").unwrap();
        let error = Medium::open(&path, Access::Read).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    }
}
