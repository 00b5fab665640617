//! The memory that the kernel counts for a process, against `Options::memory_bytes`.

use std::ops::Bound;
use std::process::Command;
use std::{env, fs, thread};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use terrace::{Db, Durability, IterOptions, KeyspaceOptions, Options, WriteBatch, WriteOptions};

const MIB: u64 = 1 << 20;
const BOUND_BYTES: u64 = 64 * MIB;
const RECORDS: u32 = 220_000;

/// Returns the most memory that this process has had, pages of mapped files included.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

/// Each use has a process of its own, with one arena for the allocator, as a bounded program has.
fn in_a_process_of_its_own(name: &str, test: impl FnOnce()) {
    const IS_CHILD: &str = "TERRACE_MEMORY_BOUND_CHILD";
    if env::var_os(IS_CHILD).is_some() {
        return test();
    }
    let status = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(IS_CHILD, "1")
        .env("MALLOC_ARENA_MAX", "1")
        .status();
    assert!(status.unwrap().success());
}

fn key(number: u32) -> [u8; 8] {
    u64::from(number)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_be_bytes()
}

/// Returns bytes that no compression makes smaller.
fn value(number: u32) -> [u8; 400] {
    let mut bytes = [0; 400];
    StdRng::seed_from_u64(number.into()).fill(&mut bytes);
    bytes
}

fn load(db: &Db) {
    for number in 0..RECORDS {
        db.put(key(number), value(number)).unwrap();
    }
}

/// Gets, updates and scans by several threads, and an iterator that stays open.
fn use_in_turn(db: &Db) {
    let mut idle = db.iter(IterOptions::default()).unwrap();
    idle.seek_to_first().unwrap();
    thread::scope(|scope| {
        for seed in 0..3 {
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed);
                for _ in 0..25_000 {
                    let number = random.random_range(0..RECORDS);
                    match random.random_range(0..20) {
                        0..12 => assert!(db.get(key(number)).unwrap().is_some()),
                        12..19 => db.put(key(number), value(number)).unwrap(),
                        _ => scan(db, key(number)),
                    }
                }
            });
        }
    });
    idle.next().unwrap();
    assert!(idle.valid());
}

fn scan(db: &Db, from: [u8; 8]) {
    let rows = db
        .iter(IterOptions {
            lower: Bound::Included(from.to_vec()),
            ..IterOptions::default()
        })
        .unwrap();
    for row in rows.entries().take(100) {
        assert_eq!(row.unwrap().1.len(), 400);
    }
}

fn stays_within_the_bound(options: Options) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let before_bytes = peak_bytes();
    let options = Options {
        memory_bytes: Some(BOUND_BYTES),
        default_keyspace: KeyspaceOptions {
            // Filters that are large beside the bound.
            filter_bits_per_key: 60,
            ..options.default_keyspace
        },
        ..options
    };
    let db = Db::open(directory.path(), options.clone()).unwrap();
    load(&db);
    use_in_turn(&db);
    let statistics = db.statistics();
    assert!(statistics.memory.table_metadata_bytes > MIB / 2);
    assert!(
        statistics
            .levels
            .iter()
            .map(|level| level.bytes)
            .sum::<u64>()
            > BOUND_BYTES
    );
    db.close().unwrap();
    drop(db);
    let db = Db::open(directory.path(), options).unwrap();
    use_in_turn(&db);
    let taken_bytes = peak_bytes() - before_bytes;
    assert!(
        taken_bytes < BOUND_BYTES / 10 * 11,
        "{} MiB of {}",
        taken_bytes / MIB,
        BOUND_BYTES / MIB
    );
    // Memory that lies idle would be no bound that a user wants.
    assert!(taken_bytes > BOUND_BYTES / 2, "{} MiB", taken_bytes / MIB);
}

#[test]
fn a_bounded_store_stays_within_its_memory() {
    in_a_process_of_its_own("a_bounded_store_stays_within_its_memory", || {
        stays_within_the_bound(Options::default());
    });
}

#[test]
fn a_bounded_volatile_store_stays_within_its_memory() {
    in_a_process_of_its_own("a_bounded_volatile_store_stays_within_its_memory", || {
        stays_within_the_bound(Options {
            durability: Some(Durability::Volatile),
            ..Options::default()
        });
    });
}

/// The keys of a usual table, if they are tiny, would take twice the bound while their filter is built.
#[test]
fn filters_of_tiny_records_are_built_within_the_bound() {
    in_a_process_of_its_own("filters_of_tiny_records_are_built_within_the_bound", || {
        const KEYS: u32 = 4_000_000;
        const BATCH: u32 = 1_000;
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let before_bytes = peak_bytes();
        let options = Options {
            memory_bytes: Some(BOUND_BYTES),
            ..Options::default()
        };
        let db = Db::open(directory.path(), options).unwrap();
        for first in (0..KEYS).step_by(BATCH as usize) {
            let mut batch = WriteBatch::new();
            for number in first..first + BATCH {
                batch.put(number.reverse_bits().to_be_bytes(), b"").unwrap();
            }
            db.write(batch, WriteOptions::default()).unwrap();
        }
        db.compact_range(..).unwrap();
        let taken_bytes = peak_bytes() - before_bytes;
        assert!(
            taken_bytes < BOUND_BYTES / 10 * 11,
            "{} MiB",
            taken_bytes / MIB
        );
        let levels = db.statistics().levels;
        let tables = levels.iter().map(|level| level.tables).sum::<usize>();
        // A fortieth of the bound holds 62,000 keys of 27 bytes. The last tables of a slice may be half as large again.
        assert!((40..90).contains(&tables), "{tables}");
    });
}

#[test]
fn sizes_above_the_bound_are_refused_at_the_opening() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        memory_bytes: Some(BOUND_BYTES),
        arena_bytes: 32 * MIB,
        ..Options::default()
    };
    let error = Db::open(directory.path().join("store"), options).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("memory_bytes is 64 MiB, and the sizes need 116 MiB"),
        "{text}"
    );
    assert!(!directory.path().join("store").exists());
}
