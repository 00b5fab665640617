//! The number of steps of moves where much is hidden, and a model of their results.

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;
use terrace_lsm::cursor::steps;

use crate::{
    Background, Db, DbIterator, IterOptions, Options, ReadOptions, Snapshot, WriteBatch,
    WriteOptions,
};

/// Versions of one key, and rows under one range.
const MANY: u32 = 20_000;
/// Maximum number of steps of a move, however many rows it passes over.
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

/// Returns the most steps that a move took, and the destination of each kind of move.
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

/// Returns a store where `b` has many versions between two rows, and a snapshot in the midst of
/// them.
fn versions_of_one_key(flush_between: bool) -> (Db, Snapshot) {
    let db = store();
    db.put(b"a", b"").unwrap();
    db.put(b"c", b"").unwrap();
    for number in 0..MANY / 2 {
        db.put(b"b", key(number)).unwrap();
    }
    let snapshot = db.snapshot();
    if flush_between {
        db.flush().unwrap();
    }
    for number in MANY / 2..MANY {
        db.put(b"b", key(number)).unwrap();
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
    const VERSIONS: u32 = 2_000;
    let db = store();
    // Two batches: the first arena takes both, and not as many frames.
    let put = |numbers: std::ops::Range<u32>| {
        let mut batch = WriteBatch::new();
        numbers.for_each(|number| batch.put(b"b", key(number)).unwrap());
        db.write(batch, WriteOptions::default()).unwrap();
    };
    put(0..VERSIONS / 2);
    let snapshot = db.snapshot();
    put(VERSIONS / 2..VERSIONS);
    assert_eq!(db.statistics().arenas.sealed, 0, "one arena has all");
    let options = ReadOptions::at(&snapshot);
    let get = || db.get_with(b"b", &options).unwrap().map(|v| v.to_vec());
    let (steps, ()) = steps::of(|| {
        for _ in 0..1_000 {
            assert_eq!(get(), Some(key(VERSIONS / 2 - 1).to_vec()));
        }
    });
    // Gets walk until walking has cost as much as sorting does.
    let bar = u64::from(4 * VERSIONS) + 1_000 * FEW;
    assert!(steps <= bar, "{steps} steps");
}

/// Returns a store of many rows. A deleted range hides all but the first and the last. Some rows
/// were written into it again.
fn rows_under_a_range(again: &[u32], flushed: bool) -> Db {
    let db = store();
    for number in 0..MANY {
        db.put(key(number), b"").unwrap();
    }
    let snapshot = db.snapshot();
    db.delete_range(key(1), key(MANY - 1)).unwrap();
    if flushed {
        // For the snapshot's sake the rows are in the table beside the range.
        db.flush().unwrap();
    }
    for &number in again {
        db.put(key(number), b"").unwrap();
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
    // A tiny table would go along with the ranges, and lose the rows.
    let value = vec![0; if flushed { 5_000 } else { 0 }];
    for number in (0..=last).step_by(16) {
        db.put(key(number), &value).unwrap();
    }
    if flushed {
        db.flush().unwrap();
    }
    for range in 0..ranges {
        let from = if inwards { range } else { ranges - 1 - range };
        db.delete_range(key(from), key(last - from)).unwrap();
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
            let (steps, moved) = steps::of(|| iterator.seek(key(sought)));
            moved.unwrap();
            assert_eq!(iterator.valid().then(|| iterator.key().to_vec()), end);
            assert!(steps <= FEW, "{steps} steps from {sought} on, {case}");
            let (steps, moved) = steps::of(|| iterator.seek_for_prev(key(sought)));
            moved.unwrap();
            assert!(!iterator.valid());
            assert!(steps <= FEW, "{steps} steps from {sought} back, {case}");
        }
        let (most, _) = moves(&db, &IterOptions::default(), &key(RANGES));
        assert!(most <= FEW, "{most} steps, {case}");
    }
}

/// Steps of the model between moves.
#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    /// Takes a number of rows from the front of the queue, or from its back.
    Pop(u8, bool),
    DeleteRange(u8, u8),
    Ingest(u8),
    Flush,
    Compact,
    Snapshot,
    LetGo,
    /// Moves an iterator that was opened before; and opens a new one.
    Move(u8, u8),
    Open,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any::<u8>().prop_map(Step::Put),
        6 => (1u8..60, any::<bool>()).prop_map(|(count, front)| Step::Pop(count, front)),
        1 => (any::<u8>(), 1u8..90).prop_map(|(from, length)| Step::DeleteRange(from, length)),
        1 => any::<u8>().prop_map(Step::Ingest),
        1 => Just(Step::Flush),
        1 => Just(Step::Compact),
        2 => Just(Step::Snapshot),
        1 => Just(Step::LetGo),
        6 => (0u8..6, any::<u8>()).prop_map(|(kind, key)| Step::Move(kind, key)),
        2 => Just(Step::Open),
    ]
}

