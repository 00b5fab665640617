//! Blocks as they lie in the file: compressed where that pays, and sealed with a checksum.

use std::io;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::codec::{Codec, unpack_lz4, unpack_zstd};
use super::format::{BLOCK_TRAILER_BYTES, BlockHandle, Malformed};
use crate::coding::Decoder;
use crate::debug_expect::DebugExpect;
use crate::time_profile::{Stage, leaf};

/// How the blocks of a table are compressed. The numbers are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[repr(u8)]
pub enum Compression {
    /// Blocks are stored as they are.
    None = 1,
    /// LZ4: little work, a moderate gain.
    Lz4 = 2,
    /// Zstandard at level 3: more work, a larger gain.
    Zstd = 3,
}

impl Compression {
    /// Returns the compression with a stored number, `None` for 0 and for numbers never given.
    pub(crate) const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Compression::None,
            2 => Compression::Lz4,
            3 => Compression::Zstd,
            _ => return None,
        })
    }

    /// Returns whether this program has the code for it: `lz4` and `zstd` are features of the crate.
    pub const fn is_built_in(self) -> bool {
        match self {
            Compression::None => true,
            Compression::Lz4 => cfg!(feature = "lz4"),
            Compression::Zstd => cfg!(feature = "zstd"),
        }
    }

    /// Returns the name in dumps and statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    /// Returns more contents than `stored` compressed bytes can stand for: the bound on an
    /// allocation by a length field. LZ4 yields 255 bytes for one, Zstandard a block of 128 KiB for
    /// four.
    fn longest_contents(self, stored: usize) -> usize {
        match self {
            Compression::None => stored,
            Compression::Lz4 => stored.saturating_mul(255),
            Compression::Zstd => stored.saturating_mul(128 * 1024 / 4),
        }
    }
}

/// Turns contents into stored blocks; keeps its buffers from block to block.
pub(super) struct Sealer {
    compression: Compression,
    codec: Codec,
}

impl Sealer {
    pub(super) fn new(compression: Compression) -> io::Result<Self> {
        Ok(Sealer {
            compression,
            codec: Codec::new(compression)?,
        })
    }

    /// Appends the stored form of `contents` to `out`, whose end is at `offset` in the file.
    /// Contents that compression does not shrink by an eighth are stored as they are.
    pub(super) fn seal(&mut self, contents: &[u8], offset: u64, out: &mut Vec<u8>) -> BlockHandle {
        let worth_it = contents.len() - contents.len() / 8;
        match self.codec.compress(contents) {
            Some(compressed) if compressed.len() < worth_it => {
                append(compressed, self.compression, contents.len(), offset, out)
            }
            _ => seal_plain(contents, offset, out),
        }
    }
}

/// Appends the stored form of a block that is never compressed.
pub(super) fn seal_plain(contents: &[u8], offset: u64, out: &mut Vec<u8>) -> BlockHandle {
    append(contents, Compression::None, contents.len(), offset, out)
}

fn append(
    stored: &[u8],
    compression: Compression,
    contents_length: usize,
    offset: u64,
    out: &mut Vec<u8>,
) -> BlockHandle {
    let start = out.len();
    out.extend_from_slice(stored);
    out.push(compression as u8);
    out.extend_from_slice(&(contents_length as u32).to_le_bytes());
    let checksum = {
        let _checksum = leaf(Stage::Checksum);
        xxh3_64_with_seed(
            out.get(start..).debug_expect("the block was appended"),
            offset,
        )
    };
    out.extend_from_slice(&checksum.to_le_bytes());
    BlockHandle {
        offset,
        length_bytes: (out.len() - start) as u64,
    }
}

/// A block's contents, and how they were stored.
pub(super) struct Unsealed {
    pub(super) contents: Vec<u8>,
    pub(super) compression: Compression,
}

