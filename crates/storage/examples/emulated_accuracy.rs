//! Compares emulated devices with their sheets, on the machine's clock.
//!
//! `cargo run --release -p terrace-storage --example emulated_accuracy -- DIRECTORY [ROUNDS [NAME]]`, with
//! a directory in memory, such as `/dev/shm`. Each figure is the median of the rounds: the median
//! latency of random reads of 4 KiB by 1 and by 32 threads, and the bandwidth of reads and writes of
//! 256 KiB in order, the sync of the writes included. One processor copies some 4 GB in a second, so
//! quicker devices get a second stream, and parts of the file that fit a processor's cache. The device
//! `none` takes no time: its figures are the bounds of the machine.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use terrace_storage::{
    DeviceProfile, EmulatedDevice, EmulatedStorage, File, OpenMode, OpenOptions, Purpose,
    RealStorage, Storage,
};

const FILE_BYTES: u64 = 256 << 20;
const CHUNK_BYTES: usize = 256 << 10;
const NONE: DeviceProfile = DeviceProfile {
    read_bytes_per_second: f64::INFINITY,
    write_bytes_per_second: f64::INFINITY,
    read_latency_us: 0.0,
    queued_read_latency_us: 0.0,
    sync_latency_us: 0.0,
    price_per_gb: 0.0,
    endurance_writes: 0.0,
};

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Returns the median latency in microseconds of random reads of 4 KiB by some threads.
fn latency_us(file: &Arc<dyn File>, threads: u64, time: Duration) -> f64 {
    let barrier = Barrier::new(threads as usize);
    let read = |seed| {
        let mut random = StdRng::seed_from_u64(seed);
        let mut buffer = [0; 4096];
        let mut times = Vec::new();
        barrier.wait();
        let begun = Instant::now();
        while begun.elapsed() < time {
            let offset = random.random_range(0..FILE_BYTES / 4096) * 4096;
            let before = Instant::now();
            file.read_exact_at(&mut buffer, offset, Purpose::Read)
                .unwrap();
            times.push(before.elapsed().as_nanos() as f64 / 1e3);
        }
        times
    };
    let times = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|seed| scope.spawn(move || read(seed)))
            .collect();
        readers
            .into_iter()
            .flat_map(|reader| reader.join().unwrap())
            .collect()
    });
    median(times)
}

/// Returns the bytes a second of streams, each through its own part of the file.
fn bandwidth(storage: &EmulatedStorage, path: &Path, expected: f64, is_write: bool) -> f64 {
    let streams: u64 = if expected > 3e9 { 2 } else { 1 };
    let part_bytes = match expected > 1e9 {
        true => 16 << 20,
        false => FILE_BYTES / streams,
    };
    let seconds = if is_write { 2.0 } else { 0.7 };
    let total_bytes = (expected.min(7e9) * seconds) as u64 / streams;
    let stream = |number: u64| {
        let options = OpenOptions::buffered(OpenMode::ReadWrite);
        let file = storage.open(path, options).unwrap();
        let mut buffer = vec![1; CHUNK_BYTES];
        let mut bytes = 0;
        while bytes < total_bytes {
            let offset = number * part_bytes + bytes % part_bytes;
            match is_write {
                true => file.write_at(&buffer, offset, Purpose::Other),
                false => file.read_exact_at(&mut buffer, offset, Purpose::Read),
            }
            .unwrap();
            bytes += CHUNK_BYTES as u64;
        }
        if is_write {
            file.sync(Purpose::Other).unwrap();
        }
        bytes
    };
    let begun = Instant::now();
    let bytes: u64 = std::thread::scope(|scope| {
        let streams: Vec<_> = (0..streams)
            .map(|number| scope.spawn(move || stream(number)))
            .collect();
        streams
            .into_iter()
            .map(|stream| stream.join().unwrap())
            .sum()
    });
    bytes as f64 / begun.elapsed().as_secs_f64()
}

/// Returns depth 1, depth 32, read and write bandwidth of one round.
fn round(profile: DeviceProfile, directory: &Path) -> [f64; 4] {
    let device = Arc::new(EmulatedDevice::new("measured", profile));
    let storage = EmulatedStorage::new(Arc::new(RealStorage), device);
    let path = directory.join("emulated-accuracy");
    let options = OpenOptions::buffered(OpenMode::ReadWrite);
    let file = storage.open(&path, options).unwrap();
    let time = |latency_us: f64| Duration::from_secs_f64((latency_us * 20.0 / 1e6).clamp(0.3, 4.0));
    let write = bandwidth(&storage, &path, profile.write_bytes_per_second, true);
    let read = bandwidth(&storage, &path, profile.read_bytes_per_second, false);
    let first = latency_us(&file, 1, time(profile.read_latency_us * 3.0));
    let queued = latency_us(&file, 32, time(profile.queued_read_latency_us));
    [first, queued, read / 1e6, write / 1e6]
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().expect("a directory in memory"));
    let rounds: usize = arguments.next().map_or(5, |rounds| rounds.parse().unwrap());
    let only = arguments.next();
    let path = directory.join("emulated-accuracy");
    let bytes = vec![7; CHUNK_BYTES];
    let file = RealStorage
        .open(&path, OpenOptions::buffered(OpenMode::CreateNew))
        .unwrap();
    for _ in 0..FILE_BYTES / CHUNK_BYTES as u64 {
        file.append(&bytes, Purpose::Other).unwrap();
    }
    println!("device     figure          sheet   measured  ratio  (rounds)");
    for (name, profile) in DeviceProfile::PRESETS.into_iter().chain([("none", NONE)]) {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let figures: Vec<[f64; 4]> = (0..rounds).map(|_| round(profile, &directory)).collect();
        let sheet = [
            ("p50 depth 1, us", profile.read_latency_us),
            ("p50 depth 32, us", profile.queued_read_latency_us),
            ("read, MB/s", profile.read_bytes_per_second / 1e6),
            ("write, MB/s", profile.write_bytes_per_second / 1e6),
        ];
        for (index, (label, expected)) in sheet.into_iter().enumerate() {
            let all: Vec<f64> = figures.iter().map(|figures| figures[index]).collect();
            let measured = median(all.clone());
            let shown: Vec<String> = all.iter().map(|figure| format!("{figure:.0}")).collect();
            println!(
                "{name:10} {label:16} {expected:8.0} {measured:9.1} {:6.3}  ({})",
                measured / expected,
                shown.join(" ")
            );
        }
    }
    std::fs::remove_file(&path).unwrap();
}
