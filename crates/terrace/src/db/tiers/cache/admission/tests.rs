use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use xxhash_rust::xxh3::xxh3_64;

use super::*;

/// Bytes of a block of the model.
const BLOCK: u64 = 1;
/// Blocks in a segment of the model.
const SEGMENT: usize = 32;

/// A cache as the writer keeps one, without a file.
struct Model {
    sketch: Sketch,
    limit: u64,
    segments: Vec<Vec<u64>>,
    /// The segment that is being filled.
    open: usize,
    place: BTreeMap<u64, usize>,
    hits: u64,
    reads: u64,
}

impl Model {
    fn new(segments: usize) -> Model {
        Model {
            sketch: Sketch::new((segments * SEGMENT) as u64),
            limit: 0,
            segments: vec![Vec::new(); segments],
            open: 0,
            place: BTreeMap::new(),
            hits: 0,
            reads: 0,
        }
    }

    fn read(&mut self, block: u64) {
        let hash = xxh3_64(&block.to_le_bytes());
        if self.sketch.count(hash) {
            self.limit /= 2;
        }
        self.reads += 1;
        if self.place.contains_key(&hash) {
            self.hits += 1;
            return;
        }
        let is_full = self.place.len() + SEGMENT >= self.segments.len() * SEGMENT;
        if is_full && self.sketch.estimate(hash) <= self.limit {
            return;
        }
        if self.segments[self.open].len() == SEGMENT {
            self.turn();
        }
        self.segments[self.open].push(hash);
        self.place.insert(hash, self.open);
    }

    fn turn(&mut self) {
        self.open = (self.open + 1) % self.segments.len();
        let old = std::mem::take(&mut self.segments[self.open]);
        let frequencies: Vec<(u64, u64)> = old
            .iter()
            .map(|hash| (self.sketch.estimate(*hash), BLOCK))
            .collect();
        let survivors = survivors(&frequencies, SEGMENT as u64 * 3 / 4 * BLOCK);
        for (at, hash) in old.iter().enumerate() {
            match survivors.kept.contains(&at) {
                true => self.segments[self.open].push(*hash),
                false => {
                    self.place.remove(hash);
                }
            }
        }
        if !old.is_empty() {
            self.limit = survivors.limit;
        }
    }

    /// Returns the share of hits since the last call.
    fn hit_share(&mut self) -> f64 {
        let share = self.hits as f64 / self.reads as f64;
        (self.hits, self.reads) = (0, 0);
        share
    }
}

/// Draws blocks by a zipfian distribution, whose ranks are spread over the blocks.
struct Zipf {
    sums: Vec<f64>,
    random: SmallRng,
}

impl Zipf {
    fn new(blocks: u64, exponent: f64, seed: u64) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=blocks).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Zipf {
            sums: sums.collect(),
            random: SmallRng::seed_from_u64(seed),
        }
    }

    fn draw(&mut self) -> u64 {
        let total = self.sums.last().copied().unwrap();
        let at = self.random.random::<f64>() * total;
        self.sums.partition_point(|sum| *sum < at) as u64
    }

    /// Returns the hit share of a cache that always has the most frequent blocks.
    fn ideal(&self, cached: usize) -> f64 {
        self.sums[cached - 1] / self.sums.last().unwrap()
    }
}

/// Returns the hit share of a warm cache of a fifth of the blocks, as a part of that of an ideal LFU.
fn part_of_ideal(segments: usize, exponent: f64, seed: u64) -> f64 {
    let cached = segments * SEGMENT;
    let blocks = cached as u64 * 5;
    let mut cache = Model::new(segments);
    let mut zipf = Zipf::new(blocks, exponent, seed);
    for _ in 0..blocks * 20 {
        cache.read(zipf.draw());
    }
    cache.hit_share();
    for _ in 0..blocks * 10 {
        cache.read(zipf.draw());
    }
    let part = cache.hit_share() / zipf.ideal(cached);
    println!("{segments} segments, exponent {exponent}, seed {seed}: {part:.3} of an ideal LFU");
    part
}

