//! The answers to challenges (Base Specification, sections 8.3.4.5.4 and 8.3.4.5.5).
//!
//! An answer is HMAC(key, Ca || S || T || SC_C || role || name || 00h || other name), where Ca is
//! the challenge, S its number and T the transaction. With a group, Ca is instead
//! HMAC(H(KS), challenge), where KS is the shared secret. SC_C is always 0: no secure channel.

use super::dh::SharedSecret;
use super::hash::Digest;
use super::secret::Key;
use super::{Hash, Names};

/// Role of the host in its answer.
const HOST: &[u8] = b"HostHost";
/// Role of the controller in its answer.
const CONTROLLER: &[u8] = b"Controller";
/// Secure channel concatenation: none.
const SECURE_CHANNEL: u8 = 0;

/// The part of an attempt that both answers cover.
pub(crate) struct Transcript<'a> {
    pub hash: Hash,
    pub names: &'a Names,
    pub transaction: u16,
    pub shared: Option<SharedSecret>,
}

impl Transcript<'_> {
    /// Computes the answer of the host to C1.
    pub fn host_response(&self, key: &Key, challenge: &[u8], sequence: u32) -> Digest {
        let names = [self.names.host.as_str(), self.names.subsystem.as_str()];
        self.response(key, challenge, sequence, HOST, names)
    }

    /// Computes the answer of the controller to C2.
    pub fn controller_response(&self, key: &Key, challenge: &[u8], sequence: u32) -> Digest {
        let names = [self.names.subsystem.as_str(), self.names.host.as_str()];
        self.response(key, challenge, sequence, CONTROLLER, names)
    }

    fn response(
        &self,
        key: &Key,
        challenge: &[u8],
        sequence: u32,
        role: &[u8],
        [own, other]: [&str; 2],
    ) -> Digest {
        let augmented = self.shared.as_ref().map(|shared| {
            let key = self.hash.digest(&**shared);
            self.hash.hmac(key.as_bytes(), &[challenge])
        });
        let challenge = augmented.as_ref().map_or(challenge, Digest::as_bytes);
        self.hash.hmac(
            key.as_bytes(),
            &[
                challenge,
                &sequence.to_le_bytes(),
                &self.transaction.to_le_bytes(),
                &[SECURE_CHANNEL],
                role,
                own.as_bytes(),
                &[0],
                other.as_bytes(),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::dh::{Exponent, PublicValue};
    use crate::auth::testing::{Script, controller_secret, hex, host_secret, names};

    /// Answers R1 and R2 without a group and with one. A program on Python's hmac and OpenSSL's
    /// Diffie-Hellman computed them by the rules that Linux and SPDK follow.
    const KNOWN: [(Hash, [[&str; 2]; 2]); 3] = [
        (
            Hash::Sha256,
            [
                [
                    "67368694355ec84aa04cc6fe3b7cb2d3dc6bbbe31449fd49af063bd56bd6e363",
                    "9b20cd01dca60ee05e8762f40524372dfa83c0f61b46cd6e92fe735edc9b0025",
                ],
                [
                    "ad8077a7caba6ad0dfd1f60b4d313c1587a82bf48ab9fc4665b2709fdeae59f2",
                    "c196836468cbb82d5ace90fb71d4ff25bbc9ba9f8a76ea329eec4c5b63f95d85",
                ],
            ],
        ),
        (
            Hash::Sha384,
            [
                [
                    "612e0cb119b7284cac718f482276f886c06dba86181e540ce85c5681a0aae4e0\
 be7fe8efa858d814d9619f78d55222d9",
                    "7631c699e3d2a2a6e8b1a310a44aff13d0b1e938e3294b217aae6906bae41267\
 8ea352e5c81428292165b674f4d79b48",
                ],
                [
                    "de4d92d44af81cbde53d5ae091de3b42548f88a6b14415cb637e7cb2f8ea85df\
 02ff6924437e8887803a85d0c78c12dc",
                    "82372f274c6e5eed114a80858fca9c780dbe791abd5f296d110962e29c1f3bac\
 758b709c090230e389799adcc0d39ac2",
                ],
            ],
        ),
        (
            Hash::Sha512,
            [
                [
                    "b344126260fe3f282c35dcc18d869406227ec91b18f1b4693bf1fa12ba8176af\
 4c551929fcdec52b8a05563a1ab8fa025974f88f7f759491bf664081780aa898",
                    "ff3335bde40a189c9c26278c2288aefb597c8802575bd012c75455c01095ef10\
 885a16906481cecffac52e6a218b1bcbe80611b2bdad2fef91aa6bc9d204484e",
                ],
                [
                    "aaad2c555a7287f64abcebcfb9e1d072df09b562bffce8009df9273674fed90d\
 8564e10157e423b56a4a02b4e39505ba7bce67579bbc746c2324cb5f1f1e2f96",
                    "e8f3dced7f5461593c9d111e5d5871b896d6b450b0f8a5108663b4bc662b499c\
 79609c6d86fd7570cd8a3a1aa8dcb89b95cd69ce8b108a3fe2b93a83d71adc5f",
                ],
            ],
        ),
    ];

    #[test]
    fn answers_are_those_of_another_program() {
        let names = names();
        let one: Vec<u8> = (0..64).map(|i| if i == 0 { 0x80 } else { i }).collect();
        let two: Vec<u8> = (0..64).map(|i| 0xff - i).collect();
        let one = Exponent::draw(&mut Script::new(&one));
        let two = Exponent::draw(&mut Script::new(&two));
        for (hash, groups) in KNOWN {
            for (with_group, [host, controller]) in groups.into_iter().enumerate() {
                let transcript = Transcript {
                    hash,
                    names: &names,
                    transaction: 0x0506,
                    shared: (with_group == 1)
                        .then(|| one.agree(&PublicValue::parse(&two.public()).unwrap())),
                };
                let count = hash.bytes() as u8;
                let c1: Vec<u8> = (0..count).collect();
                let c2: Vec<u8> = (0..count).map(|i| 0xff - i).collect();
                let key = host_secret(hash as u8).key_of(&names.host);
                let answer = transcript.host_response(&key, &c1, 0x0102_0304);
                assert_eq!(answer.as_bytes(), hex(host), "{hash:?}");
                let key = controller_secret(hash as u8).key_of(&names.subsystem);
                let answer = transcript.controller_response(&key, &c2, 0x0a0b_0c0d);
                assert_eq!(answer.as_bytes(), hex(controller), "{hash:?}");
            }
        }
    }
}
