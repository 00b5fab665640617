//! Writers of one store at the same time, synced and not: the purpose of the commit queue.
//!
//! `cargo bench -p terrace --bench commit -- SECONDS DIRECTORY`; with `tiny`, or without arguments,
//! a tiny run, as the gate does. Put the directory on the medium in question.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terrace::{Db, Options, WriteBatch, WriteOptions};

fn main() {
    // Cargo adds `--bench`.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--") && argument != "tiny");
    let seconds: f64 = arguments.next().map_or(0.01, |text| {
        text.parse().expect("a number of seconds is needed")
    });
    let temporary = tempfile::tempdir().unwrap();
    let directory = arguments
        .next()
        .map_or(temporary.path().to_path_buf(), Into::into);

    for (sync, sizes) in [(false, [100, 1000]), (true, [100, 1000])] {
        for value_bytes in sizes {
            for writers in [1, 2, 8] {
                let time = Duration::from_secs_f64(seconds);
                let rate = write_rate(&directory, writers, sync, value_bytes, time);
                println!(
                    "sync {sync:<5} {value_bytes:>5} bytes {writers:>2} writers: {rate:>9.0} writes/s"
                );
            }
        }
    }
}

/// Returns the acknowledged writes a second of `writers` threads together, into a fresh store.
fn write_rate(
    directory: &Path,
    writers: u64,
    sync: bool,
    value_bytes: usize,
    time: Duration,
) -> f64 {
    let path = directory.join("commit-bench");
    let _ = std::fs::remove_dir_all(&path);
    let db = Db::open(&path, Options::default()).unwrap();
    let (start, stop) = (Barrier::new(writers as usize + 1), AtomicBool::new(false));
    let written: (u64, Duration) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let (db, start, stop) = (&db, &start, &stop);
                scope.spawn(move || {
                    let value = vec![writer as u8; value_bytes];
                    start.wait();
                    let mut count = 0u64;
                    while !stop.load(Ordering::Relaxed) {
                        // An odd factor scatters the keys and repeats none.
                        let key = (count * writers + writer).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                        let mut batch = WriteBatch::new();
                        batch.put(key.to_be_bytes(), &value).unwrap();
                        db.write(batch, WriteOptions::with_sync(sync)).unwrap();
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        start.wait();
        let began = Instant::now();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let counts = threads.into_iter().map(|thread| thread.join().unwrap());
        (counts.sum(), began.elapsed())
    });
    db.close().unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    written.0 as f64 / written.1.as_secs_f64()
}
