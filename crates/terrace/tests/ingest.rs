//! Bulk loads: all at once or not at all, newer than everything before, older than everything after.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use support::machine::{Machine, Method};
use support::script::tiny;
use terrace::{Background, Db, Error, IterOptions, KeyspaceOptions, Options};
use terrace_storage::{CrashKind, FailingStorage, Fault, FaultFilter, FaultPlan};

const STORE: &str = "/store";

fn key(row: u32) -> [u8; 4] {
    row.to_be_bytes()
}

fn ingest(db: &Db, rows: impl Iterator<Item = u32>, byte: u8) -> terrace::Result<()> {
    let mut load = db.ingest()?;
    for row in rows {
        load.put(key(row), [byte; 100])?;
    }
    load.finish()
}

fn count(db: &Db, byte: u8) -> usize {
    let entries = db.iter(IterOptions::default()).unwrap().entries();
    entries
        .filter(|entry| entry.as_ref().unwrap().1[0] == byte)
        .count()
}

#[test]
fn a_load_is_newer_than_what_was_there_and_older_than_what_comes() {
    let machine = Machine::new(Method::Written, 1);
    let db = Db::open(STORE, machine.options()).unwrap();
    for row in 0..100 {
        db.put(key(row), [1; 100]).unwrap();
    }
    let before = db.snapshot();
    ingest(&db, (50..150).filter(|row| row % 2 == 0), 2).unwrap();
    let between = db.snapshot();
    db.put(key(60), [3; 100]).unwrap();
    db.delete(key(62)).unwrap();
    for round in 0..3 {
        assert_eq!((count(&db, 1), count(&db, 2), count(&db, 3)), (75, 48, 1));
        assert_eq!(db.get_at(&before, key(52)).unwrap().unwrap()[0], 1);
        assert_eq!(db.get_at(&between, key(62)).unwrap().unwrap()[0], 2);
        assert!(db.get_at(&before, key(120)).unwrap().is_none());
        let mut old = db
            .iter(IterOptions {
                snapshot: Some(before.clone()),
                ..IterOptions::default()
            })
            .unwrap();
        old.seek_to_last().unwrap();
        assert_eq!(old.key(), key(99));
        old.seek_for_prev(key(70)).unwrap();
        assert_eq!((old.key(), old.value()[0]), (&key(70)[..], 1));
        terrace::internal::check_ages(&db).unwrap();
        match round {
            0 => db.flush().unwrap(),
            _ => db.compact_range(..).unwrap(),
        }
    }
    drop((before, between));
    db.close().unwrap();
    let db = Db::open(STORE, machine.options()).unwrap();
    assert_eq!((count(&db, 1), count(&db, 2), count(&db, 3)), (75, 48, 1));
}

#[test]
fn a_sorted_load_goes_where_it_stays_and_is_written_once() {
    let machine = Machine::new(Method::Written, 1);
    let db = Db::open(STORE, machine.options()).unwrap();
    ingest(&db, 0..2000, 1).unwrap();
    ingest(&db, 2000..4000, 1).unwrap();
    db.compact().unwrap();
    let statistics = db.statistics();
    assert_eq!(statistics.levels[0].tables, 0);
    assert!(statistics.levels[6].tables > 10, "{:?}", statistics.levels);
    assert_eq!((statistics.merges, statistics.moves), (0, 0));
    assert_eq!(count(&db, 1), 4000);
    assert_eq!(db.verify(|_, _| ()).unwrap().problems.len(), 0);
}

#[test]
fn what_is_not_sorted_is_refused_and_what_is_not_finished_leaves_nothing() {
    let machine = Machine::new(Method::Written, 1);
    let db = Db::open(STORE, machine.options()).unwrap();
    let files = || {
        use terrace_storage::Storage;
        machine.storage.list(STORE.as_ref()).unwrap().len()
    };
    let before = files();
    let mut load = db.ingest().unwrap();
    for row in 0..500 {
        load.put(key(row), [1; 100]).unwrap();
    }
    for bad in [499, 7] {
        let refused = load.put(key(bad), b"value").unwrap_err();
        assert!(refused.to_string().contains("sorted"), "{refused}");
    }
    load.put(key(500), b"value").unwrap();
    assert!(files() > before);
    drop(load);
    assert_eq!(files(), before);
    assert!(db.first().unwrap().is_none());
    db.ingest().unwrap().finish().unwrap();
    assert_eq!(db.statistics().sequences.visible, 0);

    let doomed = db
        .create_keyspace("doomed", KeyspaceOptions::default())
        .unwrap();
    let mut load = doomed.ingest().unwrap();
    load.put(b"key", b"value").unwrap();
    db.drop_keyspace("doomed").unwrap();
    assert!(matches!(load.finish(), Err(Error::NoKeyspace { .. })));
    assert_eq!(files(), before);
}

