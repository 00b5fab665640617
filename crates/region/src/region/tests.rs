use std::io::{Seek, SeekFrom, Write};

use terrace_storage::{CountingStorage, CrashKind, CrashSwitch, RealStorage, SimulatedStorage};

use super::*;
use crate::arena::Frame;
use crate::recovery::Placement;
use crate::simulated::{MemoryKind, SimulatedMemory};

const ARENA_BYTES: u64 = 16384;
const STORE: [u8; 16] = [7; 16];

fn frame<'a>(first_sequence: u64, payload: &'a [&'a [u8]]) -> Frame<'a> {
    Frame {
        first_sequence,
        record_count: 1,
        persisted_until: 0,
        payload,
    }
}

/// Returns a region of the store with this number.
fn files_of(directory: &Path, store: [u8; 16]) -> Region {
    let options = WrittenOptions::default();
    Region::written(
        Arc::new(RealStorage),
        directory,
        store,
        ARENA_BYTES,
        options,
    )
    .unwrap()
}

fn files(directory: &Path) -> Region {
    files_of(directory, STORE)
}

fn new_arena(region: &Region, generation: u64) -> Arc<Arena> {
    let slot = region.reserve(ARENA_BYTES).unwrap();
    region.activate(slot, generation).unwrap()
}

/// Overwrites bytes of a file behind the region's back.
fn damage(directory: &Path, name: &str, offset: u64, bytes: &[u8]) {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).open(directory.join(name)).unwrap();
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn frames_in_files_are_found_by_the_next_process() {
    let directory = tempfile::tempdir().unwrap();
    let arena = new_arena(&files(directory.path()), 5);
    arena.append(&frame(1, &[b"one"])).unwrap();
    arena.append(&frame(2, &[b"two"])).unwrap();
    let recovered = files(directory.path()).recover(1, 5).unwrap();
    assert!(recovered.is_activated && recovered.is_same_boot);
    let arena = recovered.load(Placement::Memory).unwrap();
    let payloads = arena.frames().map(|frame| frame.unwrap().payload);
    assert_eq!(payloads.collect::<Vec<_>>(), [b"one", b"two"]);
    assert!(!arena.is_persisted(), "nobody knows");
    assert!(matches!(
        arena.append(&frame(3, &[b"x"])),
        Err(Error::Sealed)
    ));
    let length = std::fs::metadata(directory.path().join("arena-1")).unwrap();
    assert_eq!(length.len(), ARENA_BYTES);
}

#[test]
fn a_recycled_file_is_used_again_while_its_arena_is_still_read() {
    let directory = tempfile::tempdir().unwrap();
    let region = files(directory.path());
    let old = new_arena(&region, 1);
    let at = old.append(&frame(1, &[b"old"])).unwrap();
    region.recycle(old.slot()).unwrap();
    region.recycle(old.slot()).unwrap();
    let new = new_arena(&region, 2);
    assert_eq!(new.slot(), old.slot());
    new.append(&frame(2, &[b"new"])).unwrap();
    assert_eq!(old.read(at.payload_offset, 3), Some(&b"old"[..]));
    assert!(matches!(
        old.append(&frame(3, &[b"late"])),
        Err(Error::Sealed)
    ));
    assert_eq!(region.slots().unwrap().len(), 1);
}

#[test]
fn memory_that_is_read_in_place_is_not_used_again_before_its_readers_are_gone() {
    let memory = SimulatedMemory::new(MemoryKind::Dax, 0, CrashSwitch::new());
    let region = Region::open(Box::new(memory), STORE, ARENA_BYTES).unwrap();
    let old = new_arena(&region, 1);
    region.recycle(old.slot()).unwrap();
    assert_eq!(region.pinned_slots(), 1);
    assert_ne!(new_arena(&region, 2).slot(), old.slot());
    let slot = old.slot();
    drop(old);
    assert_eq!(region.pinned_slots(), 0);
    assert_eq!(new_arena(&region, 3).slot(), slot);
}

#[test]
fn the_smallest_free_slot_that_is_large_enough_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let region = files(directory.path());
    const SMALL_BYTES: u64 = 8192;
    const MIDDLE_BYTES: u64 = 12_288;
    let sizes = [SMALL_BYTES, ARENA_BYTES, MIDDLE_BYTES];
    let slots = sizes.map(|bytes| region.reserve(bytes).unwrap().number());
    for slot in slots {
        region.recycle(slot).unwrap();
    }
    for (bytes, expected) in [
        (MIDDLE_BYTES, (slots[2], MIDDLE_BYTES)),
        (SMALL_BYTES, (slots[0], SMALL_BYTES)),
        (SMALL_BYTES, (slots[1], ARENA_BYTES)),
    ] {
        assert!(region.has_free_slot(bytes));
        let slot = region.reserve(bytes).unwrap();
        assert_eq!((slot.number(), slot.capacity_bytes()), expected);
    }
    assert!(!region.has_free_slot(SMALL_BYTES));
}

