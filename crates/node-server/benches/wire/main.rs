//! Measures a node through the wire on loopback, beside a TCP echo of the same sizes, and fio on a file
//! of the same file system.
//!
//! `cargo bench -p terrace-node-server --bench wire -- DIRECTORY [--seconds N] [--runs N] [--only NAME]`. The node is a
//! file in the directory. Each run measures node and peers in turn; the median of the runs is shown,
//! of the ratios with the least and the most.

mod beside;
mod disk;
mod echo;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace_node::device::{Access, Backend, Medium, create_file, open_device};
use terrace_node::engine::create;
use terrace_node::format::layout::NamespaceRequest;
use terrace_node::format::superblock::Superblock;
use terrace_node_server::{Config, Running};
use terrace_nvmf::initiator::client::{Client, Condition, Key, Request, Settings};

const DEVICE_BYTES: u64 = 2 << 30;
const NSID: u32 = 1;
/// Bytes of a capsule's header, and of a response.
const CAPSULE: usize = 72;
const RESPONSE: usize = 24;

struct Arguments {
    directory: PathBuf,
    seconds: f64,
    runs: usize,
    /// A part of the names of chosen measurements.
    only: String,
}

/// A kind of command, its depth, and the bytes that it moves to the node and back.
struct Load {
    name: &'static str,
    depth: usize,
    sent: usize,
    received: usize,
    /// The peer's requests for fio, if it has the same: whether they are writes, and their bytes.
    fio: Option<(bool, usize)>,
    keys: u64,
    request: fn(u64) -> Request,
}

const LOADS: [Load; 7] = [
    Load {
        name: "32 KiB stores, depth 15",
        fio: Some((true, 32 << 10)),
        depth: 15,
        sent: CAPSULE + (32 << 10),
        received: RESPONSE,
        keys: 20_000,
        request: |number| store(number, 32 << 10),
    },
    Load {
        name: "512 KiB stores, depth 8",
        fio: Some((true, 512 << 10)),
        depth: 8,
        sent: CAPSULE + (512 << 10),
        received: RESPONSE,
        keys: 1500,
        request: |number| store(number, 512 << 10),
    },
    Load {
        name: "512 KiB retrieves, depth 8",
        fio: Some((false, 512 << 10)),
        depth: 8,
        sent: CAPSULE,
        received: RESPONSE + (512 << 10),
        keys: 1500,
        request: |number| retrieve(number, 512 << 10),
    },
    Load {
        name: "4 KiB stores, depth 32",
        fio: Some((true, 4096)),
        depth: 32,
        sent: CAPSULE + 4096,
        received: RESPONSE,
        keys: 50_000,
        request: |number| store(number, 4096),
    },
    Load {
        name: "4 KiB retrieves, depth 32",
        fio: Some((false, 4096)),
        depth: 32,
        sent: CAPSULE,
        received: RESPONSE + 4096,
        keys: 50_000,
        request: |number| retrieve(number, 4096),
    },
    Load {
        name: "Exist, depth 64",
        fio: None,
        depth: 64,
        sent: CAPSULE,
        received: RESPONSE,
        keys: 50_000,
        request: |number| Request::Exists {
            nsid: NSID,
            key: key(number),
        },
    },
    Load {
        name: "100 B stores, depth 64",
        fio: None,
        depth: 64,
        sent: CAPSULE + 100,
        received: RESPONSE,
        keys: 50_000,
        request: |number| store(number, 100),
    },
];

fn key(number: u64) -> Key {
    Key::new(&number.to_be_bytes()[4..]).expect("four bytes")
}

fn store(number: u64, bytes: usize) -> Request {
    Request::Store {
        nsid: NSID,
        key: key(number),
        value: value(bytes),
        condition: Condition::None,
    }
}

/// Returns bytes of a length, always the same memory: a client's cost of making values is its own.
fn value(bytes: usize) -> Arc<[u8]> {
    static VALUES: Mutex<Vec<Arc<[u8]>>> = Mutex::new(Vec::new());
    let mut values = VALUES.lock().expect("no thread panics with it");
    if let Some(found) = values.iter().find(|value| value.len() == bytes) {
        return Arc::clone(found);
    }
    let made: Arc<[u8]> = (0..bytes).map(|at| at as u8).collect();
    values.push(Arc::clone(&made));
    made
}

fn retrieve(number: u64, max_bytes: u32) -> Request {
    Request::Retrieve {
        nsid: NSID,
        key: key(number),
        max_bytes,
    }
}

/// Returns commands a second, and the latency that one in a hundred exceeds.
fn run_node(
    client: &mut Client,
    load: &Load,
    seconds: f64,
    random: &mut SmallRng,
) -> (f64, Duration) {
    let mut begun = HashMap::new();
    let mut latencies = Vec::new();
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(seconds));
    loop {
        while began.elapsed() < limit && begun.len() < load.depth {
            let request = (load.request)(random.random_range(0..load.keys));
            let ticket = client.submit(request).expect("room in the queue");
            begun.insert(ticket, Instant::now());
        }
        if begun.is_empty() {
            break;
        }
        for done in client.wait(Duration::from_secs(1)) {
            done.result.expect("no command fails");
            let since = begun.remove(&done.ticket).expect("it was begun");
            latencies.push(since.elapsed());
        }
    }
    let rate = latencies.len() as f64 / began.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let p99 = latencies.get(latencies.len() * 99 / 100).copied();
    (rate, p99.unwrap_or_default())
}

