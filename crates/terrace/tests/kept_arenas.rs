//! Arenas that an opening on a full disk keeps: their rows are promised, and stay.

use std::path::Path;
use std::sync::Arc;

use terrace::{Background, Compression, Db, Durability, KeyspaceOptions, Options, PersistMethod};
use terrace_storage::{
    CrashKind, CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, Operation, Purpose,
    RealStorage, SimulatedStorage, Storage,
};

const LARGE_BYTES: u64 = 1 << 30;
/// Rows of one arena, which has room for more.
const ROWS: u32 = 200;
/// The room that an opening finds: one of the first arenas and the manifest, and no table of the rows.
const ROOM_BYTES: u64 = (256 << 10) + (64 << 10);

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Returns a value so random that no file gets smaller.
fn value(key: u32) -> Vec<u8> {
    let mut state = u64::from(key) + 1;
    let word = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    (0..4000).map(word).collect()
}

fn options(storage: Arc<dyn Storage>) -> Options {
    Options {
        storage,
        default_keyspace: KeyspaceOptions {
            compression: vec![Compression::None],
            ..KeyspaceOptions::default()
        },
        background: Background::Inline,
        durability: Some(Durability::PowerSafe),
        arena_bytes: 4 << 20,
        ..Options::default()
    }
}

fn open(disk: &SimulatedStorage) -> terrace::Result<Db> {
    Db::open("/store", options(Arc::new(disk.clone())))
}

fn failing(disk: &SimulatedStorage, plan: &FaultPlan) -> Arc<dyn Storage> {
    Arc::new(FailingStorage::new(Arc::new(disk.clone()), plan.clone()))
}

fn of_arenas(operation: Operation) -> FaultFilter {
    let filter = FaultFilter::everything().operations(&[operation]);
    filter.path_contains("arena-")
}

fn disk() -> SimulatedStorage {
    let disk = SimulatedStorage::new(1, CrashSwitch::new());
    disk.set_capacity_bytes(LARGE_BYTES);
    disk
}

fn kill(disk: &SimulatedStorage) -> SimulatedStorage {
    disk.crash(CrashKind::Kill, 1, CrashSwitch::new())
}

/// Fills an arena with rows, one group each.
fn put_rows(db: &Db, leave_no_room: impl Fn()) {
    // The first arena is small. The next one has four times its size.
    db.put(b"before", vec![7; 220 << 10]).unwrap();
    db.flush().unwrap();
    // A spare would give its space to the next opening.
    leave_no_room();
    for number in 0..ROWS {
        db.put(key(number), value(number)).unwrap();
    }
}

/// Shrinks the disk to its contents and `room_bytes` of room.
fn leave_room(disk: &SimulatedStorage, room_bytes: u64) {
    let free_bytes = disk.free_space_bytes(Path::new("/store")).unwrap();
    disk.set_capacity_bytes(disk.capacity_bytes() - free_bytes + room_bytes);
}

fn check(db: &Db, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let found = db.get(key(number)).unwrap();
        assert!(found.as_deref() == Some(&value(number)[..]), "row {number}");
    }
}

fn is_there(db: &Db, number: u32) -> bool {
    db.get(key(number)).unwrap().is_some()
}

#[test]
fn an_opening_without_room_stores_no_byte_again_after_persists_that_succeeded() {
    let disk = disk();
    let db = open(&disk).unwrap();
    put_rows(&db, || leave_room(&disk, 0));
    let disk = kill(&disk);
    leave_room(&disk, ROOM_BYTES);
    // As on a file system that copies on write: the bytes would find no room.
    let plan = FaultPlan::new(of_arenas(Operation::Write).purpose(Purpose::Recovery));
    plan.fail_from(0, Fault::NoSpace);
    let db = Db::open("/store", options(failing(&disk, &plan))).unwrap();
    assert!(db.statistics().arenas.sealed > 0, "it finds no room");
    assert_eq!(plan.count(), 0);
    check(&db, 0..ROWS);
    db.delete(key(0)).unwrap();
}

