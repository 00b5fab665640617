//! The read buffer on against off, the memory being the same: its gain and its cost.
//!
//! `cargo bench -p terrace --bench read_buffer -- ROWS VALUE_BYTES DIRECTORY CACHE_MIB ROUNDS`;
//! without arguments a tiny run, as the gate does. Each workload opens two stores of the same rows
//! and runs the same operations on both, in turn and in slices, after as many rounds again to warm
//! up. The output has the median slices' nanoseconds an operation, and the speedup with the buffer.
//! After a slice that writes, the store settles before the other one's turn, so that no side pays
//! for the other's flushes and merges. `ONLY=zipfian,scan` runs some of the workloads;
//! `STRUCTURE=ordered`, `POLICY=all|invalidate`, `SHARE=percent` set the meaning of `on`.

mod support;

use std::path::Path;
use std::time::Instant;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use support::{Arguments, scan, scatter};
use terrace::{Constants, Db, ForwardPolicy, Options, ReadBufferOptions, ReadBufferStructure};

/// Slices that a round of reads is divided into.
const SLICES: u64 = 8;

fn key(row: u64) -> [u8; 16] {
    let mut key = *b"row-0000........";
    key[8..].copy_from_slice(&scatter(row).to_be_bytes());
    key
}

#[derive(Clone, Copy)]
enum Operation {
    Get(u64),
    Scan(u64),
    Put(u64),
}

impl Operation {
    fn run(self, db: &Db, value: &mut [u8]) -> usize {
        match self {
            Operation::Get(row) => db.get(key(row)).unwrap().map_or(0, |value| value.len()),
            Operation::Put(row) => {
                let key = key(row);
                let stamp = value.len().min(8);
                value[..stamp].copy_from_slice(&key[key.len() - stamp..]);
                db.put(key, value).unwrap();
                1
            }
            Operation::Scan(row) => scan(db, &key(row)),
        }
    }
}

/// Draws operations.
struct Draw {
    random: SmallRng,
    zipf: Zipf<f64>,
    rows: u64,
    /// Number of rows added by now.
    added: u64,
}

impl Draw {
    /// Draws as YCSB does: the ranks' rows lie anywhere.
    fn zipfian(&mut self) -> u64 {
        let rank = self.zipf.sample(&mut self.random) as u64;
        scatter(rank) % self.rows
    }

    fn uniform(&mut self) -> u64 {
        self.random.random_range(0..self.rows)
    }

    fn half(&mut self) -> bool {
        self.random.random()
    }

    fn next(&mut self, workload: &str) -> Operation {
        match workload {
            "zipfian" => Operation::Get(self.zipfian()),
            "uniform" => Operation::Get(self.uniform()),
            // The set would fit as records, and does not as blocks.
            "hot set" => Operation::Get(scatter(self.uniform() % (self.rows / 40 + 1)) % self.rows),
            "missing" => Operation::Get(self.rows * 1000 + self.uniform()),
            "scan" => Operation::Scan(self.uniform()),
            "update zipfian" if self.half() => Operation::Get(self.zipfian()),
            "update zipfian" => Operation::Put(self.zipfian()),
            "update uniform" if self.half() => Operation::Get(self.uniform()),
            "update uniform" | "write" => Operation::Put(self.uniform()),
            "read while loading" if self.half() => Operation::Get(self.zipfian()),
            "read while loading" | "load" => {
                self.added += 1;
                Operation::Put(self.rows + self.added)
            }
            _ => panic!("there is no workload {workload}"),
        }
    }
}

const WORKLOADS: [&str; 10] = [
    "zipfian",
    "uniform",
    "hot set",
    "missing",
    "scan",
    "update zipfian",
    "update uniform",
    "read while loading",
    "write",
    "load",
];

/// Returns whether the workload writes. Then a slice is longer, and the work that it left follows.
fn operation_writes(workload: &str) -> bool {
    ["update", "load", "write"]
        .iter()
        .any(|name| workload.contains(name))
}

fn open(directory: &Path, cache_mib: u64, buffer: ReadBufferOptions) -> Db {
    let options = Options {
        cache_bytes: cache_mib << 20,
        read_buffer: buffer,
        constants: constants(),
        ..Options::default()
    };
    Db::open(directory, options).unwrap()
}

