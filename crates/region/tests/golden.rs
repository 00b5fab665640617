//! The bytes of an arena as they were when the format was fixed.
//!
//! `tests/golden/arena-1` is written by `TERRACE_REGENERATE=1 cargo test -p terrace-region --test
//! golden`; that it has to be is a change of format and goes with a new version number.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_region::{
    ArenaKey, Device, Frame, HeaderState, MemoryKind, Placement, Region, SimulatedMemory,
    WrittenOptions, list_frames,
};
use terrace_storage::{CrashSwitch, RealStorage};

const CAPACITY_BYTES: u64 = 8192;
const GENERATION: u64 = 2;
const STORE: [u8; 16] = *b"0123456789abcdef";

fn key() -> ArenaKey {
    ArenaKey::new(STORE, GENERATION)
}

fn golden_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/arena-1")
}

/// Builds two generations in one slot: frames of the first lie behind those of the second.
fn build(memory: &SimulatedMemory) -> Vec<u8> {
    let region = Region::open(Box::new(memory.clone()), STORE, CAPACITY_BYTES).unwrap();
    let frames: [(u64, u32, &[&[u8]]); 3] = [
        (1, 2, &[b"two records"]),
        (3, 1, &[b"a payload in ", b"two parts"]),
        (4, 1, &[b"x"]),
    ];
    for generation in 1..=GENERATION {
        let slot = region.reserve(CAPACITY_BYTES).unwrap();
        let arena = region.activate(slot, generation).unwrap();
        let count = 4 - generation as usize;
        for (first_sequence, record_count, payload) in &frames[..count] {
            let frame = Frame {
                first_sequence: *first_sequence,
                record_count: *record_count,
                persisted_until: first_sequence - 1,
                payload,
            };
            arena.append(&frame).unwrap();
        }
        region.recycle(arena.slot()).unwrap();
    }
    let mut bytes = vec![0; CAPACITY_BYTES as usize];
    let reader = memory.reader(1).unwrap();
    reader.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn the_format_is_what_it_was() {
    let memory = SimulatedMemory::new(MemoryKind::Dax, 0, CrashSwitch::new());
    let built = build(&memory);
    if std::env::var_os("TERRACE_REGENERATE").is_some() {
        std::fs::write(golden_path(), &built).unwrap();
    }
    let golden = std::fs::read(golden_path()).unwrap();
    assert!(built == golden, "the bytes of an arena have changed");
    let found = list_frames(&golden, key());
    let numbers = found.frames.iter();
    let numbers = numbers.map(|frame| (frame.last_sequence(), frame.persisted_until));
    assert_eq!(numbers.collect::<Vec<_>>(), [(2, 0), (3, 2)]);
    assert!(
        !found.torn && found.behind.is_empty() && found.search_complete,
        "the first generation's frames are not damage"
    );
}

#[test]
fn the_golden_file_is_an_arena() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::copy(golden_path(), directory.path().join("arena-1")).unwrap();
    let region = Region::written(
        Arc::new(RealStorage),
        directory.path(),
        STORE,
        CAPACITY_BYTES,
        WrittenOptions::default(),
    )
    .unwrap();
    let recovered = region.recover(1, GENERATION).unwrap();
    assert!(recovered.is_activated && !recovered.is_same_boot);
    assert!(matches!(recovered.header, HeaderState::Intact(header)
        if header.capacity_bytes == CAPACITY_BYTES && header.slot == 1));
    let arena = recovered.load(Placement::Memory).unwrap();
    let frames: Vec<_> = arena.frames().map(Result::unwrap).collect();
    assert_eq!(frames[0].payload, b"two records");
    assert_eq!(frames[0].info.last_sequence(), 2);
    assert_eq!(frames[1].payload, b"a payload in two parts");
    assert_eq!(frames[1].info.offset, 4096 + 64);
}

/// The two methods write the same bytes but for the boot id.
#[test]
fn files_and_memory_hold_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let storage = Arc::new(RealStorage);
    let options = WrittenOptions::default();
    let region =
        Region::written(storage, directory.path(), STORE, CAPACITY_BYTES, options).unwrap();
    assert_eq!(region.description().method, "written");
    let slot = region.reserve(CAPACITY_BYTES).unwrap();
    let arena = region.activate(slot, GENERATION).unwrap();
    let golden = std::fs::read(golden_path()).unwrap();
    for info in list_frames(&golden, key()).frames {
        let frame = Frame {
            first_sequence: info.first_sequence,
            record_count: info.record_count,
            persisted_until: info.persisted_until,
            payload: &[&golden[info.payload_offset()..][..info.payload_bytes]],
        };
        arena.append(&frame).unwrap();
    }
    let end = arena.end_bytes() - 8;
    let written = std::fs::read(directory.path().join("arena-1")).unwrap();
    assert_eq!(written[4096..end], golden[4096..end]);
    assert_eq!(written[..16], golden[..16]);
}