pub(super) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// An iterator, the rows it is to show, and the key it stands on.
pub(super) struct Opened {
    pub(super) iterator: DbIterator,
    pub(super) rows: Rows,
    pub(super) at: Option<Vec<u8>>,
}

impl Opened {
    pub(super) fn new(db: &Db, snapshot: Option<&(Snapshot, Rows)>, rows: &Rows) -> Self {
        Opened {
            iterator: db
                .iter(snapshot.map_or_else(IterOptions::default, |(held, _)| at(held)))
                .unwrap(),
            rows: snapshot.map_or(rows, |(_, rows)| rows).clone(),
            at: None,
        }
    }

    pub(super) fn go(&mut self, kind: u8, sought: u8) {
        let (rows, key) = (&self.rows, vec![sought]);
        let from = |key: &Vec<u8>| rows.range(key.clone()..).next();
        let until = |key: &Vec<u8>| rows.range(..=key.clone()).next_back();
        let behind = |key: &Vec<u8>| {
            let bounds = (Bound::Excluded(key.clone()), Bound::Unbounded);
            rows.range(bounds).next()
        };
        let before = |key: &Vec<u8>| rows.range(..key.clone()).next_back();
        let (moved, wanted) = match kind {
            0 => (self.iterator.seek_to_first(), rows.iter().next()),
            1 => (self.iterator.seek_to_last(), rows.iter().next_back()),
            2 => (self.iterator.seek(&key), from(&key)),
            3 => (self.iterator.seek_for_prev(&key), until(&key)),
            4 => (self.iterator.next(), self.at.as_ref().and_then(behind)),
            _ => (self.iterator.prev(), self.at.as_ref().and_then(before)),
        };
        moved.unwrap();
        let iterator = &self.iterator;
        let shown = iterator.valid().then(|| (iterator.key(), iterator.value()));
        assert_eq!(shown, wanted.map(|(key, value)| (&key[..], &value[..])));
        self.at = iterator.valid().then(|| iterator.key().to_vec());
    }
}

fn take(db: &Db, rows: &mut Rows, from_front: bool) {
    let (shown, wanted) = match from_front {
        true => (db.first().unwrap(), rows.pop_first()),
        false => (db.last().unwrap(), rows.pop_last()),
    };
    assert_eq!(shown, wanted);
    if let Some((key, _)) = wanted {
        db.delete(&key).unwrap();
    }
}

