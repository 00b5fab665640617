//! Diffie-Hellman groups (RFC 7919).

use crypto_bigint::modular::{ConstMontyForm, ConstMontyParams};
use crypto_bigint::{U512, U2048, const_monty_params};
use rand::CryptoRng;
use zeroize::Zeroizing;

/// A group, with its number in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Group {
    /// No exchange: the challenge stands alone.
    Null = 0,
    /// The group of 2048 bits.
    Ffdhe2048 = 1,
}

impl Group {
    /// Returns the group with the number `byte`.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Group::Null,
            1 => Group::Ffdhe2048,
            _ => return None,
        })
    }

    /// Returns the bytes of a public value.
    pub fn bytes(self) -> usize {
        match self {
            Group::Null => 0,
            Group::Ffdhe2048 => VALUE_BYTES,
        }
    }
}

/// Bytes of a value of the group.
const VALUE_BYTES: usize = 256;

/// Bytes of an exponent. The group has a strength of 103 bits, and RFC 7919 asks for 225 bits.
const EXPONENT_BYTES: usize = 64;

const_monty_params!(
    Modulus,
    U2048,
    "ffffffffffffffffadf85458a2bb4a9aafdc5620273d3cf1d8b9c583ce2d3695\
     a9e13641146433fbcc939dce249b3ef97d2fe363630c75d8f681b202aec4617a\
     d3df1ed5d5fd65612433f51f5f066ed0856365553ded1af3b557135e7f57c935\
     984f0c70e0e68b77e2a689daf3efe8721df158a136ade73530acca4f483a797a\
     bc0ab182b324fb61d108a94bb2c8e3fbb96adab760d7f4681d4f42a3de394df4\
     ae56ede76372bb190b07a7c8ee0a6d709e02fce1cdf7e2ecc03404cd28342f61\
     9172fe9ce98583ff8e4f1232eef28183c3fe3b1b4c6fad733bb5fcbc2ec22005\
     c58ef1837d1683b2c6f34a26c1b2effa886b423861285c97ffffffffffffffff",
    "The prime of ffdhe2048."
);

type Element = ConstMontyForm<Modulus, { U2048::LIMBS }>;

/// The secret that both sides compute, padded to the length of the prime.
pub(crate) type SharedSecret = Zeroizing<[u8; VALUE_BYTES]>;

/// A private exponent. Its memory is cleared when it is dropped.
pub(crate) struct Exponent(Zeroizing<U512>);

impl Exponent {
    /// Draws an exponent. Its top bit is set, so that the powers of 2 exceed the prime.
    pub fn draw(random: &mut impl CryptoRng) -> Self {
        let mut bytes = Zeroizing::new([0; EXPONENT_BYTES]);
        random.fill_bytes(&mut *bytes);
        if let Some(first) = bytes.first_mut() {
            *first |= 0x80;
        }
        Exponent(Zeroizing::new(U512::from_be_slice(&*bytes)))
    }

    /// Returns the public value.
    pub fn public(&self) -> [u8; VALUE_BYTES] {
        *self.power(&U2048::from_u8(2))
    }

    /// Computes the secret shared with a peer.
    pub fn agree(&self, peer: &PublicValue) -> SharedSecret {
        self.power(&peer.0)
    }

    fn power(&self, base: &U2048) -> SharedSecret {
        let power = Zeroizing::new(Element::new(base).pow(&*self.0).retrieve());
        let mut bytes = Zeroizing::new([0; VALUE_BYTES]);
        bytes.copy_from_slice(power.to_be_bytes().as_ref());
        bytes
    }
}

/// A public value of a peer: more than 1 and less than the prime less 1.
pub(crate) struct PublicValue(U2048);

impl PublicValue {
    /// Reads a public value; none if it is out of range. SPDK omits leading zeros, so they may lack.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut padded = [0; VALUE_BYTES];
        let start = VALUE_BYTES.checked_sub(bytes.len())?;
        padded.get_mut(start..)?.copy_from_slice(bytes);
        let value = U2048::from_be_slice(&padded);
        let last = Modulus::PARAMS.modulus().wrapping_sub(&U2048::ONE);
        (value > U2048::ONE && value < last).then_some(PublicValue(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Hash;
    use crate::auth::testing::{Script, hex};

    #[test]
    fn the_prime_is_that_of_rfc_7919() {
        // p = 2^2048 - 2^1984 + (floor(2^1918 e) + 560316) 2^64 - 1, hashed.
        let prime = Modulus::PARAMS.modulus().to_be_bytes();
        assert_eq!(
            Hash::Sha256.digest(prime.as_ref()).as_bytes(),
            hex("9cd3b7f336872f46c09428d1bbc19877a4d440512cda8d1c1cf0cd6e33698966")
        );
    }

    #[test]
    fn both_sides_compute_the_secret_of_openssl() {
        let one: Vec<u8> = (0..64).map(|i| if i == 0 { 0x80 } else { i }).collect();
        let two: Vec<u8> = (0..64).map(|i| 0xff - i).collect();
        let (one, two) = (
            Exponent::draw(&mut Script::new(&one)),
            Exponent::draw(&mut Script::new(&two)),
        );
        let of = |bytes: &[u8]| Hash::Sha256.digest(bytes).as_bytes().to_vec();
        assert_eq!(
            of(&one.public()),
            hex("199bcdf604104f8a943b5ac65d0d71de4d0a18a716f5bb0932c81303e13abb75")
        );
        assert_eq!(
            of(&two.public()),
            hex("78c1df038863fd93260b7af4be228db4ac6fed693c5e12bb9c2995b5854a4c56")
        );
        let secret = one.agree(&PublicValue::parse(&two.public()).unwrap());
        assert_eq!(
            of(&*secret),
            hex("6a2f8700c0f35e32b014ae04c16c0d9caff86bb8c7390c0624e0e99fb9cffe4f")
        );
        assert_eq!(
            secret,
            two.agree(&PublicValue::parse(&one.public()).unwrap())
        );
    }

    #[test]
    fn a_public_value_out_of_range_is_none() {
        let prime = *Modulus::PARAMS.modulus().as_ref();
        for (value, legal) in [
            (U2048::ZERO, false),
            (U2048::ONE, false),
            (U2048::from_u8(2), true),
            (prime.wrapping_sub(&U2048::from_u8(2)), true),
            (prime.wrapping_sub(&U2048::ONE), false),
            (prime, false),
            (U2048::MAX, false),
        ] {
            let bytes = value.to_be_bytes();
            assert_eq!(PublicValue::parse(bytes.as_ref()).is_some(), legal);
        }
        assert!(PublicValue::parse(&[]).is_none());
        assert!(PublicValue::parse(&[2]).is_some());
        assert!(PublicValue::parse(&[0x10; 255]).is_some());
        assert!(PublicValue::parse(&[0x10; 257]).is_none());
    }
}
