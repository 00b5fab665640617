//! The errors of a server.

use std::fmt;
use std::io;
use std::path::PathBuf;

use terrace_node::Escaped;

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a server does not start, or ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An option has a value that it cannot have.
    Option {
        /// The option.
        name: &'static str,
        /// The value, and those that are accepted.
        what: String,
    },
    /// The file of options cannot be read.
    File {
        /// The file.
        path: PathBuf,
        /// The place and the reason.
        what: String,
    },
    /// An address cannot be listened on.
    Listen {
        /// The address.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The node's device refused or failed.
    Node(terrace_node::Error),
    /// The system refused something else.
    Io {
        /// The operation.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Error::Io { what, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Option { name, what } => write!(f, "{name}: {}", Escaped::message(what)),
            Error::File { path, what } => {
                write!(f, "{}: {}", Escaped::path(path), Escaped::message(what))
            }
            Error::Listen { address, source } => {
                write!(f, "cannot listen on {}: {source}", Escaped::name(address))
            }
            Error::Node(error) => write!(f, "{error}"),
            Error::Io { what, source } => write!(f, "cannot {what}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Listen { source, .. } | Error::Io { source, .. } => Some(source),
            Error::Node(error) => Some(error),
            Error::Option { .. } | Error::File { .. } => None,
        }
    }
}

impl From<terrace_node::Error> for Error {
    fn from(error: terrace_node::Error) -> Self {
        Error::Node(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_shows_hostile_text_escaped() {
        let hostile = "a\x1b[2J\x07\u{9b}\u{202e}\n";
        let errors = [
            Error::Option {
                name: "a",
                what: hostile.into(),
            },
            Error::File {
                path: hostile.into(),
                what: "a".into(),
            },
            Error::File {
                path: "a".into(),
                what: hostile.into(),
            },
            Error::Listen {
                address: hostile.into(),
                source: io::Error::other("a"),
            },
            Error::Node(terrace_node::Error::InvalidArgument(hostile.into())),
        ];
        for error in errors {
            let text = error.to_string();
            let escaped = r"a\x1b[2J\x07\xc2\x9b\u{202e}\n";
            assert!(text.contains(escaped), "{text:?}");
            assert!(!text.contains(['\x1b', '\x07', '\u{9b}', '\u{202e}', '\n']));
        }
    }
}
