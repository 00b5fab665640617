//! Compare-and-set and fetch-and-update.

use std::collections::HashSet;
use std::sync::Mutex;

use terrace::{Db, Options, WriteBatch, WriteOptions};

mod support;
use support::script::tiny;

fn store() -> (tempfile::TempDir, Db) {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), tiny(Options::default())).unwrap();
    (directory, db)
}

fn count(bytes: Option<&[u8]>) -> u64 {
    bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

#[test]
fn compare_and_set_takes_none_for_an_absent_key() {
    let (_directory, db) = store();
    assert!(!db.compare_and_set(b"key", Some(b""), Some(b"1")).unwrap());
    assert!(db.compare_and_set(b"key", None, Some(b"1")).unwrap());
    assert!(!db.compare_and_set(b"key", None, Some(b"2")).unwrap());
    db.flush().unwrap();
    assert!(db.compare_and_set(b"key", Some(b"1"), None).unwrap());
    assert!(db.get(b"key").unwrap().is_none());
    assert!(db.compare_and_set(b"key", None, Some(b"3")).unwrap());
}

/// Every increment counts, whatever flushes and merges do, and each value is fetched once.
#[test]
fn no_update_is_lost() {
    const THREADS: u64 = 4;
    const EACH: u64 = 400;
    let (_directory, db) = store();
    let fetched = Mutex::new(HashSet::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, fetched) = (&db, &fetched);
            scope.spawn(move || {
                for round in 0..EACH {
                    let more =
                        |found: Option<&[u8]>| Some((count(found) + 1).to_le_bytes().to_vec());
                    let before = db.fetch_and_update(b"counter", more).unwrap();
                    assert!(fetched.lock().unwrap().insert(count(before.as_deref())));
                    // Arenas fill and are flushed.
                    let mut batch = WriteBatch::new();
                    batch
                        .put(&(thread << 32 | round).to_be_bytes(), &[1; 200])
                        .unwrap();
                    db.write(batch, WriteOptions::default()).unwrap();
                }
            });
        }
    });
    assert_eq!(
        count(db.get(b"counter").unwrap().as_deref()),
        THREADS * EACH
    );
    assert!(db.statistics().flushes > 2);
}
