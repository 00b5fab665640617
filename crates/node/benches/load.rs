//! The figures of a storage node's engine on a file or device.
//!
//! `cargo bench -p terrace-node --bench load -- PATH [GIB [NAME]]`; NAME chooses figures. The file is made, filled with zeros and
//! removed again. Without arguments, a tiny run on a temporary file, which is that of the gate.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace_node::Key;
use terrace_node::device::{Access, Backend, Device, Medium, Wait, create_file, open_device};
use terrace_node::engine::{
    Command, Condition, DEFAULT_BUFFER_BYTES, Engine, Event, Node, Worker, create,
};
use terrace_node::format::layout::NamespaceRequest;
use terrace_node::format::superblock::Superblock;

/// Requests that a device takes at one time.
const DEVICE_DEPTH: usize = 256;

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"));
    let path = arguments.next().filter(|text| text != "tiny");
    let gib: f64 = arguments
        .next()
        .map_or(4.0, |text| text.parse().expect("a number of GiB"));
    let chosen = arguments.next().unwrap_or_default();
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let (path, bytes, scale) = match &path {
        Some(path) => (
            Path::new(path).to_path_buf(),
            (gib * (1 << 30) as f64) as u64,
            1,
        ),
        None => (temporary.path().join("device"), 64 << 20, 200),
    };
    for (name, figure) in FIGURES
        .into_iter()
        .filter(|(name, _)| name.contains(&chosen))
    {
        let mut load = Load::new(&path, bytes);
        figure(&mut load, scale, name);
        drop(load);
        let _ = std::fs::remove_file(&path);
    }
}

type Figure = fn(&mut Load, u64, &str);

const FIGURES: [(&str, Figure); 7] = [
    ("fillsequential, 32 KB, 15 in flight", fill_sequential),
    ("512 KiB, 8 in flight", large_values),
    ("4 KB random retrieves, 32 in flight", random_retrieves),
    ("100 B stores, 64 in flight", small_stores),
    ("exist", exist),
    ("overwrites of 32 KB, empty and 90 % full", overwrites_large),
    ("overwrites of 100 B, empty and 80 % full", overwrites_small),
];

fn fill_sequential(load: &mut Load, scale: u64, name: &str) {
    load.stores(name, 15, 40_000 / scale, 32_000, |number| number);
}

fn large_values(load: &mut Load, scale: u64, name: &str) {
    let count = 3000 / scale;
    load.stores(&format!("{name}: stores"), 8, count, 512 << 10, |number| {
        number
    });
    load.retrieves(&format!("{name}: retrieves"), 8, count, |number, _| number);
}

fn random_retrieves(load: &mut Load, scale: u64, name: &str) {
    let count = 200_000 / scale;
    load.stores("4 KB stores, 64 in flight", 64, count, 4000, |number| {
        number
    });
    load.retrieves(name, 32, count, move |_, rng| rng.random_range(0..count));
}

fn small_stores(load: &mut Load, scale: u64, name: &str) {
    load.stores(name, 64, 200_000 / scale, 100, |number| number);
}

fn exist(load: &mut Load, scale: u64, name: &str) {
    let count = 1_000_000 / scale;
    load.stores("100 B stores, 256 in flight", 256, count, 100, |number| {
        number
    });
    let start = Instant::now();
    let mut rng = SmallRng::seed_from_u64(1);
    let mut events = Vec::new();
    for _ in 0..count {
        let key = key(rng.random_range(0..count * 2));
        load.worker.submit(1, 1, Command::Exist { key });
        load.worker
            .poll(Wait::No, &mut events)
            .expect("the device's queue works");
        events.clear();
    }
    println!(
        "{name}: {:.2} M/s",
        count as f64 / start.elapsed().as_secs_f64() / 1e6
    );
}

fn overwrites_large(load: &mut Load, scale: u64, name: &str) {
    overwrites(load, scale, name, 32_000, 36_864, 0.9, 15);
}

fn overwrites_small(load: &mut Load, scale: u64, name: &str) {
    overwrites(load, scale, name, 100, 144, 0.8, 64);
}

/// Stores into an empty device, fills it to a share of its space, and overwrites at random.
fn overwrites(
    load: &mut Load,
    scale: u64,
    name: &str,
    value_bytes: usize,
    stored_bytes: u64,
    share: f64,
    depth: usize,
) {
    let data = load.node.statistics(1).expect("it is there").data_blocks * 4096;
    let count = (data as f64 * share) as u64 / stored_bytes;
    let measured = (count / 4).min(200_000 / scale);
    let empty = load.stores(
        &format!("{name}: empty"),
        depth,
        measured,
        value_bytes,
        |n| n,
    );
    load.stores(
        &format!("{name}: fill"),
        depth,
        count - measured,
        value_bytes,
        |n| measured + n,
    );
    let mut rng = SmallRng::seed_from_u64(2);
    load.stores(
        &format!("{name}: warm"),
        depth,
        measured,
        value_bytes,
        |_| rng.random_range(0..count),
    );
    let full = load.stores(
        &format!("{name}: full"),
        depth,
        measured,
        value_bytes,
        |_| rng.random_range(0..count),
    );
    println!("{name}: {:.2} of an empty device's rate", full / empty);
}

