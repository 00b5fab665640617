//! Keyspaces: made, listed, renamed, dropped; batches and snapshots across them; remains of a drop.

mod loops;
mod model;
mod renames;
#[path = "../support/mod.rs"]
mod support;

use loops::{check_prefix, crash_at_every_step, fail_at_every_operation};
use support::machine::{Machine, Method};
use support::script::tiny;
use terrace::{
    Compression, Db, Error, IterOptions, KeyspaceOptions, Options, Result, WriteBatch, WriteOptions,
};
use terrace_storage::CrashKind;

const STORE: &str = "/store";

fn machine() -> Machine {
    Machine::new(Method::Written, 7)
}

fn open(machine: &Machine) -> Db {
    Db::open(STORE, machine.options()).unwrap()
}

fn names(db: &Db) -> Vec<String> {
    let keyspaces = db.keyspaces();
    keyspaces.iter().map(|k| k.name()).collect()
}

#[test]
fn keyspaces_and_their_options_are_there_after_reopening() {
    let machine = machine();
    let db = open(&machine);
    let form = KeyspaceOptions {
        compression: vec![Compression::Zstd],
        block_bytes: 512,
        ..KeyspaceOptions::default()
    };
    let users = db.create_keyspace("users", form.clone()).unwrap();
    db.create_keyspace("index", KeyspaceOptions::default())
        .unwrap();
    assert_eq!(names(&db), ["default", "users", "index"]);
    let again = db.create_keyspace("users", form).unwrap_err();
    assert!(again.to_string().contains("already"), "{again}");
    assert!(matches!(
        db.keyspace("nobody"),
        Err(Error::NoKeyspace { .. })
    ));
    users.put(b"key", [7; 3000]).unwrap();
    db.put(b"key", b"default").unwrap();
    db.flush().unwrap();
    db.close().unwrap();

    let db = open(&machine);
    assert_eq!(names(&db), ["default", "users", "index"]);
    let users = db.keyspace("users").unwrap();
    assert_eq!(users.get(b"key").unwrap().as_deref(), Some(&[7; 3000][..]));
    assert_eq!(
        users.first().unwrap().unwrap(),
        (b"key".to_vec(), vec![7; 3000])
    );
    assert_eq!(users.last().unwrap(), users.first().unwrap());
    assert!(!users.contains_key(b"no").unwrap());
    assert!(db.keyspace("index").unwrap().first().unwrap().is_none());
    let levels = db.levels();
    let of_users = levels.keyspaces.iter().find(|k| k.name == "users").unwrap();
    let bytes: u64 = of_users
        .levels
        .iter()
        .flatten()
        .flat_map(|sub_level| &sub_level.tables)
        .map(|table| table.size_bytes)
        .sum();
    assert!(bytes < 2000, "Zstandard from level 0 on: {bytes} bytes");
}

#[test]
fn a_batch_across_keyspaces_is_one_and_a_snapshot_sees_all_at_one_moment() {
    let machine = machine();
    let db = open(&machine);
    let other = db
        .create_keyspace("other", KeyspaceOptions::default())
        .unwrap();
    let write = |value: &[u8]| {
        let mut batch = WriteBatch::new();
        batch.put(b"key", value).unwrap();
        batch.put_in(&other, b"key", value).unwrap();
        db.write(batch, WriteOptions::default()).unwrap();
    };
    write(b"old");
    let snapshot = db.snapshot();
    write(b"new");
    for keyspace in db.keyspaces() {
        let get_at = keyspace.get_at(&snapshot, b"key").unwrap();
        assert_eq!(get_at.as_deref(), Some(&b"old"[..]));
        assert_eq!(keyspace.get(b"key").unwrap().as_deref(), Some(&b"new"[..]));
    }
}

#[test]
fn a_keyspace_of_another_opening_is_refused() {
    let machine = machine();
    let db = open(&machine);
    let stale = db
        .create_keyspace("other", KeyspaceOptions::default())
        .unwrap();
    db.close().unwrap();
    assert!(matches!(stale.get(b"key"), Err(Error::Closed)));
    let db = open(&machine);
    let mut batch = WriteBatch::new();
    batch.put_in(&stale, b"key", b"value").unwrap();
    let refused = batch.put_in(&db.keyspace("other").unwrap(), b"key", b"value");
    assert!(matches!(refused, Err(Error::InvalidArgument(_))));
    let refused = db.write(batch, WriteOptions::default());
    assert!(matches!(refused, Err(Error::InvalidArgument(_))));
}

