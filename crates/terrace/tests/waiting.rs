//! Openings that wait for a lock. Time passes in their pauses alone, and in each pause an owner does the
//! next step of a test.

use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use terrace::internal::open_on;
use terrace::{Background, Db, Error, KeyspaceOptions, Options, Result};
use terrace_storage::{
    Clock, CrashSwitch, FailingStorage, FaultFilter, FaultPlan, LockKind, Operation, RealStorage,
    SimulatedStorage, Storage,
};

const STORE: &str = "/store";
const FAST: &str = "/fast/region";

type Step = Box<dyn FnOnce() + Send>;

/// A clock that does one step of others in each pause.
#[derive(Default)]
struct Meanwhile {
    slept: Mutex<Duration>,
    steps: Mutex<VecDeque<Step>>,
}

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meanwhile")
    }
}

impl Clock for Meanwhile {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.slept.lock().unwrap().as_nanos()).unwrap()
    }

    fn sleep(&self, time: Duration) {
        *self.slept.lock().unwrap() += time;
        let step = self.steps.lock().unwrap().pop_front();
        if let Some(step) = step {
            step();
        }
    }
}

impl Meanwhile {
    fn of(steps: impl IntoIterator<Item = Step>) -> Arc<Self> {
        Arc::new(Meanwhile {
            slept: Mutex::default(),
            steps: Mutex::new(steps.into_iter().collect()),
        })
    }

    /// Opens with a wait of a minute, and returns the milliseconds of its pauses, too.
    fn open(self: &Arc<Self>, path: impl AsRef<Path>, options: Options) -> (Result<Db>, u128) {
        let options = Options {
            wait_for_lock: Some(Duration::from_secs(60)),
            ..options
        };
        let opened = open_on(path, options, Arc::clone(self) as Arc<dyn Clock>);
        (opened, self.slept.lock().unwrap().as_millis())
    }
}

fn small() -> Options {
    Options {
        arena_bytes: 64 << 10,
        default_keyspace: KeyspaceOptions {
            table_bytes: 32 << 10,
            ..KeyspaceOptions::default()
        },
        background: Background::Inline,
        ..Options::default()
    }
}

fn on(disk: &SimulatedStorage) -> Options {
    Options {
        storage: Arc::new(disk.clone()),
        ..small()
    }
}

fn reading(options: Options) -> Options {
    Options {
        read_only: true,
        ..options
    }
}

fn disk() -> SimulatedStorage {
    SimulatedStorage::new(1, CrashSwitch::new())
}

#[test]
fn an_opening_waits_for_an_owner_that_leaves() {
    for reads in [false, true] {
        let disk = disk();
        let owner = Db::open(STORE, on(&disk)).unwrap();
        let options = match reads {
            true => reading(on(&disk)),
            false => on(&disk),
        };
        let steps: [Step; 2] = [
            Box::new({
                let owner = owner.clone();
                move || owner.put(b"last", b"word").unwrap()
            }),
            Box::new(move || owner.close().unwrap()),
        ];
        let (opened, slept_ms) = Meanwhile::of(steps).open(STORE, options);
        let db = opened.unwrap();
        assert_eq!(db.get(b"last").unwrap().as_deref(), Some(&b"word"[..]));
        assert_eq!(slept_ms, 5 + 10);
    }
}

#[test]
fn an_owner_waits_for_the_last_reader() {
    let disk = disk();
    Db::open(STORE, on(&disk)).unwrap().close().unwrap();
    let steps = [(); 3].map(|()| {
        let reader = Db::open(STORE, reading(on(&disk))).unwrap();
        Box::new(move || drop(reader)) as Step
    });
    let (opened, slept_ms) = Meanwhile::of(steps).open(STORE, on(&disk));
    opened.unwrap().put(b"key", b"value").unwrap();
    assert_eq!(slept_ms, 5 + 10 + 20);
}

#[test]
fn a_region_directory_in_use_is_waited_for_without_the_stores_own_lock() {
    let disk = disk();
    let options = Options {
        region_dir: Some(PathBuf::from(FAST)),
        ..on(&disk)
    };
    Db::open(STORE, options.clone()).unwrap().close().unwrap();
    for reads in [false, true] {
        let lock = |directory: &str, kind| disk.lock(&Path::new(directory).join("LOCK"), kind);
        let held = lock(FAST, LockKind::Exclusive).unwrap();
        let others = disk.clone();
        let steps: [Step; 2] = [
            Box::new(move || {
                let own = Path::new(STORE).join("LOCK");
                drop(others.lock(&own, LockKind::Exclusive).unwrap());
            }),
            Box::new(move || drop(held)),
        ];
        let options = Options {
            read_only: reads,
            ..options.clone()
        };
        let (opened, slept_ms) = Meanwhile::of(steps).open(STORE, options);
        opened.unwrap().close().unwrap();
        assert_eq!(slept_ms, 5 + 10);
    }
}

