//! The kinds of filters against each other: building, probes of absent keys with filters in the cache of
//! the processor and out of it, and how often they err.
//!
//! `cargo bench -p terrace --bench filter -- KEYS [FILTERS]`; without arguments a tiny run. A table
//! has KEYS keys; probes go over FILTERS filters in turn. Times are in ns, the best of seven
//! rounds.

mod support;

use std::hint::black_box;
use std::time::Instant;

use support::{Arguments, scatter};
use terrace::internal::FilterBench;

const PROBES: u64 = 400_000;

fn best_ns(operations: u64, mut run: impl FnMut()) -> f64 {
    let rounds = (0..7).map(|_| {
        let began = Instant::now();
        run();
        began.elapsed().as_nanos() as f64
    });
    rounds.fold(f64::MAX, f64::min) / operations as f64
}

fn hashes(filter: u64, keys: u64) -> impl Iterator<Item = u64> {
    (0..keys).map(move |key| scatter(filter << 40 | key))
}

fn compare(kind: u64, name: &str, bits_per_key: f64, keys: u64, filters: u64) {
    let build = |number| FilterBench::new(kind, bits_per_key, hashes(number, keys)).unwrap();
    let hashed = best_ns(keys, || {
        black_box(hashes(0, keys).fold(0, |sum, hash| sum ^ hash));
    });
    let build_ns = best_ns(keys, || {
        black_box(build(0));
    });
    let built: Vec<FilterBench> = (0..filters).map(build).collect();
    let probe = |filters: &[FilterBench]| {
        let mut admitted = 0u64;
        let ns = best_ns(PROBES, || {
            admitted = 0;
            let turns = filters.iter().cycle();
            for (number, filter) in (0..PROBES).zip(turns) {
                // As in a get, the next step depends on the answer.
                if filter.may_contain(scatter(1 << 63 | number)) {
                    admitted += 1;
                }
            }
        });
        (ns, admitted as f64 / PROBES as f64)
    };
    let (hot_ns, chance) = probe(&built[..1]);
    let (cold_ns, _) = probe(&built);
    let bits = built[0].memory_bytes() as f64 * 8.0 / keys as f64;
    println!(
        "{name:12} {keys:>8} keys {bits:5.2} bits: build {:5.1}, probe {hot_ns:5.1}, over {filters} filters \
         {cold_ns:5.1}, admits {:.4} %",
        build_ns - hashed,
        100.0 * chance
    );
}

fn main() {
    let arguments = Arguments::new();
    let (keys, filters) = (arguments.number(0, 1000), arguments.number(1, 2));
    for bits_per_key in [8.0, 10.0, 14.0, 20.0] {
        compare(1, "split block", bits_per_key, keys, filters);
        compare(2, "fuse", bits_per_key, keys, filters);
    }
}
