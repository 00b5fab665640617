//! An open directory of the kernel: every call is relative to its descriptor.

use std::any::Any;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Stat, fcntl_getfl, fcntl_setfl, fstat,
    fstatvfs, fsync, linkat, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use super::file::RealFile;
use super::file_system;
use super::lock::RealLock;
use crate::directory::check_name;
use crate::error::NotAFile;
use crate::{
    Access, Directory, DirectoryEntry, Error, File, FileIdentity, FilePlace, FileSystem, Lock,
    LockKind, OpenMode, OpenOptions, Operation, Result,
};

/// Time for the holder of a lease to give it up, and pause between two looks.
const LEASE_PATIENCE: Duration = Duration::from_secs(5);
const LEASE_PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) struct RealDirectory {
    descriptor: OwnedFd,
    path: PathBuf,
    access: Access,
}

impl RealDirectory {
    /// Opens a directory; links on the way to it are followed.
    pub(super) fn open(path: &Path, access: Access) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))?;
        Ok(RealDirectory {
            descriptor,
            path: path.to_path_buf(),
            access,
        })
    }

    fn error(&self, operation: Operation, name: &str, source: impl Into<io::Error>) -> Error {
        Error::new(operation, &self.shown(name), source.into())
    }

    /// Opens a regular file. It waits for nothing but a lease, and for a moment only: a FIFO
    /// without a writer is an error at once.
    fn open_regular(&self, name: &str, flags: OFlags) -> io::Result<fs::File> {
        let guarded = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(self.access.file_mode());
        let open = || retry_on_intr(|| openat(&self.descriptor, name, guarded, mode));
        let descriptor = unleased(open).map_err(|errno| match errno {
            Errno::AGAIN => io::Error::other(
                "another process holds a lease on the file, as file servers and programs for backups \
                 do, and did not give it up in time",
            ),
            Errno::LOOP => not_a_file("a symbolic link"),
            Errno::ISDIR => not_a_file("a directory"),
            // A socket, or a device without a driver.
            Errno::NXIO => not_a_file("a socket or a device"),
            errno => errno.into(),
        })?;
        check_regular(&fstat(&descriptor)?)?;
        // With O_NONBLOCK io_uring may answer EAGAIN instead of waiting.
        fcntl_setfl(&descriptor, fcntl_getfl(&descriptor)? - OFlags::NONBLOCK)?;
        Ok(fs::File::from(descriptor))
    }

    fn entry(&self, name: String) -> Option<DirectoryEntry> {
        let (length_bytes, is_directory) =
            match statat(&self.descriptor, &*name, AtFlags::SYMLINK_NOFOLLOW) {
                // Removed since the directory was read.
                Err(Errno::NOENT) => return None,
                // The call that needs the entry gets the error.
                Err(_) => (0, false),
                Ok(status) => match FileType::from_raw_mode(status.st_mode) {
                    FileType::RegularFile => (u64::try_from(status.st_size).unwrap_or(0), false),
                    kind => (0, kind == FileType::Directory),
                },
            };
        Some(DirectoryEntry {
            name,
            length_bytes,
            is_directory,
        })
    }

    fn read_entries(&self) -> rustix::io::Result<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.descriptor)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                entries.extend(self.entry(name));
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
}

/// Opens a file once no lease is in the way. The first attempt notifies the holder of a lease.
/// Without `O_NONBLOCK` the kernel would wait for the holder for as long as 45 s.
fn unleased<T>(open: impl Fn() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    let began = Instant::now();
    loop {
        match open() {
            Err(Errno::AGAIN) if began.elapsed() < LEASE_PATIENCE => thread::sleep(LEASE_PAUSE),
            opened => return opened,
        }
    }
}

fn not_a_file(kind: &'static str) -> io::Error {
    io::Error::other(NotAFile(kind))
}

fn check_regular(status: &Stat) -> io::Result<()> {
    Err(not_a_file(match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::Symlink => "a symbolic link",
        FileType::Socket => "a socket",
        _ => "a device",
    }))
}

/// Returns the identity of a file from its `stat`.
pub(super) fn identity(status: &Stat) -> FileIdentity {
    FileIdentity {
        device: status.st_dev,
        inode: status.st_ino,
    }
}

