//! The front of every file: a magic number, the format's version and a sum of the two.
//!
//! Place and sum of the version are frozen for all formats to come. So a reader can tell a damaged
//! file from one of a newer release. `docs/formats.md` is the specification.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a front.
pub const FRONT_BYTES: usize = 16;

const MAGIC_BYTES: usize = 8;
const VERSION_OFFSET: usize = MAGIC_BYTES;
const SUM_OFFSET: usize = MAGIC_BYTES + 4;

const _: () = assert!(FRONT_BYTES == SUM_OFFSET + 4);

/// The front of one kind of file, as this release writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// First bytes of the file.
    pub magic: [u8; MAGIC_BYTES],
    /// Version of the file's format.
    pub version: u32,
}

/// Why a file does not begin with the expected front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontFault {
    /// The front is damaged.
    Damaged {
        /// Offset of the damage in the file.
        offset: u64,
        /// The fault, in words.
        detail: &'static str,
    },
    /// The front is whole and names a version that this release does not know.
    UnknownVersion(u32),
}

impl fmt::Display for FrontFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrontFault::Damaged { detail, .. } => f.write_str(detail),
            FrontFault::UnknownVersion(version) => write!(f, "format version {version}"),
        }
    }
}

impl Front {
    /// Returns the bytes of the front.
    pub fn encode(&self) -> [u8; FRONT_BYTES] {
        let mut bytes = [0; FRONT_BYTES];
        let covered = self.magic.into_iter().chain(self.version.to_le_bytes());
        for (to, from) in bytes.iter_mut().zip(covered) {
            *to = from;
        }
        let sum = sum_of(&bytes).to_le_bytes();
        for (to, from) in bytes.iter_mut().skip(SUM_OFFSET).zip(sum) {
            *to = from;
        }
        bytes
    }

    /// Checks the first bytes of a file. The version is believed only if magic and sum match.
    ///
    /// # Errors
    /// A damaged front, or a whole one of another version.
    pub fn check(&self, bytes: &[u8]) -> Result<(), FrontFault> {
        let damaged = |offset, detail| FrontFault::Damaged { offset, detail };
        let front = bytes.first_chunk::<FRONT_BYTES>();
        let short = damaged(
            bytes.len() as u64,
            "the file ends within its first 16 bytes",
        );
        let front = front.ok_or(short)?;
        if !front.starts_with(&self.magic) {
            return Err(damaged(0, "the magic number is wrong"));
        }
        let [.., v0, v1, v2, v3, s0, s1, s2, s3] = *front;
        let version = u32::from_le_bytes([v0, v1, v2, v3]);
        let sum = u32::from_le_bytes([s0, s1, s2, s3]);
        if sum != sum_of(front) && !is_unsummed(version, sum) {
            let offset = VERSION_OFFSET as u64;
            return Err(damaged(offset, "the version does not match its checksum"));
        }
        if version != self.version {
            return Err(FrontFault::UnknownVersion(version));
        }
        Ok(())
    }
}

/// Returns whether a front is of version 1, which had zeros in the place of the sum. No few flipped
/// bits make that of a later front: the sum's 32 bits have to become zero.
fn is_unsummed(version: u32, sum: u32) -> bool {
    (version, sum) == (1, 0)
}

/// Returns the sum of magic and version: the low half of a 64-bit hash.
fn sum_of(front: &[u8; FRONT_BYTES]) -> u32 {
    let covered = front.first_chunk::<SUM_OFFSET>();
    xxh3_64(covered.map_or(&[][..], |covered| covered)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRONT: Front = Front {
        magic: *b"TerrTest",
        version: 2,
    };

    #[test]
    fn a_front_checks_as_it_was_written() {
        let bytes = FRONT.encode();
        assert_eq!(bytes[..12], *b"TerrTest\x02\0\0\0");
        assert_eq!(bytes[12..], [184, 180, 63, 109]);
        assert_eq!(FRONT.check(&bytes), Ok(()));
        assert_eq!(FRONT.check(&[&bytes[..], b"more"].concat()), Ok(()));
    }

    #[test]
    fn up_to_three_flipped_bits_are_damage_and_never_another_version() {
        let is_damage = |bytes: &[u8]| {
            let checked = FRONT.check(bytes);
            assert!(
                matches!(checked, Err(FrontFault::Damaged { .. })),
                "{bytes:x?}"
            );
        };
        let flip = |bytes: &mut [u8; FRONT_BYTES], bit: usize| bytes[bit / 8] ^= 1 << (bit % 8);
        let bits = FRONT_BYTES * 8;
        for first in 0..bits {
            for second in first..bits {
                for third in second..bits {
                    // The same bit twice is one flip of the third.
                    let mut bytes = FRONT.encode();
                    for bit in [first, second, third] {
                        flip(&mut bytes, bit);
                    }
                    is_damage(&bytes);
                }
            }
        }
        for length in 0..FRONT_BYTES {
            is_damage(&FRONT.encode()[..length]);
        }
    }

    #[test]
    fn a_whole_front_of_another_version_is_named() {
        for version in [0, 1, 3, 1 << 30, u32::MAX] {
            let other = Front { version, ..FRONT };
            let fault = FrontFault::UnknownVersion(version);
            assert_eq!(FRONT.check(&other.encode()), Err(fault));
        }
        let first = *b"TerrTest\x01\0\0\0\0\0\0\0";
        assert_eq!(FRONT.check(&first), Err(FrontFault::UnknownVersion(1)));
    }
}
