//! Many keys one by one against `multi_get`, from the device and from the page cache.
//!
//! `cargo bench -p terrace --bench multi_get -- [ROWS] [VALUE_BYTES] [DIRECTORY]`; without arguments
//! a few rows, so that it cannot rot. Prints microseconds a key, and the ratio of the two.

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use support::{Arguments, scatter};
use terrace::{Db, Options, ReadOptions};

const KEYS_A_CALL: usize = 100;

fn key(row: u64) -> [u8; 8] {
    scatter(row).to_be_bytes()
}

/// Takes the tables out of the page cache.
fn forget(store: &Path) {
    for file in std::fs::read_dir(store).unwrap() {
        let file = std::fs::File::open(file.unwrap().path()).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

fn time(read: impl FnOnce()) -> Duration {
    let began = Instant::now();
    read();
    began.elapsed()
}

fn main() {
    let arguments = Arguments::new();
    let (rows, value_bytes) = (arguments.number(0, 2_000), arguments.number(1, 100));
    let temporary = tempfile::tempdir().unwrap();
    let parent = arguments.directory(2, temporary.path());
    let store = parent.join("multi-get-store");
    let _ = std::fs::remove_dir_all(&store);
    // Nothing stays in the store's own caches.
    let options = Options {
        cache_bytes: 0,
        ..Options::default()
    };
    let db = Db::open(&store, options).unwrap();
    let mut load = db.ingest().unwrap();
    let mut keys: Vec<_> = (0..rows).map(key).collect();
    keys.sort_unstable();
    for key in &keys {
        load.put(key, key.repeat(value_bytes as usize / 8)).unwrap();
    }
    load.finish().unwrap();

    let mut random = SmallRng::seed_from_u64(1);
    let calls = (rows as usize / KEYS_A_CALL / 20).clamp(2, 200);
    for (name, is_cold) in [("device", true), ("page cache", false)] {
        let (mut one_by_one, mut at_once) = (Duration::ZERO, Duration::ZERO);
        for call in 0..2 * calls {
            let keys: Vec<_> = (0..KEYS_A_CALL)
                .map(|_| key(random.random_range(0..rows)))
                .collect();
            let touch = || drop(db.multi_get(&keys, &ReadOptions::default()).unwrap());
            touch();
            if is_cold {
                forget(&store);
            }
            if call % 2 == 0 {
                at_once += time(touch);
            } else {
                one_by_one += time(|| keys.iter().for_each(|key| drop(db.get(key).unwrap())));
            }
        }
        let each_us = |time: Duration| time.as_secs_f64() * 1e6 / (calls * KEYS_A_CALL) as f64;
        println!(
            "{name:>10}: get {:6.2} us a key, multi_get {:6.2} us, ratio {:.2}",
            each_us(one_by_one),
            each_us(at_once),
            one_by_one.as_secs_f64() / at_once.as_secs_f64(),
        );
    }
    db.close().unwrap();
    std::fs::remove_dir_all(&store).unwrap();
}
