//! The narrow waist between Terrace and every medium that holds files.
//!
//! The trait promises no more than POSIX: a write is in the page cache when [`File::write_at`]
//! returns and on the medium only after [`File::sync`]; a directory change (create, rename, link,
//! remove) is durable only after [`FilePlace::sync`](crate::FilePlace::sync) of the directory it happened in.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use crate::directory::{Access, Directory, DirectoryEntry, FileIdentity, split};
use crate::{Error, Operation, Result};

/// Why bytes are moved; counters are kept for each purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// Frames and headers of arenas.
    Arena,
    /// Tables written from sealed arenas.
    Flush,
    /// Tables read and written by a compaction.
    Compaction,
    /// Tables copied from one tier to another.
    Migration,
    /// The manifest and `CURRENT`.
    Manifest,
    /// Reads on behalf of a user.
    Read,
    /// Reads and writes while a store is being opened.
    Recovery,
    /// Verification, dumps and the like.
    Other,
}

impl Purpose {
    /// Every purpose, in the order of [`Purpose::index`].
    pub const ALL: [Purpose; 8] = [
        Purpose::Arena,
        Purpose::Flush,
        Purpose::Compaction,
        Purpose::Migration,
        Purpose::Manifest,
        Purpose::Read,
        Purpose::Recovery,
        Purpose::Other,
    ];

    /// Returns the position of this purpose in [`Purpose::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the purpose's name in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Purpose::Arena => "arena",
            Purpose::Flush => "flush",
            Purpose::Compaction => "compaction",
            Purpose::Migration => "migration",
            Purpose::Manifest => "manifest",
            Purpose::Read => "read",
            Purpose::Recovery => "recovery",
            Purpose::Other => "other",
        }
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// A new file, for reading and writing; an existing one is an error.
    CreateNew,
}

/// The mode of an open, and whether it bypasses the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Existing or new, read or written.
    pub mode: OpenMode,
    /// Bypass the page cache. The caller may still pass any length and offset: the implementation
    /// stages unaligned parts. For merges, which read on and on, it reads ahead through the page
    /// cache and leaves nothing there. A file system without direct I/O gets buffered I/O;
    /// [`File::is_direct`] tells.
    pub direct: bool,
    /// Wait for direct reads on the processor instead of asleep, where [`Storage::can_poll`] says so:
    /// a quick device's answer is there sooner, and costs more of the processor's time. Nothing else
    /// changes.
    pub polled: bool,
}

impl OpenOptions {
    /// Returns options for buffered I/O in the given mode.
    pub const fn buffered(mode: OpenMode) -> Self {
        OpenOptions {
            mode,
            direct: false,
            polled: false,
        }
    }

    /// Returns options for direct I/O in the given mode.
    pub const fn direct(mode: OpenMode) -> Self {
        OpenOptions {
            direct: true,
            ..OpenOptions::buffered(mode)
        }
    }
}

/// Known facts of the file system that holds a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Its name as the kernel gives it: `ext4`, `xfs`, `tmpfs`, `overlay`, ...; `0x...` if unknown.
    pub name: String,
    /// Known to overwrite a file's blocks in place (ext4, xfs, tmpfs).
    pub overwrites_in_place: bool,
    /// Whether a sync reaches a medium that survives a power cut (false on tmpfs).
    pub survives_power_cut: bool,
    /// Whether files there have descriptors of the kernel's, and so can be mapped.
    pub has_descriptors: bool,
}

/// Other holders that a lock admits at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// No other holder.
    Exclusive,
    /// Other shared holders.
    Shared,
}

/// A held lock; dropping it releases it.
pub trait Lock: Send + Sync + fmt::Debug {
    /// Returns the identity of the locked file.
    fn identity(&self) -> Result<FileIdentity>;
}

/// An open file. All methods take `&self` and may be called from several threads.
pub trait File: Send + Sync + fmt::Debug {
    /// Reads up to `buffer.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize>;

    /// Writes all of `bytes` at `offset`, growing the file where needed. After an error any part
    /// of `bytes` may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()>;

    /// Writes all of `bytes` at the end of the file and returns the offset they were written at.
    /// One thread at a time.
    fn append(&self, bytes: &[u8], purpose: Purpose) -> Result<u64>;

    /// Reserves blocks so that the file can grow to `length_bytes`, and be written over up to there,
    /// without running out of space. The length does not change.
    fn allocate(&self, length_bytes: u64) -> Result<()>;

    /// Cuts the file to `length_bytes` and gives the blocks behind it back; a file that is no
    /// longer than that stays as it is. Readers that have the file open reach no further than its
    /// new end. Durable after a sync.
    fn truncate(&self, length_bytes: u64) -> Result<()>;

    /// Starts to read a range into the page cache and does not wait for it. If its first byte is
    /// there already, nothing happens, and the answer is false. A hint: it is also false where
    /// there is no page cache, or no way to tell.
    fn start_read(&self, offset: u64, length_bytes: u64) -> bool {
        let (_, _) = (offset, length_bytes);
        false
    }

    /// Asks for the bytes of a range to be sent to the medium soon, so that a later sync finds less
    /// to do. A hint: it does not wait, and it makes nothing durable.
    fn start_write_back(&self, offset: u64, length_bytes: u64) -> Result<()> {
        let _ = (offset, length_bytes);
        Ok(())
    }

    /// Makes everything written so far durable (`fdatasync`). After an error nothing is known about
    /// the writes since the last successful sync.
    fn sync(&self, purpose: Purpose) -> Result<()>;

