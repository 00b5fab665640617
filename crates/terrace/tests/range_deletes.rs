//! Deleted ranges through the whole engine: in one MemTable, across layers, under snapshots, cut by
//! tables and slices, narrowed, gone at the bottom, and after a reopening.

mod support;

use support::machine::{Machine, Method};
use terrace::{Db, IterOptions, Options, Snapshot, WriteBatch, WriteOptions};

/// Opens a store. Ranges sink with the merges of writes, not because they are many in small tables.
fn open(machine: &Machine) -> Db {
    let options = terrace::Options {
        tombstone_percent: 0,
        ..machine.options()
    };
    Db::open("/store", options).unwrap()
}

fn key(number: usize) -> Vec<u8> {
    format!("key-{number:05}").into_bytes()
}

/// Returns the numbers of the keys that an iterator and gets find, which must be the same forwards
/// and backwards.
fn found(db: &Db, snapshot: Option<&Snapshot>, count: usize) -> Vec<usize> {
    let iterator = || {
        let options = IterOptions {
            snapshot: snapshot.cloned(),
            ..IterOptions::default()
        };
        db.iter(options).unwrap()
    };
    let number = |key: &[u8]| str::from_utf8(&key[4..]).unwrap().parse().unwrap();
    let forward: Vec<usize> = iterator()
        .entries()
        .map(|entry| number(&entry.unwrap().0))
        .collect();
    let mut backward: Vec<usize> = iterator()
        .entries()
        .rev()
        .map(|entry| number(&entry.unwrap().0))
        .collect();
    backward.reverse();
    assert_eq!(forward, backward);
    let get = |number: usize| match snapshot {
        Some(snapshot) => db.get_at(snapshot, key(number)).unwrap(),
        None => db.get(key(number)).unwrap(),
    };
    let got: Vec<usize> = (0..count).filter(|&n| get(n).is_some()).collect();
    assert_eq!(forward, got);
    // A seek into the deleted range ends behind it, and in front of it.
    let mut iterator = iterator();
    for number in 0..count {
        let behind = forward.iter().copied().find(|&n| n >= number);
        iterator.seek(key(number)).unwrap();
        assert_eq!(
            iterator.valid().then(|| iterator.key().to_vec()),
            behind.map(key)
        );
        let before = forward.iter().copied().rfind(|&n| n <= number);
        iterator.seek_for_prev(key(number)).unwrap();
        assert_eq!(
            iterator.valid().then(|| iterator.key().to_vec()),
            before.map(key)
        );
    }
    forward
}

fn put_all(db: &Db, numbers: impl IntoIterator<Item = usize>) {
    for number in numbers {
        db.put(key(number), [7; 40]).unwrap();
    }
}

fn numbers(ranges: &[std::ops::Range<usize>]) -> Vec<usize> {
    ranges.iter().cloned().flatten().collect()
}

/// Returns the numbers of tables listed, of range tombstones in them, and of versions in them.
fn listed(db: &Db) -> (usize, u64, u64) {
    let levels = db.levels();
    let tables = levels.keyspaces[0].levels.iter().flatten();
    let tables: Vec<_> = tables.flat_map(|sub_level| &sub_level.tables).collect();
    let ranges = tables.iter().map(|table| table.range_tombstones).sum();
    (
        tables.len(),
        ranges,
        tables.iter().map(|table| table.entries).sum(),
    )
}

#[test]
fn within_one_memtable_the_order_of_writes_decides() {
    let db = open(&Machine::new(Method::Written, 1));
    put_all(&db, 0..20);
    let before = db.snapshot();
    db.delete_range(key(5), key(15)).unwrap();
    let between = db.snapshot();
    put_all(&db, [7, 5, 14]);
    let mut batch = WriteBatch::new();
    batch.put(key(9), b"").unwrap();
    batch.put(key(2), b"").unwrap();
    batch.delete_range(key(8), key(10)).unwrap();
    batch.put(key(8), b"").unwrap();
    db.write(batch, WriteOptions::default()).unwrap();
    let now = [0, 1, 2, 3, 4, 5, 7, 8, 14, 15, 16, 17, 18, 19];
    for flushed in [false, true] {
        if flushed {
            db.flush().unwrap();
        }
        assert_eq!(found(&db, Some(&before), 20), (0..20).collect::<Vec<_>>());
        assert_eq!(found(&db, Some(&between), 20), numbers(&[0..5, 15..20]));
        assert_eq!(found(&db, None, 20), now);
    }
}

