//! Few descriptors: the store closes tables to open other files. Where none can be closed, an error
//! names the remedy.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use terrace::{Background, Db, Error, IterOptions, KeyspaceOptions, Options, Result};
use terrace_storage::{
    CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, Operation, SimulatedStorage,
    Storage,
};

/// The operations that take a descriptor.
const OPENINGS: [Operation; 6] = [
    Operation::Open,
    Operation::OpenDirectory,
    Operation::CreateDirectory,
    Operation::List,
    Operation::Lock,
    Operation::BootId,
];
const DIRECTORY: &str = "TERRACE_DESCRIPTORS_DIRECTORY";

/// Lets one test run at a time, because the stores of a process share their tables.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn small(storage: Arc<dyn Storage>) -> Options {
    Options {
        storage,
        arena_bytes: 16 << 10,
        cache_bytes: 0,
        background: Background::Inline,
        constants: terrace::Constants {
            manifest_bytes: 1 << 10,
            ..terrace::Constants::default()
        },
        ..Options::default()
    }
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn rows(db: &Db) -> Result<usize> {
    let rows = db.iter(IterOptions::default())?.entries();
    Ok(rows.collect::<Result<Vec<_>>>()?.len())
}

/// Opens everything that a store opens: its directory, lock and manifest, arenas, tables that are written
/// and read, a manifest that replaces another. Returns the rows that are there.
fn scenario(storage: &Arc<dyn Storage>) -> Result<usize> {
    for round in 0..2 {
        let db = Db::open("/store", small(Arc::clone(storage)))?;
        for number in 0..100 {
            db.put(key(number), [round; 200])?;
        }
        db.flush()?;
        db.compact_range(..)?;
        assert_eq!(rows(&db)?, 100);
        db.close()?;
    }
    let db = Db::open("/store", small(Arc::clone(storage)))?;
    rows(&db)
}

/// Does the same with arenas in a directory of their own, and makes tables and a store beside the usual
/// way.
fn wide_scenario(storage: &Arc<dyn Storage>) -> Result<usize> {
    let options = Options {
        region_dir: Some("/fast".into()),
        ..small(Arc::clone(storage))
    };
    let db = Db::open("/store", options)?;
    db.put(b"key", b"value")?;
    let mut load = db.ingest()?;
    for number in 0..100 {
        load.put(key(number), [1; 200])?;
    }
    load.finish()?;
    db.put(b"key", b"value")?;
    db.checkpoint("/copy")?;
    let rows = rows(&db)?;
    db.close()?;
    Ok(rows)
}

/// A store with a table that can be closed, unless it is already.
struct Spare(Db);

impl Spare {
    fn new() -> Spare {
        let disk = Arc::new(SimulatedStorage::new(2, CrashSwitch::new()));
        let db = Db::open("/spare", small(disk)).unwrap();
        for number in 0..200 {
            db.put(key(number), [1; 200]).unwrap();
        }
        db.flush().unwrap();
        Spare(db)
    }

    fn read(&self) {
        assert_eq!(rows(&self.0).unwrap(), 200);
    }
}

fn planned() -> (FaultPlan, SimulatedStorage, Arc<dyn Storage>) {
    let plan = FaultPlan::new(FaultFilter::everything().operations(&OPENINGS));
    let disk = SimulatedStorage::new(1, CrashSwitch::new());
    let storage = Arc::new(FailingStorage::new(Arc::new(disk.clone()), plan.clone()));
    (plan, disk, storage)
}

fn openings() -> u64 {
    let (plan, _, storage) = planned();
    scenario(&storage).unwrap();
    assert!(plan.count() > 20, "{}", plan.count());
    plan.count()
}

#[test]
fn every_opening_takes_the_descriptor_of_a_cold_table() {
    let _alone = alone();
    let spare = Spare::new();
    for at in 0..openings() {
        spare.read();
        let (plan, _, storage) = planned();
        plan.fail_at(at, Fault::TooManyFiles);
        let rows = scenario(&storage).unwrap_or_else(|error| panic!("opening {at}: {error}"));
        assert_eq!(rows, 100);
    }
    spare.read();
}

#[test]
fn what_finds_no_descriptor_says_which_limit_and_which_option() {
    let _alone = alone();
    for fault in [Fault::TooManyFiles, Fault::TooManyFilesInSystem] {
        // Each is another opening; those of the second fault are met in the same places.
        let stride = if fault == Fault::TooManyFiles { 1 } else { 7 };
        for at in (0..openings()).step_by(stride) {
            let (plan, disk, storage) = planned();
            plan.fail_from(at, fault);
            let error = scenario(&storage).unwrap_err();
            let Error::TooManyFiles { process_limit, .. } = &error else {
                panic!("opening {at}: {error}")
            };
            assert_eq!(process_limit.is_some(), fault == Fault::TooManyFiles);
            let text = error.to_string();
            assert!(text.contains("max_open_tables"), "{text}");
            let limit = match process_limit {
                Some(_) => "RLIMIT_NOFILE",
                None => "fs.file-max",
            };
            assert!(text.contains(limit), "{text}");
            plan.heal();
            let db = Db::open("/store", small(Arc::new(disk))).unwrap();
            assert!(rows(&db).unwrap() <= 100);
        }
    }
}

#[test]
fn region_directories_ingestions_and_checkpoints_say_it_too() {
    let _alone = alone();
    let (plan, _, storage) = planned();
    wide_scenario(&storage).unwrap();
    let openings = plan.count();
    assert!(openings > 20, "{openings}");
    let mut told = 0;
    for at in 0..openings {
        let (plan, _, storage) = planned();
        plan.fail_from(at, Fault::TooManyFiles);
        match wide_scenario(&storage) {
            // The last ones tidy up, which may wait.
            Ok(rows) => assert_eq!(rows, 101),
            Err(Error::TooManyFiles { .. }) => told += 1,
            Err(error) => panic!("opening {at}: {error}"),
        }
    }
    assert!(told > 40, "{told} of {openings}");
}

