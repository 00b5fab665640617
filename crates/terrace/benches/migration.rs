//! Times of gets and puts while tables migrate between two emulated devices, beside those without.
//!
//! `cargo bench -p terrace --bench migration -- MIB DIRECTORY ROUNDS`, with a directory in memory such as
//! `/dev/shm`; without arguments a tiny run, as the gate does. The store's own directory is a quick device,
//! a second tier a slower one. One client gets random keys of a keyspace in the quick tier, and puts one in
//! sixteen, while the tables of another keyspace go from there to the slow tier, and in the next round back.
//! Each round measures as long without a migration right after. The last lines have the medians of all
//! rounds. Devices answer no sooner than their sheets say, so a processor that is busy elsewhere shows in
//! both figures.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use support::{Arguments, scatter};
use terrace::{Db, KeyspaceOptions, Options, TierOptions};
use terrace_storage::{
    DeviceProfile, EmulatedDevice, EmulatedStorage, RealStorage, Storage, StorageByDirectory,
};

const VALUE_BYTES: usize = 1000;
/// Rows of the keyspace that is read: 64 MiB, of which a sixteenth fits the cache.
const HOT_ROWS: u64 = 64 << 10;

const QUICK: DeviceProfile = DeviceProfile::NVME_960_PRO;
const SLOW: DeviceProfile = DeviceProfile::SSD_850_PRO;

/// Returns a storage on two devices. The directories below one path are the slow one's.
fn two_devices(slow_path: &Path) -> StorageByDirectory {
    let device = |name: &str, profile| {
        let device = Arc::new(EmulatedDevice::new(name, profile));
        Arc::new(EmulatedStorage::new(Arc::new(RealStorage), device))
    };
    StorageByDirectory::new(device("960-pro", QUICK)).with(slow_path, device("850-pro", SLOW))
}

struct Bench {
    storage: Arc<dyn Storage>,
    store: PathBuf,
    slow: PathBuf,
}

impl Bench {
    /// Opens the store. The tables of its default keyspace belong to a tier.
    fn open(&self, tier: &str, hot_rows: u64) -> Db {
        let cold = KeyspaceOptions {
            level_tiers: vec![tier.to_owned()],
            ..KeyspaceOptions::default()
        };
        let options = Options {
            storage: Arc::clone(&self.storage),
            arena_bytes: 16 << 20,
            cache_bytes: (hot_rows * VALUE_BYTES as u64 / 16).max(1 << 20),
            tiers: vec![
                TierOptions {
                    profile: Some(QUICK),
                    ..TierOptions::of_store("quick")
                },
                TierOptions {
                    profile: Some(SLOW),
                    ..TierOptions::new("slow", &self.slow)
                },
            ],
            default_keyspace: cold,
            ..Options::default()
        };
        Db::open(&self.store, options).unwrap()
    }
}

/// The time of each operation, in microseconds.
#[derive(Default)]
struct Times {
    gets_us: Vec<f64>,
    puts_us: Vec<f64>,
    took: Duration,
}

fn at(times_us: &mut [f64], quantile: f64) -> f64 {
    times_us.sort_unstable_by(f64::total_cmp);
    let last = times_us.len().saturating_sub(1);
    let place = (quantile * last as f64).round() as usize;
    times_us.get(place).copied().unwrap_or(0.0)
}

/// Gets and puts until it is over.
fn run(db: &Db, rows: u64, seed: u64, is_over: impl Fn(Duration) -> bool) -> Times {
    let hot = db.keyspace("hot").unwrap();
    let mut times = Times::default();
    let began = Instant::now();
    for number in 0.. {
        times.took = began.elapsed();
        if number % 64 == 0 && is_over(times.took) {
            break;
        }
        let random = scatter(seed << 32 | number);
        let key = (random % rows).to_be_bytes();
        let before = Instant::now();
        if number % 16 == 0 {
            hot.put(key, value(random)).unwrap();
            times.puts_us.push(before.elapsed().as_nanos() as f64 / 1e3);
        } else {
            assert!(hot.get(key).unwrap().is_some());
            times.gets_us.push(before.elapsed().as_nanos() as f64 / 1e3);
        }
    }
    times
}

