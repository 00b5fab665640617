//! Iterators with layers on top of the store, against a model.

use std::sync::Arc;

use proptest::prelude::*;
use terrace_lsm::cursor::steps;
use terrace_lsm::cursor::testing::{Version, VersionsCursor};
use terrace_lsm::key::{Kind, MIN_OVERLAY_SEQUENCE, Tag};
use terrace_lsm::range_tombstones::{RangeTombstone, RangeTombstones};

use super::tests::{Opened, Rows};
use crate::db::range_cover::Ranges;
use crate::db::sources::{Layer, MakeLayer};
use crate::{Background, Db, DbIterator, IterOptions, KeyspaceId, Options, Snapshot};

/// A write, into the store or into a layer on top.
#[derive(Clone, Debug)]
enum Write {
    /// Puts a key a number of times.
    Put(u8, u8),
    /// Deletes a number of keys from one on, one by one.
    Delete(u8, u8),
    DeleteRange(u8, u8),
}

impl Write {
    fn change(&self, rows: &mut Rows, value: &[u8]) {
        match *self {
            Write::Put(key, _) => {
                rows.insert(vec![key], value.to_vec());
            }
            Write::Delete(from, length) | Write::DeleteRange(from, length) => {
                let to = from.saturating_add(length);
                rows.retain(|key, _| key[0] < from || to <= key[0]);
            }
        }
    }

    fn write(&self, db: &Db, value: &[u8]) {
        match *self {
            Write::Put(key, times) => {
                (0..times).for_each(|_| db.put([key], value).unwrap());
            }
            Write::Delete(from, length) => {
                let keys = from..from.saturating_add(length);
                keys.for_each(|key| db.delete([key]).unwrap());
            }
            Write::DeleteRange(from, length) => {
                let to = from.saturating_add(length);
                db.delete_range([from], [to]).unwrap();
            }
        }
    }
}

/// The versions and ranges of a layer on top.
#[derive(Clone, Default)]
struct OnTop {
    versions: Vec<Version>,
    ranges: Vec<RangeTombstone>,
}

impl OnTop {
    /// Adds a write. `number` counts all writes of layers on top, from the oldest layer on.
    fn write(&mut self, write: &Write, value: &[u8], number: &mut u64) {
        let mut next = || {
            *number += 1;
            MIN_OVERLAY_SEQUENCE + *number
        };
        match *write {
            Write::Put(key, times) => self.versions.extend(
                (0..times).map(|_| (vec![key], Tag::new(next(), Kind::Put), value.to_vec())),
            ),
            Write::Delete(from, length) => {
                let keys = from..from.saturating_add(length);
                let delete = |key| (vec![key], Tag::new(next(), Kind::Delete), Vec::new());
                self.versions.extend(keys.map(delete));
            }
            Write::DeleteRange(from, length) => self.ranges.push(RangeTombstone {
                start: vec![from],
                end: vec![from.saturating_add(length)],
                sequence: next(),
            }),
        }
    }

    fn make(self) -> MakeLayer {
        Arc::new(move || Layer {
            cursor: Box::new(VersionsCursor::new(self.versions.clone())),
            ranges: Ranges::of_sets(vec![Arc::new(RangeTombstones::new(self.ranges.clone()))]),
        })
    }
}

