//! Every call in a child.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use terrace::{
    Db, DbIterator, Durability, Error, IterOptions, KeyspaceOptions, Options, PersistMethod,
    ReadOptions, WriteBatch, WriteOptions,
};
use terrace_storage::{
    FailingStorage, FaultFilter, FaultPlan, Operation, Purpose, RealStorage, Storage,
};
use terrace_tools::explain::{describe_compaction, explain_compaction};

use crate::child::{in_child, in_own_process};
use crate::{METHODS, Place, check_reopened, inline, is_forked, key, options, put};

/// Calls every method of a handle, and returns those that were not refused.
fn not_refused(db: &Db) -> Vec<&'static str> {
    let batch = || {
        let mut batch = WriteBatch::new();
        batch.put(b"key", b"value").unwrap();
        batch
    };
    let calls: Vec<(&str, bool)> = vec![
        ("get", is_forked(db.get(b"key"))),
        ("get_at", is_forked(db.get_at(&db.snapshot(), b"key"))),
        (
            "get_with",
            is_forked(db.get_with(b"key", &ReadOptions::default())),
        ),
        (
            "multi_get",
            is_forked(db.multi_get(&[b"key"], &ReadOptions::default())),
        ),
        ("contains_key", is_forked(db.contains_key(b"key"))),
        ("first", is_forked(db.first())),
        ("last", is_forked(db.last())),
        ("iter", is_forked(db.iter(IterOptions::default()))),
        ("put", is_forked(db.put(b"key", b"value"))),
        ("delete", is_forked(db.delete(b"key"))),
        ("delete_range", is_forked(db.delete_range(b"a", b"b"))),
        (
            "compare_and_set",
            is_forked(db.compare_and_set(b"key", None, Some(b"new"))),
        ),
        (
            "fetch_and_update",
            is_forked(db.fetch_and_update(b"key", |_| None)),
        ),
        (
            "set_options",
            is_forked(db.set_options(KeyspaceOptions::default())),
        ),
        ("ingest", is_forked(db.ingest())),
        ("compact_range", is_forked(db.compact_range(..))),
        ("approximate_bytes", is_forked(db.approximate_bytes(..))),
        ("keyspace", is_forked(db.keyspace("default"))),
        (
            "create_keyspace",
            is_forked(db.create_keyspace("new", KeyspaceOptions::default())),
        ),
        (
            "rename_keyspace",
            is_forked(db.rename_keyspace("other", "new")),
        ),
        ("drop_keyspace", is_forked(db.drop_keyspace("other"))),
        (
            "write",
            is_forked(db.write(batch(), WriteOptions::default())),
        ),
        (
            "write with sync",
            is_forked(db.write(batch(), WriteOptions::with_sync(true))),
        ),
        (
            "write nothing",
            is_forked(db.write(WriteBatch::new(), WriteOptions::default())),
        ),
        ("persist", is_forked(db.persist())),
        ("flush", is_forked(db.flush())),
        ("compact", is_forked(db.compact())),
        (
            "checkpoint",
            is_forked(db.checkpoint("/nowhere/that/there/is")),
        ),
        ("verify", is_forked(db.verify(|_, _| {}))),
        (
            "describe_compaction",
            is_forked(describe_compaction(db, "default")),
        ),
        ("close", is_forked(db.close())),
        // No answer is an error here. They say nothing, and why.
        (
            "statistics",
            matches!(db.statistics().poisoned, Some(Error::Forked)),
        ),
        ("time_profile", db.time_profile().paths.is_empty()),
        ("events", db.events().is_empty()),
        ("compactions", db.compactions().is_empty()),
        ("levels", db.levels().keyspaces.is_empty()),
        (
            "levels_with_duplicates",
            db.levels_with_duplicates().keyspaces.is_empty(),
        ),
        (
            "explain_compaction",
            explain_compaction(db).keyspaces.is_empty(),
        ),
        ("keyspaces", db.keyspaces().is_empty()),
    ];
    let failed = calls.into_iter().filter(|(_, is_refused)| !is_refused);
    failed.map(|(name, _)| name).collect()
}

