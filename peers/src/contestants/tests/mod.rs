//! What every contestant must do, whatever it is made of.

mod durability;
mod tables;
mod told;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use terrace_bench::conformance;
use terrace_bench::measure::space;
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

#[test]
fn every_contestant_conforms_and_is_found_again() {
    each(|contestant, directory| {
        let of_contestant = |error| panic!("{}: {error}", contestant.name);
        let store = open(contestant, directory);
        conformance::check(&*store).unwrap_or_else(of_contestant);
        store.close().unwrap();
        let store = open(contestant, directory);
        conformance::check_reopened(&*store).unwrap_or_else(of_contestant);
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

/// Logs and journals hold a part of the data for a while: they are no tables.
#[test]
fn tables_are_told_apart_from_logs_and_what_was_written_to_them_is_counted() {
    const BYTES: u64 = 1_000 * 4_000;
    each(|contestant, directory| {
        let mut settings = small();
        if contestant.name == "rocksdb" {
            settings.own.insert("statistics".into(), "true".into());
        }
        let store = opened(contestant, directory, &settings).store;
        for number in 0..1_000 {
            let key = key(number * 1_009 % 1_000);
            store.put(&key, &[7; 4_000]).unwrap();
        }
        let beside = |file: &Path| store.is_beside_tables(file);
        let logs = || {
            let space = space::allocated(directory, &beside).unwrap();
            space.bytes - space.table_bytes
        };
        let has_log = ["rocksdb", "leveldb", "fjall"].contains(&contestant.name);
        assert_eq!(logs() > 0, has_log, "{}", contestant.name);
        store.settle().unwrap();
        let space = space::allocated(directory, &beside).unwrap();
        assert!(space.table_bytes >= BYTES, "{}: {space:?}", contestant.name);
        let written = store.table_bytes_written();
        let counts = ["rocksdb", "leveldb"].contains(&contestant.name);
        assert_eq!(written.is_some(), counts, "{}", contestant.name);
        // LevelDB's count is in whole MiB for each level.
        let rounded = 2 << 20;
        assert!(
            written.is_none_or(|written| written + rounded >= BYTES),
            "{written:?}"
        );
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
