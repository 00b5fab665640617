use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;
use crate::recovery::Folding;
use crate::window::SlotReader;

const CAPACITY: usize = 8192;
const STORE: [u8; 16] = [7; 16];

/// Lists the frames. A recovery finds the same in a window that few frames fit.
fn list(bytes: &[u8], generation: u64) -> FrameList {
    let list = list_frames(bytes, ArenaKey::new(STORE, generation));
    let mut folded = Scan {
        torn: list.torn,
        search_complete: list.search_complete,
        ..Scan::empty()
    };
    list.frames.iter().for_each(|frame| folded.add(frame));
    list.behind
        .iter()
        .for_each(|frame| folded.add_behind(frame));
    assert_eq!(scan(bytes, generation), folded);
    list
}

/// Scans like a recovery, in a window that no frame may fit.
fn scan_in_windows(bytes: &[u8], generation: u64, known_end: Option<usize>) -> (Scan, usize) {
    let reader = Counted(bytes, AtomicUsize::new(0));
    let mut take_all = |_: &FrameInfo, _: &mut Window<'_>| Ok(true);
    let mut folding = Folding {
        scan: Scan::empty(),
        judge: &mut take_all,
        is_over: false,
    };
    let bounds = Bounds {
        capacity: bytes.len(),
        known_end,
    };
    let mut window = Window::new(&reader, bytes.len(), 56);
    let key = ArenaKey::new(STORE, generation);
    let walked = walk(&mut window, key, bounds, &mut folding).unwrap();
    let scan = Scan {
        torn: walked.torn,
        search_complete: walked.search_complete,
        ..folding.scan
    };
    (scan, reader.1.into_inner())
}

fn scan(bytes: &[u8], generation: u64) -> Scan {
    scan_in_windows(bytes, generation, None).0
}

/// Bytes, and the end of the part that was read.
#[derive(Debug)]
struct Counted<'a>(&'a [u8], AtomicUsize);

impl SlotReader for Counted<'_> {
    fn length_bytes(&self) -> Result<u64> {
        self.0.length_bytes()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let end = offset as usize + buffer.len();
        self.1.fetch_max(end, Ordering::Relaxed);
        self.0.read_exact_at(buffer, offset)
    }
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
    assert!(!scan.has_frames() && !scan.is_damaged());
    assert_eq!(scan.max_sequence(), None);
    assert_eq!(scan.max_persisted_until, None);
}

#[test]
fn whole_frames_are_taken_in_order() {
    let mut bytes = [0; CAPACITY];
    let frames = fill(&mut bytes, 1, 5);
    assert_eq!(list(&bytes, 1).frames, frames);
    let scan = scan(&bytes, 1);
    let run = FrameRun {
        frames: 5,
        first_sequence: 100,
        last_sequence: 104,
    };
    assert_eq!(scan.run, Some(run));
    assert_eq!(scan.end_bytes, frames[4].next_offset());
    assert!(!scan.is_damaged());
    assert_eq!(scan.max_sequence(), Some(104));
    assert_eq!(scan.max_persisted_until, Some(4));
}

#[test]
fn frames_of_an_earlier_generation_are_never_taken() {
    let mut bytes = [0; CAPACITY];
    fill(&mut bytes, 1, 40);
    let frames = fill(&mut bytes, 2, 3);
    let found = list(&bytes, 2);
    assert_eq!(found.frames, frames);
    let found = scan(&bytes, 2);
    assert!(!found.is_damaged(), "old frames are not damage: {found:?}");
    assert!(list(&bytes, 3).frames.is_empty());
    assert!(!scan(&bytes, 3).is_damaged());
}

#[test]
fn a_frame_is_whole_at_its_own_place_only() {
    let mut bytes = [0; CAPACITY];
    let frame = fill(&mut bytes, 1, 1)[0];
    let copy = bytes[FRAMES_START..frame.next_offset()].to_vec();
    bytes[frame.next_offset()..][..copy.len()].copy_from_slice(&copy);
    bytes[6000..][..copy.len()].copy_from_slice(&copy);
    let list = list(&bytes, 1);
    assert_eq!(list.frames, [frame]);
    assert!(list.torn, "the copy looks begun");
    assert!(list.behind.is_empty());
}

#[test]
fn frames_behind_damage_are_evidence_and_not_taken() {
    let mut bytes = [0; CAPACITY];
    let frames = fill(&mut bytes, 1, 5);
    bytes[frames[2].payload_offset()] ^= 1;
    let list = list(&bytes, 1);
    assert_eq!(list.frames, frames[..2]);
    assert_eq!(list.behind, frames[3..]);
    let scan = scan(&bytes, 1);
    assert!(scan.torn && scan.search_complete);
    assert_eq!(scan.max_sequence(), Some(104));
    assert_eq!(scan.max_persisted_until, Some(4));
}

