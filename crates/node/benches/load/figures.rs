//! Figures of one event loop with commands of one kind.

use std::time::Instant;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace_node::device::Kind;
use terrace_node::engine::{Command, Engine};

use super::engine::{Load, key, make_file, retrieve};
use super::report::{Report, Sample};
use super::{Setting, fio, raw};

/// The largest file of the figures whose small values fill it: more takes minutes a run.
const SMALL_FILE_BYTES: u64 = 1 << 30;

/// Measures peers in an order that changes from run to run, and returns their samples.
fn alternate<const N: usize>(
    report: &mut Report,
    run: usize,
    mut peers: [(&str, &mut dyn FnMut() -> Option<Sample>); N],
) -> [Option<Sample>; N] {
    let mut samples = [None; N];
    for turn in 0..N {
        let at = (turn + run) % N;
        let (name, measure) = &mut peers[at];
        samples[at] = measure();
        if let Some(sample) = samples[at] {
            report.add(name, sample);
        }
    }
    samples
}

/// Notes the first peer's rate of bytes as a share of the others'.
fn compare(report: &mut Report, name: &str, others: &[&str], samples: &[Option<Sample>]) {
    let Some(own) = samples[0] else { return };
    for (other, sample) in others.iter().zip(&samples[1..]) {
        if let Some(sample) = sample {
            let share = own.bytes_per_second / sample.bytes_per_second;
            report.note(&format!("{name}: share of {other}"), "", share);
        }
    }
}

pub fn fill_sequential(setting: &Setting, report: &mut Report, run: usize) {
    make_file(&setting.path, setting.bytes);
    let (count, bytes) = (40_000 / setting.scale, 32_768);
    let raw = raw::Load {
        kind: Kind::Write,
        is_random: false,
        bytes,
        depth: 15,
        count,
        offset: 0,
    }
    .at_end_of(setting.bytes);
    let mut engine = || {
        let mut load = Load::beside(&setting.path, setting.bytes, count, raw.span());
        Some(load.stores(15, count, bytes, |number| number))
    };
    let mut raw = || Some(raw.run(&setting.path));
    let name = "stores of 32 KiB, 15 in flight";
    let samples = alternate(
        report,
        run,
        [(name, &mut engine), ("raw, unflushed", &mut raw)],
    );
    compare(report, name, &["raw"], &samples);
}

pub fn large_values(setting: &Setting, report: &mut Report, run: usize) {
    make_file(&setting.path, setting.bytes);
    let (count, bytes, depth) = (3000 / setting.scale, 512 << 10, 8);
    let peer = |kind, offset| raw::Load {
        kind,
        is_random: false,
        bytes,
        depth,
        count,
        offset,
    };
    let mut stored = None;
    let writes = peer(Kind::Write, 0).at_end_of(setting.bytes);
    let samples = alternate(
        report,
        run,
        [
            ("512 KiB stores, 8 in flight", &mut || {
                let mut load = Load::beside(&setting.path, setting.bytes, count, writes.span());
                let sample = load.stores(depth, count, bytes, |number| number);
                stored = Some(load.data());
                Some(sample)
            }),
            ("raw writes", &mut || Some(writes.run(&setting.path))),
            ("fio writes", &mut || fio::run(&setting.path, &writes)),
        ],
    );
    compare(report, "512 KiB stores", &["raw", "fio"], &samples);
    let reads = peer(Kind::Read, stored.map_or(0, |data| data.offset()));
    let samples = alternate(
        report,
        run,
        [
            ("512 KiB retrieves, 8 in flight", &mut || {
                Some(Load::open(&setting.path).run(depth, count, retrieve))
            }),
            ("raw reads", &mut || Some(reads.run(&setting.path))),
            ("fio reads", &mut || fio::run(&setting.path, &reads)),
        ],
    );
    compare(report, "512 KiB retrieves", &["raw", "fio"], &samples);
}

pub fn random_retrieves(setting: &Setting, report: &mut Report, run: usize) {
    let (count, depth) = (200_000 / setting.scale, 32);
    let offset = {
        let mut load = Load::new(&setting.path, setting.bytes, count);
        let sample = load.stores(64, count, 4000, |number| number);
        report.add("4 KB stores, 64 in flight", sample);
        load.data().offset()
    };
    let reads = raw::Load {
        kind: Kind::Read,
        is_random: true,
        bytes: 4096,
        depth,
        count,
        offset,
    };
    let samples = alternate(
        report,
        run,
        [
            ("4 KB random retrieves, 32 in flight", &mut || {
                let mut rng = SmallRng::seed_from_u64(run as u64);
                let mut load = Load::open(&setting.path);
                Some(load.run(depth, count, |_| retrieve(rng.random_range(0..count))))
            }),
            ("raw reads of 4 KiB", &mut || Some(reads.run(&setting.path))),
            ("fio reads of 4 KiB", &mut || {
                fio::run(&setting.path, &reads)
            }),
        ],
    );
    let [own, raw, fio] = samples;
    for (name, other) in [("raw", raw), ("fio", fio)] {
        if let (Some(own), Some(other)) = (own, other) {
            let name = format!("4 KB retrieves: share of the rate of {name}");
            report.note(&name, "", own.rate / other.rate);
        }
    }
}

