//! A panic in a step of the store ends in an answer: every waiter gets the cause, reads go on, a close
//! returns it and frees the lock, and the next opening finds everything acknowledged.
//!
//! The storage panics, which reaches every step that touches a file. A test that takes longer than a bound
//! fails.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::gated::Opened;
use support::within::{wait_until, within};
use terrace::{
    Background, Compression, Db, Durability, Error, IterOptions, KeyspaceOptions, Options, Result,
};
use terrace_storage::{
    CrashKind, CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, Operation, Purpose,
    RealStorage, SimulatedStorage,
};
use terrace_tools::inspect;

const STORE: &str = "/store";
const ROWS: u32 = 200;

type Call = fn(&Db) -> Result<()>;

fn key(row: u32) -> [u8; 4] {
    row.wrapping_mul(0x9e37_79b1).to_be_bytes()
}

fn options(disk: &SimulatedStorage, plan: &FaultPlan) -> Options {
    Options {
        storage: Arc::new(FailingStorage::new(Arc::new(disk.clone()), plan.clone())),
        arena_bytes: 64 << 10,
        max_arenas: 2,
        default_keyspace: KeyspaceOptions {
            table_bytes: 8 << 10,
            // Another form in level 1: tables are merged and not moved.
            compression: vec![Compression::None, Compression::Lz4],
            ..KeyspaceOptions::default()
        },
        level0_merge: 2,
        level0_slowdown: 3,
        background: Background::Threads,
        constants: terrace::Constants {
            level0_stop: Some(4),
            slice_bytes: 8 << 10,
            ..terrace::Constants::default()
        },
        ..Options::default()
    }
}

/// A store with rows in tables and in its arena, on a storage that is to panic.
struct Stage {
    disk: SimulatedStorage,
    plan: FaultPlan,
    db: Db,
}

impl Stage {
    fn new(filter: FaultFilter) -> Stage {
        Stage::with(filter, |options| options)
    }

    fn with(filter: FaultFilter, other: impl FnOnce(Options) -> Options) -> Stage {
        let disk = SimulatedStorage::new(1, CrashSwitch::new());
        let plan = FaultPlan::new(filter);
        let db = Db::open(STORE, other(options(&disk, &plan))).unwrap();
        let stage = Stage { disk, plan, db };
        stage.put_all();
        stage.db.flush().unwrap();
        stage.db.compact().unwrap();
        stage.put_all();
        stage
    }

    fn put_all(&self) {
        for row in 0..ROWS {
            self.db.put(key(row), [7; 100]).unwrap();
        }
    }

    /// Waits for the spare: then its worker touches no arena but those that a test provokes.
    fn with_spare(self) -> Stage {
        // None is made before a quarter of the active arena is full.
        let has_spare = || {
            self.db.put(key(0), [7; 100]).unwrap();
            self.db.statistics().arenas.spare == 1
        };
        wait_until("there is a spare", has_spare);
        self
    }

    /// Makes the plan's operations panic from now on, those of cleaning up included.
    fn arm(&self) {
        self.plan.fail_from(self.plan.count(), Fault::Panic);
    }

    /// Has the storage panic in a step that `provoke` brings about; all callers must get the cause.
    fn panics_in(self, step: &str, provoke: impl Fn(&Db) -> Result<()> + Send + 'static) {
        self.arm();
        let db = self.db.clone();
        let plan = self.plan.clone();
        within(step, move || {
            while plan.failures() == 0 {
                // It may be answered with the panic already.
                if provoke(&db).is_err() {
                    break;
                }
            }
        });
        wait_until("the store is poisoned", || self.poisoned().is_some());
        assert_panicked(step, &self.poisoned().unwrap());
        self.check_answers(step);
        self.check_reopened(step);
    }

    fn poisoned(&self) -> Option<Error> {
        self.db.statistics().poisoned
    }

