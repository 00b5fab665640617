//! Merges of a range of keys: what they save where updates come in clusters.

mod support;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::{Background, CompactionPolicy, Db, Options, internal};

const KEYS: u32 = 20_000;
/// Updates of all kinds for each key.
const ROUNDS: u32 = 12;

fn options(compaction_policy: CompactionPolicy) -> Options {
    Options {
        compaction_policy,
        background: Background::Inline,
        arena_bytes: 64 << 10,
        table_bytes: 8 << 10,
        slice_bytes: 256 << 10,
        block_bytes: 1 << 10,
        level0_merge: 4,
        level_ratio: 10,
        least_score: 0.4,
        dedup_threshold: 1.2,
        cache_bytes: 8 << 20,
        max_open_tables: 1000,
        manifest_bytes: 1 << 20,
        ..support::script::tiny(Options::in_memory())
    }
}

/// Draws a key of a store that is updated for a while.
type Draw = fn(&mut SmallRng) -> u32;

/// Nine of ten updates are to a twentieth of the keys.
fn clustered(random: &mut SmallRng) -> u32 {
    let hot = KEYS / 20;
    match random.random_ratio(9, 10) {
        true => KEYS / 3 + random.random_range(0..hot),
        false => random.random_range(0..KEYS),
    }
}

fn uniform(random: &mut SmallRng) -> u32 {
    random.random_range(0..KEYS)
}

struct Outcome {
    /// Versions for each key over the second half.
    mean: f64,
    /// Bytes written for each byte put.
    written: f64,
    range_merges: u64,
    merges: u64,
}

fn versions(db: &Db) -> u64 {
    let keyspaces = db.levels().keyspaces;
    let levels = keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    let tables = levels.flatten().flat_map(|sub_level| &sub_level.tables);
    tables.map(|table| table.entries).sum()
}

fn load(options: Options, draw: Draw) -> Outcome {
    let db = Db::open("/store", options.clone()).unwrap();
    let mut random = SmallRng::seed_from_u64(11);
    let mut written = vec![1u32; KEYS as usize];
    let value = |times: u32| times.to_be_bytes().repeat(25);
    for number in 0..KEYS {
        db.put(&number.to_be_bytes(), &value(1)).unwrap();
    }
    let (mut sum, mut steps) = (0.0, 0);
    for step in 0..ROUNDS * 4 {
        for _ in 0..KEYS / 4 {
            let number = draw(&mut random);
            written[number as usize] += 1;
            let times = written[number as usize];
            db.put(&number.to_be_bytes(), &value(times)).unwrap();
        }
        if step >= ROUNDS * 2 {
            sum += versions(&db) as f64 / f64::from(KEYS);
            steps += 1;
        }
    }
    let statistics = db.statistics();
    let outcome = Outcome {
        mean: sum / f64::from(steps),
        written: statistics.write_amplification.unwrap(),
        range_merges: internal::range_merges(&db),
        merges: statistics.merges,
    };
    for (number, &times) in (0u32..).zip(&written) {
        let found = db.get(&number.to_be_bytes()).unwrap();
        assert!(found.as_deref() == Some(&value(times)), "key {number}");
    }
    internal::check_ages(&db).unwrap();
    outcome
}

/// Without merges of ranges: 5.81 bytes written for each, and 1.71 versions of each key.
#[test]
fn dedup_writes_less_and_keeps_less_where_updates_are_clustered() {
    let outcome = load(options(CompactionPolicy::Dedup), clustered);
    let Outcome { mean, written, .. } = outcome;
    assert!(written < 5.0 && mean < 1.35, "{written} {mean}");
    let (in_part, all) = (outcome.range_merges, outcome.merges);
    assert!(in_part > 20 && in_part < all, "{in_part} of {all}");
}

/// Without merges of ranges: 3.50 bytes written for each, and 1.24 versions of each key.
#[test]
fn the_score_writes_less_where_updates_are_clustered() {
    let outcome = load(options(CompactionPolicy::Score), clustered);
    let Outcome { mean, written, .. } = outcome;
    assert!(written < 3.37 && mean < 1.26, "{written} {mean}");
    let (in_part, all) = (outcome.range_merges, outcome.merges);
    assert!(in_part > 10 && in_part < all, "{in_part} of {all}");
}

/// Where all ranges are alike, none pays for the others.
#[test]
fn updates_that_are_spread_evenly_are_merged_as_a_whole() {
    for policy in [CompactionPolicy::Dedup, CompactionPolicy::Score] {
        let outcome = load(options(policy), uniform);
        assert_eq!(outcome.range_merges, 0, "{policy}");
    }
}
