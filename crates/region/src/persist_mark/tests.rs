use std::path::Path;

use terrace_storage::{
    CrashKind, CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, Operation,
    SimulatedStorage, Storage,
};

use super::*;
use crate::{Arena, Frame, Region, WrittenOptions};

const ARENA_BYTES: u64 = 16384;
const STORE: [u8; 16] = [7; 16];
const DIRECTORY: &str = "/region";
const PERSISTS: &str = "/region/PERSISTS";

fn disk() -> SimulatedStorage {
    let disk = SimulatedStorage::new(0, CrashSwitch::new());
    disk.create_directory(Path::new(DIRECTORY)).unwrap();
    disk
}

fn kill(disk: &SimulatedStorage) -> SimulatedStorage {
    disk.crash(CrashKind::Kill, 0, CrashSwitch::new())
}

fn of_arenas(operation: Operation) -> FaultPlan {
    let filter = FaultFilter::everything().operations(&[operation]);
    FaultPlan::new(filter.path_contains("arena-"))
}

fn of_mark(operations: &[Operation]) -> FaultPlan {
    let filter = FaultFilter::everything().operations(operations);
    FaultPlan::new(filter.path_contains("PERSISTS"))
}

fn region(disk: &SimulatedStorage, plan: &FaultPlan) -> Region {
    let storage = Arc::new(FailingStorage::new(Arc::new(disk.clone()), plan.clone()));
    let options = WrittenOptions::default();
    Region::written(storage, Path::new(DIRECTORY), STORE, ARENA_BYTES, options).unwrap()
}

/// Returns an owner whose opening is over.
fn owner(disk: &SimulatedStorage, plan: &FaultPlan) -> Region {
    let region = region(disk, plan);
    region.end_recovery();
    region
}

fn append(arena: &Arena, first_sequence: u64) {
    let frame = Frame {
        first_sequence,
        record_count: 1,
        persisted_until: 0,
        payload: &[b"payload"],
    };
    arena.append(&frame).unwrap();
}

/// Returns an arena with one frame.
fn arena(region: &Region, generation: u64) -> Arc<Arena> {
    let slot = region.reserve(ARENA_BYTES).unwrap();
    let arena = region.activate(slot, generation).unwrap();
    append(&arena, 1);
    arena
}

/// Returns the disk after a process persisted an arena, which failed and lost its bytes, and died.
fn killed_after_a_failed_persist() -> SimulatedStorage {
    let disk = disk();
    let syncs = of_arenas(Operation::Sync);
    let region = owner(&disk, &syncs);
    let arena = arena(&region, 1);
    syncs.fail_at(syncs.count(), Fault::Io);
    arena.persist().unwrap_err();
    disk.lose_unsynced(arena.file()).unwrap();
    kill(&disk)
}

/// Returns how often the next process writes to the arena that it resumes.
fn stored_again(region: &Region, writes: &FaultPlan) -> u64 {
    let before = writes.count();
    let found = region.recover(1, 1).unwrap();
    let arena = region.resume(&found).unwrap();
    arena.persist().unwrap();
    writes.count() - before
}

fn says(disk: &SimulatedStorage) -> Option<u64> {
    let options = OpenOptions::buffered(OpenMode::Read);
    let file = disk.open(Path::new(PERSISTS), options).ok()?;
    let mut record = [0; RECORD_BYTES];
    file.read_exact_at(&mut record, 0, Purpose::Other).unwrap();
    record
        .last_chunk()
        .map(|word: &[u8; 8]| u64::from_le_bytes(*word))
}

#[test]
fn bytes_are_stored_again_after_a_persist_that_failed() {
    let disk = killed_after_a_failed_persist();
    let writes = of_arenas(Operation::Write);
    assert!(stored_again(&region(&disk, &writes), &writes) > 0);
    for seed in 0..20 {
        let after = disk.crash(CrashKind::PowerCut, seed, CrashSwitch::new());
        let found = region(&after, &writes).recover(1, 1).unwrap();
        assert_eq!(found.scan.frames(), 1, "seed {seed}");
    }
}

#[test]
fn no_byte_is_stored_again_after_persists_that_succeeded() {
    let disk = disk();
    let writes = of_arenas(Operation::Write);
    let region_of_first = owner(&disk, &writes);
    let killed = arena(&region_of_first, 1);
    killed.persist().unwrap();
    append(&killed, 2);
    let disk = kill(&disk);
    assert_eq!(stored_again(&region(&disk, &writes), &writes), 0);
}

#[test]
fn a_kill_within_a_persist_leaves_the_doubt() {
    let disk = disk();
    let syncs = of_arenas(Operation::Sync);
    let region_of_first = owner(&disk, &syncs);
    let killed = arena(&region_of_first, 1);
    syncs.fail_at(syncs.count(), Fault::Panic);
    let persist = std::panic::AssertUnwindSafe(|| killed.persist());
    std::panic::catch_unwind(persist).unwrap_err();
    let writes = of_arenas(Operation::Write);
    assert!(stored_again(&region(&kill(&disk), &writes), &writes) > 0);
}

