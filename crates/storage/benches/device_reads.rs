//! Reads blocks of a device at random, past the page cache, waiting for each asleep and on the
//! processor in turn: the worth of `OpenOptions::polled` on a disk.
//!
//! `cargo bench -p terrace-storage --bench device_reads -- READS DIRECTORY`: `READS` reads of 4, 16
//! and 64 KiB by each way in each of three rounds, from a file of 1 GiB in the directory; without
//! arguments a tiny run, as in the gate. `busy` is the processor time of a read, by the process's
//! clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use terrace_storage::{File, OpenMode, OpenOptions, Purpose, RealStorage, Storage};

const ROUNDS: usize = 3;

/// Times of one way of waiting.
#[derive(Default)]
struct Times {
    reads: Vec<Duration>,
    busy: Duration,
}

impl Times {
    fn line(&mut self) -> String {
        self.reads.sort_unstable();
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let at = |share: f64| micros(self.reads[((self.reads.len() - 1) as f64 * share) as usize]);
        let each = |time: Duration| micros(time) / self.reads.len() as f64;
        format!(
            "{:9.1} {:9.1} {:9.1} {:9.1} {:9.1}",
            each(self.reads.iter().sum()),
            at(0.5),
            at(0.99),
            at(1.0),
            each(self.busy)
        )
    }
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn read(file: &Arc<dyn File>, bytes: usize, count: u64, random: &mut StdRng, times: &mut Times) {
    let blocks = file.length_bytes().unwrap() / bytes as u64;
    let busy_before = processor_time();
    for _ in 0..count {
        let offset = random.random_range(0..blocks) * bytes as u64;
        let begun = Instant::now();
        let read = file.read_vec_at(bytes, offset, Purpose::Read).unwrap();
        times.reads.push(begun.elapsed());
        assert_eq!(read.len(), bytes);
    }
    times.busy += processor_time() - busy_before;
}

fn main() {
    // Cargo adds `--bench`.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"));
    let reads: Option<u64> = arguments.next().map(|text| text.parse().unwrap());
    let temporary = tempfile::tempdir().unwrap();
    let directory = arguments
        .next()
        .map_or(temporary.path().to_path_buf(), Into::into);
    let directory = tempfile::tempdir_in(directory).unwrap();
    let path = directory.path().join("file");

    let file = RealStorage
        .open(&path, OpenOptions::direct(OpenMode::CreateNew))
        .unwrap();
    let file_mib = reads.map_or(1, |_| 1024);
    let mut random = StdRng::seed_from_u64(1);
    let mut chunk = vec![0; 1 << 20];
    for _ in 0..file_mib {
        random.fill(&mut chunk[..]);
        file.append(&chunk, Purpose::Other).unwrap();
    }
    file.sync(Purpose::Other).unwrap();

    let ways = [false, true].map(|polled| {
        let options = OpenOptions {
            polled,
            ..OpenOptions::direct(OpenMode::Read)
        };
        RealStorage.open(&path, options).unwrap()
    });
    if !ways[0].is_direct() || !RealStorage.can_poll() {
        println!("no direct I/O or no io_uring here: both ways are one");
    }
    let titles = ["mean", "median", "p99", "longest", "busy"].map(|title| format!("{title:>9}"));
    println!("{:20} {}", "us", titles.join(" "));
    for bytes in [4 << 10, 16 << 10, 64 << 10] {
        let mut times = [Times::default(), Times::default()];
        for _ in 0..ROUNDS {
            for (way, times) in ways.iter().zip(&mut times) {
                read(way, bytes, reads.unwrap_or(10), &mut random, times);
            }
        }
        for (name, times) in ["asleep", "on the processor"].iter().zip(&mut times) {
            let name = format!("{} KiB {name}", bytes >> 10);
            println!("{name:20} {}", times.line());
        }
    }
}
