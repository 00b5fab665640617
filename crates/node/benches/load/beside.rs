//! Retrieves of 4 KB alone, and beside a stream of stores of 32 MiB.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace_node::device::Kind;
use terrace_node::engine::Worker;

use super::engine::{Flight, Load, make_file, retrieve, store};
use super::report::{Report, Sample};
use super::{Setting, raw};

const STREAM_BYTES: usize = 32 << 20;
/// Keys of the stream.
const STREAM_KEYS: u64 = 4;
/// Tags and keys of the stream begin here.
const STREAM: u64 = 1 << 31;

/// Where the stream runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    None,
    SameLoop,
    OtherLoop,
}

pub fn retrieves(setting: &Setting, report: &mut Report, run: usize) {
    let count = 50_000 / setting.scale;
    let raw = |depth, count| raw::Load {
        kind: Kind::Read,
        is_random: true,
        bytes: 4096,
        depth,
        count,
        offset: 0,
    };
    // The file of a tiny run may hold less than one value of the stream.
    let has_room = setting.scale == 1;
    let spare = if has_room { 4 * STREAM_BYTES as u64 } else { 0 };
    for depth in [1, 8] {
        make_file(&setting.path, setting.bytes);
        let reads = raw(depth, share_of(count, depth));
        let alone = reads.run(&setting.path);
        report.add(
            &format!("raw reads of 4 KiB, {depth} in flight, alone"),
            alone,
        );
        if has_room {
            let stream = raw::Stream {
                offset: setting.bytes - spare - 4096,
                bytes: spare,
                written: 0,
            };
            let beside = reads.run_beside(&setting.path, stream);
            let name =
                format!("raw reads of 4 KiB, {depth} in flight, beside raw writes of 960 KiB");
            report.add(&name, beside);
            note_ratio(report, &name, alone, beside);
        }
    }
    let mut load = Load::beside(&setting.path, setting.bytes, count + STREAM_KEYS, spare);
    load.stores(64, count, 4000, |number| number);
    for depth in [1, 8] {
        let mut rng = SmallRng::seed_from_u64(run as u64);
        let mut measure = |stream| {
            measure(&mut load, depth, share_of(count, depth), stream, || {
                rng.random_range(0..count)
            })
        };
        let streams = match has_room {
            true => &[Stream::SameLoop, Stream::OtherLoop][..],
            false => &[],
        };
        let (alone, _) = measure(Stream::None);
        report.add(&format!("4 KB retrieves, {depth} in flight, alone"), alone);
        for &stream in streams {
            let (beside, megabytes) = measure(stream);
            let place = match stream {
                Stream::OtherLoop => "in another loop",
                _ => "in the same loop",
            };
            let name = format!("4 KB retrieves, {depth} in flight, beside 32 MiB stores {place}");
            report.add(&name, beside);
            note_ratio(report, &name, alone, beside);
            report.note(&format!("{name}: the stores"), " MB/s", megabytes);
        }
    }
}

/// Returns how many retrieves are measured: they take longer one at a time.
fn share_of(count: u64, depth: usize) -> u64 {
    count / if depth == 1 { 5 } else { 1 }
}

fn note_ratio(report: &mut Report, name: &str, alone: Sample, beside: Sample) {
    let p99 = |sample: Sample| sample.latencies[1].as_secs_f64();
    let name = format!("{name}: p99 in those alone");
    report.note(&name, "", p99(beside) / p99(alone));
}

/// Runs retrieves, and returns the stream's MB/s beside theirs.
fn measure(
    load: &mut Load,
    depth: usize,
    count: u64,
    stream: Stream,
    mut number: impl FnMut() -> u64,
) -> (Sample, f64) {
    let mut other = load.another_worker();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let stores = scope.spawn(|| match stream {
            Stream::OtherLoop => store_until(&mut other, &is_over),
            _ => 0,
        });
        let mut flight = Flight::default();
        let (mut next, mut stored, mut streamed) = (0, 0, 0);
        let start = Instant::now();
        while flight.latencies.len() < count as usize {
            if stream == Stream::SameLoop && flight.unmeasured.is_empty() {
                let tag = STREAM + stored;
                flight.unmeasured.push(tag);
                let command = store(STREAM + stored % STREAM_KEYS, STREAM_BYTES);
                flight.begin(&mut load.worker, tag, command);
                stored += 1;
            }
            while next < count && flight.begun.len() - flight.unmeasured.len() < depth {
                flight.begin(&mut load.worker, next, retrieve(number()));
                next += 1;
            }
            flight.poll(&mut load.worker);
        }
        let seconds = start.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        while !flight.begun.is_empty() {
            flight.poll(&mut load.worker);
        }
        streamed += stores.join().expect("the other loop works") + stored;
        let megabytes = streamed as f64 * STREAM_BYTES as f64 / seconds / 1e6;
        (
            Sample::new(flight.latencies, flight.bytes, seconds),
            megabytes,
        )
    })
}

/// Stores values one after another, and returns their number.
fn store_until(worker: &mut Worker, is_over: &AtomicBool) -> u64 {
    let mut flight = Flight::default();
    let mut stored = 0;
    while !is_over.load(Ordering::Relaxed) {
        let command = store(STREAM + stored % STREAM_KEYS, STREAM_BYTES);
        flight.begin(worker, stored, command);
        while !flight.begun.is_empty() {
            flight.poll(worker);
        }
        stored += 1;
    }
    stored
}