#[test]
fn slots_below_the_size_that_is_kept_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let region = files(directory.path());
    let small = [0; 2].map(|_| region.reserve(8192).unwrap().number());
    let kept = region.reserve(12_288).unwrap().number();
    region.recycle(small[0]).unwrap();
    region.keep_from(12_288);
    region.recycle(small[1]).unwrap();
    region.recycle(kept).unwrap();
    let left: Vec<u64> = region
        .slots()
        .unwrap()
        .iter()
        .map(|slot| slot.number)
        .collect();
    assert_eq!(left, [kept]);
}

#[test]
fn slots_of_larger_sizes_are_removed_when_they_are_recycled() {
    let directory = tempfile::tempdir().unwrap();
    let region = files(directory.path());
    let slot = region.reserve(3 * ARENA_BYTES).unwrap();
    let large = region.activate(slot, 1).unwrap();
    large
        .append(&frame(1, &[&vec![1; 2 * ARENA_BYTES as usize]]))
        .unwrap();
    assert_eq!(region.slots().unwrap().len(), 1);
    region.recycle(large.slot()).unwrap();
    assert!(region.slots().unwrap().is_empty());
    assert!(region.recycle(large.slot()).is_err(), "there is none");
}

#[test]
fn what_is_found_at_open_stays_until_it_is_recycled() {
    let directory = tempfile::tempdir().unwrap();
    drop(new_arena(&files(directory.path()), 1));
    std::fs::write(directory.path().join("arena-2"), [0; 5000]).unwrap();
    for foreign in ["arena-", "arena-03", "arena-x", "arena-+4", "CURRENT"] {
        std::fs::write(directory.path().join(foreign), b"foreign").unwrap();
    }
    let region = files(directory.path());
    let slots = region.slots().unwrap();
    assert_eq!(slots.len(), 2);
    assert!(matches!(slots[0].header, HeaderState::Intact(header) if header.generation == 1));
    assert_eq!((slots[1].number, slots[1].header), (2, HeaderState::Blank));
    assert_eq!(region.reserve(ARENA_BYTES).unwrap().number(), 3);

    region.recycle(1).unwrap();
    region.recycle(2).unwrap();
    assert_eq!(region.reserve(ARENA_BYTES).unwrap().number(), 1);
    assert!(!directory.path().join("arena-2").exists(), "unfinished");
    assert!(directory.path().join("arena-03").exists(), "not ours");
}

#[test]
fn a_slot_found_after_a_kill_is_durable_before_it_is_used() {
    let switch = CrashSwitch::new();
    let storage = SimulatedStorage::new(0, switch.clone());
    let path = Path::new("/region");
    storage.create_directory(path).unwrap();
    let open = |storage: &SimulatedStorage| {
        let storage = Arc::new(storage.clone());
        Region::written(storage, path, STORE, ARENA_BYTES, WrittenOptions::default()).unwrap()
    };
    // The process dies between the last byte of zeros and the sync of the directory.
    let steps = {
        let before = switch.count();
        let _slot = open(&storage).reserve(ARENA_BYTES).unwrap();
        switch.count() - before
    };
    let switch = CrashSwitch::new();
    let storage = SimulatedStorage::new(0, switch.clone());
    storage.create_directory(path).unwrap();
    switch.freeze_at(switch.count() + steps - 1);
    assert!(open(&storage).reserve(ARENA_BYTES).is_err());

    let storage = storage.crash(CrashKind::Kill, 0, CrashSwitch::new());
    let region = open(&storage);
    assert_eq!(region.slots().unwrap().len(), 1);
    region.recycle(1).unwrap();
    let arena = new_arena(&region, 1);
    arena.append(&frame(1, &[b"kept"])).unwrap();
    arena.persist().unwrap();
    for seed in 0..50 {
        let storage = storage.crash(CrashKind::PowerCut, seed, CrashSwitch::new());
        let recovered = open(&storage).recover(arena.slot(), 1).unwrap();
        assert_eq!(recovered.scan.frames(), 1, "seed {seed}");
    }
}

