//! An iterator, a snapshot and thousands of values are held while everything is overwritten again
//! and again: memory and disk stay bounded, writers get on, and all that is held stays as it was.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use support::script::tiny;
use terrace::{Db, IterOptions, Options, Value};
use terrace_storage::{CrashSwitch, SimulatedStorage};

const KEYS: u32 = 300;
const VALUE_BYTES: usize = 200;

fn fill(db: &Db, thread: u8, byte: u8) {
    for row in 0..KEYS {
        let key = [&[thread][..], &row.to_be_bytes()].concat();
        db.put(&key, [byte; VALUE_BYTES]).unwrap();
    }
}

fn check_old(entries: impl Iterator<Item = terrace::Result<(Vec<u8>, Vec<u8>)>>) -> u32 {
    let rows = entries.map(|entry| assert_eq!(entry.unwrap().1, [1; VALUE_BYTES]));
    rows.count() as u32
}

#[test]
fn what_is_held_for_long_costs_no_more_than_its_budget() {
    const WRITERS: u8 = 2;
    const ROUNDS: u8 = 40;
    let disk = SimulatedStorage::new(1, CrashSwitch::new());
    // Level 0 holds writers back, so that the bound on the tables holds on a busy machine too.
    let options = Options {
        level0_slowdown: 24,
        constants: terrace::Constants {
            level0_stop: Some(48),
            ..terrace::Constants::default()
        },
        ..tiny(Options {
            storage: Arc::new(disk),
            ..Options::default()
        })
    };
    let pins_bytes = options.pinned_bytes()
        + (options.max_arenas as u64 + 1) * (options.arena_bytes + (1 << 20));
    let db = Db::open("/store", options).unwrap();
    (0..WRITERS).for_each(|thread| fill(&db, thread, 1));
    let snapshot = db.snapshot();
    let mut iterator = db.iter(IterOptions::default()).unwrap();
    iterator.seek_to_first().unwrap();
    iterator.next().unwrap();
    let writing = AtomicBool::new(true);
    let (values, most_bytes) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || (2..ROUNDS).for_each(|round| fill(db, thread, round)))
            })
            .collect();
        let (db, writing) = (&db, &writing);
        let reader = scope.spawn(move || {
            let mut values: Vec<(u32, Value)> = Vec::new();
            let mut most_bytes = 0;
            for number in 0u32.. {
                if values.len() < 3_000 {
                    db.put(b"large", number.to_le_bytes().repeat(1_200))
                        .unwrap();
                    values.push((number, db.get(b"large").unwrap().unwrap()));
                } else if !writing.load(Ordering::Relaxed) {
                    break;
                } else {
                    std::thread::yield_now();
                }
                let statistics = db.statistics();
                let pinned_bytes = statistics.memory.pinned_bytes;
                assert!(pinned_bytes <= pins_bytes, "{pinned_bytes} bytes pinned");
                let tables: u64 = statistics.levels.iter().map(|level| level.bytes).sum();
                most_bytes = most_bytes.max(tables);
            }
            (values, most_bytes)
        });
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        writing.store(false, Ordering::Relaxed);
        reader.join().unwrap()
    });
    db.flush().unwrap();
    db.compact().unwrap();
    let statistics = db.statistics();
    let live_bytes = u64::from(KEYS) * u64::from(WRITERS) * VALUE_BYTES as u64;
    let tables: u64 = statistics.levels.iter().map(|level| level.bytes).sum();
    // Versions of the snapshot and present ones, in levels that each hold twice the one above.
    assert!(
        tables < 8 * live_bytes,
        "{tables} bytes for {live_bytes} live ones"
    );
    let written = statistics.user_bytes;
    println!("{most_bytes} bytes at most of {written} written");
    assert!(
        most_bytes < written / 4,
        "{most_bytes} bytes at most of {written} written"
    );

    for (number, value) in &values {
        assert!(**value == number.to_le_bytes().repeat(1_200));
    }
    drop(values);
    let old = IterOptions {
        snapshot: Some(snapshot),
        ..IterOptions::default()
    };
    assert_eq!(check_old(db.iter(old).unwrap().entries()), KEYS * 2);
    let mut rest = 0;
    while iterator.valid() {
        assert_eq!(iterator.value(), [1; VALUE_BYTES]);
        iterator.next().unwrap();
        rest += 1;
    }
    assert_eq!(rest, KEYS * 2 - 1, "from the second row on");
}