    /// Checks that all calls that wait or write get the cause, and that reads go on.
    fn check_answers(&self, step: &str) {
        let calls: [(&str, Call); 8] = [
            ("put", |db| db.put(b"refused", b"")),
            ("flush", Db::flush),
            ("compact", Db::compact),
            ("compact_range", |db| db.compact_range(..)),
            ("checkpoint", |db| db.checkpoint("/copy").map(drop)),
            ("ingest", |db| db.ingest().map(drop)),
            ("rename_keyspace", |db| db.rename_keyspace("none", "other")),
            ("drop_keyspace", |db| db.drop_keyspace("none")),
        ];
        for (name, call) in calls {
            let db = self.db.clone();
            let answer = within(&format!("{name} after a panic in {step}"), move || {
                call(&db)
            });
            assert_panicked(step, &answer.unwrap_err());
        }
        check_all(&self.db);
        let db = self.db.clone();
        let closed = within(&format!("close after a panic in {step}"), move || {
            db.close()
        });
        assert_panicked(step, &closed.unwrap_err());
    }

    /// Checks that the lock is free, and nothing acknowledged is lost.
    fn check_reopened(self, step: &str) {
        let Stage { disk, plan, db } = self;
        plan.heal();
        within(&format!("drop after a panic in {step}"), move || drop(db));
        let db = Db::open(STORE, options(&disk, &plan)).unwrap();
        check_all(&db);
        let closing = db.clone();
        within("close", move || {
            closing.put(b"new", b"")?;
            closing.flush()?;
            closing.compact()?;
            closing.close()
        })
        .unwrap();
    }
}

fn check_all(db: &Db) {
    for row in 0..ROWS {
        let found = db.get(key(row)).unwrap();
        assert_eq!(found.as_deref(), Some(&[7; 100][..]), "row {row}");
    }
    let scanned = db.iter(IterOptions::default()).unwrap().entries();
    assert!(scanned.map(Result::unwrap).count() >= ROWS as usize);
}

/// Checks that the error is the store's poison, with the panic's message and the step's name.
fn assert_panicked(step: &str, error: &Error) {
    let Error::Poisoned { cause } = error else {
        panic!("{step}: {error:?}")
    };
    let Error::Panicked {
        step: found,
        message,
    } = cause.as_ref()
    else {
        panic!("{step}: {cause:?}")
    };
    assert_eq!(found, step);
    assert!(message.starts_with("planned for"), "{message}");
    let told = error.to_string();
    assert!(told.contains(step) && told.contains(message), "{told}");
}

fn everything(operation: Operation) -> FaultFilter {
    FaultFilter::everything().operations(&[operation])
}

fn put_and_flush(db: &Db) -> Result<()> {
    for row in 0..ROWS {
        db.put(key(row), [7; 100])?;
    }
    db.flush()
}

#[test]
fn a_panic_in_a_flush() {
    let writes = everything(Operation::Write).purpose(Purpose::Flush);
    Stage::new(writes).panics_in("terrace-flush", put_and_flush);
    let syncs = everything(Operation::Sync).purpose(Purpose::Flush);
    Stage::new(syncs).panics_in("terrace-flush", put_and_flush);
}

#[test]
fn a_panic_in_a_slice_of_a_merge() {
    for operation in [Operation::Read, Operation::Write] {
        let filter = everything(operation).purpose(Purpose::Compaction);
        Stage::new(filter).panics_in("terrace-merge", |db| {
            put_and_flush(db)?;
            db.compact()
        });
    }
}

/// The half-written table cannot be removed either: one panic comes while another one unwinds.
#[test]
fn a_panic_while_another_one_unwinds() {
    let changes = [Operation::Write, Operation::Remove, Operation::Truncate];
    let changes = FaultFilter::everything()
        .operations(&changes)
        .path_contains(".table");
    Stage::new(changes.clone()).panics_in("terrace-flush", put_and_flush);
    let stage = Stage::new(changes.clone().purpose(Purpose::Flush));
    stage.arm();
    let db = stage.db.clone();
    let loading = std::thread::spawn(move || {
        let mut load = db.ingest().unwrap();
        load.put(b"a", [7; 100]).unwrap();
        load.finish()
    });
    loading.join().unwrap_err();
    stage.plan.heal();
    stage.db.close().unwrap();
}

