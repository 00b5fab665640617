//! Compares placements of tables on a small fast device and a large slow one, both emulated: an NVMe drive with
//! room for a fifth of the data, and a hard disk.
//!
//! Readers come back to ranges of neighbouring keys, 1,000 of them with zipfian rates; or to all keys alike. For each
//! placement it tells the share of device reads that the fast device serves, and the throughput. An oracle knows
//! the rates, and puts the hottest ranges there up to the capacity. Memory serves as many reads for it as for the
//! store, all of hot ranges. Static placements have whole levels on the fast device, as many as fit, or fill it by
//! capacity (`levels`). Run it with a directory in memory:
//!
//! ```text
//! cargo run --release -p terrace-bench --example placement -- /dev/shm [SECONDS [uniform]]
//! ```

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use terrace::terrace_storage::Purpose;
use terrace::{Db, KeyspaceOptions, Options, Placement, ReadBufferOptions, TierOptions};
use terrace_bench::draw::{Clustered, Random, YCSB_THETA, random, uniform};
use terrace_bench::reproduce::tiers::devices::{Device, Devices};

const RECORDS: u64 = 200_000;
const VALUE_BYTES: usize = 1000;
const RANGES: u64 = 1000;
const READERS: u64 = 16;
/// One request in so many is an update of the same distribution.
const UPDATE_ONE_IN: u64 = 20;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The measured part of a run.
#[derive(Debug)]
struct Figures {
    requests_per_second: f64,
    fast_share: f64,
    /// Part of the gets that memory serves.
    memory_share: f64,
    migrated_bytes: u64,
}

/// The keys that are asked for.
#[derive(Clone, Copy, PartialEq)]
enum Load {
    Clustered,
    Uniform,
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let home = PathBuf::from(arguments.next().unwrap_or_else(|| "/dev/shm".into()));
    let seconds = arguments.next().map_or(Ok(60), |given| given.parse())?;
    let load = match arguments.next().as_deref() {
        None => Load::Clustered,
        Some("uniform") => Load::Uniform,
        Some(other) => return Err(format!("no load `{other}`; it may be `uniform`").into()),
    };
    println!("emulated: NVMe drive (960 PRO) for a fifth of the data, hard disk (WD10EZEX)");
    println!("placement  reads from the fast device  the oracle's  requests/s  MiB migrated");
    for (name, form) in forms() {
        let directory = tempfile::tempdir_in(&home)?;
        let time = Duration::from_secs(seconds);
        let figures = measure(directory.path(), form, load, time)?;
        let hot = oracle_share(load) - figures.memory_share;
        println!(
            "{name:9}  {:26.3}  {:12.3}  {:10.0}  {:12.1}",
            figures.fast_share,
            hot.max(0.0) / (1.0 - figures.memory_share),
            figures.requests_per_second,
            figures.migrated_bytes as f64 / f64::from(1 << 20)
        );
    }
    Ok(())
}

/// Returns the placements with their names. Level 3 is the deepest one, and does not fit on the drive.
fn forms() -> Vec<(String, KeyspaceOptions)> {
    let whole_levels = (0..=3).map(|levels| {
        let mut tiers = vec!["nvme".to_owned(); levels];
        tiers.push("hdd".to_owned());
        let form = KeyspaceOptions {
            level_tiers: tiers,
            ..KeyspaceOptions::default()
        };
        (format!("{levels} of 4"), form)
    });
    let by_rule = [Placement::Levels, Placement::Heat, Placement::Auto].map(|placement| {
        let form = KeyspaceOptions {
            placement,
            ..KeyspaceOptions::default()
        };
        (placement.to_string(), form)
    });
    whole_levels.chain(by_rule).collect()
}

/// Returns the share of requests that go to the hottest ranges, up to a fifth of the data.
fn oracle_share(load: Load) -> f64 {
    let rate = |rank: u64| match load {
        Load::Clustered => 1.0 / ((rank + 1) as f64).powf(YCSB_THETA),
        Load::Uniform => 1.0,
    };
    let sum = |ranks: u64| (0..ranks).map(rate).sum::<f64>();
    sum(RANGES / 5) / sum(RANGES)
}