#[test]
fn a_header_of_another_generation_is_shown_and_does_not_activate() {
    let directory = tempfile::tempdir().unwrap();
    new_arena(&files(directory.path()), 9);
    for generation in [8, 10] {
        let recovered = files(directory.path()).recover(1, generation).unwrap();
        assert!(matches!(recovered.header, HeaderState::Intact(header) if header.generation == 9));
        assert!(!recovered.is_activated && !recovered.is_same_boot);
    }
}

#[test]
fn an_arena_of_another_store_is_foreign_and_none_of_its_frames_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let arena = new_arena(&files_of(directory.path(), [8; 16]), 4);
    arena.append(&frame(1, &[b"theirs"])).unwrap();
    let region = files(directory.path());
    let slots = region.slots().unwrap();
    assert!(
        matches!(slots[0].header, HeaderState::Foreign(header) if header.store == [8; 16]),
        "{slots:?}"
    );
    assert!(slots[0].header.is_left_alone());
    let error = region.recover(1, 4).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    let text = error.to_string();
    let number = "08".repeat(16);
    assert!(text.contains("arena-1") && text.contains(&number), "{text}");
    // Its number is taken.
    assert_eq!(region.reserve(ARENA_BYTES).unwrap().number(), 2);
    // Without the header's word, too: frames are the store's or no store's.
    damage(directory.path(), "arena-1", 0, b"x");
    let recovered = files(directory.path()).recover(1, 4).unwrap();
    assert!(!recovered.scan.has_frames());
    assert!(recovered.scan.torn, "a frame of that generation was begun");
}

#[test]
fn a_slot_names_the_generation_that_its_header_has() {
    let directory = tempfile::tempdir().unwrap();
    let region = files(directory.path());
    let slot = region.reserve(ARENA_BYTES).unwrap();
    assert_eq!(slot.replaced_generation(), Some(0));
    let arena = region.activate(slot, 5).unwrap();
    arena.append(&frame(1, &[b"one"])).unwrap();
    region.recycle(1).unwrap();
    let replaced = |region: &Region| region.reserve(ARENA_BYTES).unwrap().replaced_generation();
    assert_eq!(replaced(&region), Some(5));
    // Found and made durable, or with a frame, whose header was durable before it.
    let region = files(directory.path());
    region.recycle(1).unwrap();
    assert_eq!(replaced(&region), Some(5));
    let region = files(directory.path());
    region.recover(1, 5).unwrap();
    region.recycle(1).unwrap();
    assert_eq!(replaced(&region), Some(5));
}

#[test]
fn a_header_that_a_power_cut_may_take_back_is_not_named() {
    let directory = tempfile::tempdir().unwrap();
    new_arena(&files(directory.path()), 5);
    let region = files(directory.path());
    region.recover(1, 5).unwrap();
    region.recycle(1).unwrap();
    let slot = region.reserve(ARENA_BYTES).unwrap();
    assert_eq!((slot.number(), slot.replaced_generation()), (1, None));
}

#[test]
fn an_arena_that_was_never_activated_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    let region = files(directory.path());
    let old = new_arena(&region, 1);
    old.append(&frame(1, &[b"old"])).unwrap();
    region.recycle(1).unwrap();
    let blank = region.reserve(2 * ARENA_BYTES).unwrap();
    for (slot, generation) in [(1, 2), (blank.number(), 2)] {
        let recovered = files(directory.path()).recover(slot, generation).unwrap();
        assert!(!recovered.is_activated && !recovered.is_same_boot);
        assert!(recovered.load(Placement::Memory).unwrap().is_empty());
        assert!(!recovered.scan.is_damaged());
        assert!(!recovered.has_lost_header());
    }
}

#[test]
fn frames_under_a_damaged_header_are_shown() {
    let directory = tempfile::tempdir().unwrap();
    let arena = new_arena(&files(directory.path()), 4);
    arena.append(&frame(1, &[b"kept"])).unwrap();
    for at in 0..HEADER_BYTES as u64 {
        let whole = std::fs::read(directory.path().join("arena-1")).unwrap();
        damage(
            directory.path(),
            "arena-1",
            at,
            &[whole[at as usize] ^ 0x10],
        );
        let recovered = files(directory.path()).recover(1, 4).unwrap();
        assert!(matches!(recovered.header, HeaderState::Damaged(_)));
        assert!(recovered.has_lost_header() && !recovered.is_same_boot);
        assert_eq!(recovered.scan.frames(), 1);
        damage(directory.path(), "arena-1", at, &[whole[at as usize]]);
    }
}