/// An owner whose `LOCK` was removed takes the new one that an opening has made and released.
#[test]
fn an_owner_without_its_lock_writes_on_beside_an_opening_that_waits() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    let owner = Db::open(&path, small()).unwrap();
    owner.put(b"key", b"value").unwrap();
    fs::remove_file(path.join("LOCK")).unwrap();
    let steps: [Step; 2] = [
        Box::new({
            let owner = owner.clone();
            move || owner.flush().unwrap()
        }),
        Box::new(move || owner.close().unwrap()),
    ];
    let (opened, slept_ms) = Meanwhile::of(steps).open(&path, small());
    assert!(opened.unwrap().get(b"key").unwrap().is_some());
    assert_eq!(slept_ms, 5 + 10);
}

#[test]
fn a_wait_that_is_over_says_how_long_it_was() {
    let disk = disk();
    let _owner = Db::open(STORE, on(&disk)).unwrap();
    let (opened, slept_ms) = Meanwhile::of([]).open(STORE, on(&disk));
    let error = opened.unwrap_err();
    assert_eq!(slept_ms, 60_000);
    match &error {
        Error::Busy { waited, .. } => assert_eq!(*waited, Duration::from_secs(60)),
        other => panic!("{other:?}"),
    }
    assert!(error.to_string().contains("for 60.0 s"), "{error}");
}

#[test]
fn a_directory_that_is_removed_meanwhile_is_not_made_again() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    let owner = Db::open(&path, small()).unwrap();
    let removed = path.clone();
    let steps: [Step; 1] = [Box::new(move || fs::remove_dir_all(removed).unwrap())];
    let (opened, slept_ms) = Meanwhile::of(steps).open(&path, small());
    let error = opened.unwrap_err();
    assert!(matches!(error, Error::NoStore { .. }), "{error:?}");
    assert!(error.to_string().contains("was removed"), "{error}");
    assert!(!path.exists() && slept_ms == 5);
    let _ = owner.close();
}

#[test]
fn a_damaged_store_is_not_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    Db::open(&path, small()).unwrap().close().unwrap();
    fs::write(path.join("CURRENT"), "nothing").unwrap();
    let (opened, slept_ms) = Meanwhile::of([]).open(&path, small());
    let error = opened.unwrap_err();
    assert!(matches!(error, Error::Corruption { .. }), "{error:?}");
    assert_eq!(slept_ms, 0);
}

/// Both find no store, and the second has made its store and region before the first looks there.
#[test]
fn an_opening_that_was_overtaken_finds_the_region_that_was_made() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    let openings = FaultFilter::everything().operations(&[Operation::OpenDirectory]);
    let gate = FaultPlan::new(openings.path_contains("of-the-arenas"));
    gate.hold_from(0);
    let options = Options {
        region_dir: Some(root.path().join("of-the-arenas")),
        ..small()
    };
    let overtaken = Options {
        storage: Arc::new(FailingStorage::new(Arc::new(RealStorage), gate.clone())),
        ..options.clone()
    };
    let opening = {
        let path = path.clone();
        std::thread::spawn(move || Db::open(path, overtaken))
    };
    while gate.held() == 0 {
        std::thread::yield_now();
    }
    let db = Db::open(&path, options).unwrap();
    db.put(b"key", b"value").unwrap();
    db.close().unwrap();
    gate.heal();
    let db = opening.join().unwrap().unwrap();
    assert!(db.get(b"key").unwrap().is_some());
}

#[test]
fn a_repair_waits_for_an_owner_that_leaves() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    let owner = Db::open(&path, small()).unwrap();
    owner.put(b"key", b"value").unwrap();
    let locks = FaultFilter::everything().operations(&[Operation::Lock]);
    let attempts = FaultPlan::new(locks.path_contains("LOCK"));
    let storage = FailingStorage::new(Arc::new(RealStorage), attempts.clone());
    let options = Options {
        storage: Arc::new(storage),
        wait_for_lock: Some(Duration::from_secs(3_600)),
        ..small()
    };
    let repair = std::thread::spawn({
        let path = path.clone();
        move || terrace_tools::repair::repair(&path, options, |_, _| {})
    });
    while attempts.count() < 2 && !repair.is_finished() {
        std::thread::sleep(Duration::from_millis(1));
    }
    owner.close().unwrap();
    let report = repair.join().unwrap().unwrap();
    assert!(!report.is_changed());
}
