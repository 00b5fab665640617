use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::format::namespace::{Kind, WhenFull};
use crate::format::specimens::{for_each_flip, patched};

const DEVICE_BLOCKS: u64 = 10_000;
/// Where the two descriptions begin.
const FIRST: usize = 64;
const SECOND: usize = FIRST + 192;

fn superblock() -> Superblock {
    let keys = NamespaceRequest {
        bytes: Some(20 << 20),
        when_full: WhenFull::Evict,
        ..NamespaceRequest::new("keys")
    };
    let blocks = NamespaceRequest {
        kind: Kind::Blocks,
        ..NamespaceRequest::new("blöcke")
    };
    let mut random = StdRng::seed_from_u64(1);
    Superblock::new(DEVICE_BLOCKS, &[keys, blocks], &mut random).unwrap()
}

fn error(bytes: &[u8]) -> String {
    let decoded = Superblock::decode(bytes, 0, DEVICE_BLOCKS);
    decoded.unwrap_err().to_string()
}

/// Returns the error of a superblock whose bytes were changed under a right checksum.
fn error_with(offset: usize, patch: &[u8]) -> String {
    let mut block = patched(&superblock().encode(0), offset, patch);
    sum::seal(&mut block, |rest| xxh3_64_with_seed(rest, 0));
    error(&block)
}

#[test]
fn both_copies_read_as_they_were_written() {
    let superblock = superblock();
    let (first, last) = (superblock.encode(0), superblock.encode(DEVICE_BLOCKS - 1));
    assert_eq!(first[8..], last[8..]);
    assert_ne!(first[..8], last[..8]);
    for (bytes, number) in [(&first, 0), (&last, DEVICE_BLOCKS - 1)] {
        let decoded = Superblock::decode(bytes, number, DEVICE_BLOCKS).unwrap();
        assert_eq!(decoded, superblock);
        assert!(Superblock::decode(bytes, number + 1, DEVICE_BLOCKS).is_err());
    }
    let elsewhere = superblock.encode(7);
    let decoded = Superblock::decode(&elsewhere, 7, DEVICE_BLOCKS);
    assert!(
        decoded
            .unwrap_err()
            .to_string()
            .contains("not in its place")
    );
}

#[test]
fn a_device_may_grow_and_not_shrink() {
    let bytes = superblock().encode(0);
    assert!(Superblock::decode(&bytes, 0, DEVICE_BLOCKS + 1).is_ok());
    let smaller = Superblock::decode(&bytes, 0, DEVICE_BLOCKS - 1).unwrap_err();
    assert!(
        smaller
            .to_string()
            .contains("had 10000 blocks and has 9999")
    );
}

#[test]
fn each_flipped_bit_is_refused() {
    let bytes = superblock().encode(0);
    for_each_flip(&bytes, |flipped, bit| {
        let decoded = Superblock::decode(flipped, 0, DEVICE_BLOCKS);
        assert!(matches!(decoded, Err(Error::Damaged { .. })), "bit {bit}");
    });
    assert!(error(&bytes[..4095]).contains("cut off"));
    assert!(error(&[0; 4096]).contains("there is no superblock"));
}

#[test]
fn another_version_is_named_if_the_checksum_is_right() {
    let bytes = superblock().encode(0);
    let damaged = error(&patched(&bytes, 16, &[2]));
    assert!(damaged.contains("the checksum of a superblock is wrong"));
    let unsupported = error_with(16, &[2]);
    assert_eq!(
        unsupported,
        "at byte 0: format version 2; this release reads version 1"
    );
}

#[test]
fn each_illegal_field_is_refused() {
    let illegal: [(usize, &[u8], &str); 34] = [
        (20, &[17], "too many"),
        (20, &[0xff; 4], "too many"),
        (20, &[1], "behind its namespaces"),
        (20, &[3], "kind"),
        (24, &[0xff; 8], "the device had"),
        (24, &[16, 1, 0], "not between"),
        (48, &[1], "padding"),
        (4095, &[1], "padding"),
        (FIRST, &[0], "number of a namespace"),
        (FIRST, &[0xff; 4], "number of a namespace"),
        (FIRST, &[2], "the same number"),
        (FIRST + 4, &[0], "kind"),
        (FIRST + 4, &[3], "kind"),
        (FIRST + 4, &[2], "has parts"),
        (FIRST + 5, &[0], "domain"),
        (FIRST + 6, &[0], "when it is full"),
        (FIRST + 7, &[1], "padding"),
        (FIRST + 48, &[0], "not between"),
        (FIRST + 48, &[0xff; 16], "largest device"),
        (FIRST + 56, &[0; 8], "not between"),
        (FIRST + 56, &[1, 20], "overlap"),
        (FIRST + 64, &[0], "outside of it"),
        (FIRST + 72, &[1], "too small"),
        (FIRST + 80, &[1], "another part"),
        (FIRST + 104, &[1], "too small"),
        (FIRST + 120, &[0xff, 0xff], "outside of it"),
        (FIRST + 128, &[0; 8], "number of keys"),
        (FIRST + 128, &[0xff; 8], "number of keys"),
        (FIRST + 128, &[0xff; 3], "too small"),
        (FIRST + 136, &[0; 4], "largest value"),
        (FIRST + 136, &[1, 0, 0, 16], "largest value"),
        (FIRST + 144, &[0], "name"),
        (FIRST + 144, &[0xff], "UTF-8"),
        (FIRST + 191, &[1], "padding"),
    ];
    for (offset, patch, what) in illegal {
        let error = error_with(offset, patch);
        assert!(error.contains(what), "{offset}: {error}");
    }
    for (offset, what) in [
        (4, "kind"),
        (6, "when it is full"),
        (64, "parts"),
        (128, "has keys"),
    ] {
        let error = error_with(SECOND + offset, &[9]);
        assert!(error.contains(what), "{offset}: {error}");
    }
    assert!(error_with(SECOND + 4, &[0]).starts_with("damage at byte 256: "));
    assert!(error_with(SECOND + 144, b"keys\0\0\0\0").contains("name"));
    let longer = (superblock().namespaces[1].whole.blocks + 1).to_le_bytes();
    assert!(error_with(SECOND + 56, &longer).contains("not between"));
}
