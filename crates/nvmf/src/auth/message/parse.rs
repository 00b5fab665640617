//! Reads messages. All bytes are hostile: lengths are checked here, meanings by the state machines.

use std::fmt;

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::{
    CHALLENGE, COMMON, ChallengeHead, DH_HMAC_CHAP, Descriptor, FAILURE1, FAILURE2, FailureMessage,
    Header, NEGOTIATE, NegotiateHead, REPLY, Reason, ReplyHead, SUCCESS1, SUCCESS2, Success1Head,
    Success2,
};

/// A message with its values.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// AUTH_Negotiate.
    Negotiate(&'a NegotiateHead, &'a [Descriptor]),
    /// DH-HMAC-CHAP_Challenge.
    Challenge(Challenge<'a>),
    /// DH-HMAC-CHAP_Reply.
    Reply(Reply<'a>),
    /// DH-HMAC-CHAP_Success1 with its answer, which is empty if the head announces none.
    Success1(&'a Success1Head, &'a [u8]),
    /// DH-HMAC-CHAP_Success2.
    Success2(&'a Success2),
    /// AUTH_Failure1.
    Failure1(&'a FailureMessage),
    /// AUTH_Failure2.
    Failure2(&'a FailureMessage),
}

/// A challenge with its values.
#[derive(Clone, Copy, Debug)]
pub struct Challenge<'a> {
    /// Start of the message.
    pub head: &'a ChallengeHead,
    /// The challenge, C1.
    pub challenge: &'a [u8],
    /// Public value of the controller.
    pub value: &'a [u8],
}

/// A reply with its values.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// Start of the message.
    pub head: &'a ReplyHead,
    /// Answer to C1.
    pub response: &'a [u8],
    /// The host's challenge, C2; without meaning if the head announces none.
    pub challenge: &'a [u8],
    /// Public value of the host.
    pub value: &'a [u8],
}

/// The defect of bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// The bytes end before the message does.
    Truncated,
    /// There is no such message.
    Unknown {
        /// Family of the message.
        family: u8,
        /// Its number there.
        id: u8,
    },
}

impl MessageError {
    /// Returns the reason to give to the peer.
    pub fn reason(self) -> Reason {
        match self {
            MessageError::Truncated => Reason::IncorrectPayload,
            MessageError::Unknown { .. } => Reason::IncorrectMessage,
        }
    }
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageError::Truncated => f.write_str("the authentication message is truncated"),
            MessageError::Unknown { family, id } => {
                write!(f, "no authentication message {family:02x}h/{id:02x}h")
            }
        }
    }
}

impl std::error::Error for MessageError {}

/// Takes bytes off the front of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn head<T: FromBytes + KnownLayout + Immutable + Unaligned>(
        &mut self,
    ) -> Result<&'a T, MessageError> {
        let (head, rest) = T::ref_from_prefix(self.0).map_err(|_| MessageError::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], MessageError> {
        let (bytes, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(MessageError::Truncated)?;
        self.0 = rest;
        Ok(bytes)
    }
}

impl<'a> Message<'a> {
    /// Reads a message, and returns the bytes behind it.
    ///
    /// # Errors
    /// If the message is unknown or truncated.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), MessageError> {
        let header = *Reader(bytes).head::<Header>()?;
        let mut reader = Reader(bytes);
        let message = match (header.family, header.id) {
            (COMMON, NEGOTIATE) => {
                let head: &NegotiateHead = reader.head()?;
                let count = usize::from(head.descriptors);
                let (descriptors, rest) =
                    <[Descriptor]>::ref_from_prefix_with_elems(reader.0, count)
                        .map_err(|_| MessageError::Truncated)?;
                reader.0 = rest;
                Message::Negotiate(head, descriptors)
            }
            (COMMON, FAILURE1) => Message::Failure1(reader.head()?),
            (COMMON, FAILURE2) => Message::Failure2(reader.head()?),
            (DH_HMAC_CHAP, CHALLENGE) => {
                let head: &ChallengeHead = reader.head()?;
                Message::Challenge(Challenge {
                    head,
                    challenge: reader.bytes(usize::from(head.hash_bytes))?,
                    value: reader.bytes(usize::from(head.value_bytes.get()))?,
                })
            }
            (DH_HMAC_CHAP, REPLY) => {
                let head: &ReplyHead = reader.head()?;
                Message::Reply(Reply {
                    head,
                    response: reader.bytes(usize::from(head.hash_bytes))?,
                    challenge: reader.bytes(usize::from(head.hash_bytes))?,
                    value: reader.bytes(usize::from(head.value_bytes.get()))?,
                })
            }
            (DH_HMAC_CHAP, SUCCESS1) => {
                let head: &Success1Head = reader.head()?;
                let answered = head.response_valid != 0;
                let response = if answered { head.hash_bytes } else { 0 };
                Message::Success1(head, reader.bytes(usize::from(response))?)
            }
            (DH_HMAC_CHAP, SUCCESS2) => Message::Success2(reader.head()?),
            (family, id) => return Err(MessageError::Unknown { family, id }),
        };
        Ok((message, reader.0))
    }
}

/// Returns the transaction of a message; 0 if it is too short.
pub(crate) fn transaction(bytes: &[u8]) -> u16 {
    let header = Reader(bytes).head::<Header>();
    header.map_or(0, |header| header.transaction.get())
}
