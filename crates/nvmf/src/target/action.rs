//! The answers of a connection to its caller: actions, and the reason of its end.

use super::backend::Command;
use crate::auth;

/// An action of the caller for a connection.
#[derive(Debug)]
pub enum Action<B> {
    /// Submit a command to the backend.
    Submit {
        /// The command's tag.
        tag: u64,
        /// The namespace.
        nsid: u32,
        /// The command.
        command: Command,
    },
    /// Supply a piece.
    Supply {
        /// The command's tag.
        tag: u64,
        /// The piece.
        buffer: B,
    },
    /// Give a buffer back.
    GiveBack {
        /// The command's tag.
        tag: u64,
        /// The buffer.
        buffer: B,
    },
    /// Take a command back.
    Abort {
        /// The command's tag.
        tag: u64,
    },
}

/// The reason for the end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The host ended it.
    ByHost,
    /// The host violated the protocol.
    Violation(&'static str),
    /// The host was silent for too long.
    Silence,
    /// There is no memory for the queue, or there are too many controllers.
    NoRoom,
    /// Another connection is the same queue.
    QueueTaken,
    /// The controller is gone.
    ControllerGone,
    /// The server stops.
    Stopping,
    /// Host and controller did not authenticate.
    Unauthenticated(auth::Failure),
}
