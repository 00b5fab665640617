//! Renames of a keyspace: work that goes on, refusals, and the state after crashes and failures.

use std::sync::atomic::{AtomicBool, Ordering};

use terrace::{
    Compression, Db, Error, IterOptions, KeyspaceOptions, Options, Result, WriteBatch, WriteOptions,
};
use terrace_storage::CrashKind;
use terrace_tools::explain::{describe_compaction, explain_compaction};

use super::loops::{check_prefix, crash_at_every_step, fail_at_every_operation};
use super::support::script::tiny;
use super::{STORE, machine, names, open, rows};

fn is_invalid<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::InvalidArgument(_)))
}

fn is_missing<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::NoKeyspace { .. }))
}

/// Returns a store in which each flush leaves a table: with larger arenas the next takes it along.
fn with_keyspace(name: &str) -> Db {
    let mut options = Options::in_memory();
    options.arena_bytes = 1 << 20;
    let db = Db::open(STORE, options).unwrap();
    db.create_keyspace(name, KeyspaceOptions::default())
        .unwrap();
    db
}

#[test]
fn handles_batches_and_snapshots_go_on_under_the_new_name() {
    let db = with_keyspace("old");
    let handle = db.keyspace("old").unwrap();
    handle.put(b"key", b"before").unwrap();
    let snapshot = db.snapshot();
    let mut batch = WriteBatch::new();
    batch.put_in(&handle, b"key", b"batched").unwrap();
    let mut iterator = handle.iter(IterOptions::default()).unwrap();
    iterator.seek_to_first().unwrap();

    db.rename_keyspace("old", "new").unwrap();
    assert_eq!(handle.name(), "new");
    assert_eq!(names(&db), ["default", "new"]);
    assert!(is_missing(db.keyspace("old")));
    assert_eq!(db.keyspace("new").unwrap().id(), handle.id());
    db.write(batch, WriteOptions::default()).unwrap();
    assert_eq!(
        handle.get(b"key").unwrap().as_deref(),
        Some(&b"batched"[..])
    );
    let before = handle.get_at(&snapshot, b"key").unwrap();
    assert_eq!(before.as_deref(), Some(&b"before"[..]));
    assert_eq!(iterator.value(), b"before");
    iterator.seek(b"key").unwrap();
    assert_eq!(iterator.value(), b"before");
}

#[test]
fn a_handle_of_a_dropped_keyspace_tells_the_name_that_it_was_opened_by() {
    let db = with_keyspace("old");
    let first = db.keyspace("old").unwrap();
    db.rename_keyspace("old", "new").unwrap();
    let second = db.keyspace("new").unwrap();
    db.drop_keyspace("new").unwrap();
    assert_eq!((first.name(), second.name()), ("old".into(), "new".into()));
}

#[test]
fn names_that_no_keyspace_may_take_are_refused() {
    let db = with_keyspace("first");
    db.create_keyspace("second", KeyspaceOptions::default())
        .unwrap();
    for taken in ["second", "default", "first", "", &"n".repeat(256)] {
        assert!(is_invalid(db.rename_keyspace("first", taken)), "{taken}");
    }
    assert!(is_invalid(db.rename_keyspace("default", "other")));
    assert!(is_missing(db.rename_keyspace("third", "fourth")));
    assert_eq!(names(&db), ["default", "first", "second"]);
    db.rename_keyspace("first", &"n".repeat(255)).unwrap();
    db.rename_keyspace("second", "first").unwrap();
}

#[test]
fn a_store_that_takes_no_writes_takes_no_new_name() {
    let machine = machine();
    let db = open(&machine);
    db.create_keyspace("old", KeyspaceOptions::default())
        .unwrap();
    db.close().unwrap();
    assert!(matches!(
        db.rename_keyspace("old", "new"),
        Err(Error::Closed)
    ));
    let options = Options {
        read_only: true,
        ..machine.options()
    };
    let db = Db::open(STORE, options).unwrap();
    let (renamed, dropped) = (db.rename_keyspace("old", "new"), db.drop_keyspace("old"));
    assert_eq!(format!("{renamed:?}"), format!("{dropped:?}"));
    assert!(renamed.is_err());
    assert_eq!(names(&db), ["default", "old"]);
}

/// No table of the keyspace is there, before or after.
#[test]
fn a_keyspace_in_arenas_alone_has_its_new_name_after_a_kill() {
    let machine = machine();
    let db = open(&machine);
    let handle = db
        .create_keyspace("old", KeyspaceOptions::default())
        .unwrap();
    handle.put(b"key", b"value").unwrap();
    db.rename_keyspace("old", "new").unwrap();
    assert_eq!(db.statistics().flushes, 0);
    let machine = machine.crash(CrashKind::Kill, 1);
    std::mem::forget((db, handle));
    let db = open(&machine);
    assert_eq!(names(&db), ["default", "new"]);
    let found = db.keyspace("new").unwrap().get(b"key").unwrap();
    assert_eq!(found.as_deref(), Some(&b"value"[..]));
}

#[test]
fn the_options_and_the_new_name_are_there_after_reopening() {
    let machine = machine();
    let db = open(&machine);
    let form = KeyspaceOptions {
        compression: vec![Compression::Zstd],
        block_bytes: 512,
        ..KeyspaceOptions::default()
    };
    db.create_keyspace("old", form).unwrap();
    db.rename_keyspace("old", "new").unwrap();
    db.close().unwrap();
    let db = open(&machine);
    db.rename_keyspace("new", "newer").unwrap();
    let keyspace = db.keyspace("newer").unwrap();
    keyspace.put(b"key", [7; 3000]).unwrap();
    db.flush().unwrap();
    let bytes = keyspace.approximate_bytes(..).unwrap();
    assert!(bytes < 2000, "Zstandard from level 0 on: {bytes} bytes");
    db.close().unwrap();
    assert_eq!(names(&open(&machine)), ["default", "newer"]);
}

