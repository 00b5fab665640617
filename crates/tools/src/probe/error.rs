//! Why a device could not be measured.

use std::fmt;
use std::path::PathBuf;

use terrace_storage::{self as storage, Escaped, NoThread};

use super::options::MIN_FREE_BYTES;
use super::watch::Phase;

/// The result of a measurement, or of a part of it.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a device could not be measured. The file is removed in each case, if that is possible.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed.
    Storage(storage::Error),
    /// The file system has too little free space.
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// Its free space.
        free_bytes: u64,
    },
    /// There is a file of the name that this process would take.
    Occupied {
        /// The file.
        path: PathBuf,
    },
    /// A read found other bytes than were written. The device is no good place for data.
    WrongBytes {
        /// The file, which is gone by now.
        path: PathBuf,
        /// The offset of the first wrong page in it.
        offset_bytes: u64,
    },
    /// The system has no thread left.
    NoThread(NoThread),
    /// The caller broke off.
    Interrupted,
    /// The options allow no request of a phase.
    NothingMeasured {
        /// The phase.
        phase: Phase,
    },
}

impl From<storage::Error> for Error {
    fn from(error: storage::Error) -> Self {
        Error::Storage(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Storage(error) => error.fmt(f),
            Error::NoSpace { path, free_bytes } => write!(
                f,
                "{} has {free_bytes} bytes of free space, and a measurement needs {MIN_FREE_BYTES}; \
                 remove files there, or take another directory of the same device",
                Escaped::path(path)
            ),
            Error::Occupied { path } => write!(
                f,
                "{} exists: another measurement is at work, or one was killed; if none is at work, \
                 remove the file",
                Escaped::path(path)
            ),
            Error::WrongBytes { path, offset_bytes } => write!(
                f,
                "{}: offset {offset_bytes} has other bytes than were written there; keep no data on \
                 this device, and check it",
                Escaped::path(path)
            ),
            Error::NoThread(error) => error.fmt(f),
            Error::Interrupted => f.write_str("the measurement was interrupted; run it again"),
            Error::NothingMeasured { phase } => write!(
                f,
                "{}: no request was allowed; set max_requests to 1 or more",
                phase.name()
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Storage(error) => Some(error),
            Error::NoThread(error) => Some(error),
            _ => None,
        }
    }
}