/// Checks a block read at `offset` and takes its contents out. The checksum is seeded with the
/// offset: a good block in the wrong place is not accepted. Contents of more than `most` bytes are refused
/// before there is memory for them.
pub(super) fn unseal(mut stored: Vec<u8>, offset: u64, most: usize) -> Result<Unsealed, Malformed> {
    let body_length = stored
        .len()
        .checked_sub(BLOCK_TRAILER_BYTES)
        .ok_or(Malformed::new(0, "the block is shorter than its trailer"))?;
    let parse = || {
        let _checksum = leaf(Stage::Checksum);
        let (covered, checksum) = stored.split_last_chunk::<8>()?;
        let mut trailer = Decoder::new(covered.get(body_length..)?);
        let (kind, length) = (trailer.u8()?, trailer.u32()?);
        let intact = u64::from_le_bytes(*checksum) == xxh3_64_with_seed(covered, offset);
        Some((intact, kind, length as usize))
    };
    let (intact, kind, length) =
        parse().ok_or(Malformed::new(body_length, "the block's trailer is short"))?;
    if !intact {
        let detail = "the block's checksum does not match";
        return Err(Malformed::new(body_length, detail));
    }
    let compression = Compression::from_number(kind)
        .ok_or(Malformed::new(body_length, "unknown compression type"))?;
    if length > most {
        let detail = "the block says that it holds more than such a block can";
        return Err(Malformed::new(body_length, detail));
    }
    if length > compression.longest_contents(body_length) {
        let detail = "the block cannot hold as much as it says";
        return Err(Malformed::new(body_length, detail));
    }
    stored.truncate(body_length);
    let contents = match compression {
        Compression::None => Some(stored),
        Compression::Lz4 => unpack_lz4(&stored, length),
        Compression::Zstd => unpack_zstd(&stored, length),
    };
    match contents {
        Some(contents) if contents.len() == length => Ok(Unsealed {
            contents,
            compression,
        }),
        _ => Err(Malformed::new(0, "the block cannot be decompressed")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const MOST: usize = usize::MAX;
    const ALL: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

    fn sealed(compression: Compression, contents: &[u8], offset: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let handle = Sealer::new(compression)
            .unwrap()
            .seal(contents, offset, &mut out);
        assert_eq!(handle.length_bytes, out.len() as u64);
        out
    }

    #[test]
    fn what_is_sealed_is_unsealed_at_its_place_only() {
        let contents = b"one and the same line\n".repeat(300);
        for compression in ALL {
            let stored = sealed(compression, &contents, 4096);
            let unsealed = unseal(stored.clone(), 4096, MOST).unwrap();
            assert_eq!(unsealed.contents, contents);
            assert_eq!(unsealed.compression, compression);
            assert!(unseal(stored.clone(), 4097, MOST).is_err());
            assert_eq!(
                stored.len() < contents.len() / 10,
                compression != Compression::None
            );
        }
    }

    #[test]
    fn what_does_not_shrink_is_stored_as_it_is() {
        let noise: Vec<u8> = (0..600u64)
            .flat_map(|n| xxh3_64_with_seed(&n.to_le_bytes(), 1).to_le_bytes())
            .collect();
        for compression in ALL {
            let stored = sealed(compression, &noise, 0);
            assert_eq!(stored.len(), noise.len() + BLOCK_TRAILER_BYTES);
            assert_eq!(
                unseal(stored, 0, MOST).unwrap().compression,
                Compression::None
            );
        }
    }

    /// Forges a type and a length under a good checksum.
    pub(in crate::table) fn forged(stored: &[u8], kind: u8, length: u32, offset: u64) -> Vec<u8> {
        let mut out = stored.to_vec();
        out.push(kind);
        out.extend_from_slice(&length.to_le_bytes());
        let checksum = xxh3_64_with_seed(&out, offset);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    #[test]
    fn lengths_and_types_that_cannot_be_are_refused() {
        assert!(unseal(forged(b"abc", 1, 3, 0), 0, MOST).is_ok());
        for (kind, length) in [(0, 3), (4, 3), (1, 2), (1, 4), (2, 3), (3, 3)] {
            assert!(unseal(forged(b"abc", kind, length, 0), 0, MOST).is_err());
        }
        // Refused before four gigabytes are asked for.
        for kind in [1, 2, 3] {
            let fault = unseal(forged(b"abc", kind, u32::MAX, 0), 0, MOST)
                .err()
                .unwrap();
            assert_eq!(fault.detail, "the block cannot hold as much as it says");
        }
        let line = b"one and the same line\n".repeat(300);
        for compression in [Compression::Lz4, Compression::Zstd] {
            let stored = sealed(compression, &line, 0);
            let body = &stored[..stored.len() - BLOCK_TRAILER_BYTES];
            for wrong in [line.len() as u32 - 1, line.len() as u32 + 1, 0] {
                assert!(unseal(forged(body, compression as u8, wrong, 0), 0, MOST).is_err());
            }
        }
    }
}