#[test]
fn a_panic_in_an_installation() {
    let syncs = everything(Operation::Sync).purpose(Purpose::Compaction);
    Stage::new(syncs).panics_in("terrace-install", |db| {
        put_and_flush(db)?;
        db.compact()
    });
}

#[test]
fn a_panic_in_a_manifest_edit() {
    for operation in [Operation::Write, Operation::Sync] {
        let filter = everything(operation).purpose(Purpose::Manifest);
        Stage::new(filter).panics_in("manifest edit", put_and_flush);
    }
}

#[test]
fn a_panic_in_a_deletion() {
    let removals = everything(Operation::Remove).path_contains(".table");
    Stage::new(removals).panics_in("terrace-delete", |db| {
        put_and_flush(db)?;
        db.compact()
    });
}

#[test]
fn a_panic_while_a_spare_is_prepared() {
    let files = everything(Operation::Open).path_contains("arena-");
    Stage::with(files, |options| Options {
        max_arenas: 8,
        ..options
    })
    .panics_in("terrace-spare", |db| {
        // Readers that keep their arenas: the next ones are new files.
        let kept = db.iter(IterOptions::default())?;
        put_and_flush(db)?;
        drop(kept);
        Ok(())
    });
}

#[test]
fn a_panic_of_the_timer_that_persists() {
    let syncs = everything(Operation::Sync).purpose(Purpose::Arena);
    let stage = Stage::with(syncs, |options| Options {
        persist_every: Some(Duration::from_millis(5)),
        max_arenas: 8,
        ..options
    });
    stage.with_spare().panics_in("commit", |db| {
        db.put(key(0), [7; 100])?;
        std::thread::sleep(Duration::from_millis(20));
        Ok(())
    });
}

#[test]
fn a_panic_of_a_leader() {
    let writes = everything(Operation::Write).purpose(Purpose::Arena);
    let stage = Stage::new(writes).with_spare();
    stage.panics_in("commit", |db| db.put(key(0), [7; 100]));
}

#[test]
fn a_panic_of_who_leads_alone() {
    let syncs = everything(Operation::Sync).purpose(Purpose::Arena);
    let stage = Stage::new(syncs).with_spare();
    stage
        .db
        .create_keyspace("none", Default::default())
        .unwrap();
    // The writes before the keyspace's end are persisted.
    stage.panics_in("leader", |db| db.drop_keyspace("none"));
}

#[test]
fn a_panic_in_a_close() {
    for purpose in [Purpose::Manifest, Purpose::Arena] {
        let stage = Stage::new(everything(Operation::Sync).purpose(purpose));
        stage.db.flush().unwrap();
        stage.db.compact().unwrap();
        wait_until("background work rests", || {
            stage.db.statistics().tables_to_delete == 0
        });
        // Something to persist.
        stage.db.put(key(0), [7; 100]).unwrap();
        let stage = stage.with_spare();
        stage.arm();
        let db = stage.db.clone();
        let closed = within("close", move || db.close());
        let step = match purpose {
            Purpose::Manifest => "manifest edit",
            _ => "close",
        };
        assert_panicked(step, &closed.unwrap_err());
        stage.check_reopened(step);
    }
}

/// The close of a store that keeps nothing in arenas writes tables, side by side.
#[test]
fn a_panic_in_the_last_flush_of_a_volatile_store() {
    let writes = everything(Operation::Write).purpose(Purpose::Flush);
    let volatile = |options| Options {
        durability: Some(Durability::Volatile),
        ..options
    };
    let stage = Stage::with(writes, volatile);
    stage.arm();
    let db = stage.db.clone();
    let closed = within("close", move || db.close());
    assert_panicked("close", &closed.unwrap_err());
    stage.plan.heal();
    let db = Db::open(STORE, options(&stage.disk, &stage.plan)).unwrap();
    check_all(&db);
}

