//! Writers whose background work fails or is late: bounded, told why, never stuck, and nothing
//! acknowledged is lost.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use support::gated::{Opened, gated};
use terrace::{
    Background, Compression, Db, Error, KeyspaceOptions, Options, RegionSource, WriteBatch,
    WriteOptions, internal,
};
use terrace_region::{Device, MemoryKind, SimulatedMemory};
use terrace_storage::{
    CrashKind, CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, Operation, Purpose,
    SimulatedStorage, Storage,
};

const STORE: &str = "/store";

fn options(storage: Arc<dyn Storage>) -> Options {
    Options {
        storage,
        background: Background::Inline,
        arena_bytes: 64 << 10,
        ..Options::default()
    }
}

fn disk() -> SimulatedStorage {
    SimulatedStorage::new(1, CrashSwitch::new())
}

fn failing(disk: &SimulatedStorage, plans: &[&FaultPlan]) -> Arc<dyn Storage> {
    let inner: Arc<dyn Storage> = Arc::new(disk.clone());
    plans.iter().fold(inner, |inner, plan| {
        Arc::new(FailingStorage::new(inner, (*plan).clone()))
    })
}

fn writes_to(part: &str) -> FaultPlan {
    let filter = FaultFilter::everything().operations(&[Operation::Write]);
    FaultPlan::new(filter.path_contains(part))
}

/// Returns a store with threads whose flushes wait until the plan is healed.
fn store_with_slow_flushes(disk: &SimulatedStorage, max_arenas: usize) -> (Db, FaultPlan) {
    let (storage, gate) = gated(disk, Purpose::Flush);
    let options = Options {
        background: Background::Threads,
        max_arenas,
        ..options(storage)
    };
    (Db::open(STORE, options).unwrap(), gate)
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "waited in vain until {what}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The medium takes all of a frame and reports an error. The next write has the frame's numbers and
/// goes to another arena; recovery must not take the failed frame in its place.
#[test]
fn a_failed_frame_that_arrived_does_not_replace_an_acknowledged_one() {
    for more in [0, 3] {
        for kind in [CrashKind::Kill, CrashKind::PowerCut] {
            let disk = disk();
            let (arenas, tables) = (writes_to("arena-"), writes_to(".table"));
            let db = Db::open(STORE, options(failing(&disk, &[&arenas, &tables]))).unwrap();
            db.put(b"a", b"acknowledged").unwrap();
            arenas.fail_at(arenas.count(), Fault::WriteKept);
            db.put(b"b", b"failed").unwrap_err();
            tables.fail_from(tables.count(), Fault::Io);
            // Seals the arena; the tables cannot be written.
            db.flush().unwrap_err();
            db.put(b"c", b"acknowledged").unwrap();
            for _ in 0..more {
                db.put(b"d", b"acknowledged").unwrap();
            }
            db.persist().unwrap();
            let after = disk.crash(kind, more, CrashSwitch::new());
            let db = Db::open(STORE, options(Arc::new(after))).unwrap();
            assert!(db.get(b"a").unwrap().is_some() && db.get(b"c").unwrap().is_some());
            assert!(db.get(b"b").unwrap().is_none());
            assert_eq!(db.get(b"d").unwrap().is_some(), more > 0);
        }
    }
}

#[test]
fn arenas_for_large_batches_are_bounded_too() {
    let disk = disk();
    let tables = writes_to(".table");
    let db = Db::open(STORE, options(failing(&disk, &[&tables]))).unwrap();
    tables.fail_from(0, Fault::Io);
    let mut accepted = 0;
    for _ in 0..20 {
        let mut batch = WriteBatch::new();
        batch.put(b"large", vec![1; 200 << 10]).unwrap();
        accepted += u32::from(db.write(batch, WriteOptions::default()).is_ok());
    }
    let statistics = db.statistics();
    assert!(statistics.arenas.sealed + statistics.arenas.active <= Options::default().max_arenas);
    assert!((1..=3).contains(&accepted), "{accepted} accepted");
    assert!(statistics.step_failures > 0 && statistics.last_error.is_some());
    tables.heal();
    db.put(b"small", b"value").unwrap();
    db.flush().unwrap();
    assert_eq!(
        db.get(b"large").unwrap().map(|value| value.len()),
        Some(200 << 10)
    );
}

#[test]
fn a_flush_that_fails_leaves_no_table_behind() {
    let disk = disk();
    let filter = FaultFilter::everything().operations(&[Operation::SyncDirectory]);
    let directories = FaultPlan::new(filter);
    let db = Db::open(STORE, options(failing(&disk, &[&directories]))).unwrap();
    internal::create_second(&db).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"key", b"value").unwrap();
    internal::put(&mut batch, internal::SECOND, b"key", b"value").unwrap();
    db.write(batch, WriteOptions::default()).unwrap();
    let tables = || {
        let entries = disk.list(Path::new(STORE)).unwrap();
        entries
            .iter()
            .filter(|entry| entry.name.ends_with(".table"))
            .count()
    };
    directories.fail_from(directories.count(), Fault::Io);
    for _ in 0..3 {
        db.flush().unwrap_err();
        assert_eq!(tables(), 0);
    }
    directories.heal();
    db.flush().unwrap();
    assert_eq!(tables(), 2);
}

