//! Memory that the kernel counts, against the budget of a store. In a process of its own: other
//! tests take memory, too.

use std::fs;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use terrace::{Db, Options, ReadBufferOptions, Statistics};

const MIB: u64 = 1 << 20;
const CACHE_BYTES: u64 = 48 * MIB;

/// Returns the memory of this process that no file keeps.
fn anonymous_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

fn write(db: &Db, records: std::ops::Range<u32>) {
    for number in records {
        db.put(number.to_be_bytes(), [7; 1000]).unwrap();
    }
    db.flush().unwrap();
    db.compact().unwrap();
}

fn read(db: &Db, records: u32, times: u32) -> Statistics {
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..times {
        let number: u32 = random.random_range(0..records);
        assert!(db.get(number.to_be_bytes()).unwrap().is_some());
    }
    db.statistics()
}

/// A store that outgrows its block cache has it full when the read buffer claims its share. In a
/// container both together would be more than there is.
#[test]
fn what_the_block_cache_gives_the_read_buffer_is_not_taken_twice() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = Options {
        cache_bytes: CACHE_BYTES,
        // Every block is taken in at its first read.
        direct_io: true,
        arena_bytes: 4 * MIB,
        max_arenas: 2,
        read_buffer: ReadBufferOptions {
            share_percent: 85,
            ..ReadBufferOptions::default()
        },
        ..Options::default()
    };
    let db = Db::open(directory.path(), options).unwrap();
    write(&db, 0..60_000);
    let before_bytes = anonymous_bytes();
    let full = read(&db, 60_000, 150_000);
    assert_eq!(full.read_buffer.map(|buffer| buffer.bytes), Some(0));
    assert!(full.memory.block_cache_bytes > CACHE_BYTES / 8 * 7);

    write(&db, 60_000..100_000);
    let outgrown = read(&db, 100_000, 150_000);
    assert!(outgrown.read_buffer.unwrap().bytes > CACHE_BYTES / 4 * 3);
    let taken_bytes = anonymous_bytes().saturating_sub(before_bytes);
    assert!(
        taken_bytes < CACHE_BYTES / 4 * 5,
        "{taken_bytes} of {CACHE_BYTES}"
    );
}
