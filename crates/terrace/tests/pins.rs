//! Readers that hold on to old writes: their view stays, their pins are bounded, and writers never
//! wait for them.

mod support;

use support::machine::{Machine, Method};
use terrace::{Db, DbIterator, IterOptions, Value};

fn fill(db: &Db, round: u32) {
    for row in 0..200u32 {
        let value = [round as u8; 100];
        db.put(format!("row{row:03}").as_bytes(), value).unwrap();
    }
}

#[test]
fn iterators_that_nobody_moves_pin_no_more_than_the_budget() {
    let machine = Machine::new(Method::Written, 1);
    let options = machine.options();
    let budget_bytes = options.pinned_bytes();
    let db = Db::open("/store", options).unwrap();
    fill(&db, 0);
    let mut iterators: Vec<_> = (0..20)
        .map(|_| db.iter(IterOptions::default()).unwrap())
        .collect();
    for (at, iterator) in iterators.iter_mut().enumerate() {
        iterator.seek(format!("row{at:03}").as_bytes()).unwrap();
    }
    for round in 1..30 {
        fill(&db, round);
        let pinned_bytes = db.statistics().memory.pinned_bytes;
        assert!(
            pinned_bytes <= budget_bytes,
            "{pinned_bytes} bytes pinned in round {round}"
        );
    }
    // Each goes on where it stood, at its own snapshot, in both directions.
    for (at, iterator) in iterators.iter_mut().enumerate() {
        iterator.next().unwrap();
        assert_eq!(iterator.key(), format!("row{:03}", at + 1).as_bytes());
        assert_eq!(iterator.value(), [0; 100]);
        iterator.prev().unwrap();
        assert_eq!(iterator.key(), format!("row{at:03}").as_bytes());
        assert_eq!(iterator.value(), [0; 100]);
    }
    let rest = iterators.pop().unwrap().entries();
    assert_eq!(
        rest.map(Result::unwrap)
            .filter(|(_, value)| value == &[0; 100])
            .count(),
        200
    );
}

#[test]
fn thousands_of_large_values_pin_no_more_than_the_budget_and_the_live_arenas() {
    let machine = Machine::new(Method::Written, 2);
    let options = machine.options();
    let bound_bytes = options.pinned_bytes()
        + (options.max_arenas as u64 + 1) * (options.arena_bytes + (1 << 20));
    let db = Db::open("/store", options).unwrap();
    let mut values: Vec<(u32, Value)> = Vec::new();
    for number in 0..3000u32 {
        let value = number.to_le_bytes().repeat(1200);
        db.put(b"large", &value).unwrap();
        values.push((number, db.get(b"large").unwrap().unwrap()));
        let pinned_bytes = db.statistics().memory.pinned_bytes;
        assert!(
            pinned_bytes <= bound_bytes,
            "{pinned_bytes} bytes pinned at {number}"
        );
    }
    assert!(
        values
            .iter()
            .all(|(number, value)| **value == number.to_le_bytes().repeat(1200))
    );
}

/// Returns a row; values lie on both sides of the size from which on iterators show them in place.
fn row(number: u32, version: u8) -> (Vec<u8>, Vec<u8>) {
    let length = [100, 511, 512, 700][number as usize % 4];
    (format!("row{number:03}").into(), vec![version; length])
}

fn put_rows(db: &Db, version: u8) {
    for (key, value) in (0..60).map(|number| row(number, version)) {
        db.put(&key, &value).unwrap();
    }
    db.flush().unwrap();
}

#[test]
fn the_value_of_an_iterator_outlives_its_table_and_its_place_in_the_cache() {
    let machine = Machine::new(Method::Written, 3);
    let db = Db::open("/store", machine.options()).unwrap();
    put_rows(&db, 1);
    db.compact().unwrap();
    let mut iterators: Vec<_> = (0..60u32)
        .map(|number| {
            let mut iterator = db.iter(IterOptions::default()).unwrap();
            let (key, _) = row(number, 1);
            // Half of them came backwards.
            match number % 8 {
                0..4 => iterator.seek(&key).unwrap(),
                _ => iterator.seek_for_prev(&key).unwrap(),
            }
            iterator
        })
        .collect();
    let shown = |iterators: &[DbIterator], rows: &mut dyn Iterator<Item = u32>| {
        iterators.iter().zip(rows).all(|(iterator, number)| {
            let (key, value) = row(number, 1);
            iterator.key() == key && iterator.value() == value
        })
    };
    assert!(shown(&iterators, &mut (0..60)));
    // Other blocks push theirs out of the cache.
    for version in 2..10 {
        put_rows(&db, version);
        db.compact().unwrap();
        assert_eq!(
            db.iter(IterOptions::default()).unwrap().entries().count(),
            60
        );
    }
    assert!(shown(&iterators, &mut (0..60)));
    for iterator in &mut iterators {
        iterator.next().unwrap();
    }
    assert!(shown(&iterators[..59], &mut (1..60)));
    assert!(!iterators[59].valid() && iterators[59].value().is_empty());
    for iterator in &mut iterators[..59] {
        iterator.prev().unwrap();
    }
    assert!(shown(&iterators[..59], &mut (0..59)));
}
