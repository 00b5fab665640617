//! An owner owns a directory, not a path: stores whose directory is moved, replaced or removed, and
//! whose locks are taken away.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use terrace::{
    Background, Db, Durability, Error, FileAccess, IterOptions, KeyspaceOptions, Options,
    PersistMethod, Result, WriteBatch, WriteOptions,
};
use terrace_storage::{
    CrashSwitch, FailingStorage, FaultFilter, FaultPlan, LockKind, Operation, RealStorage,
    SimulatedStorage, Storage,
};

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

fn put_synced(db: &Db, key: &[u8], value: &[u8]) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(key, value)?;
    db.write(batch, WriteOptions::with_sync(true))
}

fn keys(db: &Db) -> Vec<String> {
    let mut found = Vec::new();
    let mut rows = db.iter(IterOptions::default()).unwrap();
    rows.seek_to_first().unwrap();
    while rows.valid() {
        found.push(String::from_utf8_lossy(rows.key()).into_owned());
        rows.next().unwrap();
    }
    found
}

fn fill(db: &Db, prefix: &str, count: usize) -> Vec<String> {
    let keys: Vec<String> = (0..count).map(|n| format!("{prefix}-{n:04}")).collect();
    for key in &keys {
        db.put(key.as_bytes(), [7; 100]).unwrap();
    }
    keys
}

/// Moves a live store's directory away, makes a new store in its place, and works in both.
fn move_a_live_store(
    options: &Options,
    path: &Path,
    moved: &Path,
    copy: &Path,
    rename: impl FnOnce(&Path, &Path),
) {
    let old = Db::open(path, options.clone()).unwrap();
    let mut old_keys = fill(&old, "old", 300);
    rename(path, moved);
    let new = Db::open(path, options.clone()).unwrap();
    let new_keys = fill(&new, "new", 300);
    old_keys.extend(fill(&old, "old-later", 2_000));
    old.flush().unwrap();
    old.compact().unwrap();
    old.checkpoint(copy).unwrap();
    put_synced(&old, b"old-synced", b"").unwrap();
    old_keys.push("old-synced".to_owned());
    old_keys.sort();
    assert_eq!(keys(&old), old_keys);
    old.close().unwrap();
    new.flush().unwrap();
    new.close().unwrap();
    for (path, expected) in [(path, new_keys), (moved, old_keys)] {
        let db = Db::open(path, options.clone()).unwrap();
        assert_eq!(keys(&db), expected);
        db.close().unwrap();
        let report = terrace_tools::inspect::verify(path, options.clone(), |_, _| {}).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
    let db = Db::open(copy, options.clone()).unwrap();
    assert_eq!(keys(&db).len(), 2_300);
}

#[test]
fn a_moved_store_goes_on_and_leaves_the_one_in_its_place_alone() {
    let root = tempfile::tempdir().unwrap();
    for method in [PersistMethod::Written, PersistMethod::Auto] {
        let directory = tempfile::tempdir_in(&root).unwrap();
        let at = |name: &str| directory.path().join(name);
        let options = Options {
            persist_method: method,
            ..small()
        };
        move_a_live_store(
            &options,
            &at("store"),
            &at("moved"),
            &at("copy"),
            |from, to| {
                fs::rename(from, to).unwrap();
            },
        );
    }
}

#[test]
fn a_moved_store_goes_on_on_a_simulated_disk() {
    let disk = SimulatedStorage::new(1, CrashSwitch::new());
    let options = Options {
        storage: Arc::new(disk.clone()),
        ..small()
    };
    let at = |name: &str| PathBuf::from(format!("/{name}"));
    move_a_live_store(
        &options,
        &at("store"),
        &at("moved"),
        &at("copy"),
        |from, to| {
            disk.rename_directory(from, to).unwrap();
        },
    );
}

#[test]
fn a_moved_region_directory_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let options = |region: &str| Options {
        region_dir: Some(at(region)),
        ..small()
    };
    let db = Db::open(at("store"), options("region")).unwrap();
    let mut expected = fill(&db, "a", 300);
    fs::rename(at("region"), at("moved")).unwrap();
    let other = Db::open(at("other"), options("region")).unwrap();
    let others = fill(&other, "o", 1_500);
    expected.extend(fill(&db, "b", 1_500));
    other.close().unwrap();
    db.close().unwrap();
    let db = Db::open(at("store"), options("moved")).unwrap();
    assert_eq!(keys(&db), expected);
    let other = Db::open(at("other"), options("region")).unwrap();
    assert_eq!(keys(&other), others);
}

