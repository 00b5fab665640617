//! The host's side of an attempt.

use std::mem;
use std::sync::Arc;

use rand::CryptoRng;

use super::dh::{Exponent, PublicValue};
use super::hash::Digest;
use super::message::{self, Challenge, Message, Success1Head};
use super::secret::Key;
use super::transcript::Transcript;
use super::{Attempt, Authenticated, Failure, Group, Hash, Names, Policy, Reason};
use super::{SecretPair, Sequence};

/// The host's side of one attempt on one queue.
///
/// [`Host::action`] gives the next step. The caller takes it, hands received data to
/// [`Host::received`], and asks again.
///
/// With a secret of the controller, the host also authenticates the controller.
pub struct Host {
    names: Names,
    host_key: Key,
    controller_key: Option<Key>,
    policy: Policy,
    sequence: Arc<Sequence>,
    transaction: u16,
    state: State,
}

/// The next step of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send these data by Authentication Send, and wait for its completion.
    Send(Vec<u8>),
    /// Receive data by Authentication Receive, with room for
    /// [`MAX_MESSAGE_BYTES`](message::MAX_MESSAGE_BYTES).
    Receive,
    /// Stop: the attempt ended. After a failure, close the connection.
    Stop(Result<Authenticated, Failure>),
}

enum State {
    /// Negotiate must be sent.
    Begin,
    /// The challenge must be received.
    Negotiated,
    /// The reply must be sent.
    Challenged(Replied, Vec<u8>),
    /// Success1 must be received.
    Replied(Replied),
    /// Success2 must be sent.
    Verified(Attempt),
    /// Failure2 must be sent.
    Refused(Reason),
    /// The attempt ended.
    Ended(Result<Authenticated, Failure>),
}

/// The attempt, and the answer that a genuine controller gives.
struct Replied {
    attempt: Attempt,
    expected: Option<Digest>,
}

impl Host {
    /// Makes the host's side. The caller numbers its attempts by `transaction`.
    pub fn new(
        names: Names,
        secrets: &SecretPair,
        policy: Policy,
        sequence: Arc<Sequence>,
        transaction: u16,
    ) -> Self {
        let controller = secrets.controller.as_ref();
        Host {
            host_key: secrets.host.key_of(&names.host),
            controller_key: controller.map(|secret| secret.key_of(&names.subsystem)),
            names,
            policy,
            sequence,
            transaction,
            state: State::Begin,
        }
    }

    /// Returns the next step.
    pub fn action(&mut self) -> Action {
        let ended = State::Ended(Err(Failure::Refused(Reason::IncorrectMessage)));
        let (state, action) = match mem::replace(&mut self.state, ended) {
            State::Begin => {
                let Policy { hashes, groups } = &self.policy;
                let payload = message::negotiate(self.transaction, hashes, groups);
                (State::Negotiated, Action::Send(payload))
            }
            State::Challenged(replied, payload) => (State::Replied(replied), Action::Send(payload)),
            State::Verified(attempt) => {
                let payload = message::success2(self.transaction);
                let result = Ok(attempt.authenticated(true));
                (State::Ended(result), Action::Send(payload))
            }
            State::Refused(reason) => {
                let payload = message::failure2(self.transaction, reason);
                let result = Err(Failure::Refused(reason));
                (State::Ended(result), Action::Send(payload))
            }
            State::Ended(result) => (State::Ended(result), Action::Stop(result)),
            waiting @ (State::Negotiated | State::Replied(_)) => (waiting, Action::Receive),
        };
        self.state = state;
        action
    }

    /// Takes the data of an Authentication Receive. Bytes behind the message are ignored, as
    /// controllers pad it.
    pub fn received(&mut self, payload: &[u8], random: &mut impl CryptoRng) {
        let ended = State::Ended(Err(Failure::Refused(Reason::IncorrectMessage)));
        let state = mem::replace(&mut self.state, ended);
        self.state = match state {
            State::Negotiated | State::Replied(_) => self
                .advance(state, payload, random)
                .unwrap_or_else(State::Refused),
            State::Ended(_) => state,
            // The caller received without need.
            _ => State::Refused(Reason::IncorrectMessage),
        };
    }

    fn advance(
        &self,
        state: State,
        payload: &[u8],
        random: &mut impl CryptoRng,
    ) -> Result<State, Reason> {
        let (message, _) = Message::parse(payload).map_err(|error| error.reason())?;
        match (state, message) {
            (_, Message::Failure1(failure)) => Ok(State::Ended(Err(Failure::RefusedByPeer {
                code: failure.code,
                explanation: failure.explanation,
            }))),
            (State::Negotiated, Message::Challenge(challenge)) => self.reply(&challenge, random),
            (State::Replied(replied), Message::Success1(head, response)) => {
                success1(&replied, head, response)
            }
            _ => Err(Reason::IncorrectMessage),
        }
    }

    fn reply(
        &self,
        challenge: &Challenge<'_>,
        random: &mut impl CryptoRng,
    ) -> Result<State, Reason> {
        let head = challenge.head;
        let hash = Hash::from_byte(head.hash)
            .filter(|hash| self.policy.hashes.contains(hash))
            .ok_or(Reason::HashUnusable)?;
        let group = Group::from_byte(head.group)
            .filter(|group| self.policy.groups.contains(group))
            .ok_or(Reason::GroupUnusable)?;
        let attempt = Attempt {
            transaction: self.transaction,
            hash,
            group,
        };
        attempt.check(head.header)?;
        let sequence = head.sequence.get();
        if challenge.challenge.len() != hash.bytes() || sequence == 0 {
            return Err(Reason::IncorrectPayload);
        }
        let (shared, value) = match group {
            Group::Null if challenge.value.is_empty() => (None, Vec::new()),
            Group::Null => return Err(Reason::IncorrectPayload),
            Group::Ffdhe2048 => {
                let peer = PublicValue::parse(challenge.value).ok_or(Reason::IncorrectPayload)?;
                let exponent = Exponent::draw(random);
                (Some(exponent.agree(&peer)), exponent.public().to_vec())
            }
        };
        let transcript = Transcript {
            hash,
            names: &self.names,
            transaction: self.transaction,
            shared,
        };
        let response = transcript.host_response(&self.host_key, challenge.challenge, sequence);
        let mut own = vec![0; hash.bytes()];
        let mut expected = None;
        let mut own_challenge = None;
        if let Some(key) = &self.controller_key {
            random.fill_bytes(&mut own);
            let sequence = self.sequence.next();
            expected = Some(transcript.controller_response(key, &own, sequence));
            own_challenge = Some((sequence, &own[..]));
        }
        let payload = message::reply(self.transaction, response.as_bytes(), own_challenge, &value);
        Ok(State::Challenged(Replied { attempt, expected }, payload))
    }
}

/// Verifies the controller's answer, if it had to give one.
fn success1(
    Replied { attempt, expected }: &Replied,
    head: &Success1Head,
    response: &[u8],
) -> Result<State, Reason> {
    attempt.check(head.header)?;
    if usize::from(head.hash_bytes) != attempt.hash.bytes() {
        return Err(Reason::IncorrectPayload);
    }
    match (expected, head.response_valid) {
        (None, 0) => Ok(State::Ended(Ok(attempt.authenticated(false)))),
        (Some(expected), 1) if expected.matches(response) => Ok(State::Verified(*attempt)),
        (Some(_), 1) => Err(Reason::Failed),
        _ => Err(Reason::IncorrectPayload),
    }
}