#[test]
fn the_name_of_a_dropped_keyspace_is_free_and_its_rows_stay_gone() {
    let machine = machine();
    let db = open(&machine);
    for name in ["cities", "cities.new"] {
        let keyspace = db
            .create_keyspace(name, KeyspaceOptions::default())
            .unwrap();
        keyspace.put(name.as_bytes(), b"").unwrap();
        keyspace.put(b"name", name.as_bytes()).unwrap();
    }
    db.drop_keyspace("cities").unwrap();
    db.rename_keyspace("cities.new", "cities").unwrap();
    let machine = machine.crash(CrashKind::PowerCut, 3);
    std::mem::forget(db);
    let db = open(&machine);
    assert_eq!(names(&db), ["default", "cities"]);
    let cities = db.keyspace("cities").unwrap();
    let found = cities.get(b"name").unwrap();
    assert_eq!(found.as_deref(), Some(&b"cities.new"[..]));
    assert_eq!(rows(&db, "cities"), 2);
}

#[test]
fn reports_and_past_merges_have_the_present_name() {
    let db = with_keyspace("old");
    let keyspace = db.keyspace("old").unwrap();
    for value in [b"1", b"2"] {
        keyspace.put(b"key", value).unwrap();
        db.flush().unwrap();
    }
    keyspace.compact_range(..).unwrap();
    db.rename_keyspace("old", "new").unwrap();
    let past = |db: &Db| db.compactions().pop().unwrap().keyspace;
    assert_eq!(past(&db), "new");
    let levels = db.levels();
    assert_eq!(levels.compactions.last().unwrap().keyspace, "new");
    assert_eq!(levels.keyspaces[1].name, "new");
    assert_eq!(explain_compaction(&db).keyspaces[1].name, "new");
    assert!(describe_compaction(&db, "new").is_ok());
    assert!(is_missing(describe_compaction(&db, "old")));
    // Another keyspace of the old name has no part in it.
    db.create_keyspace("old", KeyspaceOptions::default())
        .unwrap();
    assert_eq!(past(&db), "new");
    db.drop_keyspace("new").unwrap();
    assert!(db.compactions().iter().all(|past| past.keyspace == "old"));
}

/// Dies at every step of a rename: the keyspace has the one name or the other, never both or none. With
/// the new name it has every write before, too.
#[test]
fn a_crash_leaves_the_old_name_or_the_new_one() {
    for kind in [CrashKind::Kill, CrashKind::PowerCut] {
        let (mut old, mut new) = (0, 0);
        let rename = |db: &Db| db.rename_keyspace("doomed", "saved");
        crash_at_every_step(kind, rename, |db, is_done, step| {
            if names(db) == ["default", "saved"] {
                let found = (rows(db, "default"), rows(db, "saved"));
                assert_eq!(found, (60, 60), "step {step}");
                new += 1;
            } else {
                assert_eq!(names(db), ["default", "doomed"], "step {step}");
                assert!(!is_done);
                check_prefix(db, "doomed", kind);
                old += 1;
            }
        });
        assert!(old >= 1 && new >= 1, "{kind:?}: {old} old, {new} new");
    }
}

#[test]
fn a_failed_rename_changes_nothing_or_poisons() {
    let rename = |db: &Db| db.rename_keyspace("doomed", "saved");
    let failures = fail_at_every_operation(rename, Result::is_err, |failing, renamed| {
        let db = failing.db;
        let has = |name| names(db) == ["default", name];
        assert!(has("doomed") || has("saved"), "{:?}", names(db));
        let name = if has("saved") { "saved" } else { "doomed" };
        assert_eq!(rows(db, name), 60);
        if failing.reopened {
            assert!(failing.poisoned || has("saved"), "{renamed:?}");
        } else if !failing.poisoned {
            assert_eq!(has("doomed"), renamed.is_err());
            if has("doomed") {
                rename(db).unwrap();
            }
        }
    });
    assert!(failures >= 2, "{failures}");
}

/// Writers, readers, flushes and merges go on while the name changes.
#[test]
fn renaming_under_load_disturbs_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), tiny(Options::default())).unwrap();
    let form = tiny(Options::default()).default_keyspace;
    let keyspace = db.create_keyspace("name 0", form).unwrap();
    let is_over = AtomicBool::new(false);
    let rename = |round| {
        db.rename_keyspace(&format!("name {round}"), &format!("name {}", round + 1))?;
        std::thread::sleep(std::time::Duration::from_millis(2));
        Ok((keyspace.name(), db.keyspaces().len()))
    };
    let (written, renamed) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = 0u32;
            while !is_over.load(Ordering::Relaxed) {
                let key = (written % 700).to_be_bytes();
                keyspace.put(key, [3; 200]).unwrap();
                written += 1;
            }
            written
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for entry in keyspace.iter(IterOptions::default()).unwrap().entries() {
                    assert_eq!(entry.unwrap().1, [3; 200]);
                }
            }
        });
        // No panic here: the others would go on for ever.
        let renamed: Result<Vec<_>> = (0..60).map(rename).collect();
        is_over.store(true, Ordering::Relaxed);
        (writer.join().unwrap(), renamed.unwrap())
    });
    for (round, found) in (1..).zip(renamed) {
        assert_eq!(found, (format!("name {round}"), 2));
    }
    db.flush().unwrap();
    db.compact().unwrap();
    let statistics = db.statistics();
    assert_eq!(statistics.step_failures, 0, "{:?}", statistics.last_error);
    assert_eq!(rows(&db, "name 60"), 700.min(written as usize));
    drop(keyspace);
    db.close().unwrap();
}
