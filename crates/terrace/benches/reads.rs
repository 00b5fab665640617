//! Reads of a settled store: uniform and skewed gets, misses, scans of 50 rows.
//!
//! `cargo bench -p terrace --bench reads -- ROWS VALUE_BYTES DIRECTORY CACHE_MIB ROUNDS`; without
//! arguments a tiny run, as the gate does. A directory that holds a store is read as it
//! is, so that two commits read the same tables. Each round runs every kind once and the median is
//! shown: rates are for comparing alternating runs on one machine, not for quoting.
//!
//! With `COUNT=get|skewed|miss|scan` only that kind runs, which is how instructions are counted
//! (`valgrind --tool=callgrind --toggle-collect='*measured*'`).

mod support;

use std::path::Path;
use std::time::Instant;

use support::{Arguments, scan, scatter};
use terrace::{Db, Options};

/// Returns the key of a row, or of one that was never written if `missing`.
fn key(row: u64, missing: bool) -> [u8; 16] {
    let mut key = *b"row-0000........";
    key[8..].copy_from_slice(&scatter(row << 1 | u64::from(missing)).to_be_bytes());
    key
}

/// Zipf ranks with exponent 0.99 below `rows` (Gray et al., as YCSB draws them), scattered.
struct Zipf {
    rows: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    const THETA: f64 = 0.99;

    fn new(rows: u64) -> Self {
        let zeta = |n: u64| (1..=n).map(|i| (i as f64).powf(-Self::THETA)).sum::<f64>();
        let all = zeta(rows);
        Zipf {
            rows: rows as f64,
            zeta: all,
            eta: (1.0 - (2.0 / rows as f64).powf(1.0 - Self::THETA)) / (1.0 - zeta(2) / all),
        }
    }

    fn row(&self, number: u64) -> u64 {
        let uniform = (scatter(number) >> 11) as f64 / (1u64 << 53) as f64;
        let scaled = uniform * self.zeta;
        let rank = if scaled < 1.0 {
            0.0
        } else if scaled < 1.0 + 0.5f64.powf(Self::THETA) {
            1.0
        } else {
            self.rows * (self.eta * uniform - self.eta + 1.0).powf(1.0 / (1.0 - Self::THETA))
        };
        scatter(rank as u64 + 1) % self.rows as u64
    }
}

/// Gets one key. Each operation stands apart so that a profiler can watch it alone.
#[inline(never)]
fn measured_get(db: &Db, key: &[u8]) -> usize {
    db.get(key).unwrap().map_or(0, |value| value.len())
}

#[inline(never)]
fn measured_scan(db: &Db, key: &[u8]) -> usize {
    scan(db, key)
}

fn load(directory: &Path, rows: u64, value_bytes: usize, options: Options) -> Db {
    let fresh = !directory.join("CURRENT").exists();
    let db = Db::open(directory, options).unwrap();
    if fresh {
        let mut value: Vec<u8> = (0..value_bytes)
            .map(|at| scatter(at as u64) as u8)
            .collect();
        for row in 0..rows {
            let key = key(row, false);
            let stamp = value.len().min(8);
            value[..stamp].copy_from_slice(&key[key.len() - stamp..]);
            db.put(key, &value).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact().unwrap();
    db
}

fn main() {
    let arguments = Arguments::new();
    let temporary = tempfile::tempdir().unwrap();
    let directory = arguments.directory(2, &temporary.path().join("store"));
    let number = |at, default| arguments.number(at, default);
    let (rows, value_bytes, rounds) = (number(0, 2_000), number(1, 1_000), number(4, 1));
    let options = Options {
        cache_bytes: number(3, 64) << 20,
        ..Options::default()
    };
    let db = load(&directory, rows, value_bytes as usize, options);

    let zipf = Zipf::new(rows);
    let (gets, scans) = (rows.min(300_000), rows.min(300_000) / 20);
    let at = |number: u64| scatter(number) % rows;
    type Operation<'a> = Box<dyn Fn(u64) -> usize + 'a>;
    let kinds: [(&str, u64, Operation<'_>); 4] = [
        (
            "get",
            gets,
            Box::new(|n| measured_get(&db, &key(at(n), false))),
        ),
        (
            "skewed",
            gets,
            Box::new(|n| measured_get(&db, &key(zipf.row(n), false))),
        ),
        (
            "miss",
            gets,
            Box::new(|n| measured_get(&db, &key(at(n), true))),
        ),
        (
            "scan",
            scans,
            Box::new(|n| measured_scan(&db, &key(at(n), false))),
        ),
    ];
    let only = std::env::var("COUNT").ok();
    let mut times = [const { Vec::new() }; 4];
    for round in 0..rounds {
        for ((name, count, operation), times) in kinds.iter().zip(&mut times) {
            if only.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            let began = Instant::now();
            let found = (0..*count)
                .filter(|n| operation(round * count + n) > 0)
                .count() as u64;
            times.push(began.elapsed().as_nanos() as u64 / count);
            assert_eq!(found, if *name == "miss" { 0 } else { *count }, "{name}");
        }
    }
    for ((name, count, _), times) in kinds.iter().zip(&mut times) {
        times.sort_unstable();
        if let (Some(least), Some(median)) = (times.first(), times.get(times.len() / 2)) {
            println!("{name:>7}: {median} ns (least {least}), {count} each of {rounds} rounds");
        }
    }
    let statistics = db.statistics();
    println!(
        "cache: {} hits, {} misses, {} MiB; table metadata {} KiB",
        statistics.memory.block_cache_hits,
        statistics.memory.block_cache_misses,
        statistics.memory.block_cache_bytes >> 20,
        statistics.memory.table_metadata_bytes >> 10,
    );
    db.close().unwrap();
}