#[test]
fn hits_are_nearly_those_of_an_ideal_lfu() {
    for (segments, seed) in [(16, 1), (64, 2), (64, 3), (128, 4)] {
        assert!(part_of_ideal(segments, 0.99, seed) >= 0.96);
        assert!(part_of_ideal(segments, 0.8, seed) >= 0.95);
    }
}

#[test]
fn one_walk_over_all_blocks_changes_little() {
    let (segments, blocks) = (32, 32 * SEGMENT as u64 * 5);
    let mut cache = Model::new(segments);
    let mut zipf = Zipf::new(blocks, 0.99, 5);
    for _ in 0..blocks * 20 {
        cache.read(zipf.draw());
    }
    cache.hit_share();
    for _ in 0..blocks * 2 {
        cache.read(zipf.draw());
    }
    let before = cache.hit_share();
    // Blocks that are read once each, as many as there are.
    (blocks..2 * blocks).for_each(|block| cache.read(block));
    cache.hit_share();
    for _ in 0..blocks / 2 {
        cache.read(zipf.draw());
    }
    let after = cache.hit_share();
    assert!(after > before * 0.97, "{before:.3}, then {after:.3}");
}

#[test]
fn a_new_favourite_comes_in() {
    let (segments, blocks) = (32, 32 * SEGMENT as u64 * 5);
    let mut cache = Model::new(segments);
    let mut zipf = Zipf::new(blocks, 0.99, 6);
    for _ in 0..blocks * 20 {
        cache.read(zipf.draw());
    }
    cache.hit_share();
    // From here on other blocks have the ranks.
    for _ in 0..blocks * 20 {
        cache.read(zipf.draw() + blocks);
    }
    cache.hit_share();
    for _ in 0..blocks * 5 {
        cache.read(zipf.draw() + blocks);
    }
    let part = cache.hit_share() / zipf.ideal(segments * SEGMENT);
    assert!(part >= 0.9, "{part:.3}");
}

#[test]
fn the_most_frequent_stay_and_the_others_give_the_limit() {
    let of = |entries: &[(u64, u64)], max| survivors(entries, max);
    let kept = |kept: &[usize], limit| Survivors {
        kept: kept.to_vec(),
        limit,
    };
    assert_eq!(of(&[(3, 1), (1, 1), (2, 1), (5, 1)], 2), kept(&[0, 3], 2));
    // Of equals the first stay, and a new block has to be better than equal.
    assert_eq!(of(&[(2, 1), (2, 1), (2, 1)], 2), kept(&[0, 1], 2));
    // Blocks that are not read go, though there is room: any other comes in.
    assert_eq!(of(&[(0, 1), (4, 1)], 9), kept(&[1], 0));
    assert_eq!(of(&[(4, 1), (3, 1)], 9), kept(&[0, 1], 0));
    assert_eq!(of(&[], 9), kept(&[], 0));
    assert_eq!(of(&[(7, 10), (3, 1)], 9), kept(&[], 7));
}

#[test]
fn counts_are_about_those_of_reads_and_end_at_fifteen() {
    let sketch = Sketch::new(1024);
    let hash = |block: u64| xxh3_64(&block.to_le_bytes());
    for block in 0..256 {
        for _ in 0..block % 20 {
            sketch.count(hash(block));
        }
    }
    let wrong = (0..256).filter(|block| sketch.estimate(hash(*block)) != (block % 20).min(15));
    assert!(wrong.count() < 8);
    // A read that is due begins, and each halves a part.
    sketch.next_halved.store(0, Ordering::Relaxed);
    let calls = (1..).find(|_| sketch.halve_some());
    assert_eq!(calls, Some(1024 / WORDS_PER_READ));
    assert!(!sketch.halve_some(), "once");
    let halved = (0..256).filter(|block| sketch.estimate(hash(*block)) == (block % 20).min(15) / 2);
    assert!(halved.count() > 248);
}
