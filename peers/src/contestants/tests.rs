//! What every contestant must do, whatever it is made of.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use terrace_bench::settings::{DurabilityClass, Settings};
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

fn refusal(contestant: &Contestant, directory: &Path, settings: &Settings) -> String {
    match (contestant.open)(directory, settings) {
        Ok(_) => panic!("{} was opened", contestant.name),
        Err(error) => error.to_string(),
    }
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
            assert_eq!(rows(Some(19), 2, Forward), []);
            assert_eq!(rows(Some(19), 2, Backward), [18, 16]);
            assert_eq!(rows(None, 0, Forward), []);
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
fn both_durability_classes_open_and_say_so() {
    each(|contestant, directory| {
        let mut settings = small();
        let crash = opened(contestant, &directory.with_extension("crash"), &settings);
        assert!(!crash.settings.is_empty());
        crash.store.close().unwrap();

        settings.durability = DurabilityClass::PowerCut;
        settings.bounded = true;
        let power = opened(contestant, directory, &settings);
        assert!(
            power.durability.contains("power cut"),
            "{}",
            power.durability
        );
        for number in 0..10 {
            power.store.put(&key(number), b"durable").unwrap();
        }
        power.store.delete(&key(3)).unwrap();
        power.store.close().unwrap();
        let again = opened(contestant, directory, &settings);
        assert_eq!(scan(&*again.store, None, 100, Direction::Forward).len(), 9);
        again.store.close().unwrap();
    });
}

/// Where the process that dies finds out what to do: a contestant's name, and its directory.
const DYING: [&str; 2] = ["PEERS_DYING_CONTESTANT", "PEERS_DYING_DIRECTORY"];
const ACKNOWLEDGED: u64 = 500;

#[test]
fn what_was_acknowledged_outlives_the_process() {
    each(|contestant, directory| {
        let program = std::env::current_exe().unwrap();
        let dying = Command::new(program)
            .args(["--exact", "--ignored"])
            .arg("contestants::tests::a_process_that_dies")
            .env(DYING[0], contestant.name)
            .env(DYING[1], directory)
            .output()
            .unwrap();
        assert_eq!(
            dying.status.signal(),
            Some(6),
            "{}: {dying:?}",
            contestant.name
        );
        let store = open(contestant, directory);
        let rows = scan(&*store, None, u64::MAX, Direction::Forward);
        assert!(rows.iter().all(|(_, value)| value == &[7; 1_000]));
        let found = numbers(&rows);
        assert_eq!(
            found,
            (0..ACKNOWLEDGED).collect::<Vec<_>>(),
            "{}",
            contestant.name
        );
        store.close().unwrap();
    });
}

/// A process of its own, run by [`what_was_acknowledged_outlives_the_process`].
#[test]
#[ignore = "ends the process"]
fn a_process_that_dies() {
    let [Some(name), Some(directory)] = DYING.map(std::env::var_os) else {
        return;
    };
    let contestant = contestants().into_iter().find(|c| c.name == name).unwrap();
    let store = open(&contestant, Path::new(&directory));
    for number in 0..ACKNOWLEDGED {
        store.put(&key(number), &[7; 1_000]).unwrap();
    }
    std::process::abort();
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

#[test]
fn an_own_option_that_is_not_known_is_refused() {
    each(|contestant, directory| {
        let mut settings = small();
        settings.own.insert("no_such".into(), "1".into());
        let error = refusal(contestant, directory, &settings);
        assert!(error.contains("no option \"no_such\""), "{error}");
        assert!(
            !directory.exists(),
            "{} made its files first",
            contestant.name
        );
    });
}

#[test]
fn an_own_option_must_have_a_value_of_its_kind() {
    let options = [
        ("fjall", "max_journaling_bytes", "100000000"),
        ("leveldb", "max_file_bytes", "4194304"),
        ("lmdb", "writemap", "false"),
        ("redb", "durability", "none"),
        ("rocksdb", "lru_cache", "true"),
    ];
    each(|contestant, directory| {
        let of_contestant = |(name, _, _): &&(&str, &str, &str)| *name == contestant.name;
        let (_, option, value) = options.iter().find(of_contestant).unwrap();
        let mut settings = small();
        settings.own.insert(option.to_string(), "what?".into());
        let error = refusal(contestant, directory, &settings);
        assert!(error.contains(option) && error.contains("what?"), "{error}");

        settings.own.insert(option.to_string(), value.to_string());
        let store = opened(contestant, directory, &settings).store;
        store.put(b"key", b"value").unwrap();
        store.close().unwrap();
        let store = opened(contestant, directory, &settings).store;
        assert_eq!(get(&*store, b"key").as_deref(), Some(&b"value"[..]));
        store.close().unwrap();
    });
}

#[test]
fn compression_and_direct_io_are_had_or_said_to_be_missing() {
    each(|contestant, directory| {
        let mut settings = small();
        settings.compressed = true;
        if contestant.name == "rocksdb" {
            let error = refusal(contestant, directory, &settings);
            assert!(error.contains("LZ4"), "{error}");
        } else {
            let opened = opened(contestant, directory, &settings);
            let told = |word: &str| opened.settings.iter().any(|(name, _)| name.contains(word));
            assert!(told("compression"));
            assert!(told("direct_io"));
            for number in 0..1_000 {
                let compressible = [number as u8; 900];
                opened.store.put(&key(number), &compressible).unwrap();
            }
            opened.store.settle().unwrap();
            for number in 0..1_000 {
                assert!(get(&*opened.store, &key(number)).is_some());
            }
            opened.store.close().unwrap();
        }
    });
}