fn load(directory: &Path, rows: u64, value_bytes: u64) {
    if directory.join("CURRENT").exists() {
        return;
    }
    let db = open(directory, 64, buffer(0));
    let mut value: Vec<u8> = (0..value_bytes).map(|at| scatter(at) as u8).collect();
    for row in 0..rows {
        Operation::Put(row).run(&db, &mut value);
    }
    db.flush().unwrap();
    db.compact().unwrap();
    db.close().unwrap();
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn buffer(share_percent: u32) -> ReadBufferOptions {
    let default = ReadBufferOptions::default();
    ReadBufferOptions {
        policy: match variable("POLICY").as_str() {
            "all" => ForwardPolicy::All,
            _ => default.policy,
        },
        share_percent,
    }
}

fn constants() -> Constants {
    let default = Constants::default();
    Constants {
        structure: match variable("STRUCTURE").as_str() {
            "ordered" => ReadBufferStructure::Ordered,
            _ => default.structure,
        },
        while_blocks_fit: true,
        ..default
    }
}

fn main() {
    let arguments = Arguments::new();
    let number = |at, default| arguments.number(at, default);
    let temporary = tempfile::tempdir().unwrap();
    let base = arguments.directory(2, temporary.path());
    let (rows, value_bytes) = (number(0, 2_000), number(1, 100));
    let (cache_mib, rounds) = (number(3, 1), number(4, 1));
    let stores = [base.join("off"), base.join("on")];
    let default_share = ReadBufferOptions::default().share_percent;
    let share = variable("SHARE").parse().unwrap_or(default_share);
    let only = variable("ONLY");
    let wanted = |name: &&&str| only.is_empty() || only.split(',').any(|one| one == **name);

    for &workload in WORKLOADS.iter().filter(wanted) {
        let fresh = workload == "load";
        let paths = stores.each_ref().map(|store| {
            if fresh {
                let path = store.with_extension("fresh");
                let _ = std::fs::remove_dir_all(&path);
                return path;
            }
            load(store, rows, value_bytes);
            store.clone()
        });
        let [off, on] = &paths;
        let databases = [
            open(off, cache_mib, buffer(0)),
            open(on, cache_mib, buffer(share)),
        ];
        run(workload, &databases, rows, value_bytes as usize, rounds);
        for db in databases {
            db.close().unwrap();
        }
    }
}

fn run(workload: &str, databases: &[Db; 2], rows: u64, value_bytes: usize, rounds: u64) {
    let mut value: Vec<u8> = (0..value_bytes)
        .map(|at| scatter(at as u64) as u8)
        .collect();
    let mut draw = Draw {
        random: SmallRng::seed_from_u64(1),
        zipf: Zipf::new(rows as f64, 0.99).unwrap(),
        rows,
        added: 0,
    };
    let count = rows.min(400_000) / if workload == "scan" { 20 } else { 1 };
    let writes = operation_writes(workload);
    let slices = if writes { 4 } else { SLICES };
    let slice = (count / slices).max(1);
    let mut times = [const { Vec::new() }; 2];
    for round in 0..2 * rounds {
        for number in 0..slices {
            // A store that is only written to has been read before.
            let drawn = match workload {
                "write" if round < rounds => "update zipfian",
                workload => workload,
            };
            let operations: Vec<Operation> = (0..slice).map(|_| draw.next(drawn)).collect();
            // Each side is first half of the time.
            for side in [number as usize % 2, 1 - number as usize % 2] {
                let db = &databases[side];
                let began = Instant::now();
                let mut found = 0;
                for operation in &operations {
                    found += usize::from(operation.run(db, &mut value) > 0);
                }
                if round >= rounds {
                    times[side].push(began.elapsed().as_nanos() as u64 / slice);
                }
                if writes {
                    db.flush().unwrap();
                    db.compact().unwrap();
                }
                assert!(workload == "missing" || workload == "scan" || found as u64 == slice);
            }
        }
    }
    let [off, on] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    let ratio = off as f64 / on.max(1) as f64;
    println!("{workload:>18}: off {off:>6} ns, on {on:>6} ns, {ratio:.2} times");
    for (name, db) in [("off", &databases[0]), ("on", &databases[1])] {
        let statistics = db.statistics();
        let memory = statistics.memory;
        println!(
            "{name:>22}: blocks {:.1} MiB, {} hits, {} misses; {}",
            memory.block_cache_bytes as f64 / (1 << 20) as f64,
            memory.block_cache_hits,
            memory.block_cache_misses,
            statistics.read_buffer.map_or(String::new(), |buffer| format!(
                "buffer {:.1} MiB, hit ratio {:.2}, fills {} taken {} dropped, forwards {} stored \
                 {} skipped, evictions {}",
                buffer.bytes as f64 / (1 << 20) as f64,
                buffer.hit_ratio().unwrap_or_default(),
                buffer.fills_taken,
                buffer.fills_dropped,
                buffer.forwards_stored,
                buffer.forwards_skipped,
                buffer.evictions,
            )),
        );
    }
}
