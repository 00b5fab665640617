//! The errors of a host.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::connection::Refusal;
use super::violation::Violation;
use crate::auth;
use crate::wire::status::Status;

/// The error of an operation. Several commands may fail by the same error, so it can be copied.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation on the connection.
    Io {
        /// The operation.
        what: &'static str,
        /// The system's answer.
        source: Arc<io::Error>,
    },
    /// The controller broke the protocol.
    Violation(Violation),
    /// The controller closed the connection.
    Closed,
    /// The controller did not answer in time.
    Timeout(&'static str),
    /// The command completed with an error.
    Status(Status),
    /// The controller asks the host to authenticate.
    AuthenticationRequired,
    /// Host and controller did not authenticate.
    AuthenticationFailed(auth::Failure),
    /// The host has a secret of the controller, and the controller asks for no authentication.
    Unauthenticated,
    /// The connection broke before the answer to a command that must not be repeated. The command
    /// took effect, or did not, or will.
    UnknownOutcome,
    /// The connection broke, and a new one was not possible in time, or broke as well. A Store or a
    /// Write may have taken effect.
    Disconnected(Box<Error>),
    /// The controller lacks something that the host needs.
    Unsupported(&'static str),
    /// An answer is not as its specification has it.
    Malformed(&'static str),
    /// An argument is out of its range.
    InvalidArgument(&'static str),
    /// A command's data are longer than a transfer may be.
    TooLong {
        /// Bytes of the data.
        bytes: u64,
        /// The most bytes of a transfer.
        max_bytes: u64,
    },
    /// As many commands are in flight as the queues have room for.
    QueueFull,
    /// The client has no such ticket.
    UnknownTicket,
}

/// Results of a host.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(super) fn io(what: &'static str, source: io::Error) -> Self {
        Error::Io {
            what,
            source: Arc::new(source),
        }
    }

    /// Returns the status of a command that completed with an error.
    pub fn status(&self) -> Option<Status> {
        match self {
            Error::Status(status) => Some(*status),
            _ => None,
        }
    }

    /// Returns whether the connection is of no use any more.
    pub(super) fn is_of_connection(&self) -> bool {
        matches!(
            self,
            Error::Io { .. } | Error::Violation(_) | Error::Closed | Error::Timeout(_)
        )
    }

    /// Returns whether another attempt to connect may succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Error::Status(status) => status.may_retry(),
            error => error.is_of_connection(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { what, source } => write!(f, "{what}: {source}"),
            Error::Violation(violation) => {
                write!(f, "the controller broke the protocol: {violation}")
            }
            Error::Closed => write!(f, "the controller closed the connection"),
            Error::Timeout(what) => write!(f, "{what} took too long"),
            Error::Status(status) => write!(f, "{status}"),
            Error::AuthenticationRequired => write!(f, "the controller asks for authentication"),
            Error::AuthenticationFailed(failure) => write!(f, "authentication: {failure}"),
            Error::Unauthenticated => {
                write!(f, "the controller does not authenticate itself")
            }
            Error::UnknownOutcome => {
                write!(f, "the connection broke, and the outcome is not known")
            }
            Error::Disconnected(error) => write!(f, "no connection: {error}"),
            Error::Unsupported(what) => write!(f, "the controller lacks {what}"),
            Error::Malformed(what) => write!(f, "the controller's {what} is malformed"),
            Error::InvalidArgument(what) => write!(f, "{what}"),
            Error::TooLong { bytes, max_bytes } => {
                write!(
                    f,
                    "{bytes} bytes of data are more than the {max_bytes} of a transfer"
                )
            }
            Error::QueueFull => write!(f, "the queues are full"),
            Error::UnknownTicket => write!(f, "no such ticket"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source.as_ref()),
            Error::Violation(violation) => Some(violation),
            Error::AuthenticationFailed(failure) => Some(failure),
            Error::Disconnected(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        Error::Violation(violation)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotReady => Error::Closed,
            Refusal::QueueFull => Error::QueueFull,
            Refusal::TooLong => Error::InvalidArgument("data are longer than 4 GiB"),
        }
    }
}