#[test]
fn ranges_reach_every_older_layer_and_no_younger_one() {
    let db = open(&Machine::new(Method::Written, 2));
    let mut snapshots = Vec::new();
    let mut expected = Vec::new();
    for round in 0..8 {
        put_all(&db, 0..40);
        // So that sealed and active MemTables and tables on several levels all have some.
        let (from, to) = (round * 4, round * 4 + 9);
        db.delete_range(key(from), key(to)).unwrap();
        put_all(&db, [from + 1]);
        snapshots.push(db.snapshot());
        expected.push(numbers(&[0..from, from + 1..from + 2, to.min(40)..40]));
        if round % 3 == 1 {
            db.flush().unwrap();
        }
        for (snapshot, expected) in snapshots.iter().zip(&expected) {
            assert_eq!(&found(&db, Some(snapshot), 40), expected);
        }
    }
    db.compact().unwrap();
    db.flush().unwrap();
    for (snapshot, expected) in snapshots.iter().zip(&expected) {
        assert_eq!(&found(&db, Some(snapshot), 40), expected);
    }
    assert_eq!(Some(&found(&db, None, 40)), expected.last());
    terrace::internal::check_ages(&db).unwrap();
}

/// A range over many tables and slices: it is cut at their ends, hides older rows while it sinks,
/// and is gone, with all it hid, when nothing is left below.
#[test]
fn a_range_sinks_through_slices_and_is_gone_at_the_bottom() {
    const KEYS: usize = 1500;
    let machine = Machine::new(Method::Written, 3);
    let db = open(&machine);
    put_all(&db, 0..KEYS);
    db.flush().unwrap();
    db.compact().unwrap();
    let (tables, ..) = listed(&db);
    assert!(tables > 5, "{tables} tables are too few");
    db.delete_range(key(100), key(1400)).unwrap();
    let left = numbers(&[0..100, 1400..1500]);
    db.flush().unwrap();
    assert_eq!(listed(&db).1, 1);
    assert_eq!(found(&db, None, KEYS), left);
    // Writes around it bring the range down, level by level.
    for round in 0..40 {
        put_all(&db, (0..100).chain(1400..1500));
        if round % 8 == 0 {
            assert_eq!(found(&db, None, KEYS), left);
        }
        db.flush().unwrap();
        db.compact().unwrap();
        terrace::internal::check_ages(&db).unwrap();
        if listed(&db).1 == 0 {
            break;
        }
    }
    assert_eq!(found(&db, None, KEYS), left);
    let (_, ranges, entries) = listed(&db);
    assert_eq!(ranges, 0, "the range is never gone");
    assert!(
        entries < 1000,
        "{entries} versions are left of {}",
        left.len()
    );
}

/// An old snapshot keeps the range and the rows under it, through merges and narrowed tables.
#[test]
fn a_snapshot_below_a_range_keeps_reading_through_merges() {
    let machine = Machine::new(Method::Written, 4);
    let db = open(&machine);
    put_all(&db, 0..400);
    let before = db.snapshot();
    db.delete_range(key(50), key(350)).unwrap();
    put_all(&db, 100..110);
    for _ in 0..6 {
        put_all(&db, [0, 60, 399]);
        db.flush().unwrap();
        db.compact().unwrap();
        assert_eq!(found(&db, Some(&before), 400), (0..400).collect::<Vec<_>>());
        let now = numbers(&[0..50, 60..61, 100..110, 350..400]);
        assert_eq!(found(&db, None, 400), now);
        terrace::internal::check_ages(&db).unwrap();
    }
}

