//! Transactions of one thread; those of many are in tests/transactions.rs.

use std::ops::Bound;

use crate::{
    Db, Error, Isolation, IterOptions, KeyspaceOptions, Options, ReadOptions, Transaction,
    TransactionOptions, Unchanged, WriteBatch, WriteOptions,
};

fn store() -> Db {
    Db::open("/store", Options::in_memory()).unwrap()
}

fn snapshot_level() -> TransactionOptions {
    TransactionOptions {
        isolation: Isolation::Snapshot,
        ..TransactionOptions::default()
    }
}

/// Returns the key that a refused commit names.
fn conflict(transaction: Transaction) -> Option<Vec<u8>> {
    match transaction.commit() {
        Ok(()) => None,
        Err(Error::Conflict { key, .. }) => Some(key),
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn it_can_be_sent_and_kept() {
    fn is_kept<T: Send + 'static>() {}
    is_kept::<Transaction>();
}

#[test]
fn it_sees_its_own_writes_and_no_later_ones_of_others() {
    let db = store();
    db.put("a", "1").unwrap();
    let mut transaction = db.transaction().unwrap();
    transaction.put("b", "2").unwrap();
    transaction.delete("a").unwrap();
    db.put("c", "3").unwrap();
    assert_eq!(transaction.get("a").unwrap(), None);
    assert_eq!(transaction.get("b").unwrap().unwrap(), "2");
    assert_eq!(transaction.get("c").unwrap(), None);
    assert_eq!(db.get("a").unwrap().unwrap(), "1");
    let values = transaction.multi_get(&["c", "b", "a"]).unwrap();
    assert_eq!(
        values.iter().map(Option::is_some).collect::<Vec<_>>(),
        [false, true, false]
    );
    drop(transaction);
    assert!(db.contains_key("a").unwrap() && !db.contains_key("b").unwrap());
}

#[test]
fn a_commit_is_refused_for_what_was_read_alone() {
    let db = store();
    for (reads, written, refused) in [
        ("a", "a", true),
        ("a", "b", false),
        ("absent", "absent", true),
    ] {
        let mut transaction = db.transaction().unwrap();
        transaction.get(reads).unwrap();
        transaction.put("z", "own").unwrap();
        db.put(written, "foreign").unwrap();
        let key = refused.then(|| reads.as_bytes().to_vec());
        assert_eq!(conflict(transaction), key, "{reads} {written}");
    }
    let mut blind = db.transaction().unwrap();
    blind.put("a", "own").unwrap();
    db.put("a", "foreign").unwrap();
    assert_eq!(conflict(blind), None);
    let reader = db.transaction().unwrap();
    reader.get("a").unwrap();
    db.put("a", "foreign").unwrap();
    assert_eq!(conflict(reader), None, "it writes nothing");
}

#[test]
fn the_snapshot_level_depends_on_writes_and_on_gets_for_update() {
    let db = store();
    for (read, is_for_update, written, refused) in [
        ("a", false, "a", false),
        ("a", true, "a", true),
        ("a", true, "b", false),
        ("a", false, "z", true),
    ] {
        let mut transaction = db.transaction_with(snapshot_level()).unwrap();
        match is_for_update {
            true => transaction.get_for_update(read).unwrap(),
            false => transaction.get(read).unwrap(),
        };
        transaction.put("z", "own").unwrap();
        db.put(written, "foreign").unwrap();
        assert_eq!(conflict(transaction).is_some(), refused, "{read} {written}");
    }
    let mut transaction = db.transaction_with(snapshot_level()).unwrap();
    transaction.delete_range("m", "p").unwrap();
    db.put("n", "foreign").unwrap();
    assert_eq!(conflict(transaction), Some(b"n".to_vec()));
}

/// The walk of one iterator, the keys that others write, and whether the commit is refused.
type Walk = (fn(&Transaction), &'static str, bool);

#[test]
fn ranges_count_as_far_as_iterators_came() {
    let walks: &[Walk] = &[
        (|t| _ = t.range(..).unwrap().next(), "a", true),
        (|t| _ = t.range(..).unwrap().next(), "b", true),
        (|t| _ = t.range(..).unwrap().next(), "c", false),
        (|t| _ = t.range("b".."d").unwrap().count(), "c", true),
        (|t| _ = t.range("b".."d").unwrap().count(), "d", false),
        (|t| _ = t.range("bb".."c").unwrap().count(), "bc", true),
        (|t| _ = t.range("bb".."c").unwrap().count(), "c", false),
        (|t| _ = t.range("x"..).unwrap().count(), "y", true),
        (|t| _ = t.range(..).unwrap().next_back(), "i", true),
        (|t| _ = t.range(..).unwrap().next_back(), "h", true),
        (|t| _ = t.range(..).unwrap().next_back(), "g", false),
        (
            |t| _ = t.range(..).unwrap().rev().take(2).count(),
            "g",
            true,
        ),
        (
            |t| _ = t.range(..).unwrap().rev().take(2).count(),
            "e",
            false,
        ),
        (|t| drop(t.range(..).unwrap()), "b", false),
        (
            |t| {
                let mut iterator = t.iter(IterOptions::default()).unwrap();
                iterator.seek("c").unwrap();
                iterator.prev().unwrap();
                iterator.seek("g").unwrap();
                std::mem::forget(iterator);
            },
            "c",
            true,
        ),
        (
            |t| {
                let mut iterator = t.iter(IterOptions::default()).unwrap();
                iterator.seek("c").unwrap();
                iterator.prev().unwrap();
                iterator.seek("g").unwrap();
            },
            "e",
            false,
        ),
        (
            |t| {
                let mut iterator = t.iter(IterOptions::default()).unwrap();
                iterator.seek_for_prev("e").unwrap();
                assert_eq!(iterator.key(), b"d");
            },
            "e",
            true,
        ),
        (
            |t| {
                let options = IterOptions {
                    lower: Bound::Excluded(b"b".to_vec()),
                    ..IterOptions::default()
                };
                let mut iterator = t.iter(options).unwrap();
                iterator.seek("a").unwrap();
                assert_eq!(iterator.key(), b"d");
            },
            "b",
            false,
        ),
    ];
    for (number, (walk, written, refused)) in walks.iter().enumerate() {
        let db = store();
        for key in ["b", "d", "f", "h"] {
            db.put(key, "value").unwrap();
        }
        let mut transaction = db.transaction().unwrap();
        walk(&transaction);
        transaction.put("z", "own").unwrap();
        db.put(written, "foreign").unwrap();
        let key = refused.then(|| written.as_bytes().to_vec());
        assert_eq!(conflict(transaction), key, "walk {number}");
    }
}

#[test]
fn foreign_ranges_loads_and_dropped_keyspaces_are_writes() {
    let db = store();
    let other = db
        .create_keyspace("other", KeyspaceOptions::default())
        .unwrap();
    let begin = || {
        let mut transaction = db.transaction().unwrap();
        transaction.get("k").unwrap();
        transaction.get_in(&other, "k").unwrap();
        assert_eq!(transaction.range("p".."q").unwrap().count(), 0);
        transaction.put("z", "own").unwrap();
        transaction
    };
    assert_eq!(conflict(begin()), None);

    let transaction = begin();
    db.delete_range("a", "l").unwrap();
    assert_eq!(conflict(transaction), Some(b"k".to_vec()));

    let transaction = begin();
    db.delete_range("a", "k").unwrap();
    assert_eq!(conflict(transaction), None);

    let transaction = begin();
    db.delete_range("pp", "z").unwrap();
    assert_eq!(conflict(transaction), Some(b"pp".to_vec()));

    let transaction = begin();
    let mut load = db.ingest().unwrap();
    load.put("pq", "loaded").unwrap();
    load.finish().unwrap();
    assert_eq!(conflict(transaction), Some(b"pq".to_vec()));
    db.delete("pq").unwrap();

    let transaction = begin();
    db.drop_keyspace("other").unwrap();
    assert_eq!(conflict(transaction), Some(b"k".to_vec()));
}

/// A flush, or a merge, of foreign writes is no conflict, and hides none.
#[test]
fn flushes_and_merges_neither_refuse_nor_hide() {
    let db = store();
    for (written, refused) in [("a", true), ("b", false), ("pp", true), ("q", false)] {
        for merges in [false, true] {
            let mut transaction = db.transaction().unwrap();
            transaction.get("a").unwrap();
            assert_eq!(transaction.range("p".."q").unwrap().count(), 0);
            transaction.put("z", "own").unwrap();
            db.put(written, "foreign").unwrap();
            db.flush().unwrap();
            if merges {
                db.compact().unwrap();
            }
            let key = refused.then(|| written.as_bytes().to_vec());
            assert_eq!(conflict(transaction), key, "{written}, merges: {merges}");
            db.delete(written).unwrap();
        }
    }
}

#[test]
fn many_foreign_writes_are_looked_up_and_found() {
    let db = store();
    for written in [None, Some("a"), Some("pp")] {
        let mut transaction = db.transaction().unwrap();
        transaction.get("a").unwrap();
        assert_eq!(transaction.range("p".."q").unwrap().count(), 0);
        assert_eq!(transaction.range("x"..).unwrap().count(), 0);
        transaction.put("own", "own").unwrap();
        let mut batch = WriteBatch::new();
        for number in 0..6_000u32 {
            batch.put(format!("m{number}"), "foreign").unwrap();
        }
        if let Some(written) = written {
            batch.put(written, "foreign").unwrap();
        }
        db.write(batch, WriteOptions::default()).unwrap();
        assert_eq!(
            conflict(transaction),
            written.map(|key| key.as_bytes().to_vec())
        );
        for key in ["a", "pp"] {
            db.delete(key).unwrap();
        }
    }
}

#[test]
fn savepoints_take_writes_back_and_iterators_keep_theirs() {
    let db = store();
    let mut transaction = db.transaction().unwrap();
    let mut other = db.transaction().unwrap();
    transaction.put("a", "1").unwrap();
    let first = transaction.savepoint();
    transaction.put("a", "2").unwrap();
    transaction.put("b", "2").unwrap();
    let second = transaction.savepoint();
    let mut of_puts = transaction.range(..).unwrap();
    transaction.delete_range("a", "c").unwrap();
    let mut iterator = transaction.iter(IterOptions::default()).unwrap();
    iterator.seek_to_first().unwrap();
    assert!(!iterator.valid());
    transaction.roll_back_to(second).unwrap();
    assert_eq!(transaction.get("a").unwrap().unwrap(), "2");
    iterator.seek_to_first().unwrap();
    assert!(!iterator.valid(), "it was made under the deleted range");
    transaction.roll_back_to(first).unwrap();
    assert_eq!(transaction.get("a").unwrap().unwrap(), "1");
    let shown = of_puts.next_back().unwrap().unwrap();
    assert_eq!(shown, (b"b".to_vec(), b"2".to_vec()));
    drop(of_puts);
    assert!(transaction.roll_back_to(second).is_err());
    other.savepoint();
    assert!(other.roll_back_to(first).is_err(), "it is another one's");
    drop(iterator);
    transaction.commit().unwrap();
    assert_eq!(db.range(..).unwrap().count(), 1);
}

#[test]
fn a_transaction_that_grows_too_large_says_so_and_can_be_committed() {
    let db = store();
    let options = TransactionOptions {
        max_transaction_bytes: 4 << 10,
        ..TransactionOptions::default()
    };
    let mut transaction = db.transaction_with(options).unwrap();
    transaction.put("a", "1").unwrap();
    let refused = transaction.put("b", vec![0; 8 << 10]).unwrap_err();
    assert!(
        matches!(refused, Error::TransactionTooLarge { .. }),
        "{refused}"
    );
    assert_eq!(transaction.get("b").unwrap(), None);
    transaction.commit().unwrap();
    assert_eq!(db.range(..).unwrap().count(), 1);

    let transaction = db.transaction_with(options).unwrap();
    let read = (0..1_000u32).try_for_each(|key| transaction.get(key.to_be_bytes()).map(drop));
    assert!(matches!(read, Err(Error::TransactionTooLarge { .. })));
}

/// Few megabytes of writes to each of many transactions are more than the store may take.
#[test]
fn transactions_take_their_memory_from_a_bounded_store() {
    let options = Options {
        memory_bytes: Some(64 << 20),
        ..Options::in_memory()
    };
    let db = Db::open("/store", options).unwrap();
    let held_bytes = || db.own_store().unwrap().files.tables.blocks().held_bytes();
    let before_bytes = held_bytes();
    let mut small = db.transaction().unwrap();
    small.put("small", vec![0; 1000]).unwrap();
    assert_eq!(held_bytes(), before_bytes, "small ones are in the reserve");
    let mut open = Vec::new();
    let refused = (0..100).find_map(|_| {
        open.push(db.transaction().unwrap());
        open.last_mut()?.put("a", vec![0; 2 << 20]).err()
    });
    let refused = refused.unwrap();
    let Error::TransactionTooLarge { bytes, max_bytes } = refused else {
        panic!("{refused}");
    };
    let taken_bytes = held_bytes() - before_bytes;
    assert!(taken_bytes >= 2 << 20 && taken_bytes <= max_bytes);
    assert!(bytes > max_bytes && bytes < max_bytes + (3 << 20));
    open.pop();
    open.pop().unwrap().commit().unwrap();
    small.commit().unwrap();
    open.push(db.transaction().unwrap());
    open.last_mut().unwrap().put("b", vec![0; 2 << 20]).unwrap();
    drop(open);
    assert_eq!(held_bytes(), before_bytes, "and all of it is given back");

    // An iterator keeps the writes that it shows, whatever becomes of the transaction.
    let mut transaction = db.transaction_with(snapshot_level()).unwrap();
    let savepoint = transaction.savepoint();
    transaction.put("c", vec![0; 1 << 20]).unwrap();
    let iterator = transaction.iter(IterOptions::default()).unwrap();
    transaction.roll_back_to(savepoint).unwrap();
    assert!(
        held_bytes() - before_bytes >= 2 << 20,
        "the copy counts, too"
    );
    drop(transaction);
    assert!(held_bytes() - before_bytes >= 1 << 20);
    drop(iterator);
    assert_eq!(held_bytes(), before_bytes);

    // Keys that are read again take no more memory, though the store's bound is near.
    let mut full = Vec::new();
    while held_bytes() - before_bytes + (256 << 10) < max_bytes {
        full.push(db.transaction().unwrap());
        full.last_mut()
            .unwrap()
            .put("d", vec![0; 100 << 10])
            .unwrap();
    }
    let reader = db.transaction().unwrap();
    for key in 0..100_000u32 {
        reader.get((key % 10).to_be_bytes()).unwrap();
    }
}

#[test]
fn after_a_close_it_is_closed_and_it_keeps_the_store_open() {
    let db = store();
    let mut transaction = db.transaction().unwrap();
    transaction.put("a", "1").unwrap();
    let kept = db.transaction().unwrap();
    db.close().unwrap();
    assert!(matches!(transaction.get("a"), Err(Error::Closed)));
    assert!(matches!(transaction.put("a", "1"), Err(Error::Closed)));
    assert!(matches!(transaction.commit(), Err(Error::Closed)));
    assert!(matches!(kept.commit(), Err(Error::Closed)));

    let db = store();
    let mut transaction = db.transaction().unwrap();
    drop(db);
    transaction.put("a", "1").unwrap();
    transaction.commit().unwrap();
}

#[test]
fn a_keyspace_of_another_store_is_refused() {
    let (db, other) = (store(), store());
    let mut transaction = db.transaction().unwrap();
    assert!(matches!(
        transaction.get_in(&other, "a"),
        Err(Error::InvalidArgument(_))
    ));
    assert!(matches!(
        transaction.put_in(&other, "a", "b"),
        Err(Error::InvalidArgument(_))
    ));
}

#[test]
fn transact_gives_up_after_its_attempts_and_names_the_key() {
    let db = store();
    let mut calls = 0;
    let options = TransactionOptions {
        max_attempts: 3,
        ..TransactionOptions::default()
    };
    let refused = db.transact_with(options, |transaction| {
        calls += 1;
        transaction.get("hot")?;
        transaction.put("z", "own")?;
        db.put("hot", "foreign")
    });
    let refused: Error = refused.unwrap_err();
    assert_eq!(calls, 3);
    assert!(refused.to_string().contains("key \"hot\""), "{refused}");
    assert!(db.get("z").unwrap().is_none());
}

#[test]
fn a_batch_is_written_unless_a_named_key_was() {
    let db = store();
    let other = db
        .create_keyspace("other", KeyspaceOptions::default())
        .unwrap();
    let write = |unchanged: fn(Unchanged, &crate::Keyspace) -> Unchanged, foreign: &str| {
        let snapshot = db.snapshot();
        db.put(foreign, "foreign").unwrap();
        other.put(foreign, "foreign").unwrap();
        let mut batch = WriteBatch::new();
        batch.put("own", "own").unwrap();
        let unchanged = unchanged(Unchanged::since(&snapshot), &other);
        match db.write_if_unchanged(batch, WriteOptions::default(), unchanged) {
            Ok(()) => None,
            Err(Error::Conflict { keyspace, key }) => Some((keyspace, key)),
            Err(error) => panic!("{error:?}"),
        }
    };
    let conflict = |keyspace: &str, key: &str| Some((keyspace.to_owned(), key.as_bytes().to_vec()));
    assert_eq!(write(|since, _| since, "a"), None);
    assert_eq!(write(|since, _| since.key("b"), "a"), None);
    assert_eq!(
        write(|since, _| since.key("a"), "a"),
        conflict("default", "a")
    );
    assert_eq!(
        write(|since, other| since.key_in(other, "a"), "a"),
        conflict("other", "a")
    );
    assert_eq!(
        write(|since, _| since.range("a".."c"), "b"),
        conflict("default", "b")
    );
    assert_eq!(write(|since, _| since.range("a".."c"), "c"), None);
    assert_eq!(
        write(|since, other| since.range_in(other, "b"..), "c"),
        conflict("other", "c")
    );

    let stranger = store();
    let snapshot = stranger.snapshot();
    let mut batch = WriteBatch::new();
    batch.put("own", "own").unwrap();
    for unchanged in [
        Unchanged::since(&snapshot).key("a"),
        Unchanged::since(&db.snapshot()).key_in(&stranger, "a"),
    ] {
        let refused = db.write_if_unchanged(batch.clone(), WriteOptions::default(), unchanged);
        assert!(
            matches!(refused, Err(Error::InvalidArgument(_))),
            "{refused:?}"
        );
    }
}

#[test]
fn statistics_count_transactions_and_tell_the_age_of_the_oldest() {
    let db = store();
    let before = db.statistics().transactions;
    assert_eq!((before.open, before.oldest_s), (0, None));
    let oldest = db.transaction().unwrap();
    oldest.get("a").unwrap();
    let mut refused = db.transaction().unwrap();
    refused.get("a").unwrap();
    refused.put("b", "own").unwrap();
    db.put("a", "foreign").unwrap();
    assert!(conflict(refused).is_some());
    let mut committed = db.transaction().unwrap();
    committed.put("b", "own").unwrap();
    committed.commit().unwrap();
    let now = db.statistics().transactions;
    assert_eq!((now.open, now.committed, now.conflicts), (1, 1, 1));
    assert!(now.oldest_s.is_some());
    oldest.commit().unwrap();
    let after = db.statistics().transactions;
    assert_eq!((after.open, after.committed), (0, 1), "it wrote nothing");
}

/// A read of memory alone answers from arenas and caches, and never reads a table's file.
#[test]
fn a_read_of_memory_alone_would_block_where_a_table_has_to_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let in_memory = ReadOptions {
        memory_only: true,
        ..ReadOptions::default()
    };
    let options = Options {
        read_buffer: crate::ReadBufferOptions {
            share_percent: 0,
            ..crate::ReadBufferOptions::default()
        },
        ..Options::default()
    };
    let db = Db::open(&path, options.clone()).unwrap();
    db.put("a", "1").unwrap();
    assert_eq!(db.get_with("a", &in_memory).unwrap().unwrap(), "1");
    assert_eq!(db.get_with("b", &in_memory).unwrap(), None);
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);

    let db = Db::open(&path, options).unwrap();
    let read_bytes = || {
        let io = db.statistics().io;
        io.of(terrace_storage::Purpose::Read).read_bytes
    };
    let before = read_bytes();
    let would_block = |answer: crate::Result<_>| matches!(answer, Err(Error::WouldBlock));
    assert!(would_block(db.get_with("a", &in_memory).map(drop)));
    assert!(would_block(db.multi_get(&["a", "0"], &in_memory).map(drop)));
    assert_eq!(read_bytes(), before);
    assert_eq!(db.get("a").unwrap().unwrap(), "1");
    assert_eq!(db.get_with("a", &in_memory).unwrap().unwrap(), "1");
    let values = db.multi_get(&["a"], &in_memory).unwrap();
    assert!(values[0].is_some());
}