fn key(number: u64) -> Key {
    Key::new(&(number as u32).to_be_bytes()).expect("four bytes")
}

struct Load {
    node: Arc<Node>,
    worker: Worker,
}

impl Load {
    fn new(path: &Path, bytes: u64) -> Self {
        let _ = std::fs::remove_file(path);
        create_file(path, bytes, false, &mut |_| ()).expect("the file can be made");
        let medium = Arc::new(Medium::open(path, Access::Write).expect("the file opens"));
        let open = || -> Box<dyn Device> {
            open_device(Arc::clone(&medium), Backend::Auto, DEVICE_DEPTH).expect("a device")
        };
        let request = NamespaceRequest {
            max_keys: Some((bytes / 128).min(8_000_000)),
            ..NamespaceRequest::new("load")
        };
        let superblock = Superblock::new(bytes / 4096, &[request], &mut rand::rng());
        create(&mut *open(), &superblock.expect("it is large enough")).expect("it is written");
        let node = Node::open(&mut *open()).expect("it opens");
        let worker = Worker::new(&node, open(), DEFAULT_BUFFER_BYTES).expect("a legal budget");
        Load { node, worker }
    }

    /// Stores values and returns how many a second.
    fn stores(
        &mut self,
        name: &str,
        depth: usize,
        count: u64,
        value_bytes: usize,
        mut number: impl FnMut(u64) -> u64,
    ) -> f64 {
        let command = |at: u64| Command::Store {
            key: key(number(at)),
            value_bytes: value_bytes as u32,
            condition: Condition::Always,
        };
        self.run(name, depth, count, value_bytes, command)
    }

    fn retrieves(
        &mut self,
        name: &str,
        depth: usize,
        count: u64,
        mut number: impl FnMut(u64, &mut SmallRng) -> u64,
    ) -> f64 {
        let mut rng = SmallRng::seed_from_u64(3);
        let command = |at: u64| Command::Retrieve {
            key: key(number(at, &mut rng)),
            max_bytes: u32::MAX,
        };
        self.run(name, depth, count, 0, command)
    }

    fn run(
        &mut self,
        name: &str,
        depth: usize,
        count: u64,
        value_bytes: usize,
        mut command: impl FnMut(u64) -> Command,
    ) -> f64 {
        let mut latencies = Vec::with_capacity(count as usize);
        let mut begun: HashMap<u64, Instant> = HashMap::new();
        let (mut next, mut bytes_moved, mut events) = (0, 0, Vec::new());
        let start = Instant::now();
        while latencies.len() < count as usize {
            while next < count && begun.len() < depth {
                begun.insert(next, Instant::now());
                self.worker.submit(next, 1, command(next));
                next += 1;
            }
            self.worker
                .poll(Wait::Yes, &mut events)
                .expect("the device's queue works");
            for event in events.drain(..) {
                match event {
                    Event::Want {
                        tag,
                        bytes,
                        mut buffer,
                        ..
                    } => {
                        buffer[..8].copy_from_slice(&tag.to_le_bytes());
                        bytes_moved += u64::from(bytes);
                        self.worker.supply(tag, buffer);
                    }
                    Event::Piece {
                        tag, bytes, buffer, ..
                    } => {
                        bytes_moved += u64::from(bytes);
                        self.worker.give_back(tag, buffer);
                    }
                    Event::Done { tag, result } => {
                        result.expect("no command fails");
                        latencies.push(begun.remove(&tag).expect("it was begun").elapsed());
                    }
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        latencies.sort();
        let at = |share: f64| -> Duration {
            let rank = (latencies.len() as f64 * share) as usize;
            latencies
                .get(rank.min(latencies.len().saturating_sub(1)))
                .copied()
                .unwrap_or_default()
        };
        let rate = count as f64 / seconds;
        println!(
            "{name}: {rate:.0}/s, {:.0} MB/s, latency p50 {:?}, p99 {:?}, p99.9 {:?} ({value_bytes} B)",
            bytes_moved as f64 / seconds / 1e6,
            at(0.5),
            at(0.99),
            at(0.999)
        );
        rate
    }
}
