//! The one error of this crate: which operation failed, on which file, and why.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::Escaped;

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Operation {
    Open,
    OpenDirectory,
    Examine,
    Read,
    Write,
    Allocate,
    Truncate,
    WriteBack,
    Sync,
    Map,
    Length,
    CreateDirectory,
    SyncDirectory,
    Rename,
    Link,
    Remove,
    List,
    Lock,
    FreeSpace,
    FileSystem,
    BootId,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Open => "open",
            Operation::OpenDirectory => "open directory",
            Operation::Examine => "examine",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Allocate => "allocate space for",
            Operation::Truncate => "truncate",
            Operation::WriteBack => "start the write-back of",
            Operation::Sync => "sync",
            Operation::Map => "map",
            Operation::Length => "get the length of",
            Operation::CreateDirectory => "create directory",
            Operation::SyncDirectory => "sync directory",
            Operation::Rename => "rename",
            Operation::Link => "link",
            Operation::Remove => "remove",
            Operation::List => "list directory",
            Operation::Lock => "lock",
            Operation::FreeSpace => "get the free space of",
            Operation::FileSystem => "get the file system of",
            Operation::BootId => "read the boot id from",
        })
    }
}

/// The kinds of errors that callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The file or directory does not exist.
    NotFound,
    /// The file exists already.
    AlreadyExists,
    /// The medium is full, or the quota is used up.
    NoSpace,
    /// Another holder has the lock.
    Locked,
    /// The file ended before the requested bytes.
    UnexpectedEnd,
    /// Not permitted to this user.
    PermissionDenied,
    /// The file system or the kernel cannot do this.
    Unsupported,
    /// It is a directory, a symbolic link, a FIFO, a socket or a device: no regular file.
    NotAFile,
    /// The file would be longer than the process (`RLIMIT_FSIZE`) or the file system allows
    /// (`EFBIG`).
    FileTooLarge,
    /// This process has as many files open as it may (`EMFILE`).
    TooManyFiles,
    /// The machine has as many files open as it may (`ENFILE`).
    TooManyFilesInSystem,
    /// The process is a forked child of the one that opened the file.
    Forked,
    /// Anything else; see the source.
    Other,
}

fn is_errno(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// A failed storage operation.
#[derive(Debug)]
pub struct Error {
    operation: Operation,
    path: PathBuf,
    kind: ErrorKind,
    source: io::Error,
}

impl Error {
    /// Wraps an I/O error of an operation on a path.
    pub fn new(operation: Operation, path: &Path, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
            io::ErrorKind::WouldBlock => ErrorKind::Locked,
            io::ErrorKind::UnexpectedEof => ErrorKind::UnexpectedEnd,
            io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            io::ErrorKind::Unsupported => ErrorKind::Unsupported,
            io::ErrorKind::IsADirectory => ErrorKind::NotAFile,
            io::ErrorKind::FileTooLarge => ErrorKind::FileTooLarge,
            _ if is_errno(&source, Errno::MFILE) => ErrorKind::TooManyFiles,
            _ if is_errno(&source, Errno::NFILE) => ErrorKind::TooManyFilesInSystem,
            _ if source.get_ref().is_some_and(|inner| inner.is::<NotAFile>()) => {
                ErrorKind::NotAFile
            }
            _ => ErrorKind::Other,
        };
        Error {
            operation,
            path: path.to_path_buf(),
            kind,
            source,
        }
    }

    /// Refuses an operation on a parent's file.
    pub(crate) fn forked(operation: Operation, path: &Path) -> Self {
        let source = "the file belongs to the process that this one was forked from";
        Error {
            kind: ErrorKind::Forked,
            ..Error::new(operation, path, io::Error::other(source))
        }
    }

    pub(crate) fn unexpected_end(path: &Path) -> Self {
        let source = io::Error::from(io::ErrorKind::UnexpectedEof);
        Error::new(Operation::Read, path, source)
    }

    /// Returns the kind of the error, for callers to tell errors apart.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the operation that failed.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Returns the file or directory on which it failed.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The cause of [`ErrorKind::NotAFile`]: the kind of thing under the name.
#[derive(Debug)]
pub(crate) struct NotAFile(pub(crate) &'static str);

impl fmt::Display for NotAFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is {}, not a regular file; move it away", self.0)
    }
}

impl std::error::Error for NotAFile {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot {} {}: {}",
            self.operation,
            Escaped::path(&self.path),
            Escaped::message(&self.source.to_string())
        )
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_error_shows_a_hostile_name_escaped() {
        let path = Path::new("a\x1b[2J\x07\u{9b}\u{202e}\n");
        let source = io::Error::other("no\x1b]0;\u{202e}\n");
        assert_eq!(
            Error::new(Operation::Open, path, source).to_string(),
            r"cannot open a\x1b[2J\x07\xc2\x9b\u{202e}\n: no\x1b]0;\u{202e}\n"
        );
    }
}
