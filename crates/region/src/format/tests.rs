use super::*;

fn header() -> Header {
    Header {
        generation: 0x0102,
        capacity_bytes: 8192,
        boot_id: *b"0123456789abcdef",
        slot: 3,
        store: *b"the store's own!",
    }
}

/// The byte tables of `docs/formats.md`, field by field.
#[test]
fn the_header_lies_as_specified() {
    let bytes = header().encode();
    assert_eq!(&bytes[0..8], b"TERARENA");
    assert_eq!(bytes[8..12], [2, 0, 0, 0]);
    assert_eq!(bytes[12..16], xxh3_64(&bytes[..12]).to_le_bytes()[..4]);
    let checked: Vec<u8> = [&bytes[..16], &bytes[24..]].concat();
    assert_eq!(bytes[16..24], xxh3_64(&checked).to_le_bytes());
    assert_eq!(bytes[24..32], [2, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[32..40], [0, 0x20, 0, 0, 0, 0, 0, 0]);
    assert_eq!(&bytes[40..56], b"0123456789abcdef");
    assert_eq!(bytes[56..64], [3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(&bytes[64..80], b"the store's own!");
    assert_eq!(Header::decode(&bytes), HeaderState::Intact(header()));
}

#[test]
fn every_flipped_bit_of_a_header_is_noticed() {
    let bytes = header().encode();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes;
        damaged[bit / 8] ^= 1 << (bit % 8);
        let state = Header::decode(&damaged);
        assert!(
            matches!(state, HeaderState::Damaged(_)),
            "bit {bit}: {state:?}"
        );
    }
    assert_eq!(Header::decode(&[0; HEADER_BYTES]), HeaderState::Blank);
    assert!(matches!(
        Header::decode(&bytes[..79]),
        HeaderState::Damaged(_)
    ));
}

#[test]
fn a_later_version_is_told_apart_from_damage() {
    let mut bytes = header().encode();
    bytes[8] = 9;
    assert!(matches!(Header::decode(&bytes), HeaderState::Damaged(_)));
    let sum = xxh3_64(&bytes[..12]).to_le_bytes();
    bytes[12..16].copy_from_slice(&sum[..4]);
    // The rest of the header may be of any form, its checksum too.
    assert_eq!(Header::decode(&bytes), HeaderState::UnknownVersion(9));
}

#[test]
fn the_checksum_binds_a_frame_to_store_generation_place_and_length() {
    let key = ArenaKey::new([1; 16], 1);
    let checksum = frame_checksum(b"bytes", key, 4096, 5);
    for other in [ArenaKey::new([2; 16], 1), ArenaKey::new([1; 16], 2)] {
        assert_ne!(checksum, frame_checksum(b"bytes", other, 4096, 5));
    }
    assert_ne!(checksum, frame_checksum(b"bytes", key, 4104, 5));
    assert_ne!(checksum, frame_checksum(b"bytes", key, 4096, 4));
    assert_ne!(checksum, frame_checksum(b"byteS", key, 4096, 5));
    // As specified: the seed is the hash of owner, place and length.
    let owner = xxh3_64(&[[1; 16].as_slice(), &1_u64.to_le_bytes()].concat());
    let place = [owner, 4096, 5].map(u64::to_le_bytes).concat();
    assert_eq!(checksum, xxh3_64_with_seed(b"bytes", xxh3_64(&place)));
}

#[test]
fn capacities_fit_their_payload_exactly() {
    assert_eq!(capacity_for_payload(1), Some(8192));
    assert_eq!(capacity_for_payload(4096 - 48), Some(8192));
    assert_eq!(capacity_for_payload(4096 - 47), Some(12288));
    let largest = MAX_CAPACITY_BYTES - 4096 - 48;
    assert_eq!(capacity_for_payload(largest), Some(MAX_CAPACITY_BYTES));
    assert_eq!(capacity_for_payload(largest + 1), None);
    assert_eq!(capacity_for_payload(u64::MAX), None);
}

#[test]
fn sequence_numbers_of_hostile_frames_do_not_overflow() {
    let info = FrameInfo {
        offset: FRAMES_START,
        payload_bytes: 1,
        first_sequence: u64::MAX,
        record_count: u32::MAX,
        persisted_until: 0,
    };
    assert_eq!(info.last_sequence(), u64::MAX);
}
