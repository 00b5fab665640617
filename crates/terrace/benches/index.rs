//! The index of a MemTable against a `BTreeMap` behind a lock, in one run: inserts, gets, walks in
//! order and short scans while entries are being inserted.
//!
//! `cargo bench -p terrace --bench index -- ENTRIES [ROUNDS]`; without arguments a tiny run. Times
//! are in ns. Work is timed in slices; the slowest tenth of them is left out, which takes away most
//! of the time that other processes add.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Bound;
use std::sync::RwLock;
use std::time::Instant;

use terrace::Result;
use terrace::internal::IndexBench;

trait Structure: Sized {
    const NAME: &'static str;
    fn new(keys: &[Vec<u8>]) -> Result<Self>;
    fn insert(&self, number: usize) -> Result<()>;
    fn get(&self, key: &[u8]) -> bool;
    /// Returns the bytes of the first `count` entries from a key on.
    fn scan(&self, key: &[u8], count: usize) -> Result<usize>;
    fn memory_bytes(&self) -> u64;
}

impl Structure for IndexBench {
    const NAME: &'static str = "index";

    fn new(keys: &[Vec<u8>]) -> Result<Self> {
        IndexBench::new(keys)
    }

    fn insert(&self, number: usize) -> Result<()> {
        IndexBench::insert(self, number)
    }

    fn get(&self, key: &[u8]) -> bool {
        IndexBench::get(self, key)
    }

    fn scan(&self, key: &[u8], count: usize) -> Result<usize> {
        IndexBench::scan(self, key, count)
    }

    fn memory_bytes(&self) -> u64 {
        self.index_memory_bytes()
    }
}

struct Tree {
    keys: Vec<Vec<u8>>,
    map: RwLock<BTreeMap<Vec<u8>, u64>>,
}

impl Structure for Tree {
    const NAME: &'static str = "BTreeMap";

    fn new(keys: &[Vec<u8>]) -> Result<Self> {
        Ok(Tree {
            keys: keys.to_vec(),
            map: RwLock::default(),
        })
    }

    fn insert(&self, number: usize) -> Result<()> {
        let key = self.keys[number].clone();
        self.map.write().unwrap().insert(key, number as u64);
        Ok(())
    }

    fn get(&self, key: &[u8]) -> bool {
        self.map.read().unwrap().contains_key(key)
    }

    fn scan(&self, key: &[u8], count: usize) -> Result<usize> {
        let map = self.map.read().unwrap();
        let range = map.range::<[u8], _>((Bound::Included(key), Bound::Unbounded));
        Ok(range.take(count).map(|(key, _)| key.len() + 8).sum())
    }

    fn memory_bytes(&self) -> u64 {
        0
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

const SHAPES: [&str; 3] = ["random", "common part", "sequential"];

/// Makes distinct keys of 16 to 24 bytes.
fn keys(shape: &str, count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random(seed);
    let key = |number: usize| match shape {
        "random" => {
            let mut key = [random.next().to_be_bytes(), random.next().to_be_bytes()].concat();
            key.resize(16 + random.below(9), b'x');
            key
        }
        "common part" => format!("customer/{:015x}", random.next() >> 4).into_bytes(),
        _ => format!("{:020}", seed as usize * count + number).into_bytes(),
    };
    (0..count).map(key).collect()
}

/// Returns the mean time of an operation: `run` does those of a range.
fn time_ns(count: usize, slice: usize, mut run: impl FnMut(usize) -> Result<()>) -> Result<f64> {
    let mut slices = Vec::new();
    let mut number = 0;
    while number < count {
        let end = (number + slice).min(count);
        let operations = (end - number) as f64;
        let began = Instant::now();
        for number in number..end {
            run(number)?;
        }
        slices.push(began.elapsed().as_nanos() as f64 / operations);
        number = end;
    }
    slices.sort_by(f64::total_cmp);
    slices.truncate((slices.len() * 9 / 10).max(1));
    Ok(slices.iter().sum::<f64>() / slices.len() as f64)
}

fn measure<S: Structure>(shape: &str, keys: &[Vec<u8>], misses: &[Vec<u8>]) -> Result<()> {
    const INSERTS_PER_SCAN: usize = 20;
    let mut random = Random(9);
    let before_scans = keys.len() - keys.len() / 10;
    let structure = S::new(keys)?;
    let insert = time_ns(before_scans, 500, |number| structure.insert(number))?;
    let hit = time_ns(misses.len(), 500, |_| {
        assert!(structure.get(&keys[random.below(before_scans)]));
        Ok(())
    })?;
    let miss = time_ns(misses.len(), 500, |number| {
        black_box(structure.get(&misses[number]));
        Ok(())
    })?;
    let memory = structure.memory_bytes() as f64 / before_scans as f64;
    let walk = || time_ns(1, 1, |_| structure.scan(&[], usize::MAX).map(|_| ()));
    let (first, second) = (walk()?, walk()?.min(walk()?));
    let mut scan_times = Vec::new();
    for number in before_scans..keys.len() {
        structure.insert(number)?;
        if number % INSERTS_PER_SCAN == 0 {
            let key = &keys[random.below(before_scans)];
            let began = Instant::now();
            black_box(structure.scan(key, 50)?);
            scan_times.push(began.elapsed().as_nanos() as f64);
        }
    }
    scan_times.sort_by(f64::total_cmp);
    let scan = scan_times
        .iter()
        .take(scan_times.len() * 9 / 10)
        .sum::<f64>()
        / (scan_times.len() * 9 / 10).max(1) as f64;
    println!(
        "{:7} {shape:11} {:9} insert {insert:5.0} | hit {hit:5.0} miss {miss:5.0} | \
         walk {:4.0}, again {:4.0} | scan of 50 {scan:6.0} | {memory:4.1} bytes an entry",
        keys.len(),
        S::NAME,
        first / before_scans as f64,
        second / before_scans as f64,
    );
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .map(|text| text.parse().expect("a number is needed"));
    let entries = arguments.next().unwrap_or(2_000);
    let rounds = arguments.next().unwrap_or(1);
    for shape in SHAPES {
        let keys = keys(shape, entries, 1);
        let misses = self::keys(shape, entries.min(200_000), 2);
        for _ in 0..rounds {
            measure::<IndexBench>(shape, &keys, &misses)?;
            measure::<Tree>(shape, &keys, &misses)?;
        }
    }
    Ok(())
}
