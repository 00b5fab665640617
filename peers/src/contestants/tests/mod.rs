//! What every contestant must do, whatever it is made of.

mod durability;
mod told;

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Instant;

use terrace_bench::settings::Settings;
use terrace_bench::store::{Contestant, Direction, Opened, Store};

use super::contestants;

/// Each test is run for every contestant, in a directory of its own.
fn each(test: impl Fn(&Contestant, &Path)) {
    for contestant in contestants() {
        let directory = tempfile::tempdir().unwrap();
        println!("{}", contestant.name);
        test(&contestant, &directory.path().join("store"));
    }
}

/// Buffers so small that stores flush and merge.
fn small() -> Settings {
    Settings {
        cache_bytes: 8 << 20,
        write_buffer_bytes: 256 << 10,
        expected_data_bytes: 64 << 20,
        ..Settings::default()
    }
}

fn opened(contestant: &Contestant, directory: &Path, settings: &Settings) -> Opened {
    (contestant.open)(directory, settings)
        .unwrap_or_else(|error| panic!("{}: {error}", contestant.name))
}

fn open(contestant: &Contestant, directory: &Path) -> Box<dyn Store> {
    opened(contestant, directory, &small()).store
}

fn key(number: u64) -> Vec<u8> {
    format!("user{number:08}").into_bytes()
}

fn get(store: &dyn Store, key: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    let there = store
        .get(key, &mut |value| found = Some(value.to_vec()))
        .unwrap();
    assert_eq!(there, found.is_some());
    found
}

fn scan(
    store: &dyn Store,
    start: Option<&[u8]>,
    limit: u64,
    direction: Direction,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let mut visit = |key: &[u8], value: &[u8]| rows.push((key.to_vec(), value.to_vec()));
    store.scan(start, limit, direction, &mut visit).unwrap();
    rows
}

fn numbers(rows: &[(Vec<u8>, Vec<u8>)]) -> Vec<u64> {
    let number = |key: &[u8]| std::str::from_utf8(&key[4..]).unwrap().parse().unwrap();
    rows.iter().map(|(key, _)| number(key)).collect()
}

#[test]
fn a_value_is_what_was_last_put() {
    each(|contestant, directory| {
        let store = open(contestant, directory);
        assert_eq!(get(&*store, b"absent"), None);
        store.put(b"key", b"first").unwrap();
        store.put(b"other", b"").unwrap();
        assert_eq!(get(&*store, b"key").as_deref(), Some(&b"first"[..]));
        assert_eq!(get(&*store, b"other").as_deref(), Some(&b""[..]));
        store.put(b"key", b"second, longer").unwrap();
        assert_eq!(
            get(&*store, b"key").as_deref(),
            Some(&b"second, longer"[..])
        );
        store.delete(b"key").unwrap();
        store.delete(b"absent").unwrap();
        assert_eq!(get(&*store, b"key"), None);
        assert_eq!(scan(&*store, None, 10, Direction::Forward).len(), 1);
        store.close().unwrap();
    });
}

#[test]
fn scans_go_both_ways_from_a_key_or_an_end() {
    each(|contestant, directory| {
        let store = open(contestant, directory);
        // Even numbers, so that odd ones lie between keys.
        for number in (0..20).step_by(2) {
            store.put(&key(number), &number.to_le_bytes()).unwrap();
        }
        store.delete(&key(6)).unwrap();
        let rows = |start: Option<u64>, limit, direction| {
            let start = start.map(key);
            numbers(&scan(&*store, start.as_deref(), limit, direction))
        };
        use Direction::{Backward, Forward};
        for _ in 0..2 {
            assert_eq!(rows(None, 3, Forward), [0, 2, 4]);
            assert_eq!(rows(None, 3, Backward), [18, 16, 14]);
            assert_eq!(rows(Some(4), 3, Forward), [4, 8, 10]);
            assert_eq!(rows(Some(8), 3, Backward), [8, 4, 2]);
            assert_eq!(rows(Some(5), 2, Forward), [8, 10]);
            assert_eq!(rows(Some(7), 2, Backward), [4, 2]);
            assert!(rows(Some(19), 2, Forward).is_empty());
            assert_eq!(rows(Some(19), 2, Backward), [18, 16]);
            assert!(rows(None, 0, Forward).is_empty());
            assert_eq!(rows(None, 100, Forward).len(), 9);
            assert_eq!(rows(None, 100, Backward).len(), 9);
            // And once more, from tables.
            store.settle().unwrap();
        }
        assert_eq!(scan(&*store, None, 1, Forward)[0].1, 0u64.to_le_bytes());
        store.close().unwrap();
    });
}