/// Recovery reads arenas, indexes them and writes tables in several threads.
#[test]
fn a_panic_in_a_recovery() {
    let stage = Stage::with(FaultFilter::everything(), |options| Options {
        max_arenas: 8,
        ..options
    });
    let killed = stage.disk.crash(CrashKind::Kill, 1, CrashSwitch::new());
    // Every operation of an opening.
    for at in 0.. {
        let disk = killed.crash(CrashKind::Kill, 1, CrashSwitch::new());
        let plan = FaultPlan::new(FaultFilter::everything());
        plan.fail_at(at, Fault::Panic);
        let with = options(&disk, &plan);
        let opened = within("open", move || Db::open(STORE, with));
        if plan.failures() == 0 {
            opened.unwrap();
            break;
        }
        plan.heal();
        match opened {
            Err(Error::Panicked { message, .. }) => {
                assert!(message.starts_with("planned for"), "{at}: {message}");
            }
            Err(Error::Poisoned { .. }) => {}
            // A worker's step, which had begun already.
            Ok(db) => {
                let closed = within("close", move || db.close());
                assert!(closed.is_err(), "{at}: {closed:?}");
            }
            Err(error) => panic!("{at}: {error:?}"),
        }
        let db = Db::open(STORE, options(&disk, &plan)).unwrap();
        check_all(&db);
    }
}

/// Stopped writers, and all others that wait when the step panics.
#[test]
fn a_panic_answers_all_who_wait_already() {
    for (purpose, step) in [
        (Purpose::Flush, "terrace-flush"),
        (Purpose::Compaction, "terrace-merge"),
    ] {
        let stage = Stage::new(everything(Operation::Write).purpose(purpose));
        let held = stage.plan.count();
        stage.plan.hold_from(held);
        let calls: [Call; 6] = [
            |db| loop {
                db.put(key(0), [7; 100])?;
            },
            |db| loop {
                db.put(key(1), [7; 100])?;
            },
            |db| loop {
                db.flush()?;
                db.put(key(2), [7; 100])?;
            },
            |db| loop {
                db.put(key(3), [7; 100])?;
                db.flush()?;
                db.compact()?;
            },
            |db| loop {
                db.compact_range(..)?;
            },
            |db| loop {
                let mut load = db.ingest()?;
                load.put(key(4), [7; 100])?;
                load.finish()?;
            },
        ];
        // A load writes tables as a flush does, in its caller's thread.
        let with_load = purpose != Purpose::Flush;
        let calls = calls.into_iter().take(if with_load { 6 } else { 5 });
        let waiting = calls.map(|call| {
            let db = stage.db.clone();
            std::thread::spawn(move || call(&db))
        });
        let waiting: Vec<_> = waiting.collect();
        wait_until("a step is held", || stage.plan.held() > 0);
        // Time for all of them to come to where they wait.
        let mut last = None;
        wait_until("writers stand still", || {
            std::thread::sleep(Duration::from_millis(100));
            let now = stage.db.statistics().sequences.visible;
            last.replace(now) == Some(now)
        });
        let closing = stage.db.clone();
        let closing = std::thread::spawn(move || closing.close());
        stage.plan.fail_at(held, Fault::Panic);
        stage.plan.release();
        for (at, thread) in waiting.into_iter().enumerate() {
            let answer = within(&format!("{step}, {at}"), move || thread.join().unwrap());
            match answer.unwrap_err() {
                // The close came first.
                Error::Closed => {}
                error => assert_panicked(step, &error),
            }
        }
        let closed = within("close", move || closing.join().unwrap());
        assert_panicked(step, &closed.unwrap_err());
        stage.check_reopened(step);
    }
}