fn key(record: u64) -> [u8; 8] {
    record.to_be_bytes()
}

fn measure(home: &Path, form: KeyspaceOptions, load: Load, time: Duration) -> Outcome<Figures> {
    let devices = Devices::new(home);
    devices.set_instant(true);
    let db = Db::open(devices.tables(Device::Nvme), options(&devices, form))?;
    let mut value = vec![0; VALUE_BYTES];
    for record in 0..RECORDS {
        value.fill_with({
            let mut random = random(record, 0);
            move || uniform(&mut random, 256) as u8
        });
        db.put(key(record), &value)?;
    }
    db.flush()?;
    db.compact()?;
    while db.wait_for_migration()? {}
    devices.set_instant(false);
    // Half of the time is for the rates to be known, and for the moves.
    run(&db, load, time / 2)?;
    let (before, begun) = (db.tiers(), Instant::now());
    let requests = run(&db, load, time / 2)?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = db.tiers();
    let reads = |at: usize| -> u64 {
        let of = |tiers: &[terrace::TierStatistics]| {
            tiers
                .get(at)
                .map_or(0, |tier| tier.io.of(Purpose::Read).reads)
        };
        of(&after) - of(&before)
    };
    let migrated = after
        .iter()
        .map(|tier| tier.io.of(Purpose::Migration).written_bytes);
    let gets = requests as f64 * (UPDATE_ONE_IN - 1) as f64 / UPDATE_ONE_IN as f64;
    let figures = Figures {
        requests_per_second: requests as f64 / seconds,
        memory_share: (1.0 - (reads(0) + reads(1)) as f64 / gets).max(0.0),
        fast_share: reads(0) as f64 / (reads(0) + reads(1)).max(1) as f64,
        migrated_bytes: migrated.sum(),
    };
    db.close()?;
    Ok(figures)
}

fn options(devices: &Devices, form: KeyspaceOptions) -> Options {
    let fast = TierOptions {
        capacity_bytes: Some(RECORDS * VALUE_BYTES as u64 / 5),
        profile: Some(Device::Nvme.profile()),
        ..TierOptions::of_store("nvme")
    };
    let slow = TierOptions {
        profile: Some(Device::Hdd.profile()),
        ..TierOptions::new("hdd", devices.tables(Device::Hdd))
    };
    Options {
        storage: devices.storage(),
        region_dir: Some(devices.log()),
        tiers: vec![fast, slow],
        arena_bytes: 512 << 10,
        // Little memory: reads reach the devices.
        cache_bytes: 4 << 20,
        read_buffer: ReadBufferOptions {
            share_percent: 0,
            ..ReadBufferOptions::default()
        },
        default_keyspace: KeyspaceOptions {
            table_bytes: 1 << 20,
            level1_bytes: 4 << 20,
            ..form
        },
        ..Options::default()
    }
}

/// Sends requests for some time, and returns their number.
fn run(db: &Db, load: Load, time: Duration) -> Outcome<u64> {
    let clustered = Clustered::new(RECORDS, RANGES, 1);
    let keys = |random: &mut Random| match load {
        Load::Clustered => clustered.next(random),
        Load::Uniform => uniform(random, RECORDS),
    };
    let (over, requests) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let client = |number: u64| {
            let (keys, over, requests) = (&keys, &over, &requests);
            move || -> Outcome<()> {
                let mut random = random(7, number);
                let value = vec![1; VALUE_BYTES];
                while !over.load(Ordering::Relaxed) {
                    let record = key(keys(&mut random));
                    match uniform(&mut random, UPDATE_ONE_IN) {
                        0 => db.put(record, &value)?,
                        _ => assert!(db.get(record)?.is_some(), "a record is lost"),
                    }
                    requests.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }
        };
        let clients: Vec<_> = (0..READERS)
            .map(|number| scope.spawn(client(number)))
            .collect();
        std::thread::sleep(time);
        over.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().map_err(|_| "a client panicked")??;
        }
        Ok::<(), Box<dyn Error + Send + Sync>>(())
    })?;
    Ok(requests.load(Ordering::Relaxed))
}