#[test]
fn the_limit_of_the_machine_closes_no_table() {
    let _alone = alone();
    let spare = Spare::new();
    spare.read();
    let (plan, _, storage) = planned();
    plan.fail_at(0, Fault::TooManyFilesInSystem);
    let error = scenario(&storage).unwrap_err();
    let Error::TooManyFiles { open_tables, .. } = error else {
        panic!("{error}")
    };
    assert!(open_tables > 0);
}

/// Counts the files of tables below a directory that this process has open.
fn open_tables(directory: &Path) -> usize {
    let own = fs::read_dir("/proc/self/fd").unwrap();
    let targets = own.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let is_table = |path: &Path| {
        path.starts_with(directory) && path.extension().is_some_and(|end| end == "table")
    };
    targets.filter(|path| is_table(path)).count()
}

/// Writes a store of many tables.
fn fill(path: &Path, rows: u32) {
    let db = Db::open(path, Options::default()).unwrap();
    let form = KeyspaceOptions {
        table_bytes: 4 << 10,
        ..KeyspaceOptions::default()
    };
    let keyspace = db.create_keyspace("x", form).unwrap();
    let mut load = keyspace.ingest().unwrap();
    for number in 0..rows {
        load.put(key(number), [7; 100]).unwrap();
    }
    load.finish().unwrap();
    drop(keyspace);
    db.close().unwrap();
}

#[test]
fn tables_of_iterators_count() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    fill(directory.path(), 4000);
    let options = Options {
        max_open_tables: Some(16),
        cache_bytes: 0,
        ..Options::default()
    };
    let db = Db::open(directory.path(), options).unwrap();
    let keyspace = db.keyspace("x").unwrap();
    let mut iterators = Vec::new();
    for number in (0..4000).step_by(50) {
        let mut iterator = keyspace.iter(IterOptions::default()).unwrap();
        iterator.seek(key(number)).unwrap();
        iterators.push(iterator);
    }
    assert!(open_tables(directory.path()) <= 16);
    for (iterator, number) in iterators.iter_mut().zip((0..4000).step_by(50)) {
        for step in 0..50 {
            assert_eq!(iterator.key(), key(number + step));
            iterator.next().unwrap();
        }
    }
    assert!(open_tables(directory.path()) <= 16);
}

#[test]
fn a_store_with_a_number_of_its_own_keeps_its_tables_beside_others() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let [own_path, shared_path] = ["own", "shared"].map(|name| directory.path().join(name));
    fill(&own_path, 2000);
    fill(&shared_path, 8000);
    let open = |path: &Path, max_open_tables| {
        let options = Options {
            max_open_tables,
            cache_bytes: 0,
            ..Options::default()
        };
        Db::open(path, options).unwrap()
    };
    let rows = |db: &Db| {
        let rows = db.keyspace("x").unwrap().iter(IterOptions::default());
        rows.unwrap().entries().map(Result::unwrap).count()
    };
    let own = open(&own_path, Some(5000));
    assert_eq!(rows(&own), 2000);
    let before = open_tables(&own_path);
    assert!(before > 20, "{before}");
    let limit = getrlimit(Resource::Nofile);
    let few = Rlimit {
        current: Some(300),
        ..limit
    };
    setrlimit(Resource::Nofile, few).unwrap();
    let shared = open(&shared_path, None);
    setrlimit(Resource::Nofile, limit).unwrap();
    for _ in 0..3 {
        assert_eq!(rows(&shared), 8000);
    }
    assert!(open_tables(&shared_path) <= 150);
    assert_eq!(open_tables(&own_path), before);
}

#[test]
fn a_process_with_few_descriptors_keeps_half_of_them() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    for store in ["one", "other"] {
        fill(&directory.path().join(store), 8000);
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    let errors = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{text}\n{errors}");
    assert!(text.contains("the child is done"), "{text}");
}

#[test]
#[ignore = "the child of the test above"]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let directory = Path::new(&directory);
    let mut limit = getrlimit(Resource::Nofile);
    // More than the tables of one store, and fewer than those of both.
    limit.current = Some(600);
    setrlimit(Resource::Nofile, limit).unwrap();
    let open = |store| Db::open(directory.join(store), Options::default()).unwrap();
    let stores = ["one", "other"].map(open);
    let keyspaces = stores.each_ref().map(|db| db.keyspace("x").unwrap());
    let mut own: Vec<File> = (0..30).map(|_| File::open("/dev/null").unwrap()).collect();
    for keyspace in &keyspaces {
        let rows = keyspace.iter(IterOptions::default()).unwrap().entries();
        assert_eq!(rows.collect::<Result<Vec<_>>>().unwrap().len(), 8000);
    }
    let open = open_tables(directory);
    assert!((200..=300).contains(&open), "{open} tables are open");
    // The program takes all descriptors that are left: the stores go on with those of their tables.
    while let Ok(file) = File::open("/dev/null") {
        own.push(file);
    }
    for (db, keyspace) in stores.iter().zip(&keyspaces) {
        for number in (0..8000).step_by(40) {
            assert!(keyspace.get(key(number)).unwrap().is_some());
        }
        db.put(b"k", b"v").unwrap();
        db.flush().unwrap();
        db.compact_range(..).unwrap();
    }
    let after = getrlimit(Resource::Nofile);
    assert_eq!(
        after.current,
        Some(600),
        "the library leaves the limit alone"
    );
    drop(own);
    println!("the child is done");
}
