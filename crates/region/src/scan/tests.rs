use proptest::prelude::*;

use super::*;
use crate::format::{FRAME_HEADER_BYTES, frame_checksum};

const CAPACITY: usize = 8192;
const STORE: [u8; 16] = [7; 16];

fn scan(bytes: &[u8], generation: u64) -> Scan {
    super::scan(bytes, ArenaKey::new(STORE, generation))
}

fn put(bytes: &mut [u8], generation: u64, info: FrameInfo, payload: &[u8]) -> FrameInfo {
    let mut frame = info.encode_checked(generation).to_vec();
    frame.extend_from_slice(payload);
    let length = payload.len() as u64;
    let key = ArenaKey::new(STORE, generation);
    let checksum = frame_checksum(&frame, key, info.offset as u64, length);
    let head = [length.to_le_bytes(), checksum.to_le_bytes()].concat();
    bytes[info.offset..][..16].copy_from_slice(&head);
    bytes[info.offset + 16..][..frame.len()].copy_from_slice(&frame);
    info
}

/// Fills an arena with `count` frames; payload sizes vary with the generation.
fn fill(bytes: &mut [u8], generation: u64, count: u64) -> Vec<FrameInfo> {
    let mut offset = FRAMES_START;
    let frames = (0..count).map(|at| {
        let payload = vec![at as u8 + 1; 10 + generation as usize + at as usize];
        let info = FrameInfo {
            offset,
            payload_bytes: payload.len(),
            first_sequence: 100 * generation + at,
            record_count: 1,
            persisted_until: at,
        };
        offset = info.next_offset();
        put(bytes, generation, info, &payload)
    });
    frames.collect()
}

#[test]
fn an_untouched_arena_holds_nothing() {
    let scan = scan(&[0; CAPACITY], 1);
    assert_eq!(scan.end_bytes, FRAMES_START);
    assert!(scan.frames.is_empty() && !scan.is_damaged());
    assert_eq!(scan.max_sequence(), None);
    assert_eq!(scan.max_persisted_until(), None);
}

#[test]
fn whole_frames_are_taken_in_order() {
    let mut bytes = [0; CAPACITY];
    let frames = fill(&mut bytes, 1, 5);
    let scan = scan(&bytes, 1);
    assert_eq!(scan.frames, frames);
    assert_eq!(scan.end_bytes, frames[4].next_offset());
    assert!(!scan.is_damaged());
    assert_eq!(scan.max_sequence(), Some(104));
    assert_eq!(scan.max_persisted_until(), Some(4));
}

#[test]
fn frames_of_an_earlier_generation_are_never_taken() {
    let mut bytes = [0; CAPACITY];
    fill(&mut bytes, 1, 40);
    let frames = fill(&mut bytes, 2, 3);
    let found = scan(&bytes, 2);
    assert_eq!(found.frames, frames);
    assert!(!found.is_damaged(), "old frames are not damage: {found:?}");
    assert!(scan(&bytes, 3).frames.is_empty());
    assert!(!scan(&bytes, 3).is_damaged());
}

#[test]
fn a_frame_is_whole_at_its_own_place_only() {
    let mut bytes = [0; CAPACITY];
    let frame = fill(&mut bytes, 1, 1)[0];
    let copy = bytes[FRAMES_START..frame.next_offset()].to_vec();
    bytes[frame.next_offset()..][..copy.len()].copy_from_slice(&copy);
    bytes[6000..][..copy.len()].copy_from_slice(&copy);
    let scan = scan(&bytes, 1);
    assert_eq!(scan.frames, [frame]);
    assert!(scan.torn, "the copy looks begun");
    assert!(scan.behind.is_empty());
}

#[test]
fn frames_behind_damage_are_evidence_and_not_taken() {
    let mut bytes = [0; CAPACITY];
    let frames = fill(&mut bytes, 1, 5);
    bytes[frames[2].payload_offset()] ^= 1;
    let scan = scan(&bytes, 1);
    assert_eq!(scan.frames, frames[..2]);
    assert_eq!(scan.behind, frames[3..]);
    assert!(scan.torn && scan.search_complete);
    assert_eq!(scan.max_sequence(), Some(104));
    assert_eq!(scan.max_persisted_until(), Some(4));
}

#[test]
fn damage_that_hides_where_a_frame_begins_is_seen_by_what_lies_behind() {
    let mut bytes = [0; CAPACITY];
    let frames = fill(&mut bytes, 1, 3);
    bytes[frames[1].offset..][..48].fill(0);
    let scan = scan(&bytes, 1);
    assert_eq!(scan.frames, frames[..1]);
    assert!(!scan.torn);
    assert_eq!(scan.behind, frames[2..]);
    assert!(scan.is_damaged());
}

#[test]
fn every_flipped_bit_of_a_frame_ends_the_prefix_there() {
    let mut bytes = [0; CAPACITY];
    let frames = fill(&mut bytes, 1, 3);
    let frame = frames[1];
    for bit in frame.offset * 8..(frame.payload_offset() + frame.payload_bytes) * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let scan = scan(&bytes, 1);
        assert_eq!(scan.frames, frames[..1], "bit {bit}");
        assert_eq!(scan.behind, frames[2..], "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_truncated_arena_loses_the_frames_that_are_cut() {
    let mut bytes = [0; CAPACITY];
    let frames = fill(&mut bytes, 1, 3);
    for length in 0..bytes.len() {
        let whole = frames
            .iter()
            .filter(|frame| frame.payload_offset() + frame.payload_bytes <= length);
        assert_eq!(scan(&bytes[..length], 1).frames.len(), whole.count());
    }
}

/// Every multiple of 8 looks like the head of a frame that reaches to the end of the arena.
#[test]
fn bytes_made_to_look_like_frames_exhaust_the_search_and_not_the_machine() {
    let mut bytes = vec![0; 1 << 20];
    let generation = 64_u64;
    for word in bytes[FRAMES_START..].chunks_exact_mut(8) {
        word.copy_from_slice(&generation.to_le_bytes());
    }
    // The word serves as length, generation and count; the reserved field must be 0: it is.
    let scan = scan(&bytes, generation);
    assert!(
        scan.search_complete,
        "short candidates stay within the budget"
    );

    let generation = 600_000_u64;
    for word in bytes[FRAMES_START..].chunks_exact_mut(8) {
        word.copy_from_slice(&generation.to_le_bytes());
    }
    let scan = self::scan(&bytes, generation);
    assert!(!scan.search_complete);
    assert!(scan.is_damaged());
    assert!(scan.frames.is_empty() && scan.behind.is_empty());
}

proptest! {
    #[test]
    fn any_bytes_are_scanned_without_trust(
        mut bytes in prop::collection::vec(any::<u8>(), 0..6000),
        patches in prop::collection::vec((any::<prop::sample::Index>(), 0..48_usize, any::<u64>()), 0..8),
        generation in 1..4_u64,
    ) {
        for (at, field, value) in patches {
            let at = (at.index(6000) & !7) + (field & !7);
            for (to, from) in bytes.iter_mut().skip(at).zip(value.to_le_bytes()) {
                *to = from;
            }
        }
        let scan = scan(&bytes, generation);
        let mut end = FRAMES_START;
        for frame in &scan.frames {
            prop_assert_eq!(frame.offset, end);
            end = frame.next_offset();
        }
        prop_assert_eq!(scan.end_bytes, end);
        for frame in scan.all_frames() {
            let frame_end = frame.offset + FRAME_HEADER_BYTES + frame.payload_bytes;
            prop_assert!(frame_end <= bytes.len());
        }
    }
}
