//! Makes messages.

use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

use super::{
    CHALLENGE, COMMON, ChallengeHead, DH_HMAC_CHAP, Descriptor, FAILURE_CODE, FAILURE1, FAILURE2,
    FailureMessage, Header, NEGOTIATE, NegotiateHead, REPLY, Reason, ReplyHead, SUCCESS1, SUCCESS2,
    Success1Head, Success2,
};
use crate::auth::{Group, Hash};

fn header(family: u8, id: u8, transaction: u16) -> Header {
    Header {
        family,
        id,
        reserved: U16::ZERO,
        transaction: transaction.into(),
    }
}

/// Makes an AUTH_Negotiate that offers DH-HMAC-CHAP without a secure channel.
pub(crate) fn negotiate(transaction: u16, hashes: &[Hash], groups: &[Group]) -> Vec<u8> {
    let head = NegotiateHead {
        header: header(COMMON, NEGOTIATE, transaction),
        secure_channel: 0,
        descriptors: 1,
    };
    let descriptor = Descriptor::new(hashes, groups);
    [head.as_bytes(), descriptor.as_bytes()].concat()
}

/// Makes a challenge.
pub(crate) fn challenge(
    transaction: u16,
    hash: Hash,
    group: Group,
    sequence: u32,
    challenge: &[u8],
    value: &[u8],
) -> Vec<u8> {
    let head = ChallengeHead {
        header: header(DH_HMAC_CHAP, CHALLENGE, transaction),
        hash_bytes: hash.bytes() as u8,
        reserved7: 0,
        hash: hash as u8,
        group: group as u8,
        value_bytes: (value.len() as u16).into(),
        sequence: sequence.into(),
    };
    [head.as_bytes(), challenge, value].concat()
}

/// Makes a reply. Without a challenge of the host, zeros take its place.
pub(crate) fn reply(
    transaction: u16,
    response: &[u8],
    challenge: Option<(u32, &[u8])>,
    value: &[u8],
) -> Vec<u8> {
    let zeros = vec![0; response.len()];
    let (sequence, bytes) = challenge.unwrap_or((0, &zeros));
    let head = ReplyHead {
        header: header(DH_HMAC_CHAP, REPLY, transaction),
        hash_bytes: response.len() as u8,
        reserved7: 0,
        challenge_valid: u8::from(challenge.is_some()),
        reserved9: 0,
        value_bytes: (value.len() as u16).into(),
        sequence: sequence.into(),
    };
    [head.as_bytes(), response, bytes, value].concat()
}

/// Makes a Success1.
pub(crate) fn success1(transaction: u16, hash: Hash, response: Option<&[u8]>) -> Vec<u8> {
    let head = Success1Head {
        header: header(DH_HMAC_CHAP, SUCCESS1, transaction),
        hash_bytes: hash.bytes() as u8,
        reserved7: 0,
        response_valid: u8::from(response.is_some()),
        reserved9: [0; 7],
    };
    [head.as_bytes(), response.unwrap_or_default()].concat()
}

/// Makes a Success2.
pub(crate) fn success2(transaction: u16) -> Vec<u8> {
    let message = Success2 {
        header: header(DH_HMAC_CHAP, SUCCESS2, transaction),
        reserved6: [0; 10],
    };
    message.as_bytes().to_vec()
}

/// Makes an AUTH_Failure1.
pub(crate) fn failure1(transaction: u16, reason: Reason) -> Vec<u8> {
    failure(FAILURE1, transaction, reason)
}

/// Makes an AUTH_Failure2.
pub(crate) fn failure2(transaction: u16, reason: Reason) -> Vec<u8> {
    failure(FAILURE2, transaction, reason)
}

fn failure(id: u8, transaction: u16, reason: Reason) -> Vec<u8> {
    let message = FailureMessage {
        header: header(COMMON, id, transaction),
        code: FAILURE_CODE,
        explanation: reason as u8,
    };
    message.as_bytes().to_vec()
}