#[test]
fn data_outlives_settling_and_reopening() {
    const RECORDS: u64 = 1_000;
    each(|contestant, directory| {
        let mut expected = BTreeMap::new();
        for round in 0..2u64 {
            let store = open(contestant, directory);
            for number in 0..RECORDS {
                // A permutation, so that tables overlap.
                let record = number * 1_009 % RECORDS;
                let value = vec![(record + round) as u8; 800 + record as usize % 50];
                store.put(&key(record), &value).unwrap();
                expected.insert(key(record), value);
            }
            for record in (round..RECORDS).step_by(7) {
                store.delete(&key(record)).unwrap();
                expected.remove(&key(record));
            }
            let before = Instant::now();
            let settled = store.settle().unwrap();
            assert!(settled >= before && settled <= Instant::now());
            // At once: there is nothing left to wait for.
            store.settle().unwrap();
            store.put(b"zzz", &round.to_le_bytes()).unwrap();
            expected.insert(b"zzz".to_vec(), round.to_le_bytes().to_vec());
            store.close().unwrap();

            let store = open(contestant, directory);
            let rows: Vec<_> = expected.clone().into_iter().collect();
            assert!(scan(&*store, None, u64::MAX, Direction::Forward) == rows);
            let reversed: Vec<_> = expected.clone().into_iter().rev().collect();
            assert!(scan(&*store, None, u64::MAX, Direction::Backward) == reversed);
            store.close().unwrap();
        }
    });
}

#[test]
fn threads_put_and_read_at_once() {
    const THREADS: u64 = 4;
    const EACH: u64 = 300;
    each(|contestant, directory| {
        let store = open(contestant, directory);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let store = &*store;
                scope.spawn(move || {
                    for number in 0..EACH {
                        let key = key(number * THREADS + thread);
                        store.put(&key, &key.repeat(10)).unwrap();
                        assert_eq!(get(store, &key), Some(key.repeat(10)));
                    }
                });
            }
            for _ in 0..20 {
                store.activity();
                let rows = scan(&*store, Some(&key(EACH)), 100, Direction::Forward);
                assert!(rows.is_sorted());
            }
        });
        store.settle().unwrap();
        let rows = scan(&*store, None, u64::MAX, Direction::Forward);
        assert_eq!(rows.len() as u64, THREADS * EACH);
        store.close().unwrap();
    });
}

#[test]
fn activity_counts_what_has_ended() {
    each(|contestant, directory| {
        let store = open(contestant, directory);
        let before = store.activity();
        for number in 0..1_000 {
            store
                .put(&key(number * 1_009 % 1_000), &[7; 4_000])
                .unwrap();
        }
        store.settle().unwrap();
        let after = store.activity();
        assert!(!after.flushing && !after.compacting, "{after:?}");
        assert_ne!(after.stalled, Some(true));
        assert!(after.flushes >= before.flushes && after.compactions >= before.compactions);
        if ["rocksdb", "leveldb"].contains(&contestant.name) {
            assert!(after.flushes > 0, "{}: {after:?}", contestant.name);
        }
        if ["rocksdb", "leveldb", "fjall"].contains(&contestant.name) {
            assert!(after.compactions > 0, "{}: {after:?}", contestant.name);
        }
        store.close().unwrap();
    });
}
