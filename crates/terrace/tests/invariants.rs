//! A little of everything that the engine does, so that a broken invariant meets its assertion. The
//! results are the business of other tests.

mod support;

use support::machine::{Machine, Method};
use terrace::{Background, Db, Options, WriteBatch, WriteOptions};

/// Returns a store whose arenas are full soon, and whose work is done within the calls.
fn store() -> Db {
    let options = Options {
        arena_bytes: 256 << 10,
        background: Background::Inline,
        ..Machine::new(Method::Written, 1).options()
    };
    Db::open("/store", options).unwrap()
}

fn fill(db: &Db, number: u32) {
    for key in 0..40_u32 {
        let key = (key * 7 + number).to_be_bytes();
        db.put(key, vec![number as u8; 8 << 10]).unwrap();
    }
}

#[test]
fn writes_through_many_arenas() {
    let db = store();
    for number in 0..8 {
        fill(&db, number);
        let mut batch = WriteBatch::new();
        batch.delete(number.to_be_bytes()).unwrap();
        db.write(batch, WriteOptions::with_sync(true)).unwrap();
    }
    db.close().unwrap();
}

#[test]
fn snapshots_beside_flushes() {
    let db = store();
    for number in 0..3 {
        fill(&db, number);
        let snapshot = db.snapshot();
        db.flush().unwrap();
        drop(snapshot);
    }
}

#[test]
fn tables_from_outside_between_writes() {
    let db = store();
    for number in 0..4_u32 {
        fill(&db, number);
        let mut tables = db.ingest().unwrap();
        tables.put(number.to_be_bytes(), b"from outside").unwrap();
        tables.finish().unwrap();
        db.delete_range([0], [0, 0, 1]).unwrap();
    }
}
