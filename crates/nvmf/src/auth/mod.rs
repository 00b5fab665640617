//! In-band authentication by DH-HMAC-CHAP (Base Specification, section 8.3.4).
//!
//! Host and controller prove to each other that they know a secret, queue by queue, right after
//! Connect. Authentication Send carries messages to the controller, Authentication Receive those to
//! the host:
//!
//! ```text
//! host                        controller
//! Negotiate   ------------->             hashes and groups
//!             <-------------  Challenge  C1 and a public value
//! Reply       ------------->             answer to C1, perhaps C2, and a public value
//!             <-------------  Success1   answer to C2, if there is one
//! Success2    ------------->             only after an answer to C2
//! ```
//!
//! [`Controller`] and [`Host`] are state machines: they take and give payloads, and the caller
//! moves them. They have no clock, so a caller limits the time of an attempt. They draw random
//! bytes from the caller's generator. A failure ends the attempt, and the caller closes the
//! connection.
//!
//! The negotiation itself is not authenticated. A [`Policy`] therefore lists only the hashes and
//! groups that are good enough.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

mod controller;
mod dh;
mod hash;
mod host;
pub mod message;
mod secret;
#[cfg(test)]
mod testing;
mod transcript;
mod transfer;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use rand::CryptoRng;

pub use self::controller::{Controller, ReceiveError};
pub use self::dh::Group;
pub use self::hash::Hash;
pub use self::host::{Action, Host};
pub use self::message::Reason;
pub use self::secret::{FileError, LineDefect, Secret, SecretError, SecretPair, Secrets};
pub use self::transfer::{PROTOCOL_SPECIFIC, SECURITY_PROTOCOL, Transfer};

/// The two names that every answer covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// NQN of the host.
    pub host: String,
    /// NQN of the subsystem.
    pub subsystem: String,
}

/// The hashes and groups that a side accepts. A controller takes the first of its own list that the
/// host offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Hash functions, best first.
    pub hashes: Vec<Hash>,
    /// Groups, best first.
    pub groups: Vec<Group>,
}

impl Default for Policy {
    /// Accepts everything, the strongest first.
    fn default() -> Self {
        Policy {
            hashes: vec![Hash::Sha512, Hash::Sha384, Hash::Sha256],
            groups: vec![Group::Ffdhe2048, Group::Null],
        }
    }
}

/// The numbers of challenges. All queues of a subsystem, or of a host, share one sequence.
#[derive(Debug)]
pub struct Sequence(AtomicU32);

impl Sequence {
    /// Makes a sequence that begins at a random number.
    pub fn new(random: &mut impl CryptoRng) -> Self {
        Sequence(AtomicU32::new(random.next_u32()))
    }

    /// Returns the next number, which is not 0.
    pub(crate) fn next(&self) -> u32 {
        // 0 says in messages that there is no challenge.
        loop {
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            if number != 0 {
                return number;
            }
        }
    }
}

/// The result of a successful attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authenticated {
    /// Hash function of the answers.
    pub hash: Hash,
    /// Group of the exchange.
    pub group: Group,
    /// Whether the controller authenticated itself, too.
    pub mutual: bool,
}

/// State of authentication on a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The host is not authenticated yet.
    Running,
    /// The host is authenticated.
    Authenticated(Authenticated),
    /// The attempt failed: close the connection.
    Failed(Failure),
}

/// The cause of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// This side refused the peer.
    Refused(Reason),
    /// The peer refused this side, with its code and explanation.
    RefusedByPeer {
        /// Reason code: 1 is an authentication failure.
        code: u8,
        /// Reason code explanation, usually a [`Reason`].
        explanation: u8,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Failure::Refused(reason) => write!(f, "the peer was refused: {reason}"),
            Failure::RefusedByPeer { code, explanation } => {
                match Reason::from_byte(explanation).filter(|_| code == message::FAILURE_CODE) {
                    Some(reason) => write!(f, "the peer refused: {reason}"),
                    None => write!(
                        f,
                        "the peer refused: code {code}, explanation {explanation}"
                    ),
                }
            }
        }
    }
}

impl std::error::Error for Failure {}

/// The choices of an attempt.
#[derive(Clone, Copy)]
struct Attempt {
    transaction: u16,
    hash: Hash,
    group: Group,
}

impl Attempt {
    /// Checks that a message belongs to the attempt.
    fn check(self, header: message::Header) -> Result<(), Reason> {
        if header.transaction.get() == self.transaction {
            Ok(())
        } else {
            Err(Reason::IncorrectPayload)
        }
    }

    fn authenticated(self, mutual: bool) -> Authenticated {
        Authenticated {
            hash: self.hash,
            group: self.group,
            mutual,
        }
    }
}

#[cfg(test)]
mod tests;
