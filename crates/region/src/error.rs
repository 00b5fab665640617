//! The one error of this crate.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use terrace_storage as storage;
use terrace_storage::Escaped;

/// The result of an operation on a region or an arena.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on a region or an arena failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The frame does not fit into the rest of the arena; nothing was stored.
    Full {
        /// Requested bytes of payload.
        payload_bytes: u64,
        /// The largest payload that still fits.
        remaining_payload_bytes: u64,
    },
    /// The arena takes no more frames.
    Sealed,
    /// An argument breaks the contract; the text says which and how.
    InvalidArgument(String),
    /// The medium failed. The arena is as it was before the call and stays usable.
    Io(storage::Error),
    /// A persist failed: nothing is known about the bytes appended since the last one that
    /// succeeded. Every later persist of the arena fails with the same cause.
    PersistFailed(Arc<storage::Error>),
    /// This region cannot make bytes survive a power cut.
    PersistUnsupported {
        /// The persist method.
        method: &'static str,
        /// Next step.
        advice: &'static str,
    },
    /// The persist method cannot work on the region's medium.
    MethodUnsupported {
        /// The persist method.
        method: &'static str,
        /// Medium of the region: the file system's name.
        medium: String,
        /// Reason, and next step.
        advice: &'static str,
    },
    /// An arena that the manifest names is not there (a tmpfs after a reboot, a removed file).
    Missing {
        /// Its slot.
        slot: u64,
        /// Expected file.
        file: PathBuf,
    },
    /// The header is intact and that of another arena: another store's, or another slot's.
    Foreign {
        /// The arena's file.
        file: PathBuf,
        /// Owner of the arena.
        detail: String,
    },
    /// The header is intact and of a format version that this program does not know.
    UnknownVersion {
        /// The arena's file.
        file: PathBuf,
        /// The version found.
        version: u32,
    },
    /// Bytes differ from those that were written.
    Corruption {
        /// The arena's file.
        file: PathBuf,
        /// Offset in the file.
        offset: u64,
        /// Fault at that offset.
        reason: &'static str,
    },
    /// No memory for an arena's image.
    OutOfMemory {
        /// Requested bytes.
        bytes: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Full {
                payload_bytes,
                remaining_payload_bytes,
            } => write!(
                f,
                "a frame of {payload_bytes} bytes does not fit: the arena has room for {remaining_payload_bytes}"
            ),
            Error::Sealed => f.write_str("the arena is sealed"),
            Error::InvalidArgument(what) => Escaped::message(what).fmt(f),
            Error::Io(error) => error.fmt(f),
            Error::PersistFailed(error) => write!(f, "cannot persist an arena: {error}"),
            Error::PersistUnsupported { method, advice } => write!(
                f,
                "the persist method '{method}' cannot make writes survive a power cut: {advice}"
            ),
            Error::MethodUnsupported {
                method,
                medium,
                advice,
            } => write!(
                f,
                "the persist method '{method}' cannot be used on {}: {advice}",
                Escaped::message(medium)
            ),
            Error::Missing { slot, file } => write!(
                f,
                "arena {slot} is missing: {} does not exist",
                Escaped::path(file)
            ),
            Error::Foreign { file, detail } => {
                write!(f, "{}: {}", Escaped::path(file), Escaped::message(detail))
            }
            Error::UnknownVersion { file, version } => write!(
                f,
                "{} has format version {version}, which this program does not know",
                Escaped::path(file)
            ),
            Error::Corruption {
                file,
                offset,
                reason,
            } => write!(
                f,
                "{} is corrupt at offset {offset}: {reason}",
                Escaped::path(file)
            ),
            Error::OutOfMemory { bytes } => {
                write!(f, "no memory for an arena of {bytes} bytes")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            Error::PersistFailed(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}

impl From<storage::Error> for Error {
    fn from(error: storage::Error) -> Self {
        Error::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_shows_hostile_text_escaped() {
        let hostile = "a\x1b[2J\x07\u{9b}\u{202e}\n";
        let escaped = r"a\x1b[2J\x07\xc2\x9b\u{202e}\n";
        let file = || PathBuf::from(hostile);
        let io = || {
            let source = std::io::Error::other(hostile);
            storage::Error::new(storage::Operation::Read, hostile.as_ref(), source)
        };
        let errors = [
            Error::InvalidArgument(hostile.into()),
            Error::Io(io()),
            Error::PersistFailed(Arc::new(io())),
            Error::MethodUnsupported {
                method: "mapped",
                medium: hostile.into(),
                advice: "",
            },
            Error::Missing {
                slot: 1,
                file: file(),
            },
            Error::Foreign {
                file: file(),
                detail: hostile.into(),
            },
            Error::UnknownVersion {
                file: file(),
                version: 9,
            },
            Error::Corruption {
                file: file(),
                offset: 1,
                reason: "",
            },
        ];
        for error in errors {
            let text = error.to_string();
            assert!(text.contains(escaped), "{text}");
            assert!(!text.contains(['\x1b', '\x07', '\u{9b}', '\u{202e}', '\n']));
        }
    }
}