#[test]
fn damage_that_hides_where_a_frame_begins_is_seen_by_what_lies_behind() {
    let mut bytes = [0; CAPACITY];
    let frames = fill(&mut bytes, 1, 3);
    bytes[frames[1].offset..][..48].fill(0);
    let list = list(&bytes, 1);
    assert_eq!(list.frames, frames[..1]);
    assert!(!list.torn);
    assert_eq!(list.behind, frames[2..]);
    assert!(scan(&bytes, 1).is_damaged());
}

#[test]
fn every_flipped_bit_of_a_frame_ends_the_prefix_there() {
    let mut bytes = [0; CAPACITY];
    let frames = fill(&mut bytes, 1, 3);
    let frame = frames[1];
    for bit in frame.offset * 8..(frame.payload_offset() + frame.payload_bytes) * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let list = list(&bytes, 1);
        assert_eq!(list.frames, frames[..1], "bit {bit}");
        assert_eq!(list.behind, frames[2..], "bit {bit}");
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
        assert_eq!(list(&bytes[..length], 1).frames.len(), whole.count());
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
    assert!(
        list(&bytes, generation).search_complete,
        "short candidates stay within the budget"
    );

    let generation = 600_000_u64;
    for word in bytes[FRAMES_START..].chunks_exact_mut(8) {
        word.copy_from_slice(&generation.to_le_bytes());
    }
    let list = list(&bytes, generation);
    assert!(!list.search_complete);
    assert!(scan(&bytes, generation).is_damaged());
    assert!(list.frames.is_empty() && list.behind.is_empty());
}

#[test]
fn nothing_behind_a_known_end_is_read() {
    let mut bytes = [0; CAPACITY];
    let frames = fill(&mut bytes, 1, 5);
    let whole = scan(&bytes, 1);
    let end = frames[4].next_offset();
    assert_eq!(scan_in_windows(&bytes, 1, Some(end)), (whole, end));
    assert_eq!(scan_in_windows(&bytes, 1, None), (whole, CAPACITY));
    // A known end hides the rest: the caller has to be right about it.
    let end = frames[2].next_offset();
    let (part, read) = scan_in_windows(&bytes, 1, Some(end));
    assert_eq!((part.frames(), read), (3, end));
    assert!(!part.is_damaged());
    let (nothing, read) = scan_in_windows(&bytes, 1, Some(FRAMES_START));
    assert_eq!((nothing, read), (Scan::empty(), 0));
}

#[test]
fn an_end_that_is_none_is_not_believed() {
    let mut bytes = [0; CAPACITY];
    let frames = fill(&mut bytes, 1, 5);
    let whole = scan(&bytes, 1);
    let end = frames[2].next_offset();
    for wrong in [0, 1, end - 8, end + 8, CAPACITY, CAPACITY + 8, usize::MAX] {
        let (scan, read) = scan_in_windows(&bytes, 1, Some(wrong));
        assert_eq!((scan, read), (whole, CAPACITY), "{wrong}");
    }
    // Damage before it: the frames behind are the evidence.
    bytes[frames[1].payload_offset()] ^= 1;
    let (scan, read) = scan_in_windows(&bytes, 1, Some(frames[4].next_offset()));
    assert_eq!((scan.frames(), read), (1, CAPACITY));
    assert_eq!(scan.behind.unwrap().frames, 3);
}

#[test]
fn a_frame_that_does_not_continue_the_numbers_ends_the_run() {
    let frame = |first_sequence, record_count| FrameInfo {
        offset: first_sequence as usize * 8,
        payload_bytes: 8,
        first_sequence,
        record_count,
        persisted_until: 0,
    };
    let mut scan = Scan::empty();
    for frame in [frame(3, 2), frame(5, 1), frame(7, 1), frame(6, 1)] {
        scan.add(&frame);
    }
    let run = FrameRun {
        frames: 2,
        first_sequence: 3,
        last_sequence: 5,
    };
    let behind = FrameSpan {
        frames: 2,
        first_sequence: 6,
        last_sequence: 7,
    };
    assert_eq!((scan.run, scan.behind), (Some(run), Some(behind)));
    assert_eq!(scan.end_bytes, frame(5, 1).next_offset());
    assert_eq!(scan.largest, Some((7, 56)));
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
        let list = list(&bytes, generation);
        let mut end = FRAMES_START;
        for frame in &list.frames {
            prop_assert_eq!(frame.offset, end);
            end = frame.next_offset();
        }
        prop_assert_eq!(list.end_bytes, end);
        for frame in list.frames.iter().chain(&list.behind) {
            let frame_end = frame.offset + FRAME_HEADER_BYTES + frame.payload_bytes;
            prop_assert!(frame_end <= bytes.len());
        }
    }
}