fn run_model(steps: Vec<Step>) {
    let options = Options {
        background: Background::Inline,
        ..Options::in_memory()
    };
    let db = Db::open("/store", options).unwrap();
    let mut rows = Rows::new();
    for key in 0..=255u8 {
        db.put([key], b"first").unwrap();
        rows.insert(vec![key], b"first".to_vec());
    }
    let mut snapshots: Vec<(Snapshot, Rows)> = Vec::new();
    let mut opened = vec![Opened::new(&db, None, &rows)];
    for (number, step) in steps.into_iter().enumerate() {
        let value = number.to_string().into_bytes();
        match step {
            Step::Put(key) => {
                db.put([key], &value).unwrap();
                rows.insert(vec![key], value);
            }
            Step::Pop(count, from_front) => {
                (0..count).for_each(|_| take(&db, &mut rows, from_front));
            }
            Step::DeleteRange(from, length) => {
                let to = from.saturating_add(length);
                db.delete_range([from], [to]).unwrap();
                rows.retain(|key, _| key[0] < from || to <= key[0]);
            }
            Step::Ingest(key) => {
                let mut ingestion = db.ingest().unwrap();
                ingestion.put([key], &value).unwrap();
                ingestion.finish().unwrap();
                rows.insert(vec![key], value);
            }
            Step::Flush => db.flush().unwrap(),
            Step::Compact => db.compact_range(..).unwrap(),
            Step::Snapshot => snapshots.push((db.snapshot(), rows.clone())),
            Step::LetGo => {
                snapshots.pop();
                opened.truncate(4);
            }
            Step::Move(kind, key) => {
                let which = number % opened.len();
                opened[which].go(kind, key);
            }
            Step::Open => {
                let of_snapshot = snapshots.len().checked_sub(1).filter(|_| number % 2 == 0);
                let of_snapshot = of_snapshot.map(|_| &snapshots[number % snapshots.len()]);
                opened.push(Opened::new(&db, of_snapshot, &rows));
            }
        }
        // New ones, at each snapshot, from either end and from the midst.
        for snapshot in snapshots.iter().map(Some).chain([None]) {
            let mut fresh = Opened::new(&db, snapshot, &rows);
            for (kind, key) in [(0, 0), (4, 0), (1, 0), (5, 0), (2, number as u8), (3, 128)] {
                fresh.go(kind, key);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn iterators_show_the_rows_whatever_stretches_are_remembered(
        steps in prop::collection::vec(any_step(), 1..80),
    ) {
        run_model(steps);
    }
}

/// Takes a queue's entries one after the other. Returns the mean number of steps of a pop.
fn steps_of_a_pop(entries: u32, pushes: bool, old_snapshot: bool, flushes: bool) -> u64 {
    let db = store();
    for number in 0..entries {
        db.put(key(number), [7; 10]).unwrap();
    }
    let _held = old_snapshot.then(|| db.snapshot());
    let mut steps = 0;
    for number in 0..entries {
        if pushes {
            db.put(key(entries + number), [7; 10]).unwrap();
        }
        if flushes && number % (entries / 4) == 0 {
            db.flush().unwrap();
        }
        let (taken, first) = steps::of(|| db.first().unwrap());
        assert_eq!(first.unwrap().0, key(number));
        steps += taken;
        db.delete(key(number)).unwrap();
    }
    let (taken, first) = steps::of(|| db.first().unwrap());
    assert_eq!(first.is_some(), pushes);
    (steps + taken) / u64::from(entries)
}

#[test]
fn a_pop_passes_over_few_entries_however_many_were_taken() {
    let cases = [(true, true), (false, false), (true, false), (false, true)];
    for (entries, wanted) in [(5_000, 4), (20_000, 4), (200_000, 1)] {
        for &(pushes, old_snapshot) in &cases[..wanted] {
            let steps = steps_of_a_pop(entries, pushes, old_snapshot, entries < 100_000);
            let case = format!("{entries} entries, pushes: {pushes}, a snapshot: {old_snapshot}");
            assert!(steps <= FEW, "{steps} steps a pop, {case}");
        }
    }
}

#[test]
fn a_stack_is_popped_as_a_queue_is() {
    const ENTRIES: u32 = 20_000;
    let db = store();
    for number in 0..ENTRIES {
        db.put(key(number), b"").unwrap();
    }
    let (steps, ()) = steps::of(|| {
        for number in (0..ENTRIES).rev() {
            let last = db.last().unwrap();
            assert_eq!(last.unwrap().0, key(number));
            db.delete(key(number)).unwrap();
        }
    });
    assert!(steps <= FEW * u64::from(ENTRIES), "{steps} steps");
}

/// Takes all entries of a queue. Returns the cost of a look into the empty one.
fn emptied(entries: u32) -> Db {
    let db = store();
    for number in 0..entries {
        db.put(key(number), b"").unwrap();
    }
    while let Some((key, _)) = db.first().unwrap() {
        db.delete(&key).unwrap();
    }
    db
}

#[test]
fn what_is_written_into_a_stretch_is_seen_and_what_is_behind_it_leaves_it() {
    const ENTRIES: u32 = 1_000;
    let db = emptied(ENTRIES);
    let first = || db.first().unwrap().map(|(key, _)| key);
    let looks = || steps::of(first);
    assert!(looks().0 <= FEW);
    let before = db.snapshot();
    // A delete, and a put behind the last entry, are no reason to walk.
    db.delete(key(3)).unwrap();
    db.put(key(ENTRIES), b"").unwrap();
    let (steps, shown) = looks();
    assert_eq!(shown, Some(key(ENTRIES).to_vec()));
    assert!(steps <= FEW, "{steps} steps");
    // A put into it.
    db.put(key(ENTRIES / 2), b"").unwrap();
    assert_eq!(first(), Some(key(ENTRIES / 2).to_vec()));
    db.delete(key(ENTRIES / 2)).unwrap();
    assert_eq!(first(), Some(key(ENTRIES).to_vec()));
    assert!(looks().0 <= FEW);
    // An ingest into it.
    let mut ingestion = db.ingest().unwrap();
    ingestion.put(key(ENTRIES / 3), b"").unwrap();
    ingestion.finish().unwrap();
    assert_eq!(first(), Some(key(ENTRIES / 3).to_vec()));
    let mut old = db.iter(at(&before)).unwrap();
    old.seek_to_first().unwrap();
    assert!(!old.valid());
}

#[test]
fn a_reader_before_a_stretch_sees_what_was_there() {
    const ENTRIES: u32 = 1_000;
    let db = store();
    for number in 0..ENTRIES {
        db.put(key(number), b"").unwrap();
    }
    let before = db.snapshot();
    while let Some((key, _)) = db.first().unwrap() {
        db.delete(&key).unwrap();
    }
    let shown = db.iter(at(&before)).unwrap().entries();
    assert_eq!(shown.count(), ENTRIES as usize);
}
