//! Files of obsolete tables go in steps: never under a reader, at once where space is short. The
//! next opening removes the rest.

use std::path::Path;
use std::sync::Arc;

use terrace::{Background, Db, IterOptions, KeyspaceOptions, Options, WriteBatch, WriteOptions};
use terrace_storage::{
    CrashKind, CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, Operation,
    SimulatedStorage, Storage,
};

const STORE: &str = "/store";
const ROWS: u32 = 1_200;

/// Returns options for 12 MB in two sub-levels, one of which a merge makes obsolete with the other.
fn options(disk: &SimulatedStorage, plan: &FaultPlan) -> Options {
    let inner: Arc<dyn Storage> = Arc::new(disk.clone());
    Options {
        storage: Arc::new(FailingStorage::new(inner, plan.clone())),
        background: Background::Inline,
        arena_bytes: 16 << 20,
        // Iterators are not sent away from the tables that they read.
        level0_merge: 2,
        default_keyspace: KeyspaceOptions {
            level1_bytes: 1 << 30,
            ..KeyspaceOptions::default()
        },
        constants: terrace::Constants {
            pinned_bytes: Some(1 << 30),
            ..terrace::Constants::default()
        },
        ..Options::default()
    }
}

fn truncations() -> FaultPlan {
    FaultPlan::new(FaultFilter::everything().operations(&[Operation::Truncate]))
}

fn disk() -> SimulatedStorage {
    SimulatedStorage::new(1, CrashSwitch::new())
}

/// Writes all rows as one batch: they have one arena, and so one table.
fn fill(db: &Db, byte: u8) {
    let mut batch = WriteBatch::new();
    for row in 0..ROWS {
        batch.put(row.to_be_bytes(), [byte; 10_000]).unwrap();
    }
    db.write(batch, WriteOptions::default()).unwrap();
    db.flush().unwrap();
}

fn check(db: &Db, byte: u8) {
    let mut rows = 0;
    for entry in db.iter(IterOptions::default()).unwrap().entries() {
        let (_, value) = entry.unwrap();
        assert!(value.iter().all(|found| *found == byte));
        rows += 1;
    }
    assert_eq!(rows, ROWS);
}

fn tables(disk: &SimulatedStorage) -> usize {
    let entries = disk.list(Path::new(STORE)).unwrap();
    entries
        .iter()
        .filter(|entry| entry.name.ends_with(".table"))
        .count()
}

#[test]
fn a_file_is_cut_only_when_its_last_reader_is_gone() {
    let (disk, plan) = (disk(), truncations());
    let db = Db::open(STORE, options(&disk, &plan)).unwrap();
    fill(&db, 1);
    let snapshot = db.snapshot();
    let mut iterator = db.iter(IterOptions::default()).unwrap();
    iterator.seek_to_first().unwrap();
    fill(&db, 2);
    db.compact().unwrap();
    // 12 MB in steps of 4 MiB.
    assert_eq!(
        plan.count(),
        2,
        "the second table; the iterator reads the first"
    );
    let mut rows = 0;
    while iterator.valid() {
        assert_eq!(iterator.value()[0], 1);
        rows += 1;
        iterator.next().unwrap();
    }
    assert_eq!(rows, ROWS);
    drop(iterator);
    db.compact().unwrap();
    assert_eq!(plan.count(), 4);
    assert_eq!(
        db.get_at(&snapshot, 7u32.to_be_bytes()).unwrap().unwrap()[0],
        1
    );
    check(&db, 2);
}

#[test]
fn what_a_crash_leaves_of_a_cut_file_is_removed_by_the_next_opening() {
    for (kind, failing) in [
        (CrashKind::Kill, 1),
        (CrashKind::PowerCut, 1),
        (CrashKind::Kill, 0),
    ] {
        let (disk, plan) = (disk(), truncations());
        let removals = FaultFilter::everything().operations(&[Operation::Remove]);
        let removals = FaultPlan::new(removals.path_contains(".table"));
        let inner = options(&disk, &plan);
        let storage = Arc::new(FailingStorage::new(
            Arc::clone(&inner.storage),
            removals.clone(),
        ));
        let db = Db::open(STORE, Options { storage, ..inner }).unwrap();
        fill(&db, 1);
        // Some files stay whole, some cut; none is removed.
        plan.fail_from(failing, Fault::Io);
        removals.fail_from(0, Fault::Io);
        fill(&db, 2);
        db.compact().unwrap();
        assert!(plan.count() > failing && tables(&disk) > 1);
        let after = disk.crash(kind, 7, CrashSwitch::new());
        let db = Db::open(STORE, options(&after, &truncations())).unwrap();
        check(&db, 2);
        assert_eq!(tables(&after), 1);
    }
}

#[test]
fn where_space_is_short_files_are_removed_at_once() {
    let (disk, plan) = (disk(), truncations());
    // Less than eight arenas and tables, more than the test writes.
    disk.set_capacity_bytes(600 << 20);
    let db = Db::open(STORE, options(&disk, &plan)).unwrap();
    fill(&db, 1);
    fill(&db, 2);
    db.compact().unwrap();
    assert_eq!((plan.count(), tables(&disk)), (0, 1));
    check(&db, 2);
}