/// The medium that failed may lose the page of the mark, and have an older one.
#[test]
fn a_failed_persist_removes_the_mark() {
    let disk = killed_after_a_failed_persist();
    assert_eq!(says(&disk), None);
}

#[test]
fn the_doubt_lasts_until_the_recovery_ends() {
    let first = killed_after_a_failed_persist();
    let writes = of_arenas(Operation::Write);
    let second = region(&first, &writes);
    assert!(stored_again(&second, &writes) > 0);
    // Another arena may still wait to be resumed.
    let killed_early = kill(&first);
    assert!(stored_again(&region(&killed_early, &writes), &writes) > 0);
    second.end_recovery();
    // Its file brings the mark back.
    arena(&second, 2);
    let killed_late = kill(&first);
    assert_eq!(stored_again(&region(&killed_late, &writes), &writes), 0);
}

#[test]
fn a_persist_beside_another_one_leaves_the_mark() {
    let disk = disk();
    let syncs = of_arenas(Operation::Sync);
    let region = owner(&disk, &syncs);
    let arenas = [1, 2].map(|generation| arena(&region, generation));
    assert_eq!(says(&disk), Some(NONE_IN_DOUBT));
    syncs.hold_from(syncs.count());
    std::thread::scope(|scope| {
        for (held, arena) in (1..).zip(&arenas) {
            scope.spawn(|| arena.persist().unwrap());
            while syncs.held() < held {
                std::thread::yield_now();
            }
            assert_eq!(says(&disk), Some(IN_DOUBT));
        }
        syncs.release();
    });
    assert_eq!(says(&disk), Some(NONE_IN_DOUBT));
    append(&arenas[0], 2);
    append(&arenas[1], 2);
    syncs.fail_at(syncs.count(), Fault::Io);
    arenas[0].persist().unwrap_err();
    arenas[1].persist().unwrap();
    assert_eq!(says(&disk), None, "the other one has failed");
}

/// A file system that copies on write may be full.
#[test]
fn a_mark_without_room_is_removed_and_leaves_the_doubt() {
    let disk = disk();
    let writes = of_mark(&[Operation::Write]);
    let region_of_first = owner(&disk, &writes);
    let killed = arena(&region_of_first, 1);
    writes.fail_from(writes.count(), Fault::NoSpace);
    killed.persist().unwrap();
    assert_eq!(says(&disk), None);
    append(&killed, 2);
    killed.persist().unwrap();
    let killed_now = kill(&disk);
    let stored = of_arenas(Operation::Write);
    assert!(stored_again(&region(&killed_now, &stored), &stored) > 0);
    // The next file of an arena brings the mark back.
    writes.heal();
    arena(&region_of_first, 2).persist().unwrap();
    assert_eq!(says(&disk), Some(NONE_IN_DOUBT));
}

#[test]
fn a_mark_that_may_have_been_taken_back_is_set_again() {
    let disk = disk();
    let writes = of_mark(&[Operation::Write]);
    let region = owner(&disk, &writes);
    let arena = arena(&region, 1);
    // The second write of a persist takes the mark back.
    writes.fail_at(writes.count() + 1, Fault::WriteKept);
    arena.persist().unwrap();
    assert_eq!(says(&disk), Some(NONE_IN_DOUBT));
    append(&arena, 2);
    let before = writes.count();
    arena.persist().unwrap();
    assert_eq!(writes.count() - before, 2, "set and taken back");
}

#[test]
fn nothing_is_synced_under_a_mark_that_cannot_be_set() {
    let disk = disk();
    let faults = of_mark(&[Operation::Write, Operation::Remove]);
    let region = owner(&disk, &faults);
    let arena = arena(&region, 1);
    faults.fail_from(faults.count(), Fault::Io);
    let error = arena.persist().unwrap_err();
    assert!(matches!(error, Error::PersistFailed(_)), "{error:?}");
    assert!(!arena.is_persisted());
}

#[test]
fn only_a_whole_record_leaves_no_doubt() {
    let disk = disk();
    let directory = disk.directory(Path::new(DIRECTORY), terrace_storage::Access::Owner);
    let mark = PersistMark::new(directory.unwrap());
    let bytes: [u8; RECORD_BYTES] = mark.record(NONE_IN_DOUBT).try_into().unwrap();
    assert_eq!(bytes[..12], *b"TerrPers\x02\0\0\0");
    assert_eq!(bytes[16..], [0; 8]);
    assert!(mark.clears(&bytes));
    assert!(!mark.clears(&mark.record(IN_DOUBT).try_into().unwrap()));
    for byte in 0..RECORD_BYTES {
        let mut damaged = bytes;
        damaged[byte] ^= 1;
        assert!(!mark.clears(&damaged), "byte {byte}");
    }
    assert!(!mark.clears(&[0; RECORD_BYTES]));
}
