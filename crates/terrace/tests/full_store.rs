//! A store that fills its disk is emptied by deletes, at any options, and goes on.

use std::path::Path;
use std::sync::Arc;

use terrace::{
    Background, Compression, Db, Durability, Event, EventKind, EventListener, KeyspaceOptions,
    Options,
};
use terrace_storage::{
    CrashKind, CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, Operation, Purpose,
    SimulatedStorage, Storage,
};

const VALUE_BYTES: usize = 2000;
const LARGE_BYTES: u64 = 1 << 30;

/// Returns a value so random that no file gets smaller.
fn value(key: u32) -> Vec<u8> {
    let mut state = u64::from(key) + 1;
    let word = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    (0..VALUE_BYTES).map(word).collect()
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn options(storage: &SimulatedStorage, with: Options) -> Options {
    Options {
        storage: Arc::new(storage.clone()),
        default_keyspace: KeyspaceOptions {
            compression: vec![Compression::None],
            ..with.default_keyspace
        },
        background: Background::Inline,
        ..with
    }
}

fn small() -> Options {
    Options {
        arena_bytes: 1 << 20,
        default_keyspace: KeyspaceOptions {
            table_bytes: 1 << 20,
            level1_bytes: 4 << 20,
            ..KeyspaceOptions::default()
        },
        ..Options::default()
    }
}

/// Puts keys from `from` on until one is refused. Returns the first key that is not there.
fn fill(db: &Db, from: u32) -> u32 {
    (from..1_000_000)
        .find(|&number| match db.put(key(number), value(number)) {
            Ok(()) => false,
            Err(error) => {
                assert!(error.is_no_space(), "{error:?}");
                true
            }
        })
        .expect("the disk is full some time")
}

fn check(db: &Db, is_there: impl Fn(u32) -> bool, end: u32) {
    for number in 0..end {
        let found = db.get(key(number)).unwrap();
        let wanted = is_there(number).then(|| value(number));
        assert!(found.as_deref() == wanted.as_deref(), "key {number}");
    }
}

fn free_share(storage: &SimulatedStorage, capacity_bytes: u64) -> f64 {
    let free_bytes = storage.free_space_bytes(Path::new("/store")).unwrap();
    free_bytes as f64 / capacity_bytes as f64
}

/// Shrinks the disk to its contents.
fn leave_no_space(storage: &SimulatedStorage) {
    let free_bytes = storage.free_space_bytes(Path::new("/store")).unwrap();
    let capacity_bytes = storage.capacity_bytes();
    storage.set_capacity_bytes(capacity_bytes - free_bytes);
}

/// Waits until the store makes its reserve again, which it does after a pause.
fn wait_for_reserve(db: &Db) {
    let began = std::time::Instant::now();
    while db.statistics().lacks_reserve {
        db.put(key(1), value(1)).unwrap();
        db.flush().unwrap();
        assert!(began.elapsed().as_secs() < 60, "there is no reserve");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn emptied_by_deletes(with: fn() -> Options, capacity_bytes: u64) {
    let storage = SimulatedStorage::new(7, CrashSwitch::new());
    storage.set_capacity_bytes(capacity_bytes);
    let open = || Db::open("/store", options(&storage, with())).unwrap();
    let mut db = open();
    for round in 0..3 {
        let end = fill(&db, 0);
        let filled_bytes = u64::from(end) * VALUE_BYTES as u64;
        assert!(
            filled_bytes > capacity_bytes / 3,
            "round {round}: {end} rows"
        );
        drop(db);
        db = open();
        check(&db, |_| true, end);
        let half = end / 2;
        db.delete_range(key(0), key(half)).unwrap();
        // The leftovers of an earlier round go, too.
        for number in (half..2 * end).filter(|number| number % 2 == 0 || *number >= end) {
            db.delete(key(number)).unwrap();
        }
        db.flush().unwrap();
        db.compact().unwrap();
        check(&db, |number| number >= half && number % 2 == 1, end);
        let free = free_share(&storage, capacity_bytes);
        assert!(free >= 0.4, "round {round}: {free:.2} of the disk is free");
    }
}

#[test]
fn a_full_disk_is_emptied_by_deletes_with_default_options() {
    emptied_by_deletes(Options::default, 64 << 20);
}

#[test]
fn a_full_disk_is_emptied_by_deletes_with_small_arenas_and_tables() {
    emptied_by_deletes(small, 24 << 20);
}

#[test]
fn a_full_disk_is_emptied_by_deletes_with_arenas_in_another_directory_of_it() {
    let beside = || Options {
        region_dir: Some("/arenas".into()),
        ..small()
    };
    emptied_by_deletes(beside, 24 << 20);
}

#[test]
fn a_reserve_is_kept_and_given_to_a_flush_that_others_leave_no_space() {
    let storage = SimulatedStorage::new(8, CrashSwitch::new());
    storage.set_capacity_bytes(LARGE_BYTES);
    let db = Db::open("/store", options(&storage, small())).unwrap();
    for number in 0..10_000 {
        db.put(key(number), value(number)).unwrap();
    }
    db.flush().unwrap();
    let before = db.statistics();
    assert!(
        before.reserve_bytes >= 256 << 10,
        "{}",
        before.reserve_bytes
    );
    for number in 10_000..10_020 {
        db.put(key(number), value(number)).unwrap();
    }
    // Another program takes all free space, and that of free arenas.
    for _ in 0..5 {
        leave_no_space(&storage);
        let _ = db.put(key(10_000), value(10_000));
        db.flush().unwrap();
        if db.statistics().lacks_reserve {
            break;
        }
    }
    let statistics = db.statistics();
    assert!(statistics.lacks_reserve);
    assert_eq!(statistics.reserve_bytes, 0);
    let refused = fill(&db, 20_000);
    db.delete(key(1)).unwrap();
    check(&db, |number| number != 1, 10_020);
    storage.set_capacity_bytes(LARGE_BYTES);
    db.put(key(refused), value(refused)).unwrap();
    wait_for_reserve(&db);
    assert!(db.statistics().reserve_bytes > 0);
}

/// No merge and no edit is there to give the reserve back in its place.
#[test]
fn a_flush_whose_table_finds_no_room_is_done_again_with_the_space_of_the_reserve() {
    let disk = SimulatedStorage::new(14, CrashSwitch::new());
    disk.set_capacity_bytes(LARGE_BYTES);
    let writes = FaultFilter::everything().operations(&[Operation::Write]);
    let plan = FaultPlan::new(writes.purpose(Purpose::Flush));
    let failing = Options {
        storage: Arc::new(FailingStorage::new(Arc::new(disk.clone()), plan.clone())),
        ..options(&disk, small())
    };
    let db = Db::open("/store", failing).unwrap();
    for number in 0..10_000 {
        db.put(key(number), value(number)).unwrap();
    }
    db.flush().unwrap();
    assert!(db.statistics().reserve_bytes > 0);
    db.put(key(10_000), value(10_000)).unwrap();
    plan.fail_at(plan.count(), Fault::NoSpace);
    db.flush().unwrap();
    assert_eq!(plan.failures(), 1);
    let statistics = db.statistics();
    assert!(statistics.lacks_reserve);
    assert_eq!(statistics.reserve_bytes, 0);
    check(&db, |_| true, 10_001);
}

#[test]
fn a_reserve_survives_a_kill_and_serves_the_next_opening() {
    let storage = SimulatedStorage::new(9, CrashSwitch::new());
    storage.set_capacity_bytes(LARGE_BYTES);
    let db = Db::open("/store", options(&storage, small())).unwrap();
    for number in 0..10_000 {
        db.put(key(number), value(number)).unwrap();
    }
    db.flush().unwrap();
    assert!(db.statistics().reserve_bytes > 0);
    db.put(key(1), b"in the arena").unwrap();
    let after = storage.crash(CrashKind::Kill, 9, CrashSwitch::new());
    drop(db);
    leave_no_space(&after);
    let db = Db::open("/store", options(&after, small())).unwrap();
    assert_eq!(
        db.get(key(1)).unwrap().as_deref(),
        Some(&b"in the arena"[..])
    );
    db.delete(key(2)).unwrap();
}

/// Any program may remove the file. The store notices when it needs it, and makes another later.
#[test]
fn a_reserve_that_somebody_removed_is_made_again() {
    let storage = SimulatedStorage::new(13, CrashSwitch::new());
    storage.set_capacity_bytes(LARGE_BYTES);
    let db = Db::open("/store", options(&storage, small())).unwrap();
    for number in 0..10_000 {
        db.put(key(number), value(number)).unwrap();
    }
    db.flush().unwrap();
    let reserve = Path::new("/store/RESERVE");
    storage.remove(reserve).unwrap();
    // Free arenas give their space first.
    let refuses = || {
        let _ = db.put(key(1), value(1));
        leave_no_space(&storage);
        db.flush().err()
    };
    let error = (0..10).find_map(|_| refuses()).unwrap();
    assert!(error.is_no_space(), "{error:?}");
    assert_eq!(db.statistics().reserve_bytes, 0, "it is known to be gone");
    check(&db, |_| true, 10_000);
    storage.set_capacity_bytes(LARGE_BYTES);
    wait_for_reserve(&db);
    assert!(db.statistics().reserve_bytes > 0);
}

/// An arena of its own for a large batch takes its file and, later, as much in tables.
#[test]
fn a_large_batch_that_would_fit_no_table_is_refused() {
    let storage = SimulatedStorage::new(10, CrashSwitch::new());
    storage.set_capacity_bytes(12 << 20);
    let open = || Db::open("/store", options(&storage, Options::default())).unwrap();
    let db = open();
    db.put(b"small", b"value").unwrap();
    let error = db.put(b"large", vec![7; 9 << 20]).unwrap_err();
    assert!(error.is_no_space(), "{error:?}");
    db.put(b"middle", vec![7; 3 << 20]).unwrap();
    drop(db);
    let db = open();
    assert_eq!(db.get(b"small").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(db.get(b"middle").unwrap().unwrap().len(), 3 << 20);
    assert!(db.get(b"large").unwrap().is_none());
}

/// A merge gives a table's space back when it has read all of it.
#[test]
fn tables_are_small_beside_the_space_that_is_free() {
    let storage = SimulatedStorage::new(11, CrashSwitch::new());
    storage.set_capacity_bytes(64 << 20);
    let db = Db::open("/store", options(&storage, Options::default())).unwrap();
    fill(&db, 0);
    db.flush().unwrap();
    let files = storage.list(Path::new("/store")).unwrap();
    let tables = files.iter().filter(|file| file.name.ends_with(".table"));
    let largest = tables.map(|file| file.length_bytes).max().unwrap();
    assert!(largest <= 5 << 20, "{largest}");
}

fn power_safe() -> Options {
    Options {
        durability: Some(Durability::PowerSafe),
        ..small()
    }
}

/// Returns a disk whose store was killed with full arenas, and the number of its rows.
fn killed_with_full_arenas() -> (SimulatedStorage, u32) {
    let disk = SimulatedStorage::new(12, CrashSwitch::new());
    disk.set_capacity_bytes(LARGE_BYTES);
    killed_with_full_arenas_of(disk, 0)
}

/// Fills the arenas of a store with rows from a number on, and kills it.
fn killed_with_full_arenas_of(disk: SimulatedStorage, from: u32) -> (SimulatedStorage, u32) {
    let flushes = FaultFilter::everything().operations(&[Operation::Write]);
    let plan = FaultPlan::new(flushes.purpose(Purpose::Flush));
    plan.fail_from(0, Fault::Io);
    let failing = Options {
        storage: Arc::new(FailingStorage::new(Arc::new(disk.clone()), plan)),
        ..options(&disk, power_safe())
    };
    let db = Db::open("/store", failing).unwrap();
    let put = |number: &u32| db.put(key(*number), value(*number)).is_ok();
    let rows = from + (from..).take_while(put).count() as u32;
    (disk.crash(CrashKind::Kill, 12, CrashSwitch::new()), rows)
}

/// Other programs may take the space that recovered writes need in tables.
#[test]
fn an_opening_without_room_for_all_tables_flushes_one_arena_after_the_other() {
    let (disk, rows) = killed_with_full_arenas();
    let open = |disk: &SimulatedStorage| Db::open("/store", options(disk, power_safe()));
    leave_no_space(&disk);
    let full_bytes = disk.capacity_bytes();
    // More than the tables of one arena take, and less than those of two.
    disk.set_capacity_bytes(full_bytes + (1 << 20) + (1 << 18));

    let switch = CrashSwitch::new();
    let whole = disk.crash(CrashKind::Kill, 1, switch.clone());
    let db = open(&whole).unwrap();
    let steps = switch.count();
    let recovery = db.statistics().recovery;
    assert!(recovery.arenas >= 3, "{recovery:?}");
    assert!(
        u64::from(rows) * VALUE_BYTES as u64 > 2 << 20,
        "{rows} rows"
    );
    assert_eq!(db.statistics().arenas.sealed, 0, "all are flushed");
    check(&db, |_| true, rows);
    db.delete(key(0)).unwrap();
    drop(db);

    for step in 0..steps {
        let kind = [CrashKind::PowerCut, CrashKind::Kill][step as usize % 2];
        let switch = CrashSwitch::frozen_at(step);
        let dying = disk.crash(CrashKind::Kill, step, switch);
        assert!(open(&dying).is_err(), "step {step} of {steps}");
        let after = dying.crash(kind, step, CrashSwitch::new());
        let db = open(&after).unwrap_or_else(|error| panic!("step {step}: {error}"));
        assert_eq!(db.statistics().arenas.sealed, 0, "step {step}");
        check(&db, |_| true, rows);
    }
}

/// The first edit of an opening records where its arenas are from now on. Then no older one may be left.
#[test]
fn an_opening_that_moves_its_arenas_and_finds_no_room_changes_nothing() {
    let (disk, rows) = killed_with_full_arenas();
    let capacity_bytes = disk.capacity_bytes();
    let in_another_directory = Options {
        region_dir: Some("/arenas".into()),
        ..power_safe()
    };
    let in_memory = Options {
        durability: Some(Durability::Volatile),
        ..power_safe()
    };
    for moved in [in_another_directory, in_memory] {
        leave_no_space(&disk);
        disk.set_capacity_bytes(disk.capacity_bytes() + (1 << 20) + (1 << 18));
        let error = Db::open("/store", options(&disk, moved)).unwrap_err();
        assert!(error.is_no_space(), "{error:?}");
        disk.set_capacity_bytes(capacity_bytes);
        let image = disk.crash(CrashKind::Kill, 1, CrashSwitch::new());
        check(
            &Db::open("/store", options(&image, power_safe())).unwrap(),
            |_| true,
            rows,
        );
    }
}

#[test]
fn an_opening_without_room_takes_the_space_of_an_empty_spare() {
    let disk = SimulatedStorage::new(14, CrashSwitch::new());
    disk.set_capacity_bytes(LARGE_BYTES);
    let db = Db::open("/store", options(&disk, power_safe())).unwrap();
    let rows = 60;
    for number in 0..rows {
        db.put(key(number), value(number)).unwrap();
    }
    let disk = disk.crash(CrashKind::Kill, 14, CrashSwitch::new());
    let files = disk.list(Path::new("/store")).unwrap();
    let arenas = files.iter().filter(|file| file.name.starts_with("arena-"));
    assert_eq!(arenas.count(), 2, "an active one and a spare: {files:?}");
    leave_no_space(&disk);
    // The manifest needs a little.
    disk.set_capacity_bytes(disk.capacity_bytes() + (16 << 10));
    let db = Db::open("/store", options(&disk, power_safe())).unwrap();
    assert_eq!(db.statistics().arenas.sealed, 0, "all are flushed");
    check(&db, |_| true, rows);
}

/// Deletes half of the rows of a store on a full disk by a range that finds room in no table.
fn delete_half_without_room(disk: &SimulatedStorage, rows: u32) -> terrace::Result<Db> {
    let with = Options {
        durability: Some(Durability::CrashSafe),
        ..small()
    };
    let db = Db::open("/store", options(disk, with))?;
    db.put(key(rows), value(rows))?;
    leave_no_space(disk);
    db.delete_range(key(0), key(rows / 2))?;
    db.compact_range(..)?;
    Ok(db)
}

#[test]
fn a_range_in_an_arena_makes_the_room_that_its_table_needs() {
    let disk = SimulatedStorage::new(15, CrashSwitch::new());
    disk.set_capacity_bytes(LARGE_BYTES);
    // Too few for a reserve.
    let rows = 3000;
    let db = Db::open("/store", options(&disk, small())).unwrap();
    for number in 0..rows {
        db.put(key(number), value(number)).unwrap();
    }
    db.flush().unwrap();
    drop(db);

    let switch = CrashSwitch::new();
    let whole = disk.crash(CrashKind::Kill, 1, switch.clone());
    let db = delete_half_without_room(&whole, rows).unwrap();
    let steps = switch.count();
    assert!(db.statistics().removals > 0);
    check(&db, |number| number >= rows / 2, rows + 1);
    drop(db);

    for step in 0..steps {
        let kind = [CrashKind::PowerCut, CrashKind::Kill][step as usize % 2];
        let switch = CrashSwitch::frozen_at(step);
        let dying = disk.crash(CrashKind::Kill, step, switch);
        // The last steps remove files, which may fail.
        drop(delete_half_without_room(&dying, rows));
        let after = dying.crash(kind, step, CrashSwitch::new());
        after.set_capacity_bytes(LARGE_BYTES);
        let db = Db::open("/store", options(&after, small())).unwrap();
        let gone = (0..rows / 2).filter(|&number| db.get(key(number)).unwrap().is_none());
        let gone = gone.count() as u32;
        assert!(
            gone == 0 || gone == rows / 2,
            "step {step}: {gone} rows are gone"
        );
        for number in rows / 2..rows {
            assert!(db.get(key(number)).unwrap().is_some(), "step {step}");
        }
    }
}

/// Opens a store whose arenas find no room in tables, writes to it and makes room by a range.
fn go_on_with_unflushed_arenas(disk: &SimulatedStorage, rows: u32) -> terrace::Result<Db> {
    let db = Db::open("/store", options(disk, power_safe()))?;
    db.delete(key(rows - 1))?;
    db.put(key(rows), value(rows))?;
    db.delete_range(key(0), key(rows / 2))?;
    // The first attempt has the tables removed that the range hides.
    db.flush().or_else(|_| db.flush())?;
    Ok(db)
}

#[test]
fn an_opening_without_room_for_one_table_goes_on_with_its_arenas() {
    let disk = SimulatedStorage::new(16, CrashSwitch::new());
    disk.set_capacity_bytes(LARGE_BYTES);
    let db = Db::open("/store", options(&disk, power_safe())).unwrap();
    let in_tables = 2000;
    for number in 0..in_tables {
        db.put(key(number), value(number)).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let (disk, rows) = killed_with_full_arenas_of(disk, in_tables);
    leave_no_space(&disk);
    // The smallest arena and the manifest, and no table of any arena.
    disk.set_capacity_bytes(disk.capacity_bytes() + (256 << 10) + (64 << 10));
    let is_left = |number| number >= rows / 2 && number != rows - 1;

    let switch = CrashSwitch::new();
    let whole = disk.crash(CrashKind::Kill, 1, switch.clone());
    let db = go_on_with_unflushed_arenas(&whole, rows).unwrap();
    let steps = switch.count();
    assert!(db.statistics().removals > 0);
    check(&db, is_left, rows + 1);
    drop(db);

    // Whole arenas and tables are written: a part of the steps is enough, of both kinds.
    for step in (0..steps).step_by((steps as usize / 60) | 1) {
        let kind = [CrashKind::PowerCut, CrashKind::Kill][step as usize % 2];
        let switch = CrashSwitch::frozen_at(step);
        let dying = disk.crash(CrashKind::Kill, step, switch);
        drop(go_on_with_unflushed_arenas(&dying, rows));
        // Each opening before the first flush takes an arena.
        let again = dying.crash(kind, step, CrashSwitch::new());
        again.set_capacity_bytes(again.capacity_bytes() + (256 << 10));
        let db = go_on_with_unflushed_arenas(&again, rows);
        let db = db.unwrap_or_else(|error| panic!("step {step}: {error}"));
        check(&db, is_left, rows + 1);
        drop(db);
        again.set_capacity_bytes(LARGE_BYTES);
        let db = Db::open("/store", options(&again, power_safe())).unwrap();
        check(&db, is_left, rows + 1);
    }
}

/// Returns a store with a reserve, whose frames fail as the plan says. On a file system that copies on
/// write a frame needs space, even in an arena that has room for it.
fn store_whose_frames_fail(disk: &SimulatedStorage) -> (Db, FaultPlan) {
    let background = Background::Inline;
    store_whose_frames_fail_on(disk, Arc::new(disk.clone()), background)
}

fn store_whose_frames_fail_on(
    disk: &SimulatedStorage,
    below: Arc<dyn Storage>,
    background: Background,
) -> (Db, FaultPlan) {
    /// Tables that are removed give frames their space.
    #[derive(Debug)]
    struct SpaceGiven(FaultPlan);

    impl EventListener for SpaceGiven {
        fn event(&self, event: &Event) {
            if let EventKind::TablesRemoved { .. } = event.kind {
                self.0.heal();
            }
        }
    }

    disk.set_capacity_bytes(LARGE_BYTES);
    let filter = FaultFilter::everything().operations(&[Operation::Write]);
    let frames = FaultPlan::new(filter.purpose(Purpose::Arena).path_contains("arena-"));
    let failing = FailingStorage::new(below, frames.clone());
    let with = Options {
        storage: Arc::new(failing),
        background,
        event_listener: Some(Arc::new(SpaceGiven(frames.clone()))),
        ..options(disk, small())
    };
    let db = Db::open("/store", with).unwrap();
    for number in 0..10_000 {
        db.put(key(number), value(number)).unwrap();
    }
    db.flush().unwrap();
    assert!(db.statistics().reserve_bytes > 0);
    (db, frames)
}

#[test]
fn a_delete_without_space_for_its_frame_takes_the_reserve() {
    let disk = SimulatedStorage::new(7, CrashSwitch::new());
    let (db, frames) = store_whose_frames_fail(&disk);
    // The first attempt is any write's. From now on deletes are written as such at once.
    frames.fail_at(frames.count(), Fault::NoSpace);
    db.delete(key(0)).unwrap();
    assert!(db.statistics().reserve_bytes > 0);
    frames.fail_at(frames.count(), Fault::NoSpace);
    db.delete(key(1)).unwrap();
    assert_eq!((frames.failures(), db.statistics().reserve_bytes), (2, 0));
    check(&db, |number| number > 1, 10_000);

    // Without a reserve the error is the delete's own, and nothing of the delete stays.
    frames.fail_from(frames.count(), Fault::NoSpace);
    let error = db.delete(key(2)).unwrap_err();
    assert!(error.is_no_space(), "{error:?}");
    frames.heal();
    check(&db, |number| number > 1, 10_000);
    db.delete(key(2)).unwrap();
    check(&db, |number| number > 2, 10_000);
}

#[test]
fn a_delete_without_space_for_its_frame_takes_that_of_a_deleted_range() {
    let disk = SimulatedStorage::new(7, CrashSwitch::new());
    let (db, frames) = store_whose_frames_fail(&disk);
    disk.remove(Path::new("/store/RESERVE")).unwrap();
    db.delete_range(key(0), key(9000)).unwrap();
    let tables = || {
        let levels = db.statistics().levels;
        levels.iter().map(|level| level.tables).sum::<usize>()
    };
    let before = tables();
    // Nothing said before that space is short, so the tables under the range are there.
    frames.fail_from(frames.count(), Fault::NoSpace);
    db.delete(key(9000)).unwrap();
    assert!(tables() < before / 2, "{} of {before}", tables());
    check(&db, |number| number > 9000, 10_000);
}

/// The worker may have begun to remove the tables, and their files have their space until it is done.
#[test]
fn a_delete_without_space_waits_for_a_removal_under_way() {
    let disk = SimulatedStorage::new(7, CrashSwitch::new());
    let manifest = FaultPlan::new(
        FaultFilter::everything()
            .operations(&[Operation::Write])
            .path_contains("MANIFEST"),
    );
    let held = FailingStorage::new(Arc::new(disk.clone()), manifest.clone());
    let (db, frames) = store_whose_frames_fail_on(&disk, Arc::new(held), Background::Threads);
    disk.remove(Path::new("/store/RESERVE")).unwrap();
    db.delete_range(key(0), key(9000)).unwrap();

    // The worker hears that space is short, and stops in the edit.
    manifest.hold_from(manifest.count());
    frames.fail_at(frames.count(), Fault::NoSpace);
    db.delete(key(9000)).unwrap();
    while manifest.held() == 0 {
        std::thread::yield_now();
    }
    frames.fail_from(frames.count(), Fault::NoSpace);
    let attempts = frames.failures() + 1;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while frames.failures() < attempts {
                std::thread::yield_now();
            }
            frames.heal();
            manifest.release();
        });
        db.delete(key(9001)).unwrap();
    });
    check(&db, |number| number > 9001, 10_000);
}

/// A file system that copies on write needs space for the note of a close, even in its old file.
#[test]
fn a_close_without_space_for_its_note_succeeds_where_arenas_survive() {
    for (durability, region_dir) in [
        (Durability::CrashSafe, None),
        (Durability::CrashSafe, Some("/arenas".into())),
        (Durability::Volatile, None),
    ] {
        let disk = SimulatedStorage::new(1, CrashSwitch::new());
        let writes = FaultFilter::everything().operations(&[Operation::Write]);
        let edits = FaultPlan::new(writes.purpose(Purpose::Manifest));
        let failing = FailingStorage::new(Arc::new(disk.clone()), edits.clone());
        let with = |storage: Arc<dyn Storage>| Options {
            storage,
            durability: Some(durability),
            region_dir: region_dir.clone(),
            ..options(&disk, small())
        };
        let db = Db::open("/store", with(Arc::new(failing))).unwrap();
        db.put(b"key", b"value").unwrap();
        edits.fail_from(edits.count(), Fault::NoSpace);
        let closed = db.close();
        assert!(edits.failures() > 0);
        drop(db);
        // The table of its rows needs the edit, and another region directory the note.
        match durability == Durability::Volatile || region_dir.is_some() {
            true => assert!(closed.unwrap_err().is_no_space()),
            false => closed.unwrap(),
        }
        if durability == Durability::Volatile {
            continue;
        }
        let db = Db::open("/store", with(Arc::new(disk.clone()))).unwrap();
        assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    }
}

#[test]
fn a_close_without_space_to_wipe_a_failed_frame_out_succeeds() {
    let disk = SimulatedStorage::new(7, CrashSwitch::new());
    let (db, frames) = store_whose_frames_fail(&disk);
    disk.remove(Path::new("/store/RESERVE")).unwrap();
    db.put(key(10_000), value(10_000)).unwrap();
    frames.fail_from(frames.count(), Fault::NoSpace);
    assert!(
        db.put(key(10_001), value(10_001))
            .unwrap_err()
            .is_no_space()
    );
    let before = frames.failures();
    db.close().unwrap();
    assert!(frames.failures() > before, "the frame was to be wiped out");
    drop(db);
    let db = Db::open("/store", options(&disk, small())).unwrap();
    check(&db, |_| true, 10_001);
}
