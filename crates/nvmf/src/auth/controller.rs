//! The controller's side of an attempt.

use std::fmt;
use std::mem;
use std::sync::Arc;

use rand::CryptoRng;

use super::dh::{Exponent, PublicValue};
use super::hash::Digest;
use super::message::{self, ChallengeHead, FailureMessage, Message, Success1Head};
use super::message::{Descriptor, NegotiateHead, Reply};
use super::secret::Key;
use super::transcript::Transcript;
use super::{Attempt, Authenticated, Failure, Group, Names, Outcome, Policy, Reason};
use super::{SecretPair, Sequence};

/// The controller's side of authentication on one queue.
///
/// [`Controller::send`] takes the data of each Authentication Send, which always succeeds as a
/// command. [`Controller::receive`] gives the data for each Authentication Receive. After either,
/// [`Controller::outcome`] gives the state of the queue.
///
/// One attempt runs at a time: a Negotiate amid an attempt fails it. An authenticated queue may
/// authenticate again, and stays authenticated meanwhile.
pub struct Controller {
    names: Names,
    host_key: Key,
    controller_key: Option<Key>,
    policy: Policy,
    sequence: Arc<Sequence>,
    authenticated: Option<Authenticated>,
    state: State,
}

enum State {
    /// The host must negotiate.
    Idle,
    /// The host must fetch a challenge.
    Negotiated(Attempt),
    /// The host must reply to a challenge.
    Challenged(Attempt, Challenge),
    /// The host must fetch Success1, perhaps with an answer to its own challenge.
    Verified(Attempt, Option<Digest>),
    /// The host must accept that answer by Success2.
    Answered(Attempt),
    /// The host must fetch a failure.
    Failing { transaction: u16, reason: Reason },
    /// The connection must be closed.
    Failed { transaction: u16, failure: Failure },
}

/// A challenge under way.
struct Challenge {
    bytes: Vec<u8>,
    sequence: u32,
    exponent: Option<Exponent>,
}

/// An Authentication Receive that gets no message. Invalid Field answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveError {
    /// Bytes of the message for which the host's buffer is too small.
    pub needed_bytes: usize,
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = self.needed_bytes;
        write!(f, "the authentication message needs {needed} bytes")
    }
}

impl std::error::Error for ReceiveError {}

impl Controller {
    /// Makes the controller's side of a queue.
    pub fn new(
        names: Names,
        secrets: &SecretPair,
        policy: Policy,
        sequence: Arc<Sequence>,
    ) -> Self {
        let controller = secrets.controller.as_ref();
        Controller {
            host_key: secrets.host.key_of(&names.host),
            controller_key: controller.map(|secret| secret.key_of(&names.subsystem)),
            names,
            policy,
            sequence,
            authenticated: None,
            state: State::Idle,
        }
    }

    /// Returns the state of the queue. A failure shows after the host fetched it.
    pub fn outcome(&self) -> Outcome {
        match (&self.state, self.authenticated) {
            (State::Failed { failure, .. }, _) => Outcome::Failed(*failure),
            (State::Failing { .. }, _) | (_, None) => Outcome::Running,
            (_, Some(authenticated)) => Outcome::Authenticated(authenticated),
        }
    }

    /// Takes the data of an Authentication Send.
    pub fn send(&mut self, payload: &[u8]) {
        let transaction = match &self.state {
            State::Failing { .. } | State::Failed { .. } => return,
            State::Idle => message::transaction(payload),
            State::Negotiated(attempt)
            | State::Challenged(attempt, _)
            | State::Verified(attempt, _)
            | State::Answered(attempt) => attempt.transaction,
        };
        let state = mem::replace(&mut self.state, State::Idle);
        self.state = self
            .advance(state, payload)
            .unwrap_or_else(|reason| State::Failing {
                transaction,
                reason,
            });
    }

    /// Gives the data for an Authentication Receive with room for `max_bytes`.
    ///
    /// # Errors
    /// If the message needs more room; the attempt does not change.
    pub fn receive(
        &mut self,
        max_bytes: usize,
        random: &mut impl CryptoRng,
    ) -> Result<Vec<u8>, ReceiveError> {
        let needed_bytes = self.message_bytes();
        if max_bytes < needed_bytes {
            return Err(ReceiveError { needed_bytes });
        }
        let (state, payload) = match mem::replace(&mut self.state, State::Idle) {
            State::Negotiated(attempt) => self.challenge(attempt, random),
            State::Verified(attempt, response) => self.success1(attempt, response),
            State::Failing {
                transaction,
                reason,
            } => refused(transaction, Failure::Refused(reason)),
            State::Failed {
                transaction,
                failure,
            } => refused(transaction, failure),
            State::Idle => refused(0, Failure::Refused(Reason::IncorrectMessage)),
            State::Challenged(attempt, _) | State::Answered(attempt) => refused(
                attempt.transaction,
                Failure::Refused(Reason::IncorrectMessage),
            ),
        };
        self.state = state;
        Ok(payload)
    }

    /// Returns the bytes of the message that the host fetches next.
    fn message_bytes(&self) -> usize {
        match &self.state {
            State::Negotiated(attempt) => {
                size_of::<ChallengeHead>() + attempt.hash.bytes() + attempt.group.bytes()
            }
            State::Verified(_, response) => {
                let response = response
                    .as_ref()
                    .map_or(0, |digest| digest.as_bytes().len());
                size_of::<Success1Head>() + response
            }
            _ => size_of::<FailureMessage>(),
        }
    }