/// Returns the disk of a store that was killed after a persist of an arena had failed. The last row is in
/// the page cache alone.
fn killed_after_a_failed_persist() -> SimulatedStorage {
    let disk = disk();
    let syncs = FaultPlan::new(of_arenas(Operation::Sync).purpose(Purpose::Arena));
    let db = Db::open("/store", options(failing(&disk, &syncs))).unwrap();
    put_rows(&db, || leave_room(&disk, 0));
    syncs.fail_at(syncs.count(), Fault::Io);
    db.put(key(ROWS), value(ROWS)).unwrap_err();
    for file in disk.list(Path::new("/store")).unwrap() {
        if file.name.starts_with("arena-") {
            let path = Path::new("/store").join(file.name);
            disk.lose_unsynced(&path).unwrap();
        }
    }
    kill(&disk)
}

/// Goes on with the arenas that the store keeps. The frame of the new row promises all before it.
fn go_on(disk: &SimulatedStorage) -> terrace::Result<Db> {
    let db = open(disk)?;
    db.put(key(ROWS + 1), value(ROWS + 1))?;
    Ok(db)
}

#[test]
fn a_row_whose_persist_failed_is_stored_again_before_it_is_promised() {
    let disk = killed_after_a_failed_persist();
    leave_room(&disk, ROOM_BYTES);

    let switch = CrashSwitch::new();
    let whole = disk.crash(CrashKind::Kill, 1, switch.clone());
    let db = go_on(&whole).unwrap();
    let steps = switch.count();
    assert!(db.statistics().arenas.sealed > 0, "it finds no room");
    check(&db, 0..ROWS + 2);
    for seed in 0..10 {
        let after = whole.crash(CrashKind::PowerCut, seed, CrashSwitch::new());
        after.set_capacity_bytes(LARGE_BYTES);
        check(&open(&after).unwrap(), 0..ROWS + 2);
    }
    drop(db);

    for step in (0..steps).step_by((steps as usize / 60) | 1) {
        let dying = disk.crash(CrashKind::Kill, step, CrashSwitch::frozen_at(step));
        drop(go_on(&dying));
        for kind in [CrashKind::Kill, CrashKind::PowerCut] {
            let again = dying.crash(kind, step, CrashSwitch::new());
            // The opening that was cut short may have made an arena.
            again.set_capacity_bytes(again.capacity_bytes() + (256 << 10));
            let db = go_on(&again).unwrap_or_else(|error| panic!("step {step}: {error}"));
            check(&db, 0..ROWS);
            check(&db, ROWS + 1..ROWS + 2);
            let had_last = is_there(&db, ROWS);
            let after = again.crash(CrashKind::PowerCut, step, CrashSwitch::new());
            after.set_capacity_bytes(LARGE_BYTES);
            let db = open(&after).unwrap_or_else(|error| panic!("step {step}: {error}"));
            check(&db, 0..ROWS);
            assert_eq!(is_there(&db, ROWS), had_last, "step {step}");
        }
    }
}

/// The next opening goes on behind the end that the close noted, with the number of the failed frame.
#[test]
fn a_frame_that_failed_before_a_clean_close_never_comes_back() {
    let disk = disk();
    let writes = FaultPlan::new(of_arenas(Operation::Write).purpose(Purpose::Arena));
    let db = Db::open("/store", options(failing(&disk, &writes))).unwrap();
    put_rows(&db, || leave_room(&disk, 0));
    writes.fail_at(writes.count(), Fault::WriteKept);
    db.put(key(ROWS), value(ROWS)).unwrap_err();
    leave_room(&disk, 64 << 10);
    db.close().unwrap();
    leave_room(&disk, ROOM_BYTES);
    let db = open(&disk).unwrap();
    assert!(db.statistics().arenas.sealed > 0, "it finds no room");
    db.put(key(ROWS + 1), value(ROWS + 1)).unwrap();
    let disk = kill(&disk);
    disk.set_capacity_bytes(LARGE_BYTES);
    let db = open(&disk).unwrap();
    check(&db, 0..ROWS);
    check(&db, ROWS + 1..ROWS + 2);
    assert!(!is_there(&db, ROWS));
}

