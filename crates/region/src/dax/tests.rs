use std::path::Path;

use terrace_storage::RealStorage;

use super::*;
use crate::{Frame, MappedOptions, Placement, Region};

const ARENA_BYTES: u64 = 64 << 10;
const STORE: [u8; 16] = [7; 16];

/// Returns a directory on the file system where this crate is built.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
}

fn dax(directory: &Path, emulate_power_safety: bool) -> Result<Region> {
    let options = DaxOptions {
        emulate_power_safety,
    };
    Region::dax(
        Arc::new(RealStorage),
        directory,
        STORE,
        ARENA_BYTES,
        options,
    )
}

/// Returns whether the CPU can write cache lines back at all; emulators may not.
fn has_instruction() -> bool {
    WriteBack::detect().is_some()
}

#[test]
fn a_file_that_is_no_persistent_memory_is_refused_with_advice() {
    if !has_instruction() {
        return;
    }
    for directory in [tempfile::tempdir_in("/dev/shm").ok(), Some(directory())] {
        let Some(directory) = directory else { continue };
        let activated = dax(directory.path(), false)
            .and_then(|region| region.activate(region.reserve(ARENA_BYTES)?, 1));
        match activated {
            Err(error @ Error::MethodUnsupported { method: "dax", .. }) => {
                assert!(error.to_string().contains("-o dax=always"), "{error}");
            }
            // The build directory may lie in persistent memory.
            Ok(_) if !directory.path().starts_with("/dev/shm") => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_stored_is_in_the_file_for_every_method() {
    if !has_instruction() {
        return;
    }
    let directory = directory();
    let region = dax(directory.path(), true).unwrap();
    assert!(region.description().emulated && region.description().can_persist);
    let slot = region.reserve(ARENA_BYTES).unwrap();
    let arena = region.activate(slot, 1).unwrap();
    let large: Vec<u8> = (0..20_000_u32).map(|at| at as u8).collect();
    let payloads: [&[u8]; 3] = [b"small", &large, &large[1..5_000]];
    for (number, payload) in (1..).zip(payloads) {
        let frame = Frame {
            first_sequence: number,
            record_count: 1,
            persisted_until: 0,
            payload: &[b"head ", payload],
        };
        arena.append(&frame).unwrap();
        arena.persist().unwrap();
        assert!(arena.is_persisted());
    }
    let options = MappedOptions::default();
    let storage = Arc::new(RealStorage);
    let other = Region::mapped(storage, directory.path(), STORE, ARENA_BYTES, options);
    let Ok(other) = other else { return };
    let found = other.recover(arena.slot(), 1).unwrap();
    assert!(!found.scan.is_damaged());
    let arena = found.load(Placement::Memory).unwrap();
    let read: Vec<_> = arena
        .frames()
        .map(|frame| frame.unwrap().payload[5..].to_vec())
        .collect();
    assert_eq!(read, payloads);
}