    fn advance(&mut self, state: State, payload: &[u8]) -> Result<State, Reason> {
        let (message, rest) = Message::parse(payload).map_err(|error| error.reason())?;
        if !rest.is_empty() {
            return Err(Reason::IncorrectPayload);
        }
        match (state, message) {
            (State::Idle, Message::Negotiate(head, descriptors)) => {
                Ok(State::Negotiated(self.negotiate(head, descriptors)?))
            }
            (State::Challenged(attempt, challenge), Message::Reply(reply)) => {
                let response = self.verify(attempt, &challenge, &reply)?;
                Ok(State::Verified(attempt, response))
            }
            (State::Answered(attempt), Message::Success2(success)) => {
                attempt.check(success.header)?;
                self.authenticated = Some(attempt.authenticated(true));
                Ok(State::Idle)
            }
            (
                State::Challenged(attempt, _) | State::Answered(attempt),
                Message::Failure2(failure),
            ) => {
                attempt.check(failure.header)?;
                Ok(State::Failed {
                    transaction: attempt.transaction,
                    failure: Failure::RefusedByPeer {
                        code: failure.code,
                        explanation: failure.explanation,
                    },
                })
            }
            _ => Err(Reason::IncorrectMessage),
        }
    }

    /// Selects the hash function and the group.
    fn negotiate(
        &self,
        head: &NegotiateHead,
        descriptors: &[Descriptor],
    ) -> Result<Attempt, Reason> {
        if head.secure_channel != 0 {
            return Err(Reason::SecureChannelMismatch);
        }
        let descriptor = descriptors
            .iter()
            .find(|descriptor| descriptor.is_dh_hmac_chap())
            .ok_or(Reason::ProtocolUnusable)?;
        let hashes = descriptor.hashes().ok_or(Reason::IncorrectPayload)?;
        let groups = descriptor.groups().ok_or(Reason::IncorrectPayload)?;
        let mut own_hashes = self.policy.hashes.iter().copied();
        let mut own_groups = self.policy.groups.iter().copied();
        Ok(Attempt {
            transaction: head.header.transaction.get(),
            hash: own_hashes
                .find(|hash| hashes.contains(&(*hash as u8)))
                .ok_or(Reason::HashUnusable)?,
            group: own_groups
                .find(|group| groups.contains(&(*group as u8)))
                .ok_or(Reason::GroupUnusable)?,
        })
    }

    fn challenge(&self, attempt: Attempt, random: &mut impl CryptoRng) -> (State, Vec<u8>) {
        let Attempt {
            transaction,
            hash,
            group,
        } = attempt;
        let mut bytes = vec![0; hash.bytes()];
        random.fill_bytes(&mut bytes);
        let exponent = match group {
            Group::Null => None,
            Group::Ffdhe2048 => Some(Exponent::draw(random)),
        };
        let value = exponent.as_ref().map(Exponent::public);
        let value = value.as_ref().map_or(&[][..], |value| &value[..]);
        let sequence = self.sequence.next();
        let payload = message::challenge(transaction, hash, group, sequence, &bytes, value);
        let challenge = Challenge {
            bytes,
            sequence,
            exponent,
        };
        (State::Challenged(attempt, challenge), payload)
    }

    /// Verifies the host's answer, and returns the controller's own if the host wants one.
    fn verify(
        &self,
        attempt: Attempt,
        challenge: &Challenge,
        reply: &Reply<'_>,
    ) -> Result<Option<Digest>, Reason> {
        attempt.check(reply.head.header)?;
        if reply.response.len() != attempt.hash.bytes() {
            return Err(Reason::IncorrectPayload);
        }
        let sequence = reply.head.sequence.get();
        let mutual = match (reply.head.challenge_valid, sequence) {
            (0, _) => false,
            (1, 1..) => true,
            // Number 0 asks for the key of a secure channel, and none was negotiated.
            _ => return Err(Reason::IncorrectPayload),
        };
        let shared = match &challenge.exponent {
            None if reply.value.is_empty() => None,
            None => return Err(Reason::IncorrectPayload),
            Some(exponent) => {
                let value = PublicValue::parse(reply.value).ok_or(Reason::IncorrectPayload)?;
                Some(exponent.agree(&value))
            }
        };
        let transcript = Transcript {
            hash: attempt.hash,
            names: &self.names,
            transaction: attempt.transaction,
            shared,
        };
        let expected =
            transcript.host_response(&self.host_key, &challenge.bytes, challenge.sequence);
        if !expected.matches(reply.response) {
            return Err(Reason::Failed);
        }
        if !mutual {
            return Ok(None);
        }
        let key = self.controller_key.as_ref().ok_or(Reason::Failed)?;
        Ok(Some(transcript.controller_response(
            key,
            reply.challenge,
            sequence,
        )))
    }

    fn success1(&mut self, attempt: Attempt, response: Option<Digest>) -> (State, Vec<u8>) {
        let bytes = response.as_ref().map(Digest::as_bytes);
        let payload = message::success1(attempt.transaction, attempt.hash, bytes);
        if response.is_some() {
            return (State::Answered(attempt), payload);
        }
        self.authenticated = Some(attempt.authenticated(false));
        (State::Idle, payload)
    }
}

fn refused(transaction: u16, failure: Failure) -> (State, Vec<u8>) {
    let reason = match failure {
        Failure::Refused(reason) => reason,
        Failure::RefusedByPeer { .. } => Reason::Failed,
    };
    let state = State::Failed {
        transaction,
        failure,
    };
    (state, message::failure1(transaction, reason))
}
