//! Stores of several tiers: their directories, their space, tables that move, and tiers that are lost.
//!
//! `TERRACE_CRASH_STRIDE` sets how many steps lie between two crash points (1: exhaustive).

mod cache;
mod crash;
mod homes;
mod loss;
mod migration;
mod model;
mod placement;
mod repair;
mod space;
#[path = "../support/mod.rs"]
mod support;
mod traffic;

use std::path::Path;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::{Background, Db, Options, TierOptions};
use terrace_storage::{CrashSwitch, OpenMode, OpenOptions, Purpose, SimulatedStorage, Storage};

const STORE: &str = "/store";
const MIDDLE: &str = "/middle";
const SLOW: &str = "/slow";

fn disk() -> SimulatedStorage {
    SimulatedStorage::new(1, CrashSwitch::new())
}

/// Returns options for a tiny store on a disk, whose work its callers do.
fn options(disk: &SimulatedStorage) -> Options {
    support::script::tiny(Options {
        storage: Arc::new(disk.clone()),
        background: Background::Inline,
        ..Options::default()
    })
}

/// Returns the options with three tiers: two of them are small.
fn with_three(options: Options, fast_bytes: u64, middle_bytes: u64) -> Options {
    let fast = TierOptions {
        capacity_bytes: Some(fast_bytes),
        reserve_bytes: fast_bytes / 4,
        ..TierOptions::of_store("fast")
    };
    let middle = TierOptions {
        capacity_bytes: Some(middle_bytes),
        reserve_bytes: middle_bytes / 8,
        ..TierOptions::new("middle", MIDDLE)
    };
    Options {
        tiers: vec![fast, middle, TierOptions::new("slow", SLOW)],
        ..options
    }
}

/// Returns the options with a tier for each level.
fn with_level_tiers(mut options: Options, names: &[&str]) -> Options {
    let names = names.iter().map(|name| (*name).to_owned());
    options.default_keyspace.level_tiers = names.collect();
    options
}

/// Returns a value of two hundred bytes that does not compress.
fn value(number: u32) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(number.into());
    (0..200).map(|_| random.random::<u8>()).collect()
}

/// Writes keys with values of two hundred bytes, from one number up to another.
fn fill(db: &Db, numbers: std::ops::Range<u32>) {
    for number in numbers {
        db.put(format!("key-{number:05}"), value(number)).unwrap();
    }
    db.flush().unwrap();
    db.compact().unwrap();
    while db.wait_for_migration().unwrap() {}
}

/// Checks that the keys have the values that `fill` gave them.
fn check(db: &Db, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let found = db.get(format!("key-{number:05}")).unwrap();
        assert_eq!(found.as_deref(), Some(&value(number)[..]), "{number}");
    }
}

/// Changes a bit of a file.
fn flip(disk: &SimulatedStorage, path: &Path, offset: u64) {
    let options = OpenOptions::buffered(OpenMode::ReadWrite);
    let file = disk.open(path, options).unwrap();
    let byte = file.read_vec_at(1, offset, Purpose::Other).unwrap()[0];
    file.write_at(&[byte ^ 1], offset, Purpose::Other).unwrap();
}

/// Returns the bytes of the tables in a directory.
fn table_bytes(disk: &SimulatedStorage, directory: &str) -> u64 {
    let entries = disk.list(Path::new(directory)).unwrap_or_default();
    let tables = entries
        .iter()
        .filter(|entry| entry.name.ends_with(".table"));
    tables.map(|entry| entry.length_bytes).sum()
}