/// While a flush is under way, as many arenas as the option says take writes. The writers that then
/// wait go on when it is done.
#[test]
fn several_sealed_arenas_wait_for_a_slow_flush() {
    let (db, gate) = store_with_slow_flushes(&disk(), 6);
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for row in 0..1000u64 {
                db.put(row.to_be_bytes(), [1; 1000]).unwrap();
                written.fetch_add(1, Ordering::SeqCst);
            }
        });
        wait_until("all arenas but the active one are sealed", || {
            db.statistics().arenas.sealed == 5
        });
        assert_eq!(db.statistics().arenas.spare, 0, "nobody could take one");
        assert!(written.load(Ordering::SeqCst) < 1000);
        gate.heal();
    });
    db.flush().unwrap();
    assert!((0..1000u64).all(|row| db.get(row.to_be_bytes()).unwrap().is_some()));
}

fn arena_files(disk: &SimulatedStorage) -> usize {
    let entries = disk.list(Path::new(STORE)).unwrap();
    let is_arena = |name: &str| name.starts_with("arena-");
    entries.iter().filter(|entry| is_arena(&entry.name)).count()
}

/// The slot that a flush gives back is the next spare's: one more file would take space for good,
/// and long to make while the medium is busy.
#[test]
fn a_store_whose_flushes_keep_up_has_two_arena_files() {
    let disk = disk();
    let db = Db::open(STORE, options(Arc::new(disk.clone()))).unwrap();
    for row in 0..1000u64 {
        db.put(row.to_be_bytes(), [1; 1000]).unwrap();
        assert!(arena_files(&disk) <= 2, "row {row}");
    }
    assert!(db.statistics().flushes > 10);
}

/// Where readers read in place, a slot is free only after the last of them is gone, the caller of
/// the flush included.
#[test]
fn a_flush_gives_its_slot_to_the_next_spare_also_in_place() {
    let memory = SimulatedMemory::new(MemoryKind::Dax, 1, CrashSwitch::new());
    let region = memory.clone();
    let options = Options {
        region: Some(RegionSource::new(move || Ok(Box::new(region.clone())))),
        ..options(Arc::new(disk()))
    };
    let db = Db::open(STORE, options).unwrap();
    for row in 0..500u64 {
        db.put(row.to_be_bytes(), [1; 1000]).unwrap();
        if row % 7 == 0 {
            db.flush().unwrap();
        }
        assert!(memory.list().unwrap().len() <= 2, "row {row}");
    }
}

