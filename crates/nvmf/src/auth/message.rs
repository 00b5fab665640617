//! Messages of authentication (Base Specification, section 8.3.4.5).
//!
//! Parsers check lengths only. Reserved bytes are ignored, as the specification asks.

use std::fmt;
use std::mem::offset_of;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Group, Hash};

mod build;
mod parse;

pub(crate) use self::build::{challenge, failure1, failure2, negotiate, reply, success1, success2};
pub(crate) use self::parse::transaction;
pub use self::parse::{Challenge, Message, MessageError, Reply};

/// The most bytes of a message that callers need to move; the longest reply has 400.
pub const MAX_MESSAGE_BYTES: u32 = 4096;

/// Family of Negotiate and of failures.
const COMMON: u8 = 0;
/// Family of the other messages.
const DH_HMAC_CHAP: u8 = 1;

const NEGOTIATE: u8 = 0x00;
const CHALLENGE: u8 = 0x01;
const REPLY: u8 = 0x02;
const SUCCESS1: u8 = 0x03;
const SUCCESS2: u8 = 0x04;
const FAILURE2: u8 = 0xf0;
const FAILURE1: u8 = 0xf1;

/// Protocol of a [`Descriptor`]: DH-HMAC-CHAP.
const PROTOCOL_DH_HMAC_CHAP: u8 = 1;
/// The most identifiers in each list of a descriptor.
const MAX_IDENTIFIERS: usize = 30;
/// Reason code of failures: authentication failure.
pub(crate) const FAILURE_CODE: u8 = 1;

/// The bytes that all messages begin with.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Family of the message.
    pub family: u8,
    /// The message.
    pub id: u8,
    /// Reserved.
    pub reserved: U16,
    /// Transaction: the host's number of the attempt.
    pub transaction: U16,
}

/// AUTH_Negotiate before its descriptors.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct NegotiateHead {
    /// Start of the message.
    pub header: Header,
    /// Secure channel concatenation: 0 is none (SC_C).
    pub secure_channel: u8,
    /// Number of descriptors.
    pub descriptors: u8,
}

/// A protocol that the host offers.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Descriptor {
    /// The protocol: 1 is DH-HMAC-CHAP.
    pub protocol: u8,
    /// Reserved.
    pub reserved: u8,
    /// Number of hash functions.
    pub hash_count: u8,
    /// Number of groups.
    pub group_count: u8,
    /// Hash functions.
    pub hashes: [u8; MAX_IDENTIFIERS],
    /// Groups.
    pub groups: [u8; MAX_IDENTIFIERS],
}

/// DH-HMAC-CHAP_Challenge before its values.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ChallengeHead {
    /// Start of the message.
    pub header: Header,
    /// Bytes of a digest.
    pub hash_bytes: u8,
    /// Reserved.
    pub reserved7: u8,
    /// Hash function.
    pub hash: u8,
    /// Group.
    pub group: u8,
    /// Bytes of the public value.
    pub value_bytes: U16,
    /// Number of the challenge.
    pub sequence: U32,
}

/// DH-HMAC-CHAP_Reply before its values.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ReplyHead {
    /// Start of the message.
    pub header: Header,
    /// Bytes of a digest.
    pub hash_bytes: u8,
    /// Reserved.
    pub reserved7: u8,
    /// 1 if the host challenges the controller.
    pub challenge_valid: u8,
    /// Reserved.
    pub reserved9: u8,
    /// Bytes of the public value.
    pub value_bytes: U16,
    /// Number of the host's challenge.
    pub sequence: U32,
}

/// DH-HMAC-CHAP_Success1 before its answer.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Success1Head {
    /// Start of the message.
    pub header: Header,
    /// Bytes of a digest. The Linux host wants them even if no answer follows.
    pub hash_bytes: u8,
    /// Reserved.
    pub reserved7: u8,
    /// 1 if an answer follows.
    pub response_valid: u8,
    /// Reserved.
    pub reserved9: [u8; 7],
}

