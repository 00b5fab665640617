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

/// Every increment counts, beside all flushes and merges, and each value is fetched once.
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
                        .put((thread << 32 | round).to_be_bytes(), [1; 200])
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

/// Writes since the key was read may be in tables by now, where the leader does not look: the
/// update is asked again.
#[test]
fn a_flush_in_between_is_a_conflict() {
    let (_directory, db) = store();
    let mut asked = 0;
    let fetched = db.fetch_and_update(b"key", |found| {
        asked += 1;
        if asked == 1 {
            db.put(b"key", b"theirs").unwrap();
            db.flush().unwrap();
        }
        Some([found.unwrap_or_default(), b"+"].concat())
    });
    assert_eq!(fetched.unwrap().as_deref(), Some(&b"theirs"[..]));
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"theirs+"[..]));
    assert_eq!(asked, 2);
}

#[test]
fn a_write_that_may_not_stall_is_refused_where_the_others_wait() {
    use terrace_storage::{FailingStorage, Fault, FaultFilter, FaultPlan, Purpose, RealStorage};
    let directory = tempfile::tempdir().unwrap();
    let flushes = FaultPlan::new(FaultFilter::everything().purpose(Purpose::Flush));
    flushes.fail_from(0, Fault::NoSpace);
    let storage = FailingStorage::new(std::sync::Arc::new(RealStorage), flushes.clone());
    let db = Db::open(
        directory.path().join("store"),
        tiny(Options {
            storage: std::sync::Arc::new(storage),
            ..Options::default()
        }),
    )
    .unwrap();
    let no_stall = WriteOptions {
        no_stall: true,
        ..WriteOptions::default()
    };
    let mut refused = None;
    for number in 0..2000u32 {
        let mut batch = WriteBatch::new();
        batch.put(number.to_be_bytes(), [1; 100]).unwrap();
        if let Err(error) = db.write(batch, no_stall) {
            refused = Some((number, error));
            break;
        }
    }
    let (number, error) = refused.expect("nothing is flushed, so the buffers fill");
    assert!(matches!(error, terrace::Error::WouldStall), "{error}");
    assert!(number > 50, "an arena is filled first");
    assert!(db.get(number.to_be_bytes()).unwrap().is_none());
    flushes.heal();
    db.flush().unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"key", b"value").unwrap();
    db.write(batch, no_stall).unwrap();
}
