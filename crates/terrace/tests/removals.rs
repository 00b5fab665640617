//! Tables that deleted ranges hide go by an edit: no merge has to read or write them.

use terrace::{Background, CompactionKind, Compression, Db, KeyspaceOptions, Options};

/// Returns options by which merges begin only for sizes: tables go here only for their ranges.
fn options() -> Options {
    Options {
        arena_bytes: 256 << 10,
        default_keyspace: KeyspaceOptions {
            table_bytes: 64 << 10,
            level1_bytes: 64 << 20,
            compression: vec![Compression::None],
            ..KeyspaceOptions::default()
        },
        tombstone_percent: 0,
        background: Background::Inline,
        ..Options::in_memory()
    }
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Returns a store of 2,000 rows of 1,000 bytes, all below level 0.
fn filled() -> Db {
    let db = Db::open("/store", options()).unwrap();
    for number in 0..2000 {
        db.put(key(number), [number as u8; 1000]).unwrap();
    }
    db.flush().unwrap();
    let keyspace = db.keyspace("default").unwrap();
    keyspace.compact_range(..).unwrap();
    db
}

fn table_bytes(db: &Db) -> u64 {
    let levels = db.statistics().levels;
    levels.iter().map(|level| level.bytes).sum()
}

#[test]
fn tables_under_a_deleted_range_go_and_nothing_is_written() {
    let db = filled();
    let before = db.statistics();
    assert!(table_bytes(&db) > 2_000_000, "{}", table_bytes(&db));
    db.delete_range(key(100), key(1900)).unwrap();
    db.flush().unwrap();
    let after = db.statistics();
    assert!(table_bytes(&db) < 500_000, "{}", table_bytes(&db));
    assert!(after.removals > 20, "{}", after.removals);
    assert_eq!(after.merges, before.merges);
    let past = db.compactions();
    let last = past.last().unwrap();
    assert_eq!(last.kind, CompactionKind::Removal);
    assert_eq!(last.output_bytes, 0);
    for number in 0..2000 {
        let is_there = db.get(key(number)).unwrap().is_some();
        assert_eq!(is_there, !(100..1900).contains(&number), "{number}");
    }
}

#[test]
fn a_snapshot_keeps_hidden_tables_until_it_is_dropped() {
    let db = filled();
    let snapshot = db.snapshot();
    db.delete_range(key(0), key(2000)).unwrap();
    db.flush().unwrap();
    assert_eq!(db.statistics().removals, 0);
    assert_eq!(db.get_at(&snapshot, key(7)).unwrap().unwrap().len(), 1000);
    drop(snapshot);
    db.put(b"z", b"another table").unwrap();
    db.flush().unwrap();
    assert!(db.statistics().removals > 20);
    assert!(table_bytes(&db) < 10_000, "{}", table_bytes(&db));
    assert!(db.get(key(7)).unwrap().is_none());
}

#[test]
fn a_row_beside_the_range_keeps_its_table() {
    let db = filled();
    db.delete_range(key(0), key(1000)).unwrap();
    db.delete_range(key(1001), key(2000)).unwrap();
    db.flush().unwrap();
    assert_eq!(db.get(key(1000)).unwrap().unwrap().len(), 1000);
    assert!(db.statistics().removals > 20);
}