/// Writers go on; no reader ever sees a part of a load.
#[test]
fn a_load_beside_writers_appears_at_once() {
    const LOADS: u8 = 12;
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), tiny(Options::default())).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for row in 0u32.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                db.put([&[9][..], &key(row % 500)].concat(), [0; 100])
                    .unwrap();
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let options = IterOptions {
                    upper: std::ops::Bound::Excluded(vec![9]),
                    ..IterOptions::default()
                };
                let entries = db.iter(options).unwrap().entries();
                let bytes: Vec<u8> = entries.map(|entry| entry.unwrap().1[0]).collect();
                assert!(bytes.iter().all(|byte| *byte == bytes[0]), "of one load");
                assert!(bytes.is_empty() || bytes.len() == 300);
            }
        });
        for load in 0..LOADS {
            ingest(&db, 0..300, load).unwrap();
            assert_eq!(db.get(key(7)).unwrap().unwrap()[0], load);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(
        db.statistics().step_failures,
        0,
        "{:?}",
        db.statistics().last_error
    );
    terrace::internal::check_ages(&db).unwrap();
}

/// Returns a store with unflushed writes.
fn used(machine: &Machine) -> Db {
    let db = Db::open(STORE, machine.options()).unwrap();
    for row in 0..60 {
        db.put(key(row), [1; 300]).unwrap();
    }
    db
}

#[test]
fn a_crash_leaves_all_of_a_load_or_nothing_and_all_that_came_before() {
    for (method, kind) in [
        (Method::Written, CrashKind::Kill),
        (Method::Written, CrashKind::PowerCut),
        (Method::Dax, CrashKind::PowerCut),
        (Method::Volatile, CrashKind::Kill),
    ] {
        let (mut whole, mut none) = (0, 0);
        for step in 0.. {
            let machine = Machine::new(method, 1);
            let db = used(&machine);
            machine.freeze_at(machine.steps() + step);
            let loaded = ingest(&db, (40..100).filter(|row| row % 2 == 0), 2);
            let is_over = !machine.is_frozen();
            std::mem::forget(db);
            let crashed = machine.crash(kind, step);
            let db = Db::open(STORE, crashed.options()).unwrap();
            match (count(&db, 1), count(&db, 2)) {
                (50, 30) => whole += 1,
                (rows, 0) => {
                    assert!(loaded.is_err() && rows <= 60, "step {step}: {rows} rows");
                    let all = kind == CrashKind::Kill && method != Method::Volatile;
                    assert!(!all || rows == 60);
                    none += 1;
                }
                (old, new) => panic!("step {step}: {old} old rows, {new} new ones"),
            }
            db.put(b"after", b"value").unwrap();
            db.close().unwrap();
            let db = Db::open(STORE, crashed.options()).unwrap();
            assert!(db.get(b"after").unwrap().is_some());
            terrace::internal::check_ages(&db).unwrap();
            if is_over {
                loaded.unwrap();
                break;
            }
        }
        assert!(
            whole >= 1 && none > 5,
            "{method:?} {kind:?}: {whole} whole, {none} none"
        );
    }
}