#[test]
fn a_dropped_keyspace_is_gone_with_its_tables_and_stays_gone() {
    let machine = machine();
    let db = open(&machine);
    let doomed = db
        .create_keyspace("doomed", KeyspaceOptions::default())
        .unwrap();
    for round in 0..200u32 {
        doomed.put(round.to_be_bytes(), [1; 300]).unwrap();
    }
    db.put(b"kept", b"value").unwrap();
    let mut batch = WriteBatch::new();
    batch.put_in(&doomed, b"key", b"value").unwrap();
    db.drop_keyspace("doomed").unwrap();

    assert!(matches!(
        db.write(batch, WriteOptions::default()),
        Err(Error::NoKeyspace { .. })
    ));
    assert!(matches!(
        db.drop_keyspace("doomed"),
        Err(Error::NoKeyspace { .. })
    ));
    assert!(db.drop_keyspace("default").is_err());
    let key = 1u32.to_be_bytes();
    assert!(matches!(doomed.get(key), Err(Error::NoKeyspace { .. })));
    assert!(matches!(doomed.first(), Err(Error::NoKeyspace { .. })));
    // The keyspace's remains in the arena go nowhere.
    db.flush().unwrap();
    assert_eq!(db.statistics().step_failures, 0);
    let successor = db
        .create_keyspace("doomed", KeyspaceOptions::default())
        .unwrap();
    assert!(successor.id() > doomed.id());
    assert!(successor.first().unwrap().is_none());
    // A crash now: nothing comes back.
    let machine = machine.crash(CrashKind::PowerCut, 3);
    std::mem::forget(db);
    let db = open(&machine);
    assert_eq!(names(&db), ["default", "doomed"]);
    assert!(db.keyspace("doomed").unwrap().first().unwrap().is_none());
    assert_eq!(db.get(b"kept").unwrap().as_deref(), Some(&b"value"[..]));
}

/// Drops race with writers, flushes and merges in the very keyspace.
#[test]
fn dropping_under_load_disturbs_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), tiny(Options::default())).unwrap();
    for round in 0..12 {
        let name = format!("round {round}");
        let keyspace = db
            .create_keyspace(&name, tiny(Options::default()).default_keyspace)
            .unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut written = 0u32;
                loop {
                    let key = (written % 700).to_be_bytes();
                    match keyspace.put(key, [3; 200]) {
                        Ok(()) => written += 1,
                        Err(Error::NoKeyspace { .. }) => return written,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            let reader = scope.spawn(|| {
                for _ in 0..20 {
                    for entry in keyspace.iter(IterOptions::default()).unwrap().entries() {
                        match entry {
                            Ok((_, value)) => assert_eq!(value, [3; 200]),
                            Err(Error::NoKeyspace { .. }) => return,
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
            db.put(b"round", name.as_bytes()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5 + 7 * round));
            db.drop_keyspace(&name).unwrap();
            writer.join().unwrap();
            reader.join().unwrap();
        });
    }
    db.flush().unwrap();
    db.compact().unwrap();
    let statistics = db.statistics();
    assert_eq!(statistics.step_failures, 0, "{:?}", statistics.last_error);
    assert_eq!(names(&db), ["default"]);
    let tables: usize = statistics.levels.iter().map(|level| level.tables).sum();
    let files = || {
        let files = std::fs::read_dir(directory.path().join("store")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".table")).count()
    };
    // Files are removed in the background, bit by bit.
    let patience = (0..1000).take_while(|_| files() > tables);
    patience.for_each(|_| std::thread::sleep(std::time::Duration::from_millis(10)));
    assert_eq!(files(), tables, "no file of a dropped keyspace is left");
}

fn rows(db: &Db, keyspace: &str) -> usize {
    let keyspace = db.keyspace(keyspace).unwrap();
    let entries = keyspace.iter(IterOptions::default()).unwrap().entries();
    entries.map(Result::unwrap).count()
}

/// Dies at every step of a drop: the keyspace is there, whole as far as anything was promised, or
/// gone with every write before the drop kept.
#[test]
fn a_crash_leaves_a_keyspace_or_none_and_all_that_came_before() {
    for kind in [CrashKind::Kill, CrashKind::PowerCut] {
        let (mut kept, mut gone) = (0, 0);
        let change = |db: &Db| db.drop_keyspace("doomed");
        crash_at_every_step(kind, change, |db, is_done, step| {
            if names(db) == ["default"] {
                assert_eq!(rows(db, "default"), 60, "step {step}");
                gone += 1;
            } else {
                assert!(!is_done);
                check_prefix(db, "doomed", kind);
                kept += 1;
            }
        });
        assert!(kept > 1 && gone >= 1, "{kind:?}: {kept} kept, {gone} gone");
    }
}

/// Every file operation of making and dropping fails once.
#[test]
fn a_failed_drop_changes_nothing_or_poisons() {
    let change = |db: &Db| {
        let made = db.create_keyspace("new", KeyspaceOptions::default());
        (made.map(drop), db.drop_keyspace("doomed"))
    };
    let has_failed = |(made, dropped): &(Result<()>, Result<()>)| made.is_err() || dropped.is_err();
    let failures = fail_at_every_operation(change, has_failed, |failing, changed| {
        let (db, dropped) = (failing.db, &changed.1);
        let left = names(db).contains(&"doomed".to_owned());
        assert!(!left || rows(db, "doomed") == 60);
        if failing.reopened {
            assert!(failing.poisoned || !left, "{changed:?}");
        } else if !failing.poisoned {
            assert_eq!(left, dropped.is_err());
            if left {
                db.drop_keyspace("doomed").unwrap();
            }
        }
    });
    assert!(failures >= 3, "{failures}");
}