#[test]
fn a_reopened_store_has_its_ranges() {
    let machine = Machine::new(Method::Written, 5);
    for flushed in [false, true] {
        let db = open(&machine);
        put_all(&db, 0..30);
        db.flush().unwrap();
        db.delete_range(key(10), key(20)).unwrap();
        if flushed {
            db.flush().unwrap();
        }
        db.close().unwrap();
        drop(db);
        let options = Options {
            read_only: true,
            ..machine.options()
        };
        let db = Db::open("/store", options).unwrap();
        assert_eq!(found(&db, None, 30), numbers(&[0..10, 20..30]));
        drop(db);
        let db = open(&machine);
        assert_eq!(found(&db, None, 30), numbers(&[0..10, 20..30]));
    }
}

/// A table of nothing but a range is read, merged, moved and reopened as any other.
#[test]
fn a_table_may_hold_a_range_and_nothing_else() {
    let machine = Machine::new(Method::Written, 6);
    let open = |machine: &Machine| {
        let options = Options {
            level0_merge: 4,
            ..machine.options()
        };
        Db::open("/store", options).unwrap()
    };
    let db = open(&machine);
    put_all(&db, 0..30);
    db.flush().unwrap();
    db.delete_range(key(10), key(20)).unwrap();
    db.flush().unwrap();
    let alone = |db: &Db| {
        let levels = db.levels();
        let tables = levels.keyspaces[0].levels.iter().flatten();
        let mut tables = tables.flat_map(|sub_level| sub_level.tables.clone());
        tables.any(|table| table.entries == 0 && table.range_tombstones == 1)
    };
    assert!(alone(&db));
    assert_eq!(found(&db, None, 30), numbers(&[0..10, 20..30]));
    db.close().unwrap();
    drop(db);
    let report =
        terrace_tools::inspect::verify("/store".as_ref(), machine.options(), |_, _| {}).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let db = open(&machine);
    assert!(alone(&db));
    assert_eq!(found(&db, None, 30), numbers(&[0..10, 20..30]));
}

/// A deleted range of many keys costs an iterator few blocks, whichever way it comes.
#[test]
fn an_iterator_seeks_past_a_deleted_range() {
    const KEYS: usize = 3000;
    let machine = Machine::new(Method::Written, 7);
    let db = open(&machine);
    put_all(&db, 0..KEYS);
    db.flush().unwrap();
    db.compact().unwrap();
    db.delete_range(key(10), key(KEYS - 10)).unwrap();
    let blocks_read = |walk: &dyn Fn()| {
        let blocks = |db: &Db| {
            let memory = db.statistics().memory;
            memory.block_cache_hits + memory.block_cache_misses
        };
        let before = blocks(&db);
        walk();
        blocks(&db) - before
    };
    for flushed in [false, true] {
        if flushed {
            db.flush().unwrap();
        }
        let iterator = || db.iter(IterOptions::default()).unwrap();
        let forward = blocks_read(&|| assert_eq!(iterator().entries().count(), 20));
        let backward = blocks_read(&|| assert_eq!(iterator().entries().rev().count(), 20));
        assert!(
            forward < 60 && backward < 60,
            "{forward} and {backward} blocks"
        );
    }
}

/// A merge does not read the tables that a range hides as a whole.
#[test]
fn what_a_range_hides_is_merged_unread() {
    const KEYS: usize = 3000;
    let machine = Machine::new(Method::Written, 8);
    let db = open(&machine);
    put_all(&db, 0..KEYS);
    db.flush().unwrap();
    db.compact().unwrap();
    let bytes = |db: &Db| -> u64 { db.statistics().levels.iter().map(|level| level.bytes).sum() };
    let (before, read_before) = (bytes(&db), compaction_reads(&db));
    db.delete_range(key(1), key(KEYS - 1)).unwrap();
    db.compact_range(..).unwrap();
    assert_eq!(found(&db, None, KEYS), [0, KEYS - 1]);
    assert_eq!((listed(&db).1, listed(&db).2), (0, 2));
    let read = compaction_reads(&db) - read_before;
    assert!(
        bytes(&db) < before / 10,
        "{} of {before} bytes are left",
        bytes(&db)
    );
    assert!(read < before / 4, "{read} of {before} bytes were read");
}

fn compaction_reads(db: &Db) -> u64 {
    let io = db.statistics().io;
    io.of(terrace::Purpose::Compaction).read_bytes
}
