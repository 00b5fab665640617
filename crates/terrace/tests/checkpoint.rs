//! Checkpoints: whole, independent of their origin, made under load, and never half a store.

mod support;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use support::machine::{Machine, Method};
use support::model::Model;
use support::script::{KEYSPACES, Run, Script, tiny};
use terrace::{Background, Db, Error, IterOptions, KeyspaceOptions, Options, Purpose, Statistics};
use terrace_storage::{
    CrashKind, CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, Operation,
    SimulatedStorage, Storage,
};

const STORE: &str = "/store";
const COPY: &str = "/copy";

/// Returns a store with something on several levels, in both keyspaces and in its arena.
fn used(machine: &Machine) -> Run {
    let mut run = Run::new(Model::default());
    run.open(machine.options()).unwrap();
    let mut script = Script::new(5, machine.method().persists());
    for _ in 0..60 {
        run.apply(script.write(), &machine.options()).unwrap();
    }
    run
}

#[test]
fn a_checkpoint_holds_everything_acknowledged_and_goes_its_own_way() {
    for method in [Method::Written, Method::Volatile, Method::Dax] {
        let machine = Machine::new(method, 3);
        let mut run = used(&machine);
        let snapshot = run.db().snapshot();
        let number = run.db().checkpoint(COPY).unwrap();
        assert_eq!(number, snapshot.sequence());
        drop(snapshot);
        let copy = Db::open(COPY, machine.options_in_files()).unwrap();
        run.model.check(&copy, &KEYSPACES).unwrap();
        // Each is written to; the other does not see it.
        copy.put(b"key", b"copy").unwrap();
        copy.flush().unwrap();
        copy.compact_range(..).unwrap();
        run.model.check(run.db(), &KEYSPACES).unwrap();
        let mut script = Script::new(9, false);
        for _ in 0..60 {
            run.apply(script.write(), &machine.options()).unwrap();
        }
        run.db().compact_range(..).unwrap();
        assert_eq!(copy.get(b"key").unwrap().as_deref(), Some(&b"copy"[..]));
        terrace::internal::check_ages(&copy).unwrap();
    }
}

#[test]
fn a_directory_that_is_not_empty_is_refused_and_left_alone() {
    let machine = Machine::new(Method::Written, 3);
    let run = used(&machine);
    run.db().checkpoint(COPY).unwrap();
    let before = machine.storage.list(Path::new(COPY)).unwrap();
    for directory in [COPY, STORE] {
        let refused = run.db().checkpoint(directory).unwrap_err();
        assert!(matches!(refused, Error::InvalidArgument(_)), "{refused}");
    }
    assert_eq!(
        machine.storage.list(Path::new(COPY)).unwrap().len(),
        before.len()
    );
    run.model.check(run.db(), &KEYSPACES).unwrap();
}

#[test]
fn of_two_checkpoints_to_one_place_one_is_whole_and_one_is_refused() {
    for _ in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path().join("store"), tiny(Options::default())).unwrap();
        for row in 0..500u32 {
            db.put(row.to_be_bytes(), [7; 100]).unwrap();
        }
        let to = directory.path().join("copy");
        std::fs::create_dir(&to).unwrap();
        let made = std::thread::scope(|scope| {
            let both = [(); 2].map(|()| scope.spawn(|| db.checkpoint(&to)));
            both.map(|one| one.join().unwrap())
        });
        assert_eq!(made.iter().filter(|one| one.is_ok()).count(), 1, "{made:?}");
        let copy = Db::open(&to, tiny(Options::default())).unwrap();
        assert_eq!(
            copy.iter(IterOptions::default()).unwrap().entries().count(),
            500
        );
    }
}

/// The files of a store are cut before they are removed; those that a checkpoint has are not.
#[test]
fn what_the_store_deletes_stays_whole_in_the_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        arena_bytes: 32 << 20,
        background: Background::Inline,
        ..Options::default()
    };
    let db = Db::open(directory.path().join("store"), options.clone()).unwrap();
    let fill = |byte: u8| {
        for row in 0..1200u32 {
            db.put(row.to_be_bytes(), [byte; 10_000]).unwrap();
        }
        db.flush().unwrap();
        // Into one table, large enough to be cut in several steps.
        db.compact_range(..).unwrap();
    };
    fill(1);
    let copy = directory.path().join("copy");
    db.checkpoint(&copy).unwrap();
    let links = || {
        let files = std::fs::read_dir(&copy).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let tables = files.filter(|path| path.extension().is_some_and(|end| end == "table"));
        tables
            .map(|path| path.metadata().unwrap().nlink())
            .collect::<Vec<_>>()
    };
    assert_eq!(links(), [2], "linked, not copied");
    fill(2);
    assert_eq!(links(), [1], "the store has let go of it");
    let copy = Db::open(&copy, options).unwrap();
    let entries = copy.iter(IterOptions::default()).unwrap().entries();
    let mut rows = 0;
    for entry in entries {
        assert_eq!(entry.unwrap().1, [1; 10_000]);
        rows += 1;
    }
    assert_eq!(rows, 1200);
}