/// Returns an iterator over the store, now or at a snapshot, and over layers on top, oldest first.
fn open(db: &Db, at: Option<&(Snapshot, Rows)>, rows: &Rows, writes: &[Vec<Write>]) -> Opened {
    let mut rows = at.map_or(rows, |(_, rows)| rows).clone();
    let (mut layers, mut number) = (Vec::new(), 0);
    for of_layer in writes {
        let mut on_top = OnTop::default();
        for write in of_layer {
            let value = format!("on top {number}").into_bytes();
            on_top.write(write, &value, &mut number);
            write.change(&mut rows, &value);
        }
        layers.insert(0, on_top.make());
    }
    let options = IterOptions {
        snapshot: at.map(|(snapshot, _)| snapshot.clone()),
        ..IterOptions::default()
    };
    let store = Arc::clone(db.store());
    Opened {
        iterator: DbIterator::with_layers(store, KeyspaceId::DEFAULT, options, layers).unwrap(),
        rows,
        at: None,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(Write),
    /// Flushes, which takes the sources of iterators away.
    Flush,
    Compact,
    Snapshot,
    /// Opens an iterator with layers on top, the oldest first.
    Open(Vec<Vec<Write>>, bool),
    /// Moves an iterator that was opened before.
    Move(u8, u8),
}

fn any_write() -> impl Strategy<Value = Write> {
    prop_oneof![
        4 => (any::<u8>(), 1u8..14).prop_map(|(key, times)| Write::Put(key, times)),
        2 => (any::<u8>(), 1u8..60).prop_map(|(from, length)| Write::Delete(from, length)),
        1 => (any::<u8>(), 1u8..90).prop_map(|(from, length)| Write::DeleteRange(from, length)),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let layers = prop::collection::vec(prop::collection::vec(any_write(), 0..12), 0..3);
    prop_oneof![
        4 => any_write().prop_map(Step::Write),
        1 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Snapshot),
        3 => (layers, any::<bool>()).prop_map(|(layers, held)| Step::Open(layers, held)),
        8 => (0u8..6, any::<u8>()).prop_map(|(kind, key)| Step::Move(kind, key)),
    ]
}

/// Returns a store of 256 rows that takes the sources of iterators away at each flush.
fn store() -> (Db, Rows) {
    let options = Options {
        background: Background::Inline,
        constants: crate::Constants {
            pinned_bytes: Some(0),
            ..crate::Constants::default()
        },
        ..Options::in_memory()
    };
    let db = Db::open("/store", options).unwrap();
    let mut rows = Rows::new();
    for key in 0..=255u8 {
        db.put([key], b"first").unwrap();
        rows.insert(vec![key], b"first".to_vec());
    }
    (db, rows)
}

fn run_model(steps: Vec<Step>) {
    let (db, mut rows) = store();
    let mut held: Vec<(Snapshot, Rows)> = Vec::new();
    let mut opened: Vec<Opened> = Vec::new();
    for (number, step) in steps.into_iter().enumerate() {
        let value = number.to_string().into_bytes();
        match step {
            Step::Write(write) => {
                write.write(&db, &value);
                write.change(&mut rows, &value);
            }
            Step::Flush => db.flush().unwrap(),
            Step::Compact => db.compact_range(..).unwrap(),
            Step::Snapshot => held.push((db.snapshot(), rows.clone())),
            Step::Open(writes, at_snapshot) => {
                let at = held.last().filter(|_| at_snapshot);
                opened.push(open(&db, at, &rows, &writes));
            }
            Step::Move(kind, key) => {
                if let Some(opened) = opened.get_mut(number % 4) {
                    opened.go(kind, key);
                }
            }
        }
        if let Some(opened) = opened.last_mut() {
            for (kind, key) in [(0, 0), (4, 0), (2, 80), (5, 0), (3, 170), (5, 0), (1, 0)] {
                opened.go(kind, key);
            }
        }
        // Readers of the store alone see no layer.
        let mut plain = Opened::new(&db, None, &rows);
        for kind in [0, 4, 1, 5] {
            plain.go(kind, 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn layers_on_top_hide_and_add_rows_whatever_is_flushed_meanwhile(
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        run_model(steps);
    }
}

#[test]
fn a_layer_on_top_stays_when_a_flush_takes_the_source_away() {
    let (db, rows) = store();
    let writes = vec![vec![Write::Put(7, 1), Write::DeleteRange(9, 200)]];
    let mut opened = open(&db, None, &rows, &writes);
    opened.go(2, 7);
    db.put([7], b"later").unwrap();
    db.flush().unwrap();
    assert!(opened.iterator.source.lock().is_none(), "it was taken away");
    opened.go(4, 0);
    opened.go(4, 0);
    assert_eq!(opened.iterator.key(), [209]);
    opened.go(5, 0);
    opened.go(5, 0);
    assert_eq!(opened.iterator.value(), b"on top 0");
}

/// Returns the steps of the fifth and last of some moves to the first row.
fn steps_to_first(opened: &mut Opened) -> u64 {
    (0..5).for_each(|_| opened.go(0, 0));
    steps::of(|| opened.go(0, 0)).0
}

#[test]
fn stretches_are_those_of_the_store_and_not_of_a_layer() {
    let (db, mut rows) = store();
    // Keys that a layer hides are there for other readers, which pass over a few of the store.
    Write::Delete(0, 20).write(&db, b"");
    Write::Delete(0, 20).change(&mut rows, b"");
    let mut hidden = open(&db, None, &rows, &[vec![Write::Delete(0, 200)]]);
    assert!(steps_to_first(&mut hidden) > 100);
    Opened::new(&db, None, &rows).go(0, 0);
    // A layer has keys where the store has none for a long way, and passes over the rest.
    Write::Delete(0, 200).write(&db, b"");
    Write::Delete(0, 200).change(&mut rows, b"");
    steps_to_first(&mut Opened::new(&db, None, &rows));
    let mut added = open(&db, None, &rows, &[vec![Write::Put(150, 1)]]);
    assert!(steps_to_first(&mut added) < 64);
    assert_eq!(added.iterator.key(), [150]);
    added.go(4, 0);
    added.go(5, 0);
    added.go(5, 0);
}