/// DH-HMAC-CHAP_Success2.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Success2 {
    /// Start of the message.
    pub header: Header,
    /// Reserved.
    pub reserved6: [u8; 10],
}

/// AUTH_Failure1 of the controller or AUTH_Failure2 of the host.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FailureMessage {
    /// Start of the message.
    pub header: Header,
    /// Reason code: 1 is an authentication failure.
    pub code: u8,
    /// A [`Reason`].
    pub explanation: u8,
}

const _: () = assert!(size_of::<Header>() == 6);
const _: () = assert!(size_of::<NegotiateHead>() == 8 && size_of::<Descriptor>() == 64);
const _: () = assert!(offset_of!(Descriptor, hashes) == 4 && offset_of!(Descriptor, groups) == 34);
const _: () = assert!(size_of::<ChallengeHead>() == 16 && size_of::<ReplyHead>() == 16);
const _: () = assert!(offset_of!(ChallengeHead, value_bytes) == 10);
const _: () = assert!(offset_of!(ReplyHead, value_bytes) == 10);
const _: () = assert!(offset_of!(ChallengeHead, sequence) == 12);
const _: () = assert!(size_of::<Success1Head>() == 16 && size_of::<Success2>() == 16);
const _: () = assert!(size_of::<FailureMessage>() == 8);

/// The reasons of a failure, with their numbers in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// Authentication failed.
    Failed = 1,
    /// Authentication protocol not usable.
    ProtocolUnusable = 2,
    /// Secure channel concatenation mismatch.
    SecureChannelMismatch = 3,
    /// Hash function not usable.
    HashUnusable = 4,
    /// Group not usable.
    GroupUnusable = 5,
    /// Incorrect payload.
    IncorrectPayload = 6,
    /// Incorrect protocol message.
    IncorrectMessage = 7,
}

impl Reason {
    /// Returns the reason with the number `byte`.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Reason::Failed,
            2 => Reason::ProtocolUnusable,
            3 => Reason::SecureChannelMismatch,
            4 => Reason::HashUnusable,
            5 => Reason::GroupUnusable,
            6 => Reason::IncorrectPayload,
            7 => Reason::IncorrectMessage,
            _ => return None,
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Failed => "authentication failed: compare the secrets of both sides",
            Reason::ProtocolUnusable => "no usable authentication protocol",
            Reason::SecureChannelMismatch => "secure channel concatenation mismatch",
            Reason::HashUnusable => "no usable hash function",
            Reason::GroupUnusable => "no usable Diffie-Hellman group",
            Reason::IncorrectPayload => "incorrect payload",
            Reason::IncorrectMessage => "incorrect protocol message",
        })
    }
}

impl Descriptor {
    /// Makes the descriptor of DH-HMAC-CHAP with its hash functions and groups.
    fn new(hashes: &[Hash], groups: &[Group]) -> Self {
        let mut descriptor = Descriptor::new_zeroed();
        descriptor.protocol = PROTOCOL_DH_HMAC_CHAP;
        for (place, hash) in descriptor.hashes.iter_mut().zip(hashes) {
            *place = *hash as u8;
            descriptor.hash_count += 1;
        }
        for (place, group) in descriptor.groups.iter_mut().zip(groups) {
            *place = *group as u8;
            descriptor.group_count += 1;
        }
        descriptor
    }

    /// Returns whether the protocol is DH-HMAC-CHAP.
    pub fn is_dh_hmac_chap(&self) -> bool {
        self.protocol == PROTOCOL_DH_HMAC_CHAP
    }

    /// Returns the hash functions; none if there are too many.
    pub fn hashes(&self) -> Option<&[u8]> {
        self.hashes.get(..usize::from(self.hash_count))
    }

    /// Returns the groups; none if there are too many.
    pub fn groups(&self) -> Option<&[u8]> {
        self.groups.get(..usize::from(self.group_count))
    }
}

#[cfg(test)]
mod tests;