#[test]
fn a_turned_link_changes_nothing_for_the_owner() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    fs::create_dir(at("first")).unwrap();
    symlink(at("first"), at("link")).unwrap();
    let first = Db::open(at("link"), small()).unwrap();
    first.put(b"first", b"").unwrap();
    fs::create_dir(at("second")).unwrap();
    fs::remove_file(at("link")).unwrap();
    symlink(at("second"), at("link")).unwrap();
    let second = Db::open(at("link"), small()).unwrap();
    second.put(b"second", b"").unwrap();
    put_synced(&first, b"first-again", b"").unwrap();
    first.flush().unwrap();
    first.close().unwrap();
    second.close().unwrap();
    assert_eq!(
        keys(&Db::open(at("first"), small()).unwrap()),
        ["first", "first-again"]
    );
    assert_eq!(keys(&Db::open(at("second"), small()).unwrap()), ["second"]);
}

const CHDIR: &str = "TERRACE_OWNERSHIP_CHDIR";

/// The child's part: a working directory is the whole process's.
#[test]
#[ignore = "the child process of the next test"]
fn chdir_child() {
    let Ok(root) = std::env::var(CHDIR) else {
        return;
    };
    let root = Path::new(&root);
    std::env::set_current_dir(root.join("one")).unwrap();
    let one = Db::open("store", small()).unwrap();
    one.put(b"one", b"").unwrap();
    std::env::set_current_dir(root.join("two")).unwrap();
    let two = Db::open("store", small()).unwrap();
    two.put(b"two", b"").unwrap();
    fill(&one, "later", 1_000);
    one.flush().unwrap();
    one.close().unwrap();
    two.close().unwrap();
}

#[test]
fn another_working_directory_changes_nothing_for_the_owner() {
    let root = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        fs::create_dir(root.path().join(name)).unwrap();
    }
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "chdir_child", "--ignored"])
        .env(CHDIR, root.path())
        .status()
        .unwrap();
    assert!(status.success());
    let open = |name: &str| Db::open(root.path().join(name).join("store"), small()).unwrap();
    assert_eq!(keys(&open("one")).len(), 1_001);
    assert_eq!(keys(&open("two")), ["two"]);
}

fn assert_busy(opened: Result<Db>) {
    match opened {
        Err(Error::Busy { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn nobody_gets_in_after_the_lock_was_removed_and_the_owner_makes_it_again() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    let owner = Db::open(&path, small()).unwrap();
    put_synced(&owner, b"a", b"1").unwrap();
    fs::remove_file(path.join("LOCK")).unwrap();
    let reading = Options {
        read_only: true,
        ..small()
    };
    assert_busy(Db::open(&path, reading.clone()));
    assert!(!path.join("LOCK").exists(), "a reader makes no file");
    assert_busy(Db::open(&path, small()));
    // The second opening has made a new LOCK and released it: the owner takes that.
    assert!(path.join("LOCK").exists());
    put_synced(&owner, b"b", b"1").unwrap();
    owner.flush().unwrap();
    assert_busy(Db::open(&path, small()));
    fs::remove_file(path.join("LOCK")).unwrap();
    put_synced(&owner, b"b", b"2").unwrap();
    owner.flush().unwrap();
    assert!(path.join("LOCK").exists());
    assert_busy(Db::open(&path, small()));
    owner.close().unwrap();
    assert_eq!(keys(&Db::open(&path, reading).unwrap()), ["a", "b"]);
}

#[test]
fn an_owner_whose_lock_another_holds_refuses_writes_and_says_why() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    let owner = Db::open(&path, small()).unwrap();
    put_synced(&owner, b"a", b"1").unwrap();
    fs::remove_file(path.join("LOCK")).unwrap();
    let foreign = RealStorage
        .lock(&path.join("LOCK"), LockKind::Exclusive)
        .unwrap();
    let error = owner.flush().unwrap_err();
    assert!(error.to_string().contains("LOCK was removed"), "{error}");
    let error = owner.put(b"b", b"2").unwrap_err();
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    assert_eq!(owner.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    let _ = owner.close();
    drop(foreign);
    assert_eq!(keys(&Db::open(&path, small()).unwrap()), ["a"]);
}

#[test]
fn an_owner_whose_manifest_was_replaced_refuses_writes_and_says_why() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    let owner = Db::open(&path, small()).unwrap();
    put_synced(&owner, b"a", b"1").unwrap();
    let manifest = path.join("MANIFEST-000001");
    let bytes = fs::read(&manifest).unwrap();
    fs::remove_file(&manifest).unwrap();
    fs::write(&manifest, bytes).unwrap();
    let error = owner.flush().unwrap_err().to_string();
    assert!(
        error.contains("MANIFEST-000001 was removed or replaced"),
        "{error}"
    );
    assert!(owner.put(b"b", b"2").is_err());
    let _ = owner.close();
    assert_eq!(keys(&Db::open(&path, small()).unwrap()), ["a"]);
}

/// Copies a store's files, each to a new file, as an archive restores them.
fn restore(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let path = to.join(entry.file_name());
        let _ = fs::remove_file(&path);
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), path).unwrap();
        }
    }
}

