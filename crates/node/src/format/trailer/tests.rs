use proptest::prelude::*;

use super::*;
use crate::format::fuzz::{BOUNDS, SECRET};
use crate::format::specimens::{extent_lists, extents, for_each_flip, keys, patched};
use crate::format::value::piece_checksums;

fn trailer(value_bytes: u32, extents: Extents) -> Trailer {
    let value = vec![value_bytes as u8; value_bytes as usize];
    let pieces = piece_checksums(SECRET, &value);
    Trailer {
        key: Key::new(b"key").unwrap(),
        sequence: 5,
        value_bytes,
        value_checksum: value_checksum(SECRET, &pieces),
        pieces,
        extents,
    }
}

fn last_block(trailer: &Trailer) -> u64 {
    trailer.extents.last().end() - 1
}

/// Returns the blocks that hold a trailer.
fn encoded(trailer: &Trailer) -> Vec<u8> {
    let length = trailer_bytes(trailer.value_bytes, trailer.extents.len());
    let mut blocks = vec![0; length.next_multiple_of(BLOCK_BYTES)];
    let written = trailer.encode_into(&mut blocks, SECRET, last_block(trailer));
    assert_eq!(written, length);
    blocks
}

proptest! {
    #[test]
    fn a_trailer_reads_as_it_was_written(
        key in keys(),
        sequence in 1..=1u64 << 62,
        (value_bytes, extents) in extent_lists(),
    ) {
        let trailer = Trailer { key, sequence, ..trailer(value_bytes, extents) };
        let (blocks, last) = (encoded(&trailer), last_block(&trailer));
        let read = Trailer::decode(&blocks, SECRET, last, &BOUNDS).unwrap();
        prop_assert_eq!(&read, &trailer);
        let candidate = tail_of(&blocks[blocks.len() - BLOCK_BYTES..], last, &BOUNDS).unwrap();
        let length = trailer_bytes(value_bytes, trailer.extents.len());
        prop_assert_eq!((candidate.value_bytes, candidate.trailer_bytes), (value_bytes, length));
        prop_assert_eq!(candidate.extents, trailer.extents);
    }
}

#[test]
fn arrays_may_begin_in_an_earlier_block() {
    let bounds = Bounds {
        max_value_bytes: 256 << 20,
        data: Extent {
            start: 1,
            blocks: 1 << 20,
        },
    };
    let extent = Extent {
        start: 1,
        blocks: blocks_needed(64 << 20, 1),
    };
    let trailer = trailer(64 << 20, extent.into());
    let (blocks, last) = (encoded(&trailer), last_block(&trailer));
    assert_eq!(blocks.len(), 3 * BLOCK_BYTES);
    let tail = &blocks[2 * BLOCK_BYTES..];
    assert_eq!(
        tail_of(tail, last, &bounds).unwrap().trailer_bytes,
        8192 + 64
    );
    assert!(Trailer::decode(tail, SECRET, last, &bounds).is_err());
    assert_eq!(
        Trailer::decode(&blocks, SECRET, last, &bounds).unwrap(),
        trailer
    );
}

#[test]
fn each_flipped_bit_is_refused() {
    for trailer in [
        trailer(5000, extents(5000, 1, 0)),
        trailer(200_000, extents(200_000, 3, 1)),
    ] {
        let (blocks, last) = (encoded(&trailer), last_block(&trailer));
        let start = blocks.len() - trailer_bytes(trailer.value_bytes, trailer.extents.len());
        for_each_flip(&blocks[start..], |flipped, bit| {
            let read = Trailer::decode(flipped, SECRET, last, &BOUNDS);
            assert!(read.is_err(), "bit {bit}");
        });
        for (secret, last) in [(SECRET + 1, last), (SECRET, last + 1), (SECRET, 0)] {
            assert!(Trailer::decode(&blocks, secret, last, &BOUNDS).is_err());
        }
        assert!(Trailer::decode(&blocks[start + 1..], SECRET, last, &BOUNDS).is_err());
        assert!(Trailer::decode(&[], SECRET, u64::MAX, &BOUNDS).is_err());
    }
    assert!(tail_of(&[0; BLOCK_BYTES], 2000, &BOUNDS).is_none());
}

#[test]
fn an_illegal_field_under_a_right_checksum_is_damage() {
    let trailer = trailer(200_000, extents(200_000, 3, 0));
    let (blocks, last) = (encoded(&trailer), last_block(&trailer));
    let tail = blocks.len() - TAIL_BYTES;
    let error = |offset: usize, patch: &[u8]| {
        let mut bytes = patched(&blocks, offset, patch);
        let start = bytes.len() - trailer_bytes(200_000, 3);
        let covered = [&bytes[start..tail], &bytes[tail + 8..]].concat();
        let place = Place::Trailer { last_block: last };
        let sum = place.sum(SECRET, &covered).to_le_bytes();
        bytes[tail..tail + 8].copy_from_slice(&sum);
        let error = Trailer::decode(&bytes, SECRET, last, &BOUNDS).unwrap_err();
        let place = format!("damage at byte {}: ", (last + 1) * 4096 - 64);
        error.to_string().strip_prefix(&place).unwrap().to_owned()
    };
    assert_eq!(error(tail + 8, &[0]), "no value ends here");
    assert_eq!(error(tail + 12, &[2]), "no value ends here");
    assert_eq!(error(tail + 56, &[1]), "no value ends here");
    assert!(error(tail + 13, &[0]).contains("key"));
    assert!(error(tail + 14, &[0]).contains("extents"));
    assert!(error(tail + 14, &[65]).contains("extents"));
    assert!(error(tail + 14, &[0xff, 0xff]).contains("extents"));
    assert!(error(tail + 16, &[0xff; 4]).contains("length"));
    assert!(error(tail + 16, &[0; 4]).contains("length"));
    assert!(error(tail + 20, &[0xff; 4]).contains("length"));
    assert!(error(tail + 24, &[0; 8]).contains("sequence"));
    assert!(error(tail + 48, &[0xff; 8]).contains("pieces"));
    // The arrays: a piece, and the last of three extents.
    assert!(error(tail - 24 - 1, &[0xff]).contains("pieces"));
    assert!(error(tail - 8, &[0xff; 8]).contains("extents"));
    let moved = extents(200_000, 3, 2);
    let packed = crate::format::extents::pack(moved.last()).to_le_bytes();
    assert!(error(tail - 8, &packed).contains("does not end here"));
}
