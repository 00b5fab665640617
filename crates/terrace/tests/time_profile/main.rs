//! A slow disk in the profile of a store: it shows in its stage, and in no other.

mod slow_storage;

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_storage::{CrashSwitch, Purpose, SimulatedStorage, Storage};

use slow_storage::delayed;
use terrace::{
    Background, Db, IterOptions, Options, PathProfile, TimeProfile, WriteBatch, WriteOptions,
};

const DELAY: Duration = Duration::from_millis(2);
const KEYS: u32 = 400;

/// Returns options with a disk that takes [`DELAY`] for each operation of one purpose.
fn slow(disk: &SimulatedStorage, purpose: Purpose) -> Options {
    options(delayed(Arc::new(disk.clone()), purpose, DELAY))
}

fn options(storage: Arc<dyn Storage>) -> Options {
    Options {
        storage,
        // No block is found in memory.
        cache_bytes: 0,
        arena_bytes: 1 << 20,
        background: Background::Inline,
        ..Options::default()
    }
}

fn disk() -> SimulatedStorage {
    SimulatedStorage::new(1, CrashSwitch::new())
}

fn put(db: &Db, number: u32, sync: bool) {
    let mut batch = WriteBatch::new();
    batch.put(number.to_be_bytes(), [7; 1000]).unwrap();
    db.write(batch, WriteOptions::with_sync(sync)).unwrap();
}

/// Returns a disk with tables.
fn loaded() -> SimulatedStorage {
    let disk = disk();
    let db = Db::open("/store", options(Arc::new(disk.clone()))).unwrap();
    for number in 0..KEYS {
        put(&db, number, false);
    }
    db.flush().unwrap();
    db.close().unwrap();
    disk
}

/// Works until some operations of a path were watched.
fn until_watched(db: &Db, path: &str, mut work: impl FnMut(u32)) -> TimeProfile {
    let before = db.time_profile();
    for number in 0..20_000 {
        work(number);
        if number % 50 == 49 {
            let since = db.time_profile().since(&before);
            if since.path(path).unwrap().watched >= 3 {
                return since;
            }
        }
    }
    panic!("nothing was watched");
}

fn share(path: &PathProfile, stage: &str) -> f64 {
    let stage = path.stages.iter().find(|known| known.stage == stage);
    stage.map_or(0.0, |stage| stage.share)
}

#[test]
fn a_slow_read_is_a_system_call_of_gets() {
    let disk = loaded();
    let db = Db::open("/store", slow(&disk, Purpose::Read)).unwrap();
    let profile = until_watched(&db, "get", |number| {
        assert!(db.get((number % KEYS).to_be_bytes()).unwrap().is_some());
    });
    let gets = profile.path("get").unwrap();
    assert!(share(gets, "system call: read") > 0.8, "{profile}");
    let each = gets.time_of("system call: read").as_secs_f64() / gets.operations as f64;
    assert!(each >= 0.95 * DELAY.as_secs_f64(), "{profile}");
    for stage in [
        "MemTables",
        "tables and filters",
        "table index",
        "block checksum",
    ] {
        assert!(gets.time_of(stage) > Duration::ZERO, "{stage}: {profile}");
    }
    assert_eq!(profile.path("write").unwrap().time, Duration::ZERO);
    assert_eq!(profile.path("step").unwrap().time, Duration::ZERO);
}

#[test]
fn seeks_and_steps_are_told_apart() {
    let disk = loaded();
    let db = Db::open("/store", slow(&disk, Purpose::Read)).unwrap();
    let seeks = until_watched(&db, "seek", |number| {
        let mut iterator = db.iter(IterOptions::default()).unwrap();
        iterator.seek((number % KEYS).to_be_bytes()).unwrap();
        assert!(iterator.valid());
    });
    let seeks_alone = seeks.path("seek").unwrap();
    assert!(share(seeks_alone, "system call: read") > 0.8, "{seeks}");
    assert_eq!(seeks.path("step").unwrap().operations, 0);
    let steps = until_watched(&db, "step", |_| {
        let rows = db.iter(IterOptions::default()).unwrap().entries().count();
        assert_eq!(rows, KEYS as usize);
    });
    assert!(steps.path("step").unwrap().operations > 0);
}