impl FilePlace for RealDirectory {
    fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        check_name(Operation::Open, &self.path, name)?;
        let flags = match options.mode {
            OpenMode::Read => OFlags::RDONLY,
            OpenMode::ReadWrite => OFlags::RDWR,
            OpenMode::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        let again = flags - (OFlags::CREATE | OFlags::EXCL);
        let file = self.open_regular(name, flags).and_then(|buffered| {
            let direct = |extra: OFlags| self.open_regular(name, again | extra);
            let file = RealFile::new(buffered, self.shown(name), options, direct);
            if file.is_err() && options.mode == OpenMode::CreateNew {
                // The caller may try again, and would find a file that exists.
                let _ = unlinkat(&self.descriptor, name, AtFlags::empty());
            }
            file
        });
        let file = file.map_err(|source| self.error(Operation::Open, name, source))?;
        Ok(Arc::new(file))
    }

    fn sync(&self) -> Result<()> {
        fsync(&self.descriptor)
            .map_err(|errno| Error::new(Operation::SyncDirectory, &self.path, errno.into()))
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(Operation::Remove, &self.path, name)?;
        unlinkat(&self.descriptor, name, AtFlags::empty())
            .map_err(|errno| self.error(Operation::Remove, name, errno))
    }

    fn list(&self) -> Result<Vec<DirectoryEntry>> {
        self.read_entries()
            .map_err(|errno| Error::new(Operation::List, &self.path, errno.into()))
    }

    fn free_space_bytes(&self) -> Result<u64> {
        let status = retry_on_intr(|| fstatvfs(&self.descriptor))
            .map_err(|errno| Error::new(Operation::FreeSpace, &self.path, errno.into()))?;
        Ok(status.f_bavail.saturating_mul(status.f_frsize))
    }
}

impl Directory for RealDirectory {
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(Operation::Rename, &self.path, from)?;
        check_name(Operation::Rename, &self.path, to)?;
        renameat(&self.descriptor, from, &self.descriptor, to)
            .map_err(|errno| self.error(Operation::Rename, from, errno))
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        check_name(Operation::Rename, &self.path, from)?;
        check_name(Operation::Rename, &self.path, to)?;
        let directory = &self.descriptor;
        let renamed = match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
            // A file system that cannot: a link never replaces a name either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                linkat(directory, from, directory, to, AtFlags::empty())
                    .and_then(|()| unlinkat(directory, from, AtFlags::empty()))
            }
            renamed => renamed,
        };
        renamed.map_err(|errno| self.error(Operation::Rename, to, errno))
    }

    fn link(&self, from: &str, target: &dyn Directory, to: &str) -> Result<()> {
        check_name(Operation::Link, &self.path, from)?;
        check_name(Operation::Link, target.path(), to)?;
        let linked = match target.innermost().downcast_ref::<RealDirectory>() {
            Some(target) => linkat(
                &self.descriptor,
                from,
                &target.descriptor,
                to,
                AtFlags::empty(),
            ),
            None => Err(Errno::XDEV),
        };
        linked.map_err(|errno| self.error(Operation::Link, from, errno))
    }

    fn lock(&self, name: &str, kind: LockKind) -> Result<Box<dyn Lock>> {
        check_name(Operation::Lock, &self.path, name)?;
        let flags = match kind {
            LockKind::Exclusive => OFlags::RDWR | OFlags::CREATE,
            LockKind::Shared => OFlags::RDONLY,
        };
        let lock = self
            .open_regular(name, flags)
            .and_then(|file| RealLock::take(file, self.shown(name), kind));
        let lock = lock.map_err(|source| self.error(Operation::Lock, name, source))?;
        Ok(Box::new(lock))
    }

    fn file_system(&self) -> Result<FileSystem> {
        file_system::of(&self.descriptor)
            .map_err(|source| Error::new(Operation::FileSystem, &self.path, source))
    }

    fn identity(&self) -> Result<FileIdentity> {
        let status = fstat(&self.descriptor);
        let status =
            status.map_err(|errno| Error::new(Operation::Examine, &self.path, errno.into()))?;
        Ok(identity(&status))
    }

    fn identity_of(&self, name: &str) -> Result<FileIdentity> {
        check_name(Operation::Examine, &self.path, name)?;
        let status = statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW);
        let status = status.map_err(|errno| self.error(Operation::Examine, name, errno))?;
        Ok(identity(&status))
    }

    fn is_removed(&self) -> Result<bool> {
        let status = fstat(&self.descriptor);
        let status =
            status.map_err(|errno| Error::new(Operation::Examine, &self.path, errno.into()))?;
        Ok(status.st_nlink == 0)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor.as_fd())
    }

    fn innermost(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
