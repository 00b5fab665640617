//! Values: their pieces, their checksums and the blocks that they need.

use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

use crate::block::blocks_of;
use crate::format::extents::PACKED_BYTES;
use crate::format::trailer::TAIL_BYTES;

/// The largest value of any namespace.
pub const MAX_VALUE_BYTES: u32 = 256 << 20;
/// Bytes of a piece, which has a checksum of its own.
pub const PIECE_BYTES: usize = 64 << 10;

/// Returns the number of pieces of a value, at least 1.
pub const fn pieces(value_bytes: u32) -> usize {
    let pieces = (value_bytes as usize).div_ceil(PIECE_BYTES);
    if pieces == 0 { 1 } else { pieces }
}

/// Returns the checksum of one piece of a value.
pub fn piece_checksum(secret: u64, index: usize, piece: &[u8]) -> u64 {
    xxh3_64_with_seed(piece, secret ^ index as u64)
}

/// Returns the checksum of a value with these checksums of its pieces.
pub fn value_checksum(secret: u64, pieces: &[u64]) -> u64 {
    match pieces {
        [one] => *one,
        several => {
            let words: Vec<U64> = several.iter().map(|&piece| U64::new(piece)).collect();
            xxh3_64_with_seed(words.as_bytes(), secret)
        }
    }
}

/// Returns the checksums of a value's pieces.
pub fn piece_checksums(secret: u64, value: &[u8]) -> Vec<u64> {
    if value.is_empty() {
        return vec![piece_checksum(secret, 0, value)];
    }
    let pieces = value.chunks(PIECE_BYTES).enumerate();
    let sums = pieces.map(|(index, piece)| piece_checksum(secret, index, piece));
    sums.collect()
}

/// Returns the bytes of the trailer of a value in `extents` extents.
pub const fn trailer_bytes(value_bytes: u32, extents: usize) -> usize {
    let extents = if extents > 1 { extents } else { 0 };
    pieces(value_bytes) * size_of::<u64>() + extents * PACKED_BYTES + TAIL_BYTES
}

/// Returns the blocks that a value needs in `extents` extents, its trailer included.
pub const fn blocks_needed(value_bytes: u32, extents: usize) -> u64 {
    blocks_of(value_bytes as u64 + trailer_bytes(value_bytes, extents) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_pieces_of_64_kib() {
        let counts = [0, 1, 65_536, 65_537, MAX_VALUE_BYTES].map(pieces);
        assert_eq!(counts, [1, 1, 1, 2, 4096]);
    }

    #[test]
    fn the_checksum_of_one_piece_is_that_of_the_value() {
        for value in [&b""[..], b"value"] {
            let sums = piece_checksums(7, value);
            assert_eq!(sums, [xxh3_64_with_seed(value, 7)]);
            assert_eq!(value_checksum(7, &sums), sums[0]);
        }
    }

    #[test]
    fn several_pieces_have_a_checksum_of_checksums() {
        let value = vec![3; PIECE_BYTES + 5];
        let sums = piece_checksums(7, &value);
        assert_eq!(sums.len(), 2);
        assert_eq!(sums[1], xxh3_64_with_seed(&value[PIECE_BYTES..], 7 ^ 1));
        let bytes = [sums[0].to_le_bytes(), sums[1].to_le_bytes()].concat();
        assert_eq!(value_checksum(7, &sums), xxh3_64_with_seed(&bytes, 7));
    }

    #[test]
    fn a_trailer_may_need_another_block() {
        assert_eq!(trailer_bytes(5000, 1), 72);
        assert_eq!(trailer_bytes(5000, 2), 72 + 16);
        assert_eq!(blocks_needed(4096 - 72, 1), 1);
        assert_eq!(blocks_needed(4096 - 71, 1), 2);
        assert_eq!(blocks_needed(8192 - 88, 2), 2);
        assert_eq!(blocks_needed(8192 - 87, 2), 3);
        assert_eq!(blocks_needed(MAX_VALUE_BYTES, 64), 65_536 + 9);
    }
}