/// Writes go on behind arenas of which nothing was persisted.
#[test]
fn crash_safe_arenas_that_are_kept_survive_a_kill_and_leave_no_gap_after_a_power_cut() {
    let crash_safe = |disk: &SimulatedStorage| {
        let options = Options {
            durability: Some(Durability::CrashSafe),
            ..options(Arc::new(disk.clone()))
        };
        Db::open("/store", options)
    };
    let disk = disk();
    put_rows(&crash_safe(&disk).unwrap(), || leave_room(&disk, 0));
    let disk = kill(&disk);
    leave_room(&disk, ROOM_BYTES);
    let db = crash_safe(&disk).unwrap();
    assert!(db.statistics().arenas.sealed > 0, "it finds no room");
    db.put(key(ROWS), value(ROWS)).unwrap();
    for seed in 0..20 {
        let kind = [CrashKind::PowerCut, CrashKind::Kill][seed as usize % 2];
        let after = disk.crash(kind, seed, CrashSwitch::new());
        after.set_capacity_bytes(LARGE_BYTES);
        let db = crash_safe(&after).unwrap();
        let rows = (0..=ROWS).take_while(|&number| is_there(&db, number));
        let rows = rows.count() as u32;
        check(&db, 0..rows);
        assert!((rows..=ROWS).all(|number| !is_there(&db, number)));
        // The opening persisted the arenas that it kept.
        assert!(rows >= ROWS, "seed {seed}: {rows} rows");
        assert!(rows > ROWS || kind == CrashKind::PowerCut, "seed {seed}");
    }
}

/// Mapped arenas are kept as they are, and readers of the mapping find their rows.
#[test]
fn mapped_arenas_are_kept_where_tables_find_no_room() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("store");
    if !RealStorage
        .file_system(directory.path())
        .unwrap()
        .overwrites_in_place
    {
        return;
    }
    let tables = FaultFilter::everything().operations(&[Operation::Write]);
    let plan = FaultPlan::new(tables.purpose(Purpose::Flush));
    let mapped = || {
        let options = Options {
            durability: Some(Durability::CrashSafe),
            persist_method: PersistMethod::Mapped,
            ..options(Arc::new(FailingStorage::new(
                Arc::new(RealStorage),
                plan.clone(),
            )))
        };
        Db::open(&path, options).unwrap()
    };
    let db = mapped();
    put_rows(&db, || {});
    db.close().unwrap();
    plan.fail_from(0, Fault::NoSpace);
    for round in 0..2 {
        let db = mapped();
        assert!(db.statistics().arenas.sealed > round, "they find no room");
        check(&db, 0..ROWS + round as u32);
        db.put(key(ROWS + round as u32), value(ROWS + round as u32))
            .unwrap();
        db.close().unwrap();
    }
    plan.heal();
    let db = mapped();
    assert_eq!(db.statistics().arenas.sealed, 0);
    check(&db, 0..ROWS + 2);
}

#[test]
fn an_opening_takes_an_arena_of_16_kib_where_no_larger_one_fits() {
    let disk = disk();
    let db = open(&disk).unwrap();
    put_rows(&db, || leave_room(&disk, 0));
    drop(db);
    let disk = kill(&disk);
    leave_room(&disk, (16 << 10) + (8 << 10));
    let db = open(&disk).unwrap();
    assert!(db.statistics().arenas.sealed > 0, "it finds no room");
    let files = disk.list(Path::new("/store")).unwrap();
    let arenas = files.iter().filter(|file| file.name.starts_with("arena-"));
    let smallest = arenas.map(|file| file.length_bytes).min();
    assert_eq!(smallest, Some(16 << 10));
    for number in 0..ROWS / 2 {
        db.delete(key(number)).unwrap();
    }
    let disk = kill(&disk);
    disk.set_capacity_bytes(LARGE_BYTES);
    let db = open(&disk).unwrap();
    check(&db, ROWS / 2..ROWS);
    assert!((0..ROWS / 2).all(|number| !is_there(&db, number)));
}
