//! Arenas in a region directory: its owner, its move, and its loss.
//!
//! `TERRACE_CRASH_STRIDE` sets how many steps lie between two crash points (1: exhaustive).

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace::{Background, Db, Durability, Error, IterOptions, Options, WriteBatch, WriteOptions};
use terrace_storage::{
    CrashKind, CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, OpenMode, OpenOptions,
    Purpose, SimulatedStorage, Storage,
};

const STORE: &str = "/store";
const FAST: &str = "/fast/region";
const OTHER: &str = "/other/region";
const KINDS: [CrashKind; 2] = [CrashKind::Kill, CrashKind::PowerCut];

fn disk() -> SimulatedStorage {
    SimulatedStorage::new(1, CrashSwitch::new())
}

fn options(disk: &SimulatedStorage, region_dir: Option<&str>) -> Options {
    let options = Options {
        storage: Arc::new(disk.clone()),
        region_dir: region_dir.map(PathBuf::from),
        background: Background::Inline,
        ..Options::default()
    };
    support::script::tiny(options)
}

fn accepting(disk: &SimulatedStorage, region_dir: Option<&str>) -> Options {
    Options {
        accept_region_loss: true,
        ..options(disk, region_dir)
    }
}

fn reading(options: Options) -> Options {
    Options {
        read_only: true,
        ..options
    }
}

/// Returns the disk after the death of every process.
fn killed(disk: &SimulatedStorage) -> SimulatedStorage {
    disk.crash(CrashKind::Kill, 0, CrashSwitch::new())
}

fn names(disk: &SimulatedStorage, directory: &str) -> Vec<String> {
    let entries = disk.list(Path::new(directory));
    let names = entries.unwrap_or_default().into_iter();
    names.map(|entry| entry.name).collect()
}

fn arenas(disk: &SimulatedStorage, directory: &str) -> usize {
    let names = names(disk, directory);
    names
        .iter()
        .filter(|name| name.starts_with("arena-"))
        .count()
}

/// Returns every file of all directories.
fn contents(disk: &SimulatedStorage) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for directory in [STORE, FAST, OTHER] {
        for name in names(disk, directory) {
            let path = Path::new(directory).join(name);
            let mode = OpenOptions::buffered(OpenMode::Read);
            let file = disk.open(&path, mode).unwrap();
            let mut bytes = vec![0; file.length_bytes().unwrap() as usize];
            file.read_exact_at(&mut bytes, 0, Purpose::Other).unwrap();
            files.push((path, bytes));
        }
    }
    files
}

/// Empties a directory, as a reboot empties a tmpfs.
fn wipe(disk: &SimulatedStorage, directory: &str) {
    for name in names(disk, directory) {
        disk.remove(&Path::new(directory).join(name)).unwrap();
    }
    disk.sync_directory(Path::new(directory)).unwrap();
}

fn keys(db: &Db) -> Vec<u8> {
    let entries = db.iter(IterOptions::default()).unwrap().entries();
    entries.map(|entry| entry.unwrap().0[0]).collect()
}

fn put(db: &Db, key: u8, sync: bool) -> terrace::Result<()> {
    let mut batch = WriteBatch::new();
    batch.put([key], [key; 50])?;
    db.write(batch, WriteOptions::with_sync(sync))
}

/// Kills a store with keys 0 to 4 in tables, 5 to 7 persisted in an arena, and 8 in an arena.
fn specimen(region_dir: Option<&str>) -> SimulatedStorage {
    let disk = disk();
    let db = Db::open(STORE, options(&disk, region_dir)).unwrap();
    for key in 0..5 {
        put(&db, key, false).unwrap();
    }
    db.flush().unwrap();
    for key in 5..8 {
        put(&db, key, true).unwrap();
    }
    put(&db, 8, false).unwrap();
    killed(&disk)
}

/// Returns the error of an owner and of a reader, which must be alike and have changed nothing.
fn refused(disk: &SimulatedStorage, options: &Options) -> Error {
    let before = contents(disk);
    let reader = Db::open(STORE, reading(options.clone())).unwrap_err();
    let owner = Db::open(STORE, options.clone()).unwrap_err();
    assert_eq!(reader.to_string(), owner.to_string());
    assert!(contents(disk) == before, "a refused opening wrote: {owner}");
    owner
}

fn is_wrong(error: &Error, words: &[&str]) {
    assert!(matches!(error, Error::WrongRegion { .. }), "{error:?}");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
}

