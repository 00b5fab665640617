//! How many steps moves take where much is hidden, and a model of what they show.

use crate::cursor::steps;
use crate::{Db, IterOptions, Options, ReadOptions, Snapshot};

/// Versions of one key, and rows under one range.
const MANY: u32 = 20_000;
/// The most steps of a move, whatever it passes over.
const FEW: u64 = 64;

fn store() -> Db {
    Db::open("/store", Options::in_memory()).unwrap()
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn at(snapshot: &Snapshot) -> IterOptions {
    IterOptions {
        snapshot: Some(snapshot.clone()),
        ..IterOptions::default()
    }
}

/// Where each kind of move leads, and the most steps that one took.
fn moves(db: &Db, options: &IterOptions, sought: &[u8]) -> (u64, Vec<Option<Vec<u8>>>) {
    let mut iterator = db.iter(options.clone()).unwrap();
    let mut most = 0;
    let mut shown = Vec::new();
    for number in 0..8 {
        let (steps, moved) = steps::of(|| match number {
            0 => iterator.seek_to_first(),
            1 | 5 => iterator.next(),
            2 => iterator.seek_to_last(),
            3 | 7 => iterator.prev(),
            4 => iterator.seek(sought),
            _ => iterator.seek_for_prev(sought),
        });
        moved.unwrap();
        most = most.max(steps);
        shown.push(iterator.valid().then(|| iterator.key().to_vec()));
    }
    (most, shown)
}

/// A store where `b` has many versions between two rows, and a snapshot in the midst of them.
fn versions_of_one_key(flush_between: bool) -> (Db, Snapshot) {
    let db = store();
    db.put(b"a", b"").unwrap();
    db.put(b"c", b"").unwrap();
    for number in 0..MANY / 2 {
        db.put(b"b", &key(number)).unwrap();
    }
    let snapshot = db.snapshot();
    if flush_between {
        db.flush().unwrap();
    }
    for number in MANY / 2..MANY {
        db.put(b"b", &key(number)).unwrap();
    }
    (db, snapshot)
}

#[test]
fn versions_of_one_key_are_passed_by_a_seek_in_every_direction() {
    for flush_between in [false, true] {
        let (db, snapshot) = versions_of_one_key(flush_between);
        let row = |key: &[u8]| Some(key.to_vec());
        let wanted = [
            row(b"a"),
            row(b"b"),
            row(b"c"),
            row(b"b"),
            row(b"b"),
            row(b"c"),
            row(b"b"),
            row(b"a"),
        ];
        for options in [IterOptions::default(), at(&snapshot)] {
            let (most, shown) = moves(&db, &options, b"b");
            assert_eq!(shown, wanted);
            assert!(most <= FEW, "{most} steps, flushed: {flush_between}");
        }
        let mut iterator = db.iter(at(&snapshot)).unwrap();
        iterator.seek_for_prev(b"b").unwrap();
        assert_eq!(iterator.value(), key(MANY / 2 - 1));
        iterator.seek(b"b").unwrap();
        assert_eq!(iterator.value(), key(MANY / 2 - 1));
    }
}

#[test]
fn gets_at_an_older_snapshot_do_not_walk_all_versions() {
    let (db, snapshot) = versions_of_one_key(false);
    let options = ReadOptions::at(&snapshot);
    let get = || db.get_with(b"b", &options).unwrap().map(|v| v.to_vec());
    let (steps, ()) = steps::of(|| {
        for _ in 0..1_000 {
            assert_eq!(get(), Some(key(MANY / 2 - 1).to_vec()));
        }
    });
    // Until walking has cost what sorting does, gets walk.
    let bar = u64::from(4 * MANY) + 1_000 * FEW;
    assert!(steps <= bar, "{steps} steps");
}

/// A store of many rows of which a deleted range hides all but the first and the last, and rows
/// that were written into it again.
fn rows_under_a_range(again: &[u32], flushed: bool) -> Db {
    let db = store();
    for number in 0..MANY {
        db.put(&key(number), b"").unwrap();
    }
    let snapshot = db.snapshot();
    db.delete_range(&key(1), &key(MANY - 1)).unwrap();
    if flushed {
        // For the snapshot's sake the rows are in the table beside the range.
        db.flush().unwrap();
    }
    for &number in again {
        db.put(&key(number), b"").unwrap();
    }
    drop(snapshot);
    db
}

#[test]
fn rows_under_a_deleted_range_are_passed_by_a_seek_in_every_direction() {
    for flushed in [false, true] {
        for again in [&[][..], &[MANY / 2], &[1, MANY - 2]] {
            let db = rows_under_a_range(again, flushed);
            let mut rows: Vec<u32> = vec![0, MANY - 1];
            rows.extend(again);
            rows.sort_unstable();
            let mut iterator = db.iter(IterOptions::default()).unwrap();
            let sought = key(MANY / 3);
            for &row in &rows {
                let first = rows.first() == Some(&row);
                let (steps, moved) = steps::of(|| match first {
                    true => iterator.seek_to_first(),
                    false => iterator.next(),
                });
                moved.unwrap();
                assert_eq!(iterator.key(), key(row));
                assert!(
                    steps <= FEW,
                    "{steps} steps to row {row}, flushed: {flushed}"
                );
            }
            for &row in rows.iter().rev() {
                let last = rows.last() == Some(&row);
                let (steps, moved) = steps::of(|| match last {
                    true => iterator.seek_to_last(),
                    false => iterator.prev(),
                });
                moved.unwrap();
                assert_eq!(iterator.key(), key(row));
                assert!(
                    steps <= FEW,
                    "{steps} steps back to {row}, flushed: {flushed}"
                );
            }
            let (most, _) = moves(&db, &IterOptions::default(), &sought);
            assert!(most <= FEW, "{most} steps, flushed: {flushed}");
        }
    }
}

/// Ranges around one another, each newer one inside or outside of those before; and rows below
/// them, in the same arena or in a table.
fn nested_ranges(ranges: u32, inwards: bool, flushed: bool) -> Db {
    let db = store();
    let last = 2 * ranges;
    for number in (0..=last).step_by(16) {
        db.put(&key(number), b"").unwrap();
    }
    if flushed {
        db.flush().unwrap();
    }
    for range in 0..ranges {
        let from = if inwards { range } else { ranges - 1 - range };
        db.delete_range(&key(from), &key(last - from)).unwrap();
    }
    db
}

#[test]
fn nested_ranges_are_looked_up_and_not_walked() {
    const RANGES: u32 = 2_000;
    for (inwards, flushed) in [(false, false), (false, true), (true, false), (true, true)] {
        let db = nested_ranges(RANGES, inwards, flushed);
        let case = format!("inwards: {inwards}, flushed: {flushed}");
        let end = Some(key(2 * RANGES).to_vec());
        for sought in [0, RANGES / 2, RANGES - 1, RANGES, 3 * RANGES / 2] {
            let mut iterator = db.iter(IterOptions::default()).unwrap();
            let (steps, moved) = steps::of(|| iterator.seek(&key(sought)));
            moved.unwrap();
            assert_eq!(iterator.valid().then(|| iterator.key().to_vec()), end);
            assert!(steps <= FEW, "{steps} steps from {sought} on, {case}");
            let (steps, moved) = steps::of(|| iterator.seek_for_prev(&key(sought)));
            moved.unwrap();
            assert!(!iterator.valid());
            assert!(steps <= FEW, "{steps} steps from {sought} back, {case}");
        }
        let (most, _) = moves(&db, &IterOptions::default(), &key(RANGES));
        assert!(most <= FEW, "{most} steps, {case}");
    }
}
