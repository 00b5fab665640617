//! Inserts, lookups and removals of the index, per second on one core.
//!
//! `cargo bench -p terrace-node --bench index -- KEYS`; without arguments a tiny run, which is that of
//! the gate does. For comparing commits on one machine, not for quoting.

use std::hint::black_box;
use std::time::Instant;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace_node::Key;
use terrace_node::block::Extent;
use terrace_node::index::{Found, Index, Place};

const TINY_KEYS: u64 = 10_000;

fn key(number: u64) -> Key {
    Key::new(&u128::from(number).to_be_bytes()).unwrap()
}

fn found(number: u64) -> Found {
    let extent = Extent {
        start: number,
        blocks: 1,
    };
    Found {
        value_bytes: 4_000,
        check: number as u32,
        place: Place::Extents(extent.into()),
    }
}

/// Returns the time that this thread has had a core, in ns. Others may want the core as well: the
/// clock on the wall would count them.
fn core_time() -> f64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    times.split(' ').next().unwrap().parse().unwrap()
}

fn timed(what: &str, operations: u64, mut operation: impl FnMut(u64)) {
    let (began, core) = (Instant::now(), core_time());
    (0..operations).for_each(&mut operation);
    let core = (core_time() - core) / operations as f64;
    let wall = began.elapsed().as_nanos() as f64 / operations as f64;
    println!(
        "{what:10} {:8.2} M/s {core:8.1} ns, {wall:8.1} on the wall",
        1e3 / core
    );
}

fn main() {
    // Cargo adds `--bench`.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"));
    let keys = arguments
        .next()
        .map_or(TINY_KEYS, |text| text.parse().unwrap());

    let index = Index::new(1);
    timed("insert", keys, |number| {
        let (key, found) = (key(number), found(number));
        let hash = index.hash(&key);
        let inserted = index.partition(hash).lock().insert(hash, &key, found, 0);
        assert_eq!(inserted, Ok(None));
    });
    println!(
        "{:10} {:8.2} bytes a key",
        "memory",
        index.memory_bytes() as f64 / keys as f64
    );
    let mut rng = SmallRng::seed_from_u64(2);
    timed("exist", keys, |_| {
        let key = key(rng.random_range(0..keys));
        let hash = index.hash(&key);
        assert!(index.partition(hash).lock().contains(hash, &key));
    });
    timed("absent", keys, |_| {
        let key = key(rng.random_range(keys..2 * keys));
        let hash = index.hash(&key);
        assert!(!index.partition(hash).lock().contains(hash, &key));
    });
    timed("touch", keys, |_| {
        let key = key(rng.random_range(0..keys));
        let hash = index.hash(&key);
        black_box(index.partition(hash).lock().touch(hash, &key, 1));
    });
    timed("remove", keys, |number| {
        let key = key(number);
        let hash = index.hash(&key);
        assert!(index.partition(hash).lock().remove(hash, &key).is_some());
    });
}
