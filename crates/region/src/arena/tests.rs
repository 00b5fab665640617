use super::*;
use crate::Region;

fn volatile_arena(capacity_bytes: u64) -> Arc<Arena> {
    let region = Region::volatile(capacity_bytes).unwrap();
    let slot = region.reserve(capacity_bytes).unwrap();
    region.activate(slot, 1).unwrap()
}

fn frame<'a>(first_sequence: u64, payload: &'a [&'a [u8]]) -> Frame<'a> {
    Frame {
        first_sequence,
        record_count: 1,
        persisted_until: 0,
        payload,
    }
}

#[test]
fn parts_of_a_payload_are_read_back_as_one() {
    let arena = volatile_arena(8192);
    let at = arena
        .append(&frame(7, &[b"over", b"", b"the rainbow"]))
        .unwrap();
    assert_eq!(at.offset, FRAMES_START);
    assert_eq!(
        arena.read(at.payload_offset, at.payload_bytes),
        Some(&b"overthe rainbow"[..])
    );
    let next = arena.append(&frame(8, &[b"x"])).unwrap();
    assert_eq!(next.offset, FRAMES_START + 64, "48 + 15 rounded up to 8");
    let frames: Vec<_> = arena.frames().map(Result::unwrap).collect();
    assert_eq!(frames.len(), 2);
    assert_eq!(frames[0].payload, b"overthe rainbow");
    assert_eq!(frames[1].info.first_sequence, 8);
    arena.verify().unwrap();
}

#[test]
fn nothing_is_read_beyond_the_end() {
    let arena = volatile_arena(8192);
    let at = arena.append(&frame(1, &[b"12345678"])).unwrap();
    assert_eq!(arena.end_bytes(), at.payload_offset + 8);
    assert!(arena.read(at.payload_offset, 9).is_none());
    assert!(arena.read(usize::MAX, 2).is_none());
    assert!(arena.read(arena.end_bytes(), 0).is_some());
}

#[test]
fn the_largest_payload_that_fits_is_told_exactly() {
    let arena = volatile_arena(8192);
    arena.append(&frame(1, &[b"abc"])).unwrap();
    let room = arena.remaining_payload_bytes();
    let error = arena
        .append(&frame(2, &[&vec![1; room + 1]]))
        .expect_err("too large");
    assert!(
        matches!(error, Error::Full { payload_bytes, remaining_payload_bytes }
        if payload_bytes == room as u64 + 1 && remaining_payload_bytes == room as u64)
    );
    arena.append(&frame(2, &[&vec![1; room]])).unwrap();
    assert_eq!(arena.remaining_payload_bytes(), 0);
    assert_eq!(arena.end_bytes(), 8192);
    assert!(matches!(
        arena.append(&frame(3, &[b"x"])),
        Err(Error::Full { .. })
    ));
    assert_eq!(arena.frames().count(), 2);
}

#[test]
fn frames_without_payload_or_records_are_refused() {
    let arena = volatile_arena(8192);
    assert!(matches!(
        arena.append(&frame(1, &[b""])),
        Err(Error::InvalidArgument(_))
    ));
    let mut none = frame(1, &[b"x"]);
    none.record_count = 0;
    assert!(matches!(
        arena.append(&none),
        Err(Error::InvalidArgument(_))
    ));
    assert!(arena.is_empty());
}

#[test]
fn a_sealed_arena_takes_nothing_and_stays_readable() {
    let arena = volatile_arena(8192);
    arena.append(&frame(1, &[b"x"])).unwrap();
    arena.seal();
    assert!(matches!(
        arena.append(&frame(2, &[b"y"])),
        Err(Error::Sealed)
    ));
    assert_eq!(arena.frames().count(), 1);
}

#[test]
fn persist_without_a_medium_that_survives_says_what_to_do() {
    let arena = volatile_arena(8192);
    arena.append(&frame(1, &[b"x"])).unwrap();
    let error = arena.persist().expect_err("volatile");
    assert!(matches!(error, Error::PersistUnsupported { .. }));
    assert!(error.to_string().contains("write without `sync`"));
    assert!(!arena.is_persisted());
}
