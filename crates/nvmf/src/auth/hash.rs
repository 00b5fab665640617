//! The hash functions of DH-HMAC-CHAP.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Bytes of the longest digest.
pub const MAX_DIGEST_BYTES: usize = 64;

/// A hash function, with its number in messages and in secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Hash {
    /// SHA-256.
    Sha256 = 1,
    /// SHA-384.
    Sha384 = 2,
    /// SHA-512.
    Sha512 = 3,
}

impl Hash {
    /// Returns the function with the number `byte`.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Hash::Sha256,
            2 => Hash::Sha384,
            3 => Hash::Sha512,
            _ => return None,
        })
    }

    /// Returns the bytes of a digest.
    pub fn bytes(self) -> usize {
        match self {
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 => 64,
        }
    }

    /// Hashes a message.
    pub(crate) fn digest(self, message: &[u8]) -> Digest {
        match self {
            Hash::Sha256 => Digest::new(&Sha256::digest(message)),
            Hash::Sha384 => Digest::new(&Sha384::digest(message)),
            Hash::Sha512 => Digest::new(&Sha512::digest(message)),
        }
    }

    /// Computes the HMAC of the parts of a message.
    pub(crate) fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Digest {
        match self {
            Hash::Sha256 => mac::<Hmac<Sha256>>(key, parts),
            Hash::Sha384 => mac::<Hmac<Sha384>>(key, parts),
            Hash::Sha512 => mac::<Hmac<Sha512>>(key, parts),
        }
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Digest {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("a key of any length");
    for part in parts {
        mac.update(part);
    }
    Digest::new(&mac.finalize().into_bytes())
}

/// A digest. Its memory is cleared when it is dropped.
pub(crate) struct Digest {
    bytes: Zeroizing<[u8; MAX_DIGEST_BYTES]>,
    len: usize,
}

impl Digest {
    fn new(digest: &[u8]) -> Self {
        let mut bytes = Zeroizing::new([0; MAX_DIGEST_BYTES]);
        let len = digest.len().min(MAX_DIGEST_BYTES);
        for (to, from) in bytes.iter_mut().zip(digest) {
            *to = *from;
        }
        Digest { bytes, len }
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Compares with the bytes of a peer, in a time that depends on their number only.
    pub fn matches(&self, other: &[u8]) -> bool {
        self.as_bytes().ct_eq(other).into()
    }
}
