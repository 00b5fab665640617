//! Appends frames by each persist method in turn: mean, median, 99.9th percentile, longest, in µs.
//!
//! `cargo bench -p terrace-region --bench append -- ARENAS DIRECTORY`: appends `ARENAS` arenas of
//! 64 MiB of each frame size by each method, in the directory; without arguments a tiny run, as in
//! the gate. `persisted` appends and persists each frame. `dax` takes the directory's memory for
//! persistent memory. For comparing methods and commits on one machine, not for quoting.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use terrace_region::{DaxOptions, Frame, MappedOptions, Region, WrittenOptions};
use terrace_storage::RealStorage;

const TINY_ARENA_BYTES: u64 = 1 << 20;

/// Times of one round, in ns.
#[derive(Default)]
struct Times(Vec<u64>);

impl Times {
    fn line(&mut self) -> String {
        self.0.sort_unstable();
        let at = |share: f64| self.0[((self.0.len() - 1) as f64 * share) as usize] as f64 / 1e3;
        let mean = self.0.iter().sum::<u64>() as f64 / self.0.len() as f64 / 1e3;
        format!(
            "{mean:9.2} {:9.2} {:9.2} {:9.2}",
            at(0.5),
            at(0.999),
            at(1.0)
        )
    }
}

/// Fills one arena. The first round of a region, whose file is new, is the caller's to drop.
fn fill(region: &Region, generation: u64, payload: &[u8], persisted: bool, times: &mut Times) {
    let slot = region.reserve(region.arena_bytes()).unwrap();
    let arena = region.activate(slot, generation).unwrap();
    // A sync takes long: fewer of them.
    let most = match (persisted, region.arena_bytes() > TINY_ARENA_BYTES) {
        (false, _) => u64::MAX,
        (true, true) => 2_000,
        (true, false) => 3,
    };
    let mut number = 0;
    while arena.remaining_payload_bytes() >= payload.len() && number < most {
        number += 1;
        let began = Instant::now();
        let frame = Frame {
            first_sequence: number,
            record_count: 1,
            persisted_until: 0,
            payload: &[payload],
        };
        arena.append(&frame).unwrap();
        if persisted {
            arena.persist().unwrap();
        }
        times.0.push(began.elapsed().as_nanos() as u64);
    }
    region.recycle(arena.slot()).unwrap();
}

fn regions(directory: &Path, arena_bytes: u64) -> Vec<Region> {
    let emulate_power_safety = true;
    let home = |name: &str| {
        let path = directory.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let storage = || Arc::new(RealStorage);
    let written = WrittenOptions {
        emulate_power_safety,
        ..WrittenOptions::default()
    };
    let mapped = MappedOptions {
        emulate_power_safety,
    };
    let dax = DaxOptions {
        emulate_power_safety,
    };
    let opened = [
        Region::written(storage(), &home("written"), [0; 16], arena_bytes, written),
        Region::mapped(storage(), &home("mapped"), [0; 16], arena_bytes, mapped),
        Region::dax(storage(), &home("dax"), [0; 16], arena_bytes, dax),
    ];
    // Methods that the file system or the CPU cannot do are left out.
    opened.into_iter().flatten().collect()
}

fn main() {
    // Cargo adds `--bench`.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"));
    let arenas: Option<u64> = arguments.next().map(|text| text.parse().unwrap());
    let temporary = tempfile::tempdir().unwrap();
    let directory = arguments
        .next()
        .map_or(temporary.path().to_path_buf(), Into::into);
    let arena_bytes = arenas.map_or(TINY_ARENA_BYTES, |_| 64 << 20);

    let directory = tempfile::tempdir_in(directory).unwrap();
    let regions = regions(directory.path(), arena_bytes);
    let mut generation = 0;
    let titles = ["mean", "median", "p99.9", "longest"].map(|title| format!("{title:>9}"));
    println!("{:24} {}", "us", titles.join(" "));
    for persisted in [false, true] {
        for payload_bytes in [100, 1_000, 4_000, 16_000, 64_000] {
            let payload = vec![0xA5; payload_bytes];
            let mut times: Vec<Times> = regions.iter().map(|_| Times::default()).collect();
            for round in 0..=arenas.unwrap_or(1) {
                for (region, times) in regions.iter().zip(&mut times) {
                    generation += 1;
                    if round == 0 {
                        fill(
                            region,
                            generation,
                            &payload,
                            persisted,
                            &mut Times::default(),
                        );
                    } else {
                        fill(region, generation, &payload, persisted, times);
                    }
                }
            }
            for (region, times) in regions.iter().zip(&mut times) {
                let what = if persisted { "persisted" } else { "appended" };
                let name = format!("{} {payload_bytes} {what}", region.description().method);
                println!("{name:24} {}", times.line());
            }
        }
    }
}