#[test]
fn where_nothing_can_be_linked_files_are_copied() {
    let disk: Arc<dyn Storage> = Arc::new(SimulatedStorage::new(1, CrashSwitch::new()));
    let plan = FaultPlan::new(FaultFilter::everything().operations(&[Operation::Link]));
    let options = tiny(Options {
        storage: Arc::new(FailingStorage::new(Arc::clone(&disk), plan.clone())),
        background: Background::Inline,
        ..Options::default()
    });
    let db = Db::open(STORE, options.clone()).unwrap();
    for row in 0..400u32 {
        db.put(row.to_be_bytes(), [7; 100]).unwrap();
    }
    plan.fail_from(plan.count(), Fault::Io);
    let written = |statistics: &Statistics| statistics.io.of(Purpose::Other).written_bytes;
    let before = written(&db.statistics());
    db.checkpoint(COPY).unwrap();
    let statistics = db.statistics();
    let tables: u64 = statistics.levels.iter().map(|level| level.bytes).sum();
    assert_eq!(written(&statistics) - before, tables);
    drop(db);
    let copy = Db::open(COPY, options).unwrap();
    assert_eq!(
        copy.iter(IterOptions::default()).unwrap().entries().count(),
        400
    );
}

/// Writers never pause; each checkpoint is the store after some write, no earlier than the last one
/// acknowledged before the call.
#[test]
fn a_checkpoint_under_load_is_a_prefix() {
    const THREADS: u64 = 3;
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), tiny(Options::default())).unwrap();
    let other = db
        .create_keyspace("other", KeyspaceOptions::default())
        .unwrap();
    let stop = AtomicBool::new(false);
    let counter = |db: &Db, thread: u64| {
        let bytes = db.get(thread.to_be_bytes()).unwrap();
        bytes.map_or(0, |bytes| u64::from_be_bytes(bytes[..].try_into().unwrap()))
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, other, stop) = (&db, &other, &stop);
            scope.spawn(move || {
                for number in 1u64.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    // Row by row, then the counter: a prefix has no counter without its row.
                    let row = [thread.to_be_bytes(), number.to_be_bytes()].concat();
                    other.put(&row, [1; 150]).unwrap();
                    db.put(thread.to_be_bytes(), number.to_be_bytes()).unwrap();
                }
            });
        }
        for round in 0..8 {
            let before: Vec<u64> = (0..THREADS).map(|thread| counter(&db, thread)).collect();
            let path = directory.path().join(format!("copy {round}"));
            db.checkpoint(&path).unwrap();
            let copy = Db::open(&path, tiny(Options::default())).unwrap();
            let rows = copy.keyspace("other").unwrap();
            for thread in 0..THREADS {
                let last = counter(&copy, thread);
                assert!(
                    last >= before[thread as usize],
                    "acknowledged before the call"
                );
                let options = IterOptions::prefix(thread.to_be_bytes());
                let found = rows.iter(options).unwrap().entries();
                let numbers: Vec<u64> = found
                    .map(|entry| u64::from_be_bytes(entry.unwrap().0[8..].try_into().unwrap()))
                    .collect();
                let rows = numbers.len() as u64;
                assert!(numbers.into_iter().eq(1..=rows), "no gap");
                assert!(
                    rows == last || rows == last + 1,
                    "{rows} rows, counter {last}"
                );
            }
            terrace::internal::check_ages(&copy).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Dies at every step of making a checkpoint: the store has everything, and the copy is whole or no
/// store.
#[test]
fn a_crash_leaves_a_whole_checkpoint_or_none() {
    for kind in [CrashKind::Kill, CrashKind::PowerCut] {
        let (mut whole, mut none) = (0, 0);
        for step in 0.. {
            let machine = Machine::new(Method::Written, 3);
            let mut run = used(&machine);
            run.db().persist().unwrap();
            machine.freeze_at(machine.steps() + step);
            let made = run.db().checkpoint(COPY);
            let is_over = !machine.is_frozen();
            assert_eq!(made.is_ok(), is_over, "{made:?}");
            run.db = None;
            let crashed = machine.crash(kind, step);
            let db = Db::open(STORE, crashed.options()).unwrap();
            run.model.check(&db, &KEYSPACES).unwrap();
            match Db::open(
                COPY,
                Options {
                    create_if_missing: false,
                    ..crashed.options()
                },
            ) {
                Ok(copy) => {
                    run.model.check(&copy, &KEYSPACES).unwrap();
                    whole += 1;
                }
                Err(Error::NoStore { .. } | Error::Corruption { .. }) => none += 1,
                Err(error) => panic!("{error}"),
            }
            if is_over {
                break;
            }
        }
        assert!(
            whole >= 1 && none > 5,
            "{kind:?}: {whole} whole, {none} none"
        );
    }
}

/// Every file operation of a checkpoint fails once: the store is as it was, works on, and the next
/// checkpoint succeeds.
#[test]
fn a_failed_checkpoint_leaves_nothing_and_harms_nobody() {
    let machine = Machine::new(Method::Written, 3);
    let run = used(&machine);
    run.db().close().unwrap();
    let mut failures = 0;
    for at in 0.. {
        let disk: Arc<dyn Storage> = Arc::new(machine.copy(at).storage.clone());
        let plan = FaultPlan::new(FaultFilter::everything());
        let options = Options {
            storage: Arc::new(FailingStorage::new(Arc::clone(&disk), plan.clone())),
            ..machine.options_in_files()
        };
        let db = Db::open(STORE, options).unwrap();
        plan.fail_at(plan.count() + at, Fault::Io);
        let made = db.checkpoint(COPY);
        let fired = plan.failures() > 0;
        plan.heal();
        if !fired {
            made.unwrap();
            break;
        }
        run.model.check(&db, &KEYSPACES).unwrap();
        if made.is_err() {
            failures += 1;
            if db.statistics().poisoned.is_none() {
                db.put(b"~after", b"value").unwrap();
                db.checkpoint(COPY).unwrap();
            }
        }
    }
    assert!(failures > 5, "{failures}");
}
