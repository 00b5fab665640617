//! The one error of the engine. Each variant is a case that callers handle differently, and its
//! text says what to do next.

mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use terrace_region::{Front, FrontFault};
use terrace_storage as storage;

use crate::open_files;
use crate::region_loss::RegionLoss;

/// The result of an engine operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed. Cheap to clone: a background failure is shown to many writers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Bytes in a file differ from those that were written there.
    Corruption {
        /// The file.
        file: PathBuf,
        /// Where in the file, in bytes from its start.
        offset: u64,
        /// The fault.
        detail: String,
    },
    /// The file is of a format or kind that this version does not know.
    Unsupported {
        /// The file.
        file: PathBuf,
        /// The finding, and the known versions.
        detail: String,
    },
    /// The medium is full. Acknowledged writes are safe; writing goes on when space is freed.
    NoSpace {
        /// The directory or file that could not grow.
        path: PathBuf,
        /// Bytes that were needed.
        needed_bytes: u64,
    },
    /// No descriptor is left to open a file. This process or the machine has as many files open as
    /// it may, and no store has a table to close for it. Acknowledged writes are safe; try again
    /// when there are descriptors.
    TooManyFiles {
        /// The file or directory that could not be opened.
        path: PathBuf,
        /// Files that this process may have open (`RLIMIT_NOFILE`); `None` if the machine's limit
        /// is reached.
        process_limit: Option<u64>,
        /// Tables of the process's stores that are open.
        open_tables: usize,
    },
    /// A file cannot grow: the process (`RLIMIT_FSIZE`) or the file system allows no longer one.
    /// Acknowledged writes are safe; try again when the limit is raised.
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes that a file of this process may have; `None` without a limit.
        limit_bytes: Option<u64>,
    },
    /// No thread can be made: the user or the control group has as many as it may. Acknowledged
    /// writes are safe; try again when there are threads.
    NoThread(Arc<storage::NoThread>),
    /// A file operation failed.
    Io(Arc<storage::Error>),
    /// An argument or option is out of its range.
    InvalidArgument(String),
    /// The store's directory is owned by another process, or by another `Db` in this one.
    Busy {
        /// The store's directory.
        path: PathBuf,
        /// Socket at which its owner may be asked, by `terrace_tools::inspect`. A socket that a
        /// crash left does not answer.
        socket: Option<PathBuf>,
        /// Time that the opening waited in vain; see
        /// `Options::wait_for_lock`.
        waited: Duration,
    },
    /// The directory of an open store was removed, or another process has taken it. Writes are refused
    /// until the store is opened again.
    OwnershipLost {
        /// The directory, as it was named when it was opened.
        path: PathBuf,
        /// The finding, and a way out.
        detail: String,
    },
    /// There is no store in the directory.
    NoStore {
        /// The directory.
        path: PathBuf,
        /// The contents that were found instead.
        detail: String,
    },
    /// There is no keyspace with that name, or not any more.
    NoKeyspace {
        /// The name, or the number.
        name: String,
    },
    /// A region with unflushed writes is missing: a tmpfs after a reboot, a device that is not
    /// mounted, a removed file. `Options::accept_region_loss`
    /// goes on without it.
    RegionLost {
        /// The region directory or the arena file that is missing.
        path: PathBuf,
        /// The numbers of kept and of promised writes, if they are known. More may be missing.
        loss: Option<RegionLoss>,
    },
    /// The region directory is another store's, or this store's unflushed writes are elsewhere.
    WrongRegion {
        /// The store's directory.
        store: PathBuf,
        /// The region directory that was given; the store's own if none was.
        region: PathBuf,
        /// The region's owner, or the place of the writes, and what to do.
        detail: String,
    },
    /// The directory of a tier is missing: a device that is not mounted, a removed directory.
    /// `Options::accept_tier_loss` opens the store without its files. The keys in them are unreadable then,
    /// until the tier is back.
    TierLost {
        /// The tier's name.
        tier: String,
        /// The place of its directory when it was last seen.
        path: PathBuf,
        /// The contents that the store misses, as far as they are known.
        missing: Arc<MissingTier>,
    },
    /// The directory of a tier is another store's, or another tier's.
    WrongTier {
        /// The store's directory.
        store: PathBuf,
        /// The directory that was given for the tier.
        directory: PathBuf,
        /// The owner of the directory, and what to do.
        detail: String,
    },
    /// A key was written after it was read, or may have been. Nothing was written. Read again and retry.
    Conflict {
        /// The keyspace.
        keyspace: String,
        /// The key, as bytes. Of a range that was read it is one of the range.
        key: Vec<u8>,
    },
    /// A transaction would take more memory than it may. Nothing has changed; it can be committed as it is.
    TransactionTooLarge {
        /// The bytes that its writes, and the keys and ranges that it has read, would take; where the store
        /// bounds its memory, those of all transactions together, if they are the more.
        bytes: u64,
        /// The maximum.
        max_bytes: u64,
    },
    /// The bytes of a key or value are none of the type by which they are read: another type, or another
    /// version of it, wrote them. See `Typed`.
    OtherType {
        /// The keyspace.
        keyspace: String,
        /// The key, as bytes.
        key: Vec<u8>,
        /// `key` or `value`.
        part: &'static str,
        /// The name of the type by which it was read.
        expected: &'static str,
    },
    /// The write would have waited for flush or compaction, and was not to. Nothing was written;
    /// try again later.
    WouldStall,
    /// The read would have to wait for a device, and was to be answered from memory alone. Nothing was read;
    /// read without `ReadOptions::memory_only` where waiting does no harm.
    WouldBlock,
    /// A sync failed earlier, and its writes may or may not be durable; or a step of the store
    /// panicked. Reads go on; writes are refused until the store is reopened.
    Poisoned {
        /// The failure.
        cause: Arc<Error>,
    },
    /// A step of the store panicked: a bug in the engine, or in a storage or region of the caller's.
    Panicked {
        /// The step.
        step: String,
        /// The panic's message.
        message: String,
    },
    /// The call would wait for the store, and an event listener of the same store made it. The
    /// store waits for its listener, so neither would end. Nothing has changed.
    CalledFromListener,
    /// The store has been closed.
    Closed,
    /// This process is a forked child of the one that opened the store. See `Db`.
    Forked,
    /// The inspection socket of a store cannot be opened.
    NoInspection {
        /// The socket.
        path: PathBuf,
        /// The reason, and what to do.
        detail: String,
    },
    /// The answer of the process that owns a store, in its words.
    Owner(String),
    /// No process answers for a store. No process listens at its socket, or its owner is closing
    /// it, ended before it answered, or has too much to do. Ask again, or open the store.
    NoAnswer(String),
}

