//! The memory that read buffer and block cache share, as users of the store see it.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use terrace::{Db, ForwardPolicy, IterOptions, Options, ReadBufferOptions, Statistics};

const MIB: u64 = 1 << 20;
const CACHE_BYTES: u64 = 16 * MIB;
const SHARE_BYTES: u64 = CACHE_BYTES / 4 * 3;
const RECORDS: u32 = 60_000;
/// Number of seeks, or gets, that are looked at together.
const WINDOW: u32 = 8 << 10;

fn options() -> Options {
    Options {
        cache_bytes: CACHE_BYTES,
        // Every block is taken in at its first read.
        direct_io: true,
        arena_bytes: MIB,
        max_arenas: 3,
        read_buffer: ReadBufferOptions {
            share_percent: 75,
            policy: ForwardPolicy::All,
        },
        ..Options::default()
    }
}

fn value(number: u32) -> [u8; 1000] {
    [number as u8; 1000]
}

/// Makes short scans, from here and there.
fn scan(db: &Db, random: &mut StdRng, times: u32) {
    let mut rows = db.iter(IterOptions::default()).unwrap();
    for _ in 0..times {
        let first: u32 = random.random_range(0..RECORDS - 5);
        rows.seek(first.to_be_bytes()).unwrap();
        for number in first..first + 5 {
            assert_eq!(rows.key(), number.to_be_bytes());
            assert_eq!(rows.value(), value(number));
            rows.next().unwrap();
        }
    }
}

fn get(db: &Db, random: &mut StdRng, times: u32) {
    for _ in 0..times {
        let number: u32 = random.random_range(0..RECORDS);
        assert_eq!(
            &*db.get(number.to_be_bytes()).unwrap().unwrap(),
            value(number)
        );
    }
}

fn wait_until(db: &Db, is_so: impl Fn(&Statistics) -> bool) -> Statistics {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let statistics = db.statistics();
        if is_so(&statistics) || Instant::now() > deadline {
            return statistics;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn capacity_bytes(statistics: &Statistics) -> u64 {
    statistics.read_buffer.unwrap().capacity_bytes
}

fn buffer_bytes(statistics: &Statistics) -> u64 {
    statistics.read_buffer.unwrap().bytes
}

#[test]
fn scans_take_the_memory_of_a_buffer_that_no_get_asks_and_gets_take_it_back() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let db = Db::open(directory.path(), options()).unwrap();
    let random = &mut StdRng::seed_from_u64(1);
    for number in 0..RECORDS {
        db.put(number.to_be_bytes(), value(number)).unwrap();
    }
    db.flush().unwrap();
    get(&db, random, 1000);
    let loaded = db.statistics();
    assert!(buffer_bytes(&loaded) > SHARE_BYTES / 8 * 7, "{loaded:?}");

    // A scan of everything is one seek, and a reader that keeps no blocks asks for no memory.
    let mut rows = db.iter(IterOptions::default()).unwrap();
    rows.seek_to_first().unwrap();
    while rows.valid() {
        rows.next().unwrap();
    }
    drop(rows);
    let passing = IterOptions {
        fill_cache: false,
        ..IterOptions::default()
    };
    let mut rows = db.iter(passing).unwrap();
    for _ in 0..2 * WINDOW {
        rows.seek(7_u32.to_be_bytes()).unwrap();
    }
    drop(rows);
    scan(&db, random, WINDOW - 2);
    assert_eq!(capacity_bytes(&db.statistics()), capacity_bytes(&loaded));

    scan(&db, random, 2 * WINDOW);
    let scanned = wait_until(&db, |now| buffer_bytes(now) < SHARE_BYTES / 2);
    assert!(buffer_bytes(&scanned) < SHARE_BYTES / 2, "{scanned:?}");
    // Writes find less room, too.
    for number in 0..RECORDS / 2 {
        db.put(number.to_be_bytes(), value(number)).unwrap();
    }
    scan(&db, random, 2 * WINDOW);
    let scanned = db.statistics();
    let blocks_bytes = scanned.memory.block_cache_bytes;
    assert!(buffer_bytes(&scanned) < SHARE_BYTES / 2, "{scanned:?}");
    assert!(blocks_bytes > CACHE_BYTES / 8 * 5, "{scanned:?}");
    assert!(
        blocks_bytes + buffer_bytes(&scanned) <= CACHE_BYTES,
        "{scanned:?}"
    );

    get(&db, random, 8 * WINDOW);
    let asked = wait_until(&db, |now| now.memory.block_cache_bytes <= CACHE_BYTES / 4);
    assert_eq!(capacity_bytes(&asked), capacity_bytes(&loaded));
    assert!(buffer_bytes(&asked) > SHARE_BYTES / 4 * 3, "{asked:?}");
    assert!(
        asked.memory.block_cache_bytes <= CACHE_BYTES / 4,
        "{asked:?}"
    );
    scan(&db, random, 100);
    db.close().unwrap();
}
