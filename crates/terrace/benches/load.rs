//! Loads rows in random order, settles, and reads them back: the store's own figures.
//!
//! `cargo bench -p terrace --bench load -- ROWS VALUE_BYTES DIRECTORY`; without arguments a tiny
//! run, as the gate does. Rates here are for comparing two commits on one machine in
//! alternating runs and for profiles, not for quoting.
//!
//! `TIMES=9` writes as many updates of each row, drawn at random; `OPTIONS='name = value'`, in
//! TOML, are the store's; `READS=0` leaves the reads out, so that a profile is of the load alone.

mod support;

use std::time::{Duration, Instant};

use support::{Arguments, scatter};
use terrace::{Db, IterOptions, Options, Purpose};

fn rate(rows: u64, time: Duration) -> f64 {
    rows as f64 / time.as_secs_f64()
}

/// Returns the number in an environment variable, if it is set.
fn given(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number is needed"))
}

/// Returns the row of a step: each row once, then any.
fn row_of(step: u64, rows: u64) -> u64 {
    if step < rows {
        step
    } else {
        scatter(step) % rows
    }
}

fn main() {
    let arguments = Arguments::new();
    let (rows, value_bytes) = (
        arguments.number(0, 2_000),
        arguments.number(1, 1_000) as usize,
    );
    let temporary = tempfile::tempdir().unwrap();
    let directory = arguments.directory(2, &temporary.path().join("store"));

    let steps = rows * (1 + given("TIMES").unwrap_or(0));

    let options = std::env::var("OPTIONS").unwrap_or_default();
    let db = Db::open(&directory, Options::from_toml(&options).unwrap()).unwrap();
    let mut value: Vec<u8> = (0..value_bytes)
        .map(|at| scatter(at as u64) as u8)
        .collect();
    let (began, mut last, mut longest_gap) = (Instant::now(), Instant::now(), Duration::ZERO);
    for step in 0..steps {
        let key = scatter(row_of(step, rows)).to_be_bytes();
        let stamp = value.len().min(8);
        value[..stamp].copy_from_slice(&key[..stamp]);
        db.put(key, &value).unwrap();
        let now = Instant::now();
        longest_gap = longest_gap.max(now - last);
        last = now;
    }
    println!(
        "load: {:.0} rows/s, longest gap {longest_gap:?}",
        rate(steps, began.elapsed())
    );
    db.flush().unwrap();
    db.compact().unwrap();
    println!(
        "load to settled: {:.0} rows/s",
        rate(steps, began.elapsed())
    );

    match given("READS").unwrap_or(200_000).min(rows) {
        0 => {}
        reads => read(&db, rows, reads),
    }
    tell(&db);
    db.close().unwrap();
}

fn read(db: &Db, rows: u64, reads: u64) {
    let began = Instant::now();
    for row in 0..reads {
        let found = db.get(scatter(scatter(row) % rows).to_be_bytes()).unwrap();
        assert!(found.is_some());
    }
    println!("get: {:.0} rows/s", rate(reads, began.elapsed()));
    let began = Instant::now();
    let scanned = db.iter(IterOptions::default()).unwrap().entries().count() as u64;
    assert_eq!(scanned, rows);
    println!("scan: {:.0} rows/s", rate(scanned, began.elapsed()));
}

fn tell(db: &Db) {
    let statistics = db.statistics();
    println!(
        "write amplification {:.2}, longest stall {:?}, flushes {}, merges {}, moves {}, retries {}",
        statistics.write_amplification.unwrap_or_default(),
        statistics.longest_stall,
        statistics.flushes,
        statistics.merges,
        statistics.moves,
        statistics.step_failures
    );
    for purpose in Purpose::ALL {
        let counts = statistics.io.of(purpose);
        println!(
            "{:>10}: {:>6} MB written, {:>6} MB read, {} syncs",
            purpose.name(),
            counts.written_bytes / 1_000_000,
            counts.read_bytes / 1_000_000,
            counts.syncs
        );
    }
    print!("\n{}", db.time_profile());
}