/// Removes every file of a store.
fn empty(path: &Path) {
    for entry in fs::read_dir(path).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

#[test]
fn an_owner_of_a_restored_copys_directory_leaves_the_copys_tables_alone() {
    let root = tempfile::tempdir().unwrap();
    let (path, backup) = (root.path().join("store"), root.path().join("backup"));
    for notices_first in [false, true] {
        for made in [&path, &backup] {
            let _ = fs::remove_dir_all(made);
        }
        let owner = Db::open(&path, small()).unwrap();
        let expected = fill(&owner, "a", 2_000);
        owner.flush().unwrap();
        owner.checkpoint(&backup).unwrap();
        // A reader keeps the old tables.
        let mut reader = owner.iter(IterOptions::default()).unwrap();
        reader.seek_to_first().unwrap();
        fill(&owner, "a", 2_000);
        owner.flush().unwrap();
        owner.compact_range(..).unwrap();
        assert!(owner.statistics().tables_to_delete == 0);
        empty(&path);
        restore(&backup, &path);
        if notices_first {
            owner.put(b"b", b"").unwrap();
            let error = owner.flush().unwrap_err().to_string();
            assert!(error.contains("was removed or replaced"), "{error}");
        }
        drop(reader);
        let _ = owner.compact();
        let _ = owner.flush();
        let _ = owner.close();
        let db = Db::open(&path, small()).unwrap();
        assert_eq!(keys(&db), expected);
        let problems = db.verify(|_, _| {}).unwrap().problems;
        assert!(problems.is_empty(), "{problems:?}");
    }
}

#[test]
fn an_owner_that_lost_its_directory_leaves_the_next_owners_socket_alone() {
    let root = tempfile::tempdir().unwrap();
    let (path, backup) = (root.path().join("store"), root.path().join("backup"));
    let owner = terrace_tools::inspect::open(&path, small()).unwrap();
    fill(&owner, "a", 10);
    owner.checkpoint(&backup).unwrap();
    empty(&path);
    restore(&backup, &path);
    let next = terrace_tools::inspect::open(&path, small()).unwrap();
    let _ = owner.close();
    assert!(terrace_tools::inspect::statistics(&path).is_ok());
    next.close().unwrap();
    assert!(!path.join("inspect").exists());
}

/// The copy's manifest has another number, so the owner's own stays beside it.
#[test]
fn an_owner_whose_current_was_replaced_refuses_writes_and_says_why() {
    let root = tempfile::tempdir().unwrap();
    let (path, backup) = (root.path().join("store"), root.path().join("backup"));
    let options = Options {
        constants: terrace::Constants {
            manifest_bytes: 4 << 10,
            ..terrace::Constants::default()
        },
        ..small()
    };
    let current = |path: &Path| fs::read_to_string(path.join("CURRENT")).unwrap();
    for rewrites in [false, true] {
        for made in [&path, &backup] {
            let _ = fs::remove_dir_all(made);
        }
        let mut owner = Db::open(&path, options.clone()).unwrap();
        owner.put(b"a", b"1").unwrap();
        owner.close().unwrap();
        restore(&path, &backup);
        owner = Db::open(&path, options.clone()).unwrap();
        let old = current(&path);
        while current(&path) == old {
            owner.put(b"b", b"2").unwrap();
            owner.flush().unwrap();
        }
        if !rewrites {
            // The manifest in use is the one that the opening found.
            owner.close().unwrap();
            owner = Db::open(&path, options.clone()).unwrap();
        }
        restore(&backup, &path);
        // An archive knows nothing of arenas that came after it.
        for name in ["arena-1", "arena-2", "arena-3"] {
            if !backup.join(name).exists() {
                let _ = fs::remove_file(path.join(name));
            }
        }
        owner.put(b"c", b"3").unwrap();
        let error = owner.flush().unwrap_err().to_string();
        assert!(error.contains("CURRENT was removed or replaced"), "{error}");
        assert!(owner.put(b"d", b"4").is_err());
        let _ = owner.close();
        assert_eq!(keys(&Db::open(&path, options.clone()).unwrap()), ["a"]);
    }
}

/// Both find an empty directory, and the second has made its store before the first locks it.
#[test]
fn an_opening_that_was_overtaken_finds_the_store_that_was_made() {
    for error_if_exists in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("store");
        let locks = FaultFilter::everything().operations(&[Operation::Lock]);
        let gate = FaultPlan::new(locks.path_contains("LOCK"));
        gate.hold_from(0);
        let options = Options {
            storage: Arc::new(FailingStorage::new(Arc::new(RealStorage), gate.clone())),
            error_if_exists,
            ..small()
        };
        let opening = {
            let path = path.clone();
            std::thread::spawn(move || Db::open(path, options))
        };
        while gate.held() == 0 {
            std::thread::yield_now();
        }
        let db = Db::open(&path, small()).unwrap();
        db.put(b"a", b"1").unwrap();
        db.close().unwrap();
        gate.heal();
        match opening.join().unwrap() {
            Ok(db) => assert_eq!((keys(&db), error_if_exists), (vec!["a".to_owned()], false)),
            Err(error) => {
                assert!(error_if_exists, "{error}");
                assert!(error.to_string().contains("error_if_exists"), "{error}");
            }
        }
    }
}