#[test]
fn arenas_live_in_the_region_directory_alone() {
    let disk = specimen(Some(FAST));
    assert_eq!(arenas(&disk, STORE), 0);
    assert!(arenas(&disk, FAST) >= 1);
    assert!(names(&disk, FAST).contains(&"REGION".to_owned()));
    let reader = Db::open(STORE, reading(options(&disk, Some(FAST)))).unwrap();
    assert_eq!(keys(&reader), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    drop(reader);
    let db = Db::open(STORE, options(&disk, Some(FAST))).unwrap();
    assert_eq!(keys(&db), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let statistics = db.statistics();
    assert_eq!(statistics.region_dir.as_deref(), Some(Path::new(FAST)));
    assert_eq!(statistics.recovery.writes, 4);
}

#[test]
fn unflushed_writes_are_found_wherever_their_directory_is_mounted_and_nowhere_else() {
    let disk = specimen(Some(FAST));
    for given in [None, Some(OTHER)] {
        let mut options = options(&disk, given);
        is_wrong(&refused(&disk, &options), &[STORE, FAST, "region_dir"]);
        // It is there, so that nothing is lost that could be accepted.
        options.accept_region_loss = true;
        is_wrong(&refused(&disk, &options), &[FAST]);
    }
    disk.create_directory(Path::new(OTHER)).unwrap();
    for name in names(&disk, FAST) {
        let (from, to) = (Path::new(FAST).join(&name), Path::new(OTHER).join(&name));
        disk.link(&from, &to).unwrap();
        disk.remove(&from).unwrap();
    }
    let db = Db::open(STORE, options(&disk, Some(OTHER))).unwrap();
    assert_eq!(keys(&db).len(), 9);
    drop(db);
    // The next message knows the new place.
    put(
        &Db::open(STORE, options(&disk, Some(OTHER))).unwrap(),
        9,
        false,
    )
    .unwrap();
    is_wrong(&refused(&disk, &options(&disk, None)), &[OTHER]);
}

#[test]
fn two_stores_never_share_a_region_directory() {
    let disk = specimen(Some(FAST));
    let second = |given: Options| Db::open("/second", given);
    let before = contents(&disk);
    let error = second(options(&disk, Some(FAST))).unwrap_err();
    is_wrong(&error, &["/second", FAST, "belongs to store"]);
    assert!(disk.list(Path::new("/second")).unwrap().is_empty());
    second(options(&disk, None)).unwrap().close().unwrap();
    let error = second(options(&disk, Some(FAST))).unwrap_err();
    let text = error.to_string();
    is_wrong(&error, &["/second", FAST]);
    let ids = text.split(|c: char| !c.is_ascii_hexdigit());
    let ids = ids.filter(|word| word.len() == 32).count();
    assert_eq!(ids, 2, "not both in: {text}");
    assert!(contents(&disk) == before);
}

fn copy_file(disk: &SimulatedStorage, from: &Path, to: &Path) {
    let source = disk
        .open(from, OpenOptions::buffered(OpenMode::Read))
        .unwrap();
    let length = source.length_bytes().unwrap() as usize;
    let bytes = source.read_vec_at(length, 0, Purpose::Other).unwrap();
    let copy = OpenOptions::buffered(OpenMode::CreateNew);
    let copy = disk.open(to, copy).unwrap();
    copy.write_at(&bytes, 0, Purpose::Other).unwrap();
}

#[test]
fn a_copy_of_a_store_does_not_get_at_its_region_beside_it() {
    let disk = specimen(Some(FAST));
    let owner = Db::open(STORE, options(&disk, Some(FAST))).unwrap();
    let copy = Path::new("/copy");
    disk.create_directory(copy).unwrap();
    for name in names(&disk, STORE).iter().filter(|name| *name != "LOCK") {
        let (from, to) = (Path::new(STORE).join(name), copy.join(name));
        copy_file(&disk, &from, &to);
    }
    let open = |options| Db::open(copy, options);
    for given in [
        options(&disk, Some(FAST)),
        reading(options(&disk, Some(FAST))),
    ] {
        match open(given).unwrap_err() {
            Error::Busy { path, .. } => assert_eq!(path, Path::new(FAST)),
            error => panic!("{error:?}"),
        }
    }
    owner.close().unwrap();
}

#[test]
fn a_directory_that_is_no_region_is_refused_and_left_alone() {
    let disk = disk();
    disk.create_directory(Path::new(FAST)).unwrap();
    let foreign = Path::new(FAST).join("thesis.tex");
    disk.open(&foreign, OpenOptions::buffered(OpenMode::CreateNew))
        .unwrap();
    let error = Db::open(STORE, options(&disk, Some(FAST))).unwrap_err();
    is_wrong(&error, &[FAST, "thesis.tex", "empty"]);
    assert_eq!(names(&disk, FAST), ["thesis.tex"]);
    disk.rename(&foreign, &Path::new(FAST).join("arena-1"))
        .unwrap();
    let error = Db::open(STORE, options(&disk, Some(FAST))).unwrap_err();
    assert!(matches!(error, Error::Corruption { .. }), "{error:?}");

    let error = Db::open(STORE, options(&disk, Some("/store/."))).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    let volatile = Options {
        durability: Some(Durability::Volatile),
        ..options(&disk, Some(OTHER))
    };
    let error = Db::open(STORE, volatile).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    assert!(names(&disk, STORE).is_empty() && names(&disk, OTHER).is_empty());
}

/// `lost+found` lies in the root of a new ext4.
#[test]
fn a_new_file_system_is_empty_enough() {
    let disk = disk();
    disk.create_directory(&Path::new(FAST).join("lost+found"))
        .unwrap();
    let db = Db::open(STORE, options(&disk, Some(FAST))).unwrap();
    put(&db, 1, false).unwrap();
    assert!(arenas(&disk, FAST) >= 1);
}

#[test]
fn a_store_moves_when_no_arena_holds_a_write_alone() {
    let disk = specimen(Some(FAST));
    let mut expected = 9;
    for given in [Some(OTHER), None, Some(FAST), Some(OTHER)] {
        let home = Db::open(STORE, options(&disk, given));
        // Closed in order, but with writes in an arena.
        is_wrong(&home.unwrap_err(), &["flush and close"]);
        let before = [Some(FAST), Some(OTHER), None]
            .into_iter()
            .find_map(|given| Db::open(STORE, options(&disk, given)).ok());
        let db = before.unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        let db = Db::open(STORE, options(&disk, given)).unwrap();
        assert_eq!(db.statistics().region_dir, given.map(PathBuf::from));
        assert!(arenas(&disk, given.unwrap_or(STORE)) >= 1);
        assert_eq!(arenas(&disk, STORE) > 0, given.is_none());
        put(&db, expected, false).unwrap();
        expected += 1;
        assert_eq!(keys(&db).len(), usize::from(expected));
        db.close().unwrap();
        if given.is_none() {
            // The store's own directory is at hand wherever the store is.
            let db = Db::open(STORE, options(&disk, Some(OTHER))).unwrap();
            assert_eq!(keys(&db).len(), usize::from(expected));
            assert_eq!(arenas(&disk, STORE), 0);
            put(&db, expected, false).unwrap();
            expected += 1;
        }
    }
}

#[test]
fn a_lost_region_is_an_error_until_the_loss_is_accepted() {
    let disk = specimen(Some(FAST));
    wipe(&disk, FAST);
    for given in [Some(FAST), Some(OTHER), None] {
        match refused(&disk, &options(&disk, given)) {
            Error::RegionLost { path, loss } => {
                assert_eq!(path, Path::new(FAST));
                // Frames promise the synced writes, and are gone with the region.
                let loss = loss.unwrap();
                assert_eq!((loss.kept, loss.promised), (5, 5));
            }
            error => panic!("{error:?}"),
        }
    }
    let before = contents(&disk);
    let reader = Db::open(STORE, reading(accepting(&disk, Some(FAST)))).unwrap();
    assert_eq!(keys(&reader), [0, 1, 2, 3, 4]);
    assert_eq!(reader.statistics().recovery.region_loss.unwrap().kept, 5);
    drop(reader);
    assert!(contents(&disk) == before, "a reader wrote");

    let db = Db::open(STORE, accepting(&disk, Some(FAST))).unwrap();
    assert_eq!(keys(&db), [0, 1, 2, 3, 4]);
    let loss = db.statistics().recovery.region_loss.unwrap();
    assert_eq!((loss.kept, loss.promised), (5, 5));
    put(&db, 9, false).unwrap();
    let disk = killed(&disk);
    let db = Db::open(STORE, options(&disk, Some(FAST))).unwrap();
    assert_eq!(keys(&db), [0, 1, 2, 3, 4, 9]);
    let statistics = db.statistics();
    assert_eq!(statistics.recovery.region_loss, None);
    assert_eq!(statistics.region_losses, [loss]);
}

/// The manifest learns at a close which numbers were persisted; those are not given again.
#[test]
fn a_loss_of_promised_writes_says_so_and_does_not_give_their_numbers_again() {
    let disk = specimen(Some(FAST));
    let db = Db::open(STORE, options(&disk, Some(FAST))).unwrap();
    put(&db, 9, false).unwrap();
    put(&db, 10, false).unwrap();
    db.close().unwrap();
    wipe(&disk, FAST);
    match refused(&disk, &options(&disk, Some(FAST))) {
        Error::RegionLost { loss, .. } => {
            let loss = loss.unwrap();
            assert_eq!((loss.kept, loss.promised), (9, 11));
        }
        error => panic!("{error:?}"),
    }
    let db = Db::open(STORE, accepting(&disk, Some(FAST))).unwrap();
    let loss = db.statistics().recovery.region_loss.unwrap();
    assert_eq!((loss.kept, loss.promised), (9, 11));
    assert_eq!(db.statistics().sequences.visible, 11);
    put(&db, 11, true).unwrap();
    let disk = killed(&disk);
    let db = Db::open(STORE, options(&disk, Some(FAST))).unwrap();
    assert_eq!(keys(&db), [0, 1, 2, 3, 4, 5, 6, 7, 8, 11]);
    assert_eq!(db.statistics().sequences.visible, 12);
}

#[test]
fn a_region_without_unflushed_writes_is_no_loss() {
    let disk = specimen(Some(FAST));
    let db = Db::open(STORE, options(&disk, Some(FAST))).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    wipe(&disk, FAST);
    for given in [Some(FAST), None] {
        let reader = Db::open(STORE, reading(options(&disk, given))).unwrap();
        assert_eq!(keys(&reader).len(), 9);
    }
    let db = Db::open(STORE, options(&disk, Some(FAST))).unwrap();
    assert_eq!(keys(&db).len(), 9);
    let statistics = db.statistics();
    assert_eq!(statistics.recovery.region_loss, None);
    assert!(statistics.region_losses.is_empty());
    assert!(statistics.recovery.clean_close);
}

#[test]
fn accepting_a_loss_changes_nothing_where_nothing_is_missing() {
    for given in [None, Some(FAST)] {
        let disk = specimen(given);
        let db = Db::open(STORE, accepting(&disk, given)).unwrap();
        assert_eq!(keys(&db).len(), 9);
        assert!(db.statistics().region_losses.is_empty());
    }
}

/// Three arenas with unflushed writes, one of them removed: writes before it are kept, and none
/// behind it.
#[test]
fn without_one_of_its_arenas_a_store_keeps_what_is_before_it() {
    let flushes = FaultPlan::new(FaultFilter::everything().purpose(Purpose::Flush));
    let disk = disk();
    let db = {
        let storage = FailingStorage::new(Arc::new(disk.clone()), flushes.clone());
        let options = Options {
            storage: Arc::new(storage),
            max_arenas: 4,
            ..options(&disk, Some(FAST))
        };
        Db::open(STORE, options).unwrap()
    };
    put(&db, 0, false).unwrap();
    db.flush().unwrap();
    flushes.fail_from(0, Fault::NoSpace);
    let mut written = 1;
    while db.statistics().arenas.sealed < 2 || written % 8 != 0 {
        let mut batch = WriteBatch::new();
        batch.put([written], [written; 1500]).unwrap();
        db.write(batch, WriteOptions::with_sync(true)).unwrap();
        written += 1;
    }
    let mut kept = Vec::new();
    for name in names(&disk, FAST) {
        if !name.starts_with("arena-") {
            continue;
        }
        let disk = killed(&disk);
        disk.remove(&Path::new(FAST).join(&name)).unwrap();
        match Db::open(STORE, options(&disk, Some(FAST))) {
            Err(Error::RegionLost { path, .. }) => assert!(path.ends_with(&name)),
            // A slot that no generation holds.
            Ok(db) => {
                assert_eq!(keys(&db).len(), usize::from(written));
                continue;
            }
            Err(error) => panic!("{name}: {error}"),
        }
        let db = Db::open(STORE, accepting(&disk, Some(FAST))).unwrap();
        let found = keys(&db);
        assert!(found.iter().copied().eq(0..found.len() as u8), "{found:?}");
        assert!(db.statistics().recovery.region_loss.is_some());
        put(&db, 255, true).unwrap();
        let disk = killed(&disk);
        let db = Db::open(STORE, options(&disk, Some(FAST))).unwrap();
        assert_eq!(keys(&db).len(), found.len() + 1);
        kept.push(found.len());
    }
    kept.sort_unstable();
    assert_eq!(kept.first(), Some(&1), "{kept:?}");
    assert!(
        kept.len() >= 3 && kept[1] > 1 && kept[1] < kept[2],
        "{kept:?}"
    );
}

/// Runs on copies of a machine that are frozen at every step, and hands over their disks.
fn at_every_step(
    base: &SimulatedStorage,
    run: impl Fn(&SimulatedStorage) -> terrace::Result<()>,
    check: impl Fn(&SimulatedStorage, u64, CrashKind),
) {
    let switch = CrashSwitch::new();
    run(&base.crash(CrashKind::Kill, 0, switch.clone())).unwrap();
    let steps = switch.count();
    assert!(steps > 10, "only {steps} steps");
    let stride = support::scale("TERRACE_CRASH_STRIDE", 1) as usize;
    for step in (0..steps).step_by(stride) {
        for kind in KINDS {
            let disk = base.crash(CrashKind::Kill, 0, CrashSwitch::frozen_at(step));
            match run(&disk) {
                Err(error) => assert!(support::script::is_frozen(&error), "step {step}: {error}"),
                // The mark behind the last edit is lost without an error.
                Ok(()) => assert_eq!(step, steps - 1, "the machine lives on"),
            }
            check(&disk.crash(kind, step, CrashSwitch::new()), step, kind);
        }
    }
}

#[test]
fn accepting_a_loss_survives_every_crash_point() {
    let lost = specimen(Some(FAST));
    wipe(&lost, FAST);
    // Durable, so that a power cut undoes no part of earlier work.
    let lost = lost.crash(CrashKind::PowerCut, 0, CrashSwitch::new());
    let run = |disk: &SimulatedStorage| {
        let db = Db::open(STORE, accepting(disk, Some(FAST)))?;
        put(&db, 9, true)?;
        db.close()
    };
    at_every_step(&lost, run, |disk, step, kind| {
        let recorded = match Db::open(STORE, reading(options(disk, Some(FAST)))) {
            Ok(db) => db.statistics().region_losses.len(),
            Err(Error::RegionLost { .. }) => 0,
            Err(error) => panic!("step {step} {kind:?}: {error}"),
        };
        let db = Db::open(STORE, accepting(disk, Some(FAST)))
            .unwrap_or_else(|error| panic!("step {step} {kind:?}: {error}"));
        let found = keys(&db);
        assert!(found.starts_with(&[0, 1, 2, 3, 4]) && found.len() <= 6);
        let statistics = db.statistics();
        assert_eq!(statistics.recovery.region_loss.is_some(), recorded == 0);
        assert_eq!(statistics.region_losses.len(), 1, "step {step} {kind:?}");
        put(&db, 10, true).unwrap();
        let disk = killed(disk);
        let db = Db::open(STORE, options(&disk, Some(FAST))).unwrap();
        assert_eq!(keys(&db).len(), found.len() + 1);
    });
}

#[test]
fn a_move_survives_every_crash_point() {
    let moves = [
        (None, Some(FAST)),
        (Some(FAST), Some(OTHER)),
        (Some(FAST), None),
    ];
    for (from, to) in moves {
        let base = specimen(from);
        if from.is_some() {
            let db = Db::open(STORE, options(&base, from)).unwrap();
            db.flush().unwrap();
            db.close().unwrap();
        }
        let base = base.crash(CrashKind::PowerCut, 0, CrashSwitch::new());
        let whole = keys(&Db::open(STORE, reading(options(&base, from))).unwrap());
        let run = |disk: &SimulatedStorage| {
            let db = Db::open(STORE, options(disk, to))?;
            put(&db, 9, true)?;
            put(&db, 10, true)?;
            db.close()
        };
        at_every_step(&base, run, |disk, step, kind| {
            // Where the move had come to.
            let context = format!("{from:?} to {to:?}, step {step} {kind:?}");
            let there = Db::open(STORE, reading(options(disk, from))).map(drop);
            let given = match there {
                Ok(()) => from,
                Err(Error::WrongRegion { .. }) => to,
                Err(error) => panic!("{context}: {error}"),
            };
            for given in [given, to] {
                let db = Db::open(STORE, options(disk, given))
                    .unwrap_or_else(|error| panic!("{context}: {error}"));
                let found = keys(&db);
                assert!(found.starts_with(&whole), "{context}: {found:?}");
                assert!(db.statistics().region_losses.is_empty());
                db.flush().unwrap();
                db.close().unwrap();
            }
        });
    }
}