/// The contents of a missing tier.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MissingTier {
    /// The names of the files in it that the store needs.
    pub files: Vec<String>,
    /// The names of the keyspaces that they hold parts of.
    pub keyspaces: Vec<String>,
    /// The reason why the directory at the last place is not the tier's, if one is there.
    pub cause: Option<Error>,
}

impl MissingTier {
    /// Returns the contents of a missing tier.
    #[doc(hidden)]
    pub fn new(files: Vec<String>, keyspaces: Vec<String>, cause: Option<Error>) -> Self {
        MissingTier {
            files,
            keyspaces,
            cause,
        }
    }
}

impl Error {
    #[doc(hidden)]
    pub fn corruption(file: &Path, offset: u64, detail: impl Into<String>) -> Self {
        Error::Corruption {
            file: file.to_path_buf(),
            offset,
            detail: detail.into(),
        }
    }

    #[doc(hidden)]
    pub fn unsupported(file: &Path, detail: impl Into<String>) -> Self {
        Error::Unsupported {
            file: file.to_path_buf(),
            detail: detail.into(),
        }
    }

    /// Returns the error for a file of a format version that is not `known`.
    pub(crate) fn unknown_version(file: &Path, kind: &str, version: u32, known: u32) -> Self {
        let detail = format!("{kind} format {version}; this release reads {known}");
        Error::unsupported(file, detail)
    }

    /// Returns the error for a file whose first bytes are not the front that this release writes.
    #[doc(hidden)]
    pub fn of_front(file: &Path, kind: &str, known: Front, fault: FrontFault) -> Self {
        match fault {
            FrontFault::Damaged { offset, detail } => Error::corruption(file, offset, detail),
            FrontFault::UnknownVersion(version) => {
                Error::unknown_version(file, kind, version, known.version)
            }
        }
    }

    #[doc(hidden)]
    pub fn invalid(detail: impl Into<String>) -> Self {
        Error::InvalidArgument(detail.into())
    }

    /// Adds the numbers of kept and of promised writes to a [`Error::RegionLost`] without them.
    #[doc(hidden)]
    pub fn with_loss(self, known: RegionLoss) -> Self {
        match self {
            Error::RegionLost { path, loss: None } => Error::RegionLost {
                path,
                loss: Some(known),
            },
            error => error,
        }
    }

    /// Returns the error of a file in a tier that is not at hand.
    pub(crate) fn tier_lost(tier: &str, path: &Path) -> Self {
        Error::TierLost {
            tier: tier.to_owned(),
            path: path.to_path_buf(),
            missing: Arc::default(),
        }
    }

    /// Returns whether the medium was full.
    pub fn is_no_space(&self) -> bool {
        match self {
            Error::NoSpace { .. } => true,
            Error::Io(error) => error.kind() == storage::ErrorKind::NoSpace,
            _ => false,
        }
    }
}

impl From<storage::NoThread> for Error {
    fn from(error: storage::NoThread) -> Self {
        Error::NoThread(Arc::new(error))
    }
}

impl From<storage::Error> for Error {
    fn from(error: storage::Error) -> Self {
        if error.kind() == storage::ErrorKind::NotAFile {
            let detail = match std::error::Error::source(&error) {
                Some(cause) => cause.to_string(),
                None => error.to_string(),
            };
            return Error::corruption(error.path(), 0, detail);
        }
        Error::from(Arc::new(error))
    }
}

impl From<Arc<storage::Error>> for Error {
    fn from(error: Arc<storage::Error>) -> Self {
        match error.kind() {
            storage::ErrorKind::Forked => Error::Forked,
            storage::ErrorKind::FileTooLarge => Error::FileTooLarge {
                path: error.path().to_path_buf(),
                limit_bytes: getrlimit(Resource::Fsize).current,
            },
            storage::ErrorKind::TooManyFiles => Error::TooManyFiles {
                path: error.path().to_path_buf(),
                process_limit: Some(open_files::process_limit().unwrap_or(u64::MAX)),
                open_tables: open_files::open_tables(),
            },
            storage::ErrorKind::TooManyFilesInSystem => Error::TooManyFiles {
                path: error.path().to_path_buf(),
                process_limit: None,
                open_tables: open_files::open_tables(),
            },
            _ => Error::Io(error),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => std::error::Error::source(error.as_ref()),
            Error::NoThread(error) => std::error::Error::source(error.as_ref()),
            Error::Poisoned { cause } => Some(cause.as_ref()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