/// Another worker's step does not end, but its waiters are answered.
#[test]
fn a_panic_answers_those_who_wait_for_another_step() {
    for held in [Purpose::Flush, Purpose::Compaction] {
        let [flushes, merges] = [Purpose::Flush, Purpose::Compaction]
            .map(|purpose| FaultPlan::new(everything(Operation::Write).purpose(purpose)));
        let (gate, panics) = match held {
            Purpose::Flush => (&flushes, &merges),
            _ => (&merges, &flushes),
        };
        let stage = Stage::with(FaultFilter::everything(), |options| {
            let merging = FailingStorage::new(options.storage, merges.clone());
            Options {
                storage: Arc::new(FailingStorage::new(Arc::new(merging), flushes.clone())),
                max_arenas: 8,
                // The merge that is held stops no writer.
                level0_slowdown: 20,
                constants: terrace::Constants {
                    level0_stop: Some(30),
                    ..options.constants
                },
                ..options
            }
        });
        let _opened = Opened(gate);
        // Two sub-levels, of which a merge begins.
        merges.hold_from(merges.count());
        for _ in 0..2 {
            stage.put_all();
            stage.db.flush().unwrap();
        }
        wait_until("a merge is held", || merges.held() > 0);
        flushes.hold_from(flushes.count());
        let waiting = [Db::flush, Db::compact].map(|wait: Call| {
            let db = stage.db.clone();
            std::thread::spawn(move || -> Result<()> {
                loop {
                    db.put(key(0), [7; 100])?;
                    wait(&db)?;
                }
            })
        });
        wait_until("a flush is held", || flushes.held() > 0);
        // Time for the other one to wait, too.
        std::thread::sleep(Duration::from_millis(50));
        panics.fail_from(0, Fault::Panic);
        panics.release();
        for (at, thread) in waiting.into_iter().enumerate() {
            let answer = within(&format!("{held:?}, {at}"), move || thread.join().unwrap());
            assert!(matches!(answer, Err(Error::Poisoned { .. })), "{answer:?}");
        }
        assert!(gate.held() > 0, "the other step has not ended");
    }
}

/// A request that panics in the thread of its connection is answered, too.
#[test]
fn a_panic_of_the_thread_that_answers_a_client() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let plan = FaultPlan::new(everything(Operation::Read).path_contains(".table"));
    let storage = FailingStorage::new(Arc::new(RealStorage), plan.clone());
    let options = Options {
        storage: Arc::new(storage),
        ..Options::default()
    };
    let db = inspect::open(&path, options).unwrap();
    for _ in 0..2 {
        db.put(b"key", b"value").unwrap();
        db.flush().unwrap();
    }
    plan.fail_at(plan.count(), Fault::Panic);
    let asked = path.clone();
    let answer = within("levels", move || inspect::levels(&asked));
    match answer {
        Err(Error::Owner(what)) => assert!(what.contains("planned for"), "{what}"),
        other => panic!("{other:?}"),
    }
    assert_panicked("inspection", &db.put(b"key", b"value").unwrap_err());
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    let asked = path.clone();
    let statistics = within("statistics", move || inspect::statistics(&asked));
    assert!(statistics.unwrap().poisoned.is_some());
    let closing = db.clone();
    let closed = within("close", move || closing.close());
    assert_panicked("inspection", &closed.unwrap_err());
    Db::open(&path, Options::default()).unwrap();
}

/// With all work in the callers' threads a panic of the step is the call's error.
#[test]
fn a_panic_of_a_step_in_the_callers_thread() {
    let writes = everything(Operation::Write).purpose(Purpose::Compaction);
    let stage = Stage::with(writes, |options| Options {
        background: Background::Inline,
        ..options
    });
    stage.panics_in("terrace-merge", |db| {
        put_and_flush(db)?;
        db.compact()
    });
}