/// Returns bytes that do not compress.
fn value(seed: u64) -> Vec<u8> {
    let words = (0..VALUE_BYTES as u64).step_by(8);
    words
        .flat_map(|word| scatter(seed ^ word << 40).to_le_bytes())
        .collect()
}

fn fill(bench: &Bench, mib: u64, hot_rows: u64) {
    let db = bench.open("quick", hot_rows);
    let form = KeyspaceOptions {
        level_tiers: vec!["quick".to_owned()],
        ..KeyspaceOptions::default()
    };
    let hot = db.get_or_create_keyspace("hot", form).unwrap();
    for row in 0..hot_rows {
        hot.put(row.to_be_bytes(), value(row)).unwrap();
    }
    for row in 0..mib * (1 << 20) / VALUE_BYTES as u64 {
        db.put(row.to_be_bytes(), value(row)).unwrap();
    }
    db.flush().unwrap();
    db.compact().unwrap();
    db.close().unwrap();
}

fn main() {
    let arguments = Arguments::new();
    let is_tiny = std::env::args().len() < 3;
    let (mib, hot_rows) = match is_tiny {
        true => (4, 4 << 10),
        false => (arguments.number(0, 256), HOT_ROWS),
    };
    let directory = arguments.directory(1, &std::env::temp_dir());
    let rounds = arguments.number(2, if is_tiny { 1 } else { 5 });
    let directory = directory.join(format!("terrace-migration-{}", std::process::id()));
    let slow = directory.join("slow");
    std::fs::create_dir_all(&directory).unwrap();
    let bench = Bench {
        storage: Arc::new(two_devices(&slow)),
        store: directory.join("store"),
        slow,
    };
    fill(&bench, mib, hot_rows);
    println!("{mib} MiB; microseconds with a migration, without, and their ratio");
    let mut ratios: [[Vec<f64>; 2]; 2] = Default::default();
    for round in 0..2 * rounds {
        let tier = ["slow", "quick"][round as usize % 2];
        let db = bench.open(tier, hot_rows);
        let moved = |db: &Db| {
            db.statistics()
                .io
                .of(terrace::Purpose::Migration)
                .written_bytes
        };
        let is_settled = || {
            let levels = db.levels();
            let cold = levels
                .keyspaces
                .iter()
                .find(|keyspace| keyspace.name == "default")
                .unwrap();
            let mut tables = cold
                .levels
                .iter()
                .flatten()
                .flat_map(|sub_level| &sub_level.tables);
            tables.all(|table| table.tier.as_deref() == Some(tier))
        };
        let mut with = run(&db, hot_rows, 2 * round, |_| is_settled());
        let bytes = moved(&db);
        let took = with.took;
        let mut without = run(&db, hot_rows, 2 * round + 1, |past| past > took);
        print!(
            "to {tier}, {} MiB in {:.2} s:",
            bytes >> 20,
            took.as_secs_f64()
        );
        let operations = [
            ("get", &mut with.gets_us, &mut without.gets_us),
            ("put", &mut with.puts_us, &mut without.puts_us),
        ];
        for ((name, with, without), ratios) in
            operations.into_iter().zip(&mut ratios[round as usize % 2])
        {
            for quantile in [0.5, 0.9, 0.99] {
                let (with, without) = (at(with, quantile), at(without, quantile));
                let (percent, ratio) = (quantile * 100.0, with / without);
                print!(" {name} p{percent} {with:.0} {without:.0} {ratio:.2};");
                if quantile == 0.99 {
                    ratios.push(ratio);
                }
            }
        }
        println!();
        db.close().unwrap();
    }
    for (tier, ratios) in ["slow", "quick"].into_iter().zip(ratios) {
        for (name, mut ratios) in ["get", "put"].into_iter().zip(ratios) {
            let median = at(&mut ratios, 0.5);
            println!("to {tier}: {name} p99 with / without, median of {rounds}: {median:.2}");
        }
    }
    std::fs::remove_dir_all(directory).unwrap();
}
