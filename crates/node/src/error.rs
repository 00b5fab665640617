//! The errors of opening, recovering and checking a node's device.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The error of an operation.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    Io {
        /// The operation and its object, as in "write 4096 bytes at 8192 of /dev/sdb".
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Bytes on the device are not as they were written.
    Damaged {
        /// Place on the device, in bytes.
        offset: u64,
        /// The damage, and the next step.
        what: String,
    },
    /// A format of a newer release.
    Unsupported {
        /// Place on the device, in bytes.
        offset: u64,
        /// The version found, and those that this release reads.
        what: String,
    },
    /// The device is in use, or holds something that must not be overwritten.
    Occupied {
        /// The device or file.
        path: PathBuf,
        /// Its holder, and the next step.
        what: String,
    },
    /// An argument or an option is out of its range.
    InvalidArgument(String),
    /// The store of an [`LsmEngine`](crate::lsm::LsmEngine) cannot be used.
    Store(terrace::Error),
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Error::Io {
            what: what.into(),
            source,
        }
    }

    pub(crate) fn damaged(offset: u64, what: impl Into<String>) -> Self {
        Error::Damaged {
            offset,
            what: what.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { what, source } => write!(f, "cannot {what}: {source}"),
            Error::Damaged { offset, what } => write!(f, "damage at byte {offset}: {what}"),
            Error::Unsupported { offset, what } => write!(f, "at byte {offset}: {what}"),
            Error::Occupied { path, what } => write!(f, "{}: {what}", path.display()),
            Error::InvalidArgument(what) => f.write_str(what),
            Error::Store(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Store(error) => std::error::Error::source(error),
            _ => None,
        }
    }
}

impl From<terrace::Error> for Error {
    fn from(error: terrace::Error) -> Self {
        Error::Store(error)
    }
}