/// Arenas that were sealed nearly empty are soon flushed: they are no reason to slow a writer down.
#[test]
fn sealed_arenas_count_by_what_they_hold() {
    let (db, gate) = store_with_slow_flushes(&disk(), 3);
    let _at_the_end = Opened(&gate);
    db.put(b"small", b"value").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"large", vec![1; 200 << 10]).unwrap();
    db.write(batch, WriteOptions::default()).unwrap();
    // Rolls over, and may have to wait for the spare.
    db.put(b"next", [1; 8000]).unwrap();
    let before = db.statistics();
    assert_eq!((before.arenas.active, before.arenas.sealed), (1, 2));
    for row in 0..10u64 {
        db.put(row.to_be_bytes(), [1; 1000]).unwrap();
    }
    assert_eq!(db.statistics().stalls, before.stalls);
}

/// While a flush is slow its slot is awaited, but not to the end: every writer is to find a spare.
#[test]
fn a_late_flush_is_not_waited_for_to_the_end_of_the_active_arena() {
    let disk = disk();
    let (db, gate) = store_with_slow_flushes(&disk, 3);
    let _at_the_end = Opened(&gate);
    let has_spare = || db.statistics().arenas.spare == 1;
    let mut row = 0u64;
    let mut put = |rows: u64| {
        for _ in 0..rows {
            db.put(row.to_be_bytes(), [1; 1000]).unwrap();
            row += 1;
        }
    };
    put(10);
    assert_eq!(
        (has_spare(), arena_files(&disk)),
        (false, 1),
        "not a quarter full"
    );
    put(10);
    wait_until("the second file is made", has_spare);
    while db.statistics().arenas.sealed == 0 {
        put(1);
    }
    // Of about sixty rows.
    put(30);
    // Time for a spare worker that does not wait.
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!((db.statistics().arenas.spare, arena_files(&disk)), (0, 2));
    put(20);
    wait_until("the third one is made", has_spare);
    assert_eq!((db.statistics().arenas.sealed, arena_files(&disk)), (1, 3));
    put(20);
    assert_eq!(db.statistics().arenas.sealed, 2);
    gate.heal();
    db.flush().unwrap();
    assert!((0..row).all(|row| db.get(row.to_be_bytes()).unwrap().is_some()));
}

/// A writer that level 0 stopped gets the error when the store is poisoned; closing works.
#[test]
fn a_poisoned_store_lets_its_stopped_writers_go() {
    let (storage, gate) = gated(&disk(), Purpose::Compaction);
    let base = options(storage);
    let options = Options {
        background: Background::Threads,
        level0_merge: 1,
        level0_slowdown: 1,
        constants: terrace::Constants {
            level0_stop: Some(2),
            ..terrace::Constants::default()
        },
        default_keyspace: KeyspaceOptions {
            // Another form in level 1: a move would not be stopped by the gate.
            compression: vec![Compression::None, Compression::Lz4],
            ..base.default_keyspace
        },
        ..base
    };
    let db = Db::open(STORE, options).unwrap();
    for key in [b"a", b"b"] {
        db.put(key, b"value").unwrap();
        db.flush().unwrap();
    }
    let level0 = || db.levels().keyspaces[0].levels[0].len();
    assert_eq!(level0(), 2);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| db.put(b"c", b"value"));
        std::thread::sleep(Duration::from_millis(50));
        internal::poison(&db);
        gate.heal();
        wait_until("the writer is let go", || writer.is_finished());
        assert!(matches!(
            writer.join().unwrap(),
            Err(Error::Poisoned { .. })
        ));
        let closer = scope.spawn(|| db.close());
        wait_until("the store is closed", || closer.is_finished());
        assert!(matches!(
            closer.join().unwrap(),
            Err(Error::Poisoned { .. })
        ));
    });
    // Another close gets the same answer.
    assert!(matches!(db.close(), Err(Error::Poisoned { .. })));
}
