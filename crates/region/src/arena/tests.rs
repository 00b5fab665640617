use std::sync::atomic::AtomicBool;

use super::*;
use crate::Region;
use crate::image::ImagePool;

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
    arena.seal().unwrap();
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

/// Fails or damages where its fields say.
#[derive(Debug, Default)]
struct Faulty {
    fail_complete: AtomicBool,
    fail_persist: AtomicBool,
    damage: AtomicBool,
    /// Let the first persist fail once a second one is here, or has not come for a while.
    fail_first_of_two: AtomicBool,
    persists: AtomicUsize,
}

fn failure() -> Error {
    let source = std::io::Error::other("broken");
    let path = std::path::Path::new("arena-1");
    Error::Io(storage::Error::new(storage::Operation::Write, path, source))
}

impl Medium for Arc<Faulty> {
    fn store_header(
        &self,
        _image: &mut ImageWriter,
        _header: &[u8; crate::HEADER_BYTES],
    ) -> Result<()> {
        Ok(())
    }

    fn store(&self, image: &mut ImageWriter, offset: usize, bytes: &[u8]) -> Result<()> {
        image.copy(offset, bytes)
    }

    fn complete(
        &self,
        image: &mut ImageWriter,
        offset: usize,
        length_word: u64,
        frame_bytes: usize,
    ) -> Result<()> {
        image.store_word(offset, length_word)?;
        if self.damage.load(Ordering::Relaxed) {
            image.range(offset, frame_bytes)?[frame_bytes - 1] ^= 1;
        }
        match self.fail_complete.load(Ordering::Relaxed) {
            true => Err(failure()),
            false => Ok(()),
        }
    }

    fn persist(&self, _from: usize, _to: usize) -> Result<()> {
        let is_first = self.persists.fetch_add(1, Ordering::Relaxed) == 0;
        if is_first && self.fail_first_of_two.load(Ordering::Relaxed) {
            let began = std::time::Instant::now();
            while self.persists.load(Ordering::Relaxed) < 2 && began.elapsed().as_millis() < 200 {
                std::thread::yield_now();
            }
            return Err(failure());
        }
        match self.fail_persist.load(Ordering::Relaxed) {
            true => Err(failure()),
            false => Ok(()),
        }
    }
}

fn faulty_arena() -> (Arc<Faulty>, Arena) {
    let faulty = Arc::new(Faulty::default());
    let attached = Attached {
        writer: ImagePool::new(0).image(8192).unwrap(),
        medium: Box::new(Arc::clone(&faulty)),
    };
    let file = PathBuf::from("arena-1");
    let arena = Arena::new(1, ArenaKey::new([0; 16], 1), file, attached, FRAMES_START).unwrap();
    (faulty, arena)
}

#[test]
fn a_failed_append_publishes_nothing_and_its_place_is_used_again() {
    let (faulty, arena) = faulty_arena();
    arena.append(&frame(1, &[b"first"])).unwrap();
    let end = arena.end_bytes();
    faulty.fail_complete.store(true, Ordering::Relaxed);
    let lost = arena.append(&frame(2, &[b"a frame that is longer"]));
    assert!(matches!(lost, Err(Error::Io(_))));
    assert_eq!(arena.end_bytes(), end);
    assert_eq!(arena.frames().count(), 1);
    faulty.fail_complete.store(false, Ordering::Relaxed);
    let at = arena.append(&frame(2, &[b"short"])).unwrap();
    assert_eq!(at.offset, end);
    arena.verify().unwrap();
    assert_eq!(arena.frames().count(), 2);
}

#[test]
fn a_failed_persist_is_never_healed_by_a_later_one() {
    let (faulty, arena) = faulty_arena();
    arena.append(&frame(1, &[b"first"])).unwrap();
    arena.persist().unwrap();
    let persisted = arena.persisted_bytes();
    arena.append(&frame(2, &[b"second"])).unwrap();
    faulty.fail_persist.store(true, Ordering::Relaxed);
    assert!(matches!(arena.persist(), Err(Error::PersistFailed(_))));
    faulty.fail_persist.store(false, Ordering::Relaxed);
    let error = arena.persist().unwrap_err();
    assert!(error.to_string().contains("broken"), "the first cause");
    assert_eq!(arena.persisted_bytes(), persisted);
    assert!(!arena.is_persisted());
}

/// The kernel reports a failed write to one of two callers, and the other one would promise lost
/// bytes.
#[test]
fn a_persist_beside_one_that_fails_fails_too() {
    let (faulty, arena) = faulty_arena();
    arena.append(&frame(1, &[b"first"])).unwrap();
    faulty.fail_first_of_two.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let persists = [(); 2].map(|()| scope.spawn(|| arena.persist()));
        for persist in persists {
            let persisted = persist.join().unwrap();
            assert!(matches!(persisted, Err(Error::PersistFailed(_))));
        }
    });
    assert_eq!(faulty.persists.load(Ordering::Relaxed), 1);
}

#[test]
fn a_frame_that_changed_in_memory_is_corruption() {
    let (faulty, arena) = faulty_arena();
    arena.append(&frame(1, &[b"whole"])).unwrap();
    faulty.damage.store(true, Ordering::Relaxed);
    let at = arena.append(&frame(2, &[b"damaged"])).unwrap();
    faulty.damage.store(false, Ordering::Relaxed);
    arena.append(&frame(3, &[b"whole"])).unwrap();
    let error = arena.verify().unwrap_err();
    assert!(matches!(error, Error::Corruption { offset, .. } if offset == at.offset as u64));
    assert_eq!(arena.frames().count(), 2, "one whole frame and the error");
}

/// Appenders, a persister and readers at once.
#[test]
fn threads_append_persist_and_read_beside_each_other() {
    const FRAMES: u64 = 20;
    let (_, arena) = faulty_arena();
    let arena = &arena;
    std::thread::scope(|scope| {
        for appender in 0..2 {
            scope.spawn(move || {
                for at in 0..FRAMES {
                    let sequence = appender * FRAMES + at + 1;
                    let bytes = [sequence as u8; 24];
                    arena.append(&frame(sequence, &[&bytes])).unwrap();
                }
            });
        }
        scope.spawn(|| {
            while !arena.is_persisted() || arena.frames().count() < 2 * FRAMES as usize {
                arena.persist().unwrap();
                std::thread::yield_now();
            }
        });
        scope.spawn(|| {
            let mut seen = 0;
            while seen < 2 * FRAMES as usize {
                let frames: Vec<_> = arena.frames().map(Result::unwrap).collect();
                assert!(frames.len() >= seen, "nothing disappears");
                seen = frames.len();
                for frame in frames {
                    let expected = [frame.info.first_sequence as u8; 24];
                    assert_eq!(frame.payload, expected);
                }
                std::thread::yield_now();
            }
        });
    });
    assert!(arena.is_persisted());
}