#[test]
fn a_slow_write_is_a_system_call_and_a_slow_sync_is_a_persist() {
    let db = Db::open("/store", slow(&disk(), Purpose::Arena)).unwrap();
    let profile = until_watched(&db, "write", |number| put(&db, number % KEYS, false));
    let writes = profile.path("write").unwrap();
    assert!(share(writes, "system call: write") > 0.8, "{profile}");
    assert_eq!(writes.time_of("persist"), Duration::ZERO);
    for stage in ["copy into arena", "index insert"] {
        assert!(writes.time_of(stage) > Duration::ZERO, "{stage}: {profile}");
    }

    let before = db.time_profile();
    for number in 0..10 {
        put(&db, number, true);
    }
    let since = db.time_profile().since(&before);
    let persist = since.path("write").unwrap().time_of("persist");
    // None of them need have been drawn.
    assert!((10 * DELAY..30 * DELAY).contains(&persist), "{persist:?}");
}

#[test]
fn flushes_and_merges_are_timed_each() {
    let disk = disk();
    let db = Db::open("/store", slow(&disk, Purpose::Flush)).unwrap();
    for round in 0..2 {
        let began = Instant::now();
        for number in 0..KEYS {
            put(&db, number + round, false);
        }
        db.flush().unwrap();
        let took = began.elapsed();
        let profile = db.time_profile();
        let flush = profile.path("flush").unwrap();
        let flushes = db.statistics().flushes;
        assert!(flushes > u64::from(round), "{flushes}");
        assert_eq!((flush.operations, flush.one_in), (flushes, 1));
        let calls = flush.time_of("system call: write") + flush.time_of("system call: sync");
        // A table is written by some writes, and synced.
        assert!(calls >= 2 * DELAY * (round + 1), "{profile}");
        assert!(round > 0 || flush.time <= took, "{profile}");
    }
    db.keyspace("default").unwrap().compact_range(..).unwrap();
    let profile = db.time_profile();
    let merge = profile.path("merge").unwrap();
    assert!(merge.operations > 0, "{profile}");
    // Not of its stages: one block counts for eight, and may be the one that was interrupted.
    assert!(merge.time > Duration::ZERO, "{profile}");
    let flush = profile.path("flush").unwrap();
    assert!(share(flush, "merging") < 0.5, "{profile}");
}

#[test]
fn writers_wait_for_one_another_in_the_queue() {
    let db = Db::open("/store", slow(&disk(), Purpose::Arena)).unwrap();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let db = &db;
            scope.spawn(move || {
                let watched = || db.time_profile().path("write").unwrap().watched;
                for number in 0..20_000 {
                    put(db, thread * 100 + number % 100, false);
                    if number >= 250 && number % 50 == 0 && watched() >= 8 {
                        break;
                    }
                }
            });
        }
    });
    let took = began.elapsed();
    let profile = db.time_profile();
    let writes = profile.path("write").unwrap();
    assert!(share(writes, "commit queue") > 0.25, "{profile}");
    assert!(writes.time > took, "four threads' time: {profile}");
}

#[test]
fn what_holds_writers_back_is_measured_each_time() {
    let disk = disk();
    let options = Options {
        arena_bytes: 64 << 10,
        max_arenas: 2,
        background: Background::Threads,
        ..slow(&disk, Purpose::Flush)
    };
    let db = Db::open("/store", options).unwrap();
    for number in 0..1_000 {
        put(&db, number, false);
    }
    let profile = db.time_profile();
    let held_back = profile.path("write").unwrap().time_of("held back");
    let stalls: Duration = db.statistics().stalls.iter().map(|(_, time)| *time).sum();
    assert!(
        stalls > Duration::ZERO && held_back >= stalls,
        "{held_back:?}, {stalls:?}"
    );
    assert_eq!(db.statistics().time.path("write").unwrap().one_in, 224);
    db.close().unwrap();
}