#[test]
fn nobody_repairs_a_store_whose_owner_lives_though_lock_and_current_are_gone() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    let owner = Db::open(&path, small()).unwrap();
    fill(&owner, "a", 1_000);
    fs::remove_file(path.join("LOCK")).unwrap();
    fs::remove_file(path.join("CURRENT")).unwrap();
    match terrace_tools::repair::repair(&path, small(), |_, _| {}) {
        Err(Error::Busy { .. }) => {}
        other => panic!("{other:?}"),
    }
    let _ = owner.close();
    terrace_tools::repair::repair(&path, small(), |_, _| {}).unwrap();
    assert_eq!(keys(&Db::open(&path, small()).unwrap()).len(), 1_000);
}

#[test]
fn readers_share_a_store_and_keep_an_owner_out_though_the_lock_is_gone() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    Db::open(&path, small()).unwrap().close().unwrap();
    let reading = Options {
        read_only: true,
        ..small()
    };
    let _one = Db::open(&path, reading.clone()).unwrap();
    let _two = Db::open(&path, reading).unwrap();
    fs::remove_file(path.join("LOCK")).unwrap();
    assert_busy(Db::open(&path, small()));
}

fn assert_removed(error: &Error) {
    let text = error.to_string();
    assert!(
        text.contains("it was removed while the store was open"),
        "{text}"
    );
}

#[test]
fn a_removed_directory_is_an_error_and_not_lost_writes() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    for step in ["sync", "flush", "close"] {
        let db = Db::open(&path, small()).unwrap();
        db.put(b"a", b"1").unwrap();
        fs::remove_dir_all(&path).unwrap();
        let error = match step {
            "sync" => put_synced(&db, b"b", b"2").unwrap_err(),
            "flush" => db.flush().unwrap_err(),
            _ => db.close().unwrap_err(),
        };
        assert_removed(&error);
        assert!(!path.exists(), "nothing is made anew");
    }
}

#[test]
fn a_removed_directory_is_an_error_on_a_simulated_disk() {
    let disk = SimulatedStorage::new(1, CrashSwitch::new());
    let options = Options {
        storage: Arc::new(disk.clone()),
        durability: Some(Durability::PowerSafe),
        ..small()
    };
    let db = Db::open("/store", options).unwrap();
    db.put(b"a", b"1").unwrap();
    disk.remove_directory(Path::new("/store")).unwrap();
    disk.create_directory(Path::new("/store")).unwrap();
    assert_removed(&db.flush().unwrap_err());
    assert!(disk.list(Path::new("/store")).unwrap().is_empty());
}