pub fn small_stores(setting: &Setting, report: &mut Report, run: usize) {
    make_file(&setting.path, setting.bytes);
    let count = 200_000 / setting.scale;
    let samples = alternate(
        report,
        run,
        [
            ("100 B stores, 64 in flight", &mut || {
                let mut load = Load::new(&setting.path, setting.bytes, count);
                Some(load.stores(64, count, 100, |number| number))
            }),
            ("100 B writes, each with an fdatasync", &mut || {
                Some(raw::synced_writes(&setting.path, 1000 / setting.scale, 100))
            }),
        ],
    );
    if let [Some(own), Some(synced)] = samples {
        let times = own.rate / synced.rate;
        report.note("100 B stores: times the rate of synced writes", "", times);
    }
}

pub fn exist(setting: &Setting, report: &mut Report, _: usize) {
    let count = 1_000_000 / setting.scale;
    let mut load = Load::new(&setting.path, setting.bytes, count);
    let sample = load.stores(256, count, 100, |number| number);
    report.add("100 B stores, 256 in flight", sample);
    measure_exist(&mut load, report, count, 4_000_000 / setting.scale);
}

/// Asks for keys of which half exist, one at a time and 32 at a time.
pub fn measure_exist(load: &mut Load, report: &mut Report, keys: u64, count: u64) {
    for depth in [1, 32] {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut events = Vec::new();
        let start = Instant::now();
        for at in (0..count).step_by(depth) {
            for tag in at..at + depth as u64 {
                let key = key(rng.random_range(0..keys * 2));
                load.worker.submit(tag, 1, Command::Exist { key });
            }
            load.worker
                .poll(terrace_node::device::Wait::No, &mut events)
                .expect("the device's queue works");
            assert_eq!(events.len(), depth);
            events.clear();
        }
        let rate = count as f64 / start.elapsed().as_secs_f64();
        let name = format!("exist, {depth} at a time, {keys} keys");
        report.note(&name, " M/s", rate / 1e6);
    }
}

pub fn overwrites_large(setting: &Setting, report: &mut Report, _: usize) {
    let of = Overwrites {
        name: "32 KB",
        file_bytes: setting.bytes,
        value_bytes: 32_000,
        stored_bytes: 36_864,
        share: 0.9,
        depth: 15,
    };
    of.run(setting, report);
}

pub fn overwrites_small(setting: &Setting, report: &mut Report, _: usize) {
    let of = Overwrites {
        name: "100 B",
        file_bytes: setting.bytes.min(SMALL_FILE_BYTES),
        value_bytes: 100,
        stored_bytes: 144,
        share: 0.8,
        depth: 64,
    };
    of.run(setting, report);
}

/// Stores into an empty node, and overwrites at random in one that is filled to a share of its space.
struct Overwrites {
    name: &'static str,
    file_bytes: u64,
    value_bytes: usize,
    /// Bytes of the device that a value takes.
    stored_bytes: u64,
    share: f64,
    depth: usize,
}

impl Overwrites {
    fn run(&self, setting: &Setting, report: &mut Report) {
        let name = |what: &str| format!("{} {what}, {} in flight", self.name, self.depth);
        let mut load = Load::new(&setting.path, self.file_bytes, self.file_bytes / 128);
        let data = load.data().bytes();
        let count = (data as f64 * self.share) as u64 / self.stored_bytes;
        let measured = (count / 4).min(200_000 / setting.scale);
        let empty = load.stores(self.depth, measured, self.value_bytes, |number| number);
        report.add(&name("stores into an empty node"), empty);
        let fill = count - measured;
        load.stores(self.depth, fill, self.value_bytes, |number| {
            measured + number
        });
        let mut rng = SmallRng::seed_from_u64(2);
        let mut overwrite = |count_of: u64| {
            load.stores(self.depth, count_of, self.value_bytes, |_| {
                rng.random_range(0..count)
            })
        };
        overwrite(measured);
        let full = overwrite(measured);
        let share = self.share * 100.0;
        report.add(&name(&format!("overwrites, {share:.0} % full")), full);
        let ratio =
            |at: usize| full.latencies[at].as_secs_f64() / empty.latencies[at].as_secs_f64();
        report.note(&name("share of the empty rate"), "", full.rate / empty.rate);
        report.note(&name("p99.9 in empty ones"), "", ratio(2));
    }
}
