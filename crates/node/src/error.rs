//! The errors of opening, recovering and checking a node's device.

use std::fmt;
use std::io;
use std::path::PathBuf;

use terrace::Escaped;

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
            Error::Io { what, source } => {
                let source = source.to_string();
                let (what, source) = (Escaped::message(what), Escaped::message(&source));
                write!(f, "cannot {what}: {source}")
            }
            Error::Damaged { offset, what } => {
                write!(f, "damage at byte {offset}: {}", Escaped::message(what))
            }
            Error::Unsupported { offset, what } => {
                write!(f, "at byte {offset}: {}", Escaped::message(what))
            }
            Error::Occupied { path, what } => {
                write!(f, "{}: {}", Escaped::path(path), Escaped::message(what))
            }
            Error::InvalidArgument(what) => Escaped::message(what).fmt(f),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_shows_hostile_text_escaped() {
        let hostile = "a\x1b[2J\x07\u{9b}\u{202e}\n";
        let errors = [
            Error::io(hostile, io::Error::other("a")),
            Error::io("a", io::Error::other(hostile)),
            Error::damaged(1, hostile),
            Error::Unsupported {
                offset: 1,
                what: hostile.into(),
            },
            Error::Occupied {
                path: hostile.into(),
                what: "a".into(),
            },
            Error::Occupied {
                path: "a".into(),
                what: hostile.into(),
            },
            Error::InvalidArgument(hostile.into()),
            Error::Store(terrace::Error::InvalidArgument(hostile.into())),
        ];
        for error in errors {
            let text = error.to_string();
            let escaped = r"a\x1b[2J\x07\xc2\x9b\u{202e}\n";
            assert!(text.contains(escaped), "{text:?}");
            assert!(!text.contains(['\x1b', '\x07', '\u{9b}', '\u{202e}', '\n']));
        }
    }
}