#[test]
fn a_file_under_another_name_is_not_believed() {
    let directory = tempfile::tempdir().unwrap();
    new_arena(&files(directory.path()), 4);
    std::fs::rename(
        directory.path().join("arena-1"),
        directory.path().join("arena-7"),
    )
    .unwrap();
    let region = files(directory.path());
    assert!(region.slots().unwrap()[0].header.is_left_alone());
    let error = region.recover(7, 4).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    assert!(error.to_string().contains("written as arena 1"), "{error}");
    assert!(matches!(
        region.recover(1, 4),
        Err(Error::Missing { slot: 1, .. })
    ));
}

#[test]
fn a_file_of_an_impossible_size_is_corrupt() {
    let directory = tempfile::tempdir().unwrap();
    new_arena(&files(directory.path()), 4);
    let path = directory.path().join("arena-1");
    for length in [0, 1, 4096, ARENA_BYTES - 1, 1 << 32] {
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(length).unwrap();
        let error = files(directory.path()).recover(1, 4).unwrap_err();
        assert!(
            matches!(&error, Error::Corruption { offset, .. } if *offset == length),
            "{error}"
        );
    }
}

#[test]
fn a_file_of_another_length_than_expected_is_damage_before_a_frame_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let arena = new_arena(&files(directory.path()), 4);
    arena.append(&frame(1, &[b"kept"])).unwrap();
    let path = directory.path().join("arena-1");
    let expected = Expected {
        capacity_bytes: Some(ARENA_BYTES),
        end_bytes: None,
    };
    for length in [8192, ARENA_BYTES + 4096, (1 << 32) - 4096] {
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(length).unwrap();
        let storage = Arc::new(CountingStorage::new(Arc::new(RealStorage)));
        let region = Region::written(
            Arc::clone(&storage) as Arc<dyn Storage>,
            directory.path(),
            STORE,
            ARENA_BYTES,
            WrittenOptions::default(),
        )
        .unwrap();
        let error = region
            .recover_as(1, 4, expected, &mut |_, _| Ok(true))
            .unwrap_err();
        assert!(
            matches!(&error, Error::Corruption { offset, .. } if *offset == length),
            "{error}"
        );
        let header_bytes = HEADER_BYTES as u64;
        assert_eq!(storage.snapshot().total().read_bytes, header_bytes);
        // Without that, the size in the header says how far there is something.
        let found = region.recover(1, 4).unwrap();
        assert_eq!(found.scan.frames(), 1);
        assert!(!found.is_activated);
        assert!(storage.snapshot().total().read_bytes <= ARENA_BYTES + 2 * header_bytes);
    }
}

#[test]
fn recovery_changes_no_byte() {
    let directory = tempfile::tempdir().unwrap();
    let arena = new_arena(&files(directory.path()), 4);
    arena.append(&frame(1, &[b"kept"])).unwrap();
    let path = directory.path().join("arena-1");
    damage(directory.path(), "arena-1", 4200, &[1, 2, 3]);
    let before = std::fs::read(&path).unwrap();
    let region = files(directory.path());
    region.slots().unwrap();
    let found = region.recover(1, 4).unwrap();
    for placement in [Placement::Memory, Placement::Mapping] {
        found.load(placement).unwrap();
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn impossible_arguments_are_refused() {
    for bytes in [0, 4096, 8191, 8193, 1 << 32, u64::MAX] {
        assert!(matches!(
            Region::volatile(bytes),
            Err(Error::InvalidArgument(_))
        ));
    }
    let region = Region::volatile(8192).unwrap();
    let slot = region.reserve(8192).unwrap();
    let number = slot.number();
    assert!(matches!(
        region.activate(slot, 0),
        Err(Error::InvalidArgument(_))
    ));
    let other = region.reserve(8192).unwrap();
    assert_ne!(other.number(), number, "not free before it is recycled");
    region.recycle(number).unwrap();
    assert_eq!(region.reserve(8192).unwrap().number(), number);
}