/// Stores every key once, so that retrieves find it.
fn fill(client: &mut Client, load: &Load, bytes: usize) {
    for number in 0..load.keys {
        while client.in_flight() >= load.depth {
            for done in client.wait(Duration::from_secs(1)) {
                done.result.expect("no store fails");
            }
        }
        client.submit(store(number, bytes)).expect("room");
    }
    while client.in_flight() > 0 {
        for done in client.wait(Duration::from_secs(1)) {
            done.result.expect("no store fails");
        }
    }
}

fn make_node(path: &Path) {
    create_file(path, DEVICE_BYTES, true, &mut |_| ()).expect("the file is written");
    let mut request = NamespaceRequest::new("keys");
    request.max_keys = Some(200_000);
    let superblock = Superblock::new(DEVICE_BYTES / 4096, &[request], &mut rand::rng());
    let medium = Arc::new(Medium::open(path, Access::Write).expect("the file"));
    let mut device = open_device(medium, Backend::Auto, 4).expect("a device");
    create(&mut *device, &superblock.expect("a layout")).expect("a node");
}

/// Returns the middle one of some figures, which it sorts.
fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn arguments() -> Option<Arguments> {
    let mut all = std::env::args().skip(1);
    let mut arguments = Arguments {
        directory: PathBuf::from(all.next().filter(|first| !first.starts_with("--"))?),
        seconds: 3.0,
        runs: 3,
        only: String::new(),
    };
    while let Some(option) = all.next() {
        if option == "--bench" {
            continue;
        }
        let value = all.next()?;
        match option.as_str() {
            "--seconds" => arguments.seconds = value.parse().ok()?,
            "--runs" => arguments.runs = value.parse().ok()?,
            "--only" => arguments.only = value,
            _ => return None,
        }
    }
    Some(arguments)
}

fn main() {
    let Some(arguments) = arguments() else {
        println!("usage: wire DIRECTORY [--seconds N] [--runs N] [--only NAME]");
        return;
    };
    let path = arguments.directory.join("wire-node");
    make_node(&path);
    let mut config = Config::new(&path);
    config.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let running = Running::start(&config).expect("the node");
    let host = "nqn.2026-11.org.example:bench";
    let settings = Settings::new(host, [1; 16], &running.subsystem.nqn);
    let mut client = Client::connect(running.addresses[0], &settings).expect("the server");
    let mut random = SmallRng::seed_from_u64(1);
    let peer = arguments.directory.join("wire-fio");
    create_file(&peer, DEVICE_BYTES, true, &mut |_| ()).expect("the file is written");
    let seconds = arguments.seconds;
    let is_chosen = |name: &str| name.contains(&arguments.only);
    for load in LOADS.iter().filter(|load| is_chosen(load.name)) {
        if load.received > RESPONSE || load.name.starts_with("Exist") {
            fill(&mut client, load, (load.received - RESPONSE).max(1));
        }
        let (mut rates, mut tails) = (Vec::new(), Vec::new());
        let (mut echoes, mut fios, mut syncs) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..arguments.runs {
            let (rate, p99) = run_node(&mut client, load, seconds, &mut random);
            echoes.push(rate / echo::run(load, seconds.min(1.0)));
            if let Some((is_write, bytes)) = load.fio {
                let fio = disk::fio(&peer, is_write, bytes, load.depth, seconds);
                fios.extend(fio.map(|fio| rate / fio));
            }
            if load.name.starts_with("100 B") {
                syncs.push(rate / disk::synced_writes(&peer, seconds));
            }
            rates.push(rate);
            tails.push(p99.as_secs_f64() * 1e6);
        }
        let (rate, p99) = (median(&mut rates), median(&mut tails));
        println!(
            "{:<27} {rate:>9.0}/s {:>7.0} MB/s  p99 {p99:>7.0} us{}{}{}",
            load.name,
            rate * load.sent.max(load.received) as f64 / 1e6,
            spread("echo", &mut echoes),
            spread("fio", &mut fios),
            spread("synced writes", &mut syncs),
        );
    }
    if is_chosen(beside::NAME) {
        fill(&mut client, &LOADS[4], 4096);
        let (mut tails, mut streams) = (Vec::new(), Vec::new());
        for _ in 0..arguments.runs {
            let address = running.addresses[0];
            let (tail, stream) = beside::run(&mut client, address, &settings, seconds, &mut random);
            tails.push(tail);
            streams.push(stream);
        }
        println!(
            "{} of {:.0} MB/s:{}",
            beside::NAME,
            median(&mut streams) / 1e6,
            spread("p99 alone", &mut tails)
        );
    }
    drop(client);
    running.stopper().stop();
    running.wait().expect("an orderly end");
    for path in [path, peer] {
        std::fs::remove_file(path).expect("the file goes");
    }
}

/// Returns the middle of some ratios to a peer, the least and the most.
fn spread(peer: &str, ratios: &mut [f64]) -> String {
    if ratios.is_empty() {
        return String::new();
    }
    let middle = median(ratios);
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    format!("  {middle:.2} of {peer} ({least:.2} to {most:.2})")
}
