use std::path::Path;

use terrace_storage::{
    Access, CrashSwitch, ErrorKind, FailingStorage, Fault, FaultFilter, FaultPlan, Operation,
    SimulatedStorage,
};

use super::*;
use crate::{Frame, Region};

const ARENA_BYTES: u64 = 16384;
const STORE: [u8; 16] = [7; 16];
const FRAME: Frame<'_> = Frame {
    first_sequence: 1,
    record_count: 1,
    persisted_until: 0,
    payload: &[b"payload"],
};

fn storage() -> SimulatedStorage {
    let storage = SimulatedStorage::new(0, CrashSwitch::new());
    storage.create_directory(Path::new("/region")).unwrap();
    storage
}

fn arena_files(storage: &SimulatedStorage) -> usize {
    let files = storage.list(Path::new("/region")).unwrap();
    let arenas = files.iter().filter(|file| file.name.starts_with("arena-"));
    arenas.count()
}

/// Returns a region on a file system that forgets everything when the power fails.
fn region_on_tmpfs(options: WrittenOptions) -> Region {
    let storage = Arc::new(storage());
    let directory = storage.directory(Path::new("/region"), Access::Owner);
    let mut device = open(&*storage, directory.unwrap(), options).unwrap();
    device.file_system.survives_power_cut = false;
    Region::open(Box::new(device), STORE, ARENA_BYTES).unwrap()
}

#[test]
fn persist_is_refused_where_the_file_system_survives_no_power_cut() {
    let region = region_on_tmpfs(WrittenOptions::default());
    let description = region.description();
    assert!(description.survives_kill && !description.can_persist && !description.emulated);
    let slot = region.reserve(ARENA_BYTES).unwrap();
    let arena = region.activate(slot, 1).unwrap();
    arena.append(&FRAME).unwrap();
    assert!(matches!(
        arena.persist(),
        Err(Error::PersistUnsupported { .. })
    ));
    assert!(!arena.is_persisted());
}

#[test]
fn emulated_power_safety_is_asked_for_and_shown() {
    let region = region_on_tmpfs(WrittenOptions {
        emulate_power_safety: true,
        ..WrittenOptions::default()
    });
    assert!(region.description().can_persist && region.description().emulated);
    let slot = region.reserve(ARENA_BYTES).unwrap();
    let arena = region.activate(slot, 1).unwrap();
    arena.append(&FRAME).unwrap();
    arena.persist().unwrap();
    assert!(arena.is_persisted());
}

#[test]
fn a_full_disk_leaves_no_unfinished_file_and_ends_by_itself() {
    let storage = storage();
    storage.set_capacity_bytes(ARENA_BYTES * 3 / 2);
    let options = WrittenOptions::default();
    let path = Path::new("/region");
    let region =
        Region::written(Arc::new(storage.clone()), path, STORE, ARENA_BYTES, options).unwrap();
    let first = region.reserve(ARENA_BYTES).unwrap();
    for _ in 0..3 {
        let error = region.reserve(ARENA_BYTES).unwrap_err();
        assert!(matches!(error, Error::Io(error) if error.kind() == ErrorKind::NoSpace));
        assert_eq!(arena_files(&storage), 1);
    }
    storage.set_capacity_bytes(ARENA_BYTES * 3);
    let second = region.reserve(ARENA_BYTES).unwrap();
    assert_ne!(first.number(), second.number());
}

#[test]
fn a_file_that_could_not_be_finished_nor_removed_is_not_in_the_way() {
    let failing = FaultFilter::everything().operations(&[Operation::Write, Operation::Remove]);
    let plan = FaultPlan::new(failing);
    let storage = Arc::new(FailingStorage::new(Arc::new(storage()), plan.clone()));
    let options = WrittenOptions::default();
    let region =
        Region::written(storage, Path::new("/region"), STORE, ARENA_BYTES, options).unwrap();
    plan.fail_from(0, Fault::Io);
    region.reserve(ARENA_BYTES).unwrap_err();
    plan.heal();
    let slot = region.reserve(ARENA_BYTES).unwrap();
    region.activate(slot, 1).unwrap();
}