    /// Writes all of `bytes` at `offset` and makes them durable. Other writes to the file may stay
    /// where they are: a sync would carry all of them to the medium.
    fn write_durable_at(&self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.write_at(bytes, offset, purpose)?;
        self.sync(purpose)
    }

    /// Returns the kernel's descriptor, for mapping the file, which has no place in this trait.
    /// `None` where the file is not the kernel's. Accesses past this trait are neither counted nor
    /// failed.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns the file's present length in bytes.
    fn length_bytes(&self) -> Result<u64>;

    /// Takes a lock on the file by this very opening, without waiting. Reads and writes by it go on.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`](crate::ErrorKind::Locked) if another holder conflicts.
    fn lock(&self, kind: LockKind) -> Result<Box<dyn Lock>>;

    /// Returns the number of the file's names: more than one after [`Directory::link`]. A cut under
    /// one name shortens the file under all.
    fn links(&self) -> Result<u64>;

    /// Returns whether reads and writes bypass the page cache: false also where the file system
    /// refused.
    fn is_direct(&self) -> bool {
        false
    }

    /// Reads exactly `buffer.len()` bytes at `offset`.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedEnd`](crate::ErrorKind::UnexpectedEnd) if the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<()>;

    /// Reads exactly `length` bytes at `offset` into memory of their own. The caller knows that
    /// the file has as many; implementations need not clear the memory first.
    ///
    /// # Errors
    /// As [`File::read_exact_at`].
    fn read_vec_at(&self, length: usize, offset: u64, purpose: Purpose) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read_exact_at(&mut bytes, offset, purpose)?;
        Ok(bytes)
    }
}

/// A file system: real, simulated or failing.
///
/// An owner opens its [`Storage::directory`] once and works in that. The methods that take the path
/// of a file open its directory for each call: they are for tools and tests.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Opens a directory. Links on the way to it are followed, this once. New files in it can be
    /// opened by the users that `access` names.
    fn directory(&self, path: &Path, access: Access) -> Result<Arc<dyn Directory>>;
    /// Creates a directory and its missing parents, durably. An existing directory is not an error,
    /// and keeps its mode.
    fn create_directory_for(&self, path: &Path, access: Access) -> Result<()>;
    /// Returns whether [`OpenOptions::polled`] has an effect here: there is more than one
    /// processor, and the kernel has io_uring (5.19) and lets this process use it.
    fn can_poll(&self) -> bool;
    /// Identifies this boot of the machine: page-cache contents live exactly as long as it.
    fn boot_id(&self) -> Result<[u8; 16]>;

    /// Creates a directory for its owner, as [`Storage::create_directory_for`].
    fn create_directory(&self, path: &Path) -> Result<()> {
        self.create_directory_for(path, Access::Owner)
    }
    /// Opens the directory of a file, and returns it with the file's name.
    fn parent<'a>(&self, path: &'a Path) -> Result<(Arc<dyn Directory>, &'a str)> {
        let (directory, name) = split(Operation::Open, path)?;
        Ok((self.directory(directory, Access::Owner)?, name))
    }
    /// Opens or creates a file, as [`FilePlace::open`](crate::FilePlace::open).
    fn open(&self, path: &Path, options: OpenOptions) -> Result<Arc<dyn File>> {
        let (directory, name) = self.parent(path)?;
        directory.open(name, options)
    }
    /// Makes the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> Result<()> {
        self.directory(path, Access::Owner)?.sync()
    }
    /// Renames a file within its directory, as [`Directory::rename`].
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (directory, from) = split(Operation::Rename, from)?;
        let (target, to) = split(Operation::Rename, to)?;
        if target != directory {
            let source = io::Error::from(io::ErrorKind::CrossesDevices);
            return Err(Error::new(Operation::Rename, target, source));
        }
        self.directory(directory, Access::Owner)?.rename(from, to)
    }
    /// Gives a file a second name, as [`Directory::link`].
    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let (source, from) = split(Operation::Link, from)?;
        let (target, to) = split(Operation::Link, to)?;
        let source = self.directory(source, Access::Owner)?;
        source.link(from, &*self.directory(target, Access::Owner)?, to)
    }
    /// Removes a file's name, as [`FilePlace::remove`](crate::FilePlace::remove).
    fn remove(&self, path: &Path) -> Result<()> {
        let (directory, name) = split(Operation::Remove, path)?;
        self.directory(directory, Access::Owner)?.remove(name)
    }
    /// Returns the names in a directory, as [`FilePlace::list`](crate::FilePlace::list).
    fn list(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        self.directory(path, Access::Owner)?.list()
    }
    /// Takes a lock on a file, as [`Directory::lock`].
    fn lock(&self, path: &Path, kind: LockKind) -> Result<Box<dyn Lock>> {
        let (directory, name) = split(Operation::Lock, path)?;
        self.directory(directory, Access::Owner)?.lock(name, kind)
    }
    /// Returns the bytes that may still be allocated, as [`FilePlace::free_space_bytes`](crate::FilePlace::free_space_bytes).
    fn free_space_bytes(&self, path: &Path) -> Result<u64> {
        self.directory(path, Access::Owner)?.free_space_bytes()
    }
    /// Returns the file system that holds a directory.
    fn file_system(&self, path: &Path) -> Result<FileSystem> {
        self.directory(path, Access::Owner)?.file_system()
    }
}