/// Every kind of file that a store has, and something else in its place.
#[test]
fn what_is_no_regular_file_is_an_error_at_once_that_names_it() {
    let root = tempfile::tempdir().unwrap();
    let made = root.path().join("made");
    let db = Db::open(&made, small()).unwrap();
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    // Enough to use the flushed arena again: an opening removes any file that can hold no write.
    db.put(b"b", [2; 30 << 10]).unwrap();
    db.put(b"c", b"3").unwrap();
    db.close().unwrap();
    let names: Vec<String> = fs::read_dir(&made)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.len() >= 5, "{names:?}");
    for name in &names {
        for kind in ["FIFO", "symbolic link"] {
            let path = root.path().join("store");
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            for name in &names {
                fs::copy(made.join(name), path.join(name)).unwrap();
            }
            fs::remove_file(path.join(name)).unwrap();
            if kind == "FIFO" {
                let made = Command::new("mkfifo")
                    .arg(path.join(name))
                    .status()
                    .unwrap();
                assert!(made.success());
            } else {
                symlink(made.join(name), path.join(name)).unwrap();
            }
            let opened = Db::open(&path, small()).and_then(|db| db.get(b"a").map(drop));
            // Without this file nothing is lost. Anything else of its name goes with the next persist.
            if name == "PERSISTS" {
                opened.unwrap();
                let db = Db::open(&path, small()).unwrap();
                db.put(b"d", b"4").unwrap();
                db.persist().unwrap();
                let left = fs::symlink_metadata(path.join(name));
                assert!(left.is_err() || left.unwrap().is_file(), "{kind}");
                assert!(made.join(name).is_file());
                continue;
            }
            assert!(opened.is_err(), "{name}: {kind}");
            let error = opened.unwrap_err().to_string();
            assert!(error.contains(name.as_str()), "{name}: {error}");
            assert!(error.contains(kind), "{name}: {error}");
            if name == "LOCK" {
                continue;
            }
            // Repair puts it out of the way, and the store opens.
            terrace_tools::repair::repair(&path, small(), |_, _| {}).unwrap();
            Db::open(&path, small()).unwrap().close().unwrap();
        }
    }
}

#[test]
fn a_foreign_entry_that_cannot_be_examined_disturbs_nobody() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    Db::open(&path, small()).unwrap().put(b"a", b"1").unwrap();
    symlink("note", path.join("note")).unwrap();
    let db = Db::open(&path, small()).unwrap();
    assert_eq!(keys(&db), ["a"]);
    db.close().unwrap();
    terrace_tools::repair::repair(&path, small(), |_, _| {}).unwrap();
}

#[test]
fn new_files_are_the_owners_alone_unless_the_option_widens_them() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let usual = root.path().join("usual");
    fs::create_dir(&usual).unwrap();
    fs::write(usual.join("file"), b"").unwrap();
    for access in [FileAccess::Owner, FileAccess::Umask] {
        let path = root.path().join(format!("{access:?}"));
        let options = Options {
            file_access: access,
            region_dir: Some(root.path().join(format!("{access:?}-region"))),
            ..small()
        };
        let region = options.region_dir.clone().unwrap();
        let copy = root.path().join(format!("{access:?}-copy"));
        let db = Db::open(&path, options).unwrap();
        db.put(b"a", b"1").unwrap();
        db.flush().unwrap();
        db.checkpoint(&copy).unwrap();
        db.close().unwrap();
        let (directory_mode, file_mode) = match access {
            FileAccess::Owner => (0o700, 0o600),
            _ => (mode(&usual), mode(&usual.join("file"))),
        };
        for made in [&path, &region, &copy] {
            assert_eq!(mode(made), directory_mode, "{}", made.display());
            for entry in fs::read_dir(made).unwrap() {
                let file = entry.unwrap().path();
                assert_eq!(mode(&file), file_mode, "{}", file.display());
            }
        }
    }
}

/// The engine reaches files through open directories alone: it joins no path, and asks no storage for
/// the path of a file.
#[test]
fn the_engine_joins_no_paths() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut offences = Vec::new();
    for source in ["src", "../lsm/src", "../region/src"].map(|source| root.join(source)) {
        visit(&source, &mut |path, text| {
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            for (number, line) in code.lines().enumerate() {
                let line = line.trim();
                let is_comment = line.starts_with("//");
                let is_join = line.contains(".join(")
                    && !line.contains(".join()")
                    && !line.contains(".join(\"");
                let by_path = [
                    "open",
                    "rename",
                    "remove",
                    "link",
                    "list",
                    "lock",
                    "sync_directory",
                ];
                let is_by_path = by_path
                    .iter()
                    .any(|call| line.contains(&format!("storage.{call}(")));
                if !is_comment && (is_join || is_by_path) {
                    offences.push(format!("{}:{}: {line}", path.display(), number + 1));
                }
            }
        });
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

/// Calls `see` with every source file but those of tests, and the two that name a socket.
fn visit(directory: &Path, see: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        // A process that asks an owner has no directory open.
        let is_left_out = name.contains("tests")
            || ["golden.rs", "fuzz.rs", "testing.rs"].contains(&name)
            || path.ends_with("src/simulated/mod.rs")
            || path.ends_with("socket/address.rs")
            || path.ends_with("socket/client.rs");
        if is_left_out {
            continue;
        }
        if path.is_dir() {
            visit(&path, see);
        } else {
            see(&path, &fs::read_to_string(&path).unwrap());
        }
    }
}
