//! Authentication of a host's queues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use super::{Names, succeed};
use crate::auth::message::MAX_MESSAGE_BYTES;
use crate::auth::{self, Action, Host, Policy, SecretPair, Sequence};
use crate::initiator::connection::Transfer;
use crate::initiator::error::{Error, Result};
use crate::initiator::queue::Channel;
use crate::wire::fabrics::AUTHENTICATION_REQUIRED;

/// Bits of Connect's result that ask for authentication, by one protocol or another.
const AUTHENTICATION: u32 = 0b111 << 16;

/// The authentication that a controller asks for.
pub(super) enum Demand {
    None,
    DhHmacChap,
    /// A protocol that hosts here do not have, such as one of a secure channel.
    Other,
}

/// Reads the demand in Connect's result.
pub(super) fn demand(result: u32) -> Demand {
    match result & AUTHENTICATION {
        0 => Demand::None,
        AUTHENTICATION_REQUIRED => Demand::DhHmacChap,
        _ => Demand::Other,
    }
}

/// The secrets of a host, and its numbers of attempts and challenges.
pub(super) struct Authenticator {
    secrets: SecretPair,
    challenges: Arc<Sequence>,
    next_transaction: AtomicU16,
}

impl Authenticator {
    pub(super) fn new(secrets: SecretPair) -> Self {
        Authenticator {
            secrets,
            challenges: Arc::new(Sequence::new(&mut rand::rng())),
            next_transaction: AtomicU16::new(1),
        }
    }

    /// Returns whether controllers must authenticate themselves.
    pub(super) fn is_mutual(&self) -> bool {
        self.secrets.controller.is_some()
    }

    /// Authenticates the host on a queue, and the controller if the host has its secret.
    pub(super) fn run(&self, channel: &mut impl Channel, names: &Names) -> Result<()> {
        let names = auth::Names {
            host: names.host.clone(),
            subsystem: names.subsystem.clone(),
        };
        let mut host = Host::new(
            names,
            &self.secrets,
            Policy::default(),
            Arc::clone(&self.challenges),
            self.next_transaction.fetch_add(1, Ordering::Relaxed),
        );
        loop {
            match host.action() {
                Action::Send(message) => {
                    let entry = auth::Transfer::new(message.len() as u32).to_send();
                    let transfer = Transfer::Write(message.into());
                    if let Err(error) = succeed(channel, entry, transfer) {
                        // A controller may close at once when the host refuses it.
                        return Err(match host.action() {
                            Action::Stop(Err(failure)) => Error::AuthenticationFailed(failure),
                            _ => error,
                        });
                    }
                }
                Action::Receive => {
                    let entry = auth::Transfer::new(MAX_MESSAGE_BYTES).to_receive();
                    let done = succeed(channel, entry, Transfer::Read(MAX_MESSAGE_BYTES))?;
                    host.received(&done.data, &mut rand::rng());
                }
                Action::Stop(result) => {
                    return result.map(drop).map_err(Error::AuthenticationFailed);
                }
            }
        }
    }
}