/// Does the same for an iterator that stands on a key.
fn not_refused_by(iterator: &mut DbIterator) -> Vec<&'static str> {
    let is_there = iterator.valid() && iterator.key() == key(0) && iterator.value() == key(0);
    let calls = [
        ("key and value", is_there),
        ("next", is_forked(iterator.next())),
        ("next after that", is_forked(iterator.next())),
        ("prev", is_forked(iterator.prev())),
        ("seek_to_first", is_forked(iterator.seek_to_first())),
        ("seek_to_last", is_forked(iterator.seek_to_last())),
        ("seek", is_forked(iterator.seek(b"key"))),
        ("seek_for_prev", is_forked(iterator.seek_for_prev(b"key"))),
        ("valid", !iterator.valid()),
    ];
    let failed = calls.into_iter().filter(|(_, is_refused)| !is_refused);
    failed.map(|(name, _)| name).collect()
}

#[test]
fn every_call_of_a_child_is_refused() {
    in_own_process(|| {
        for options in METHODS.map(options).into_iter().chain(METHODS.map(inline)) {
            let place = Place::new();
            let db = Db::open(place.store(), options.clone()).unwrap();
            let other = db.create_keyspace("other", Default::default()).unwrap();
            put(&db, 0..100);
            db.flush().unwrap();
            put(&db, 0..100);
            let snapshot = db.snapshot();
            in_child(|| {
                let failed = not_refused(&db);
                eprintln!("not refused: {failed:?}");
                failed.is_empty()
            });
            in_child(|| {
                is_forked(db.get_at(&snapshot, key(1))) && is_forked(other.put(b"key", b"value"))
            });
            let mut iterator = db.iter(IterOptions::default()).unwrap();
            iterator.seek_to_first().unwrap();
            in_child(|| {
                let failed = not_refused_by(&mut iterator);
                eprintln!("not refused: {failed:?}");
                failed.is_empty()
            });
            let mut entries = iterator.entries();
            assert!(entries.next().unwrap().is_ok());
            in_child(|| is_forked(entries.next().unwrap()) && entries.next().is_none());
            assert_eq!(entries.count(), 99);
            drop((db, other));
            check_reopened(&place.store(), options, 100);
        }
    });
}

#[test]
fn a_bulk_load_is_its_parents() {
    in_own_process(|| {
        let place = Place::new();
        let db = Db::open(place.store(), Options::default()).unwrap();
        let mut load = Some(db.ingest().unwrap());
        for number in 0..1_000 {
            let load = load.as_mut().unwrap();
            load.put(key(number), key(number)).unwrap();
        }
        in_child(|| {
            let mut load = load.take().unwrap();
            is_forked(load.put(key(1_000), b"the child's")) && is_forked(load.finish())
        });
        in_child(|| {
            drop(load.take());
            true
        });
        load.unwrap().finish().unwrap();
        drop(db);
        check_reopened(&place.store(), Options::default(), 1_000);
    });
}

/// The locks that the parent's threads held stay held in a child: no call may try one.
#[test]
fn a_child_waits_for_no_lock_that_its_parent_held() {
    in_own_process(|| {
        let place = Place::new();
        let writes = FaultFilter::everything().operations(&[Operation::Write]);
        let gate = FaultPlan::new(writes.purpose(Purpose::Arena));
        let storage = FailingStorage::new(Arc::new(RealStorage), gate.clone());
        let options = Options {
            storage: Arc::new(storage) as Arc<dyn Storage>,
            durability: Some(Durability::CrashSafe),
            ..options(PersistMethod::Written)
        };
        let db = Db::open(place.store(), options).unwrap();
        put(&db, 0..10);
        gate.hold_from(0);
        thread::scope(|scope| {
            // Two: one leads and holds the arena, the other waits in the queue.
            for number in 10..12 {
                let db = &db;
                scope.spawn(move || put(db, number..number + 1));
            }
            while gate.held() == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(20));
            in_child(|| not_refused(&db).is_empty());
            gate.heal();
        });
        drop(db);
        check_reopened(&place.store(), Options::default(), 12);
    });
}