#[test]
fn a_failed_load_changes_nothing_or_poisons() {
    let machine = Machine::new(Method::Written, 1);
    used(&machine).close().unwrap();
    let mut failures = 0;
    for at in 0.. {
        let plan = FaultPlan::new(FaultFilter::everything());
        let options = Options {
            storage: Arc::new(FailingStorage::new(
                Arc::new(machine.copy(at).storage.clone()),
                plan.clone(),
            )),
            background: Background::Inline,
            ..machine.options()
        };
        let db = Db::open(STORE, options.clone()).unwrap();
        db.put(key(0), [1; 300]).unwrap();
        plan.fail_at(plan.count() + at, Fault::Io);
        let loaded = ingest(&db, 40..100, 2);
        let failed = plan.failures() > 0;
        plan.heal();
        let poisoned = db.statistics().poisoned.is_some();
        let expected = if loaded.is_ok() { (40, 60) } else { (60, 0) };
        assert_eq!(
            (count(&db, 1), count(&db, 2)),
            expected,
            "fault {at}: {loaded:?}"
        );
        if loaded.is_err() {
            failures += 1;
            if !poisoned {
                ingest(&db, 40..100, 2).unwrap();
            }
        }
        let _ = db.close();
        let db = Db::open(STORE, options).unwrap();
        let found = (count(&db, 1), count(&db, 2));
        assert!(
            found == (40, 60) || (poisoned && found == (60, 0)),
            "fault {at}: {found:?}"
        );
        if !failed {
            break;
        }
    }
    assert!(failures > 5, "{failures}");
}

/// The load outlives its store, and another opening gives the same numbers to other files.
#[test]
fn a_load_that_outlives_its_store_touches_nothing_of_the_next_owner() {
    let machine = Machine::new(Method::Written, 1);
    let db = Db::open(STORE, machine.options()).unwrap();
    let mut loads: Vec<_> = (0..3).map(|_| db.ingest().unwrap()).collect();
    for load in &mut loads {
        for row in 0..200 {
            load.put(key(row), [1; 100]).unwrap();
        }
    }
    db.close().unwrap();
    let next = Db::open(STORE, machine.options()).unwrap();
    for row in 0..400 {
        next.put(key(row), [2; 100]).unwrap();
    }
    next.flush().unwrap();
    let mut late = loads.pop().unwrap();
    assert!(matches!(late.put(key(999), b"late"), Err(Error::Closed)));
    assert!(matches!(late.finish(), Err(Error::Closed)));
    assert!(matches!(loads.pop().unwrap().finish(), Err(Error::Closed)));
    drop(loads);
    next.close().unwrap();
    let next = Db::open(STORE, machine.options()).unwrap();
    assert_eq!(count(&next, 2), 400);
}

/// A table that could not be finished takes its entries with it: the rest is not the load.
#[test]
fn a_load_that_failed_once_cannot_be_finished() {
    let machine = Machine::new(Method::Written, 1);
    let plan = FaultPlan::new(FaultFilter::everything().path_contains(".table"));
    let options = Options {
        storage: Arc::new(FailingStorage::new(
            Arc::new(machine.storage.clone()),
            plan.clone(),
        )),
        ..machine.options()
    };
    let db = Db::open(STORE, options).unwrap();
    let mut load = db.ingest().unwrap();
    plan.fail_at(plan.count() + 1, Fault::NoSpace);
    let failed = (0..500).find_map(|row| load.put(key(row), [1; 100]).err().map(|_| row));
    let failed = failed.expect("a table is written");
    assert!(load.put(key(failed), [1; 100]).unwrap_err().is_no_space());
    assert!(load.finish().unwrap_err().is_no_space());
    assert!(db.first().unwrap().is_none());
    ingest(&db, 0..500, 1).unwrap();
    assert_eq!(count(&db, 1), 500);
}

/// Loads that overlap wait for merges, as writers do.
#[test]
fn loads_do_not_pile_up_at_the_top() {
    let machine = Machine::new(Method::Written, 1);
    let options = Options {
        level0_slowdown: 4,
        constants: terrace::Constants {
            level0_stop: Some(8),
            ..terrace::Constants::default()
        },
        ..machine.options()
    };
    let db = Db::open(STORE, options).unwrap();
    for round in 0..60 {
        ingest(&db, [3, 90].into_iter(), round).unwrap();
        let sub_levels = db.statistics().levels[0].sub_levels;
        assert!(
            sub_levels <= 9,
            "{sub_levels} sub-levels after load {round}"
        );
    }
    assert_eq!(count(&db, 59), 2);
}
