//! The cost of a get of a key that is nowhere: filters answer for nearly all tables, under every
//! policy and within the memory that they are given.
//!
//! `TERRACE_ABSENT_SCALE=16` makes everything 16 times larger, and the bar stricter: filters of few
//! keys take more memory for the same.

mod support;

use std::path::Path;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::{Background, CompactionPolicy, Db, KeyspaceOptions, Options};
use terrace_tools::inspect::dump;

/// Rows of a store of scale 1.
const ROWS: u64 = 400_000;
const PROBES: u64 = 4_000;
/// From this scale on a hundredth is the most for every policy: tables have a quarter of a million keys.
const USUAL_SCALE: u64 = 16;

fn scale() -> u64 {
    let asked = std::env::var("TERRACE_ABSENT_SCALE");
    asked.map_or(1, |scale| scale.parse().unwrap())
}

fn options(compaction_policy: CompactionPolicy) -> Options {
    let scale = scale();
    Options {
        compaction_policy,
        background: Background::Inline,
        arena_bytes: scale * (128 << 10),
        level0_merge: 4,
        level0_slowdown: 1000,
        default_keyspace: KeyspaceOptions {
            level_ratio: 6,
            level1_bytes: scale * (512 << 10),
            table_bytes: scale * (8 << 20),
            ..KeyspaceOptions::default()
        },
        cache_bytes: 64 << 20,
        ..Options::in_memory()
    }
}

/// Returns a key; keys are spread over all there are.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Returns the share of gets of absent keys that looked into a table, and the number of sub-levels.
fn asked_in_vain(db: &Db, rows: u64, random: &mut SmallRng) -> (f64, usize) {
    let looks = || {
        let memory = db.statistics().memory;
        memory.block_cache_hits + memory.block_cache_misses
    };
    let mut asked = 0;
    for _ in 0..PROBES {
        let absent = rows + random.random_range(0..1 << 40);
        let before = looks();
        assert!(db.get(key(absent)).unwrap().is_none());
        asked += u64::from(looks() > before);
    }
    let levels = db.statistics().levels;
    let sub_levels = levels.iter().map(|level| level.sub_levels).sum();
    (asked as f64 / PROBES as f64, sub_levels)
}

/// Returns the bits of all filters for each entry, as they lie in the files.
fn filter_bits_per_entry(db: &Db, options: &Options) -> f64 {
    let keyspaces = db.levels().keyspaces;
    let levels = keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    let (mut bytes, mut entries) = (0, 0);
    for table in levels.flatten().flat_map(|sub_level| &sub_level.tables) {
        let path = Path::new("/store").join(format!("{}.table", table.number));
        let dumped = dump(&*options.storage, &path).unwrap();
        let filters = dumped.items.iter().filter(|item| item.kind == "filter");
        bytes += filters.map(|item| item.length_bytes).sum::<u64>();
        entries += table.entries;
    }
    bytes as f64 * 8.0 / entries as f64
}

/// Returns means over the second half of a load, of vain gets and of bits; and the most bits.
fn measure(policy: CompactionPolicy) -> (f64, f64, f64) {
    let options = options(policy);
    let rows = scale() * ROWS;
    let db = Db::open("/store", options.clone()).unwrap();
    let mut random = SmallRng::seed_from_u64(11);
    let (mut shares, mut bits, mut most) = (Vec::new(), Vec::new(), 0.0f64);
    let steps = 16;
    for step in 0..steps {
        for number in step * rows / steps..(step + 1) * rows / steps {
            db.put(key(number), [7; 8]).unwrap();
        }
        if step < steps / 2 {
            continue;
        }
        db.flush().unwrap();
        let (share, sub_levels) = asked_in_vain(&db, rows, &mut random);
        let present = filter_bits_per_entry(&db, &options);
        println!(
            "{policy:?} {step}: {share:.4} of gets, {sub_levels} sub-levels, {present:.2} bits"
        );
        shares.push(share);
        bits.push(present);
        most = most.max(present);
    }
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    (mean(&shares), mean(&bits), most)
}

/// Several sub-levels of a size have to share the ten bits, and no filter errs less often with that
/// than once in 1024. The filters of tables of few thousand keys need a seventh more for the same.
/// So a store as small as this one is answered a little less well under the two policies that keep
/// the most.
#[test]
fn filters_of_ten_bits_on_average_spare_ninety_nine_gets_in_a_hundred() {
    use CompactionPolicy::{Dedup, Lazy, Leveled, Tiered};
    for (policy, most_share) in [
        (Leveled, 0.008),
        (Lazy, 0.01),
        (Dedup, 0.0135),
        (Tiered, 0.0135),
    ] {
        let (share, bits, most_bits) = measure(policy);
        println!("{policy:?}: {share:.4} of gets, {bits:.2} bits, at most {most_bits:.2}");
        let most_share = match scale() >= USUAL_SCALE {
            true => f64::min(most_share, 0.01),
            false => most_share,
        };
        assert!(
            share < most_share,
            "{policy:?}: {share} of gets look in vain"
        );
        assert!(
            bits < 10.3 && most_bits < 11.0,
            "{policy:?}: {bits} {most_bits} bits"
        );
    }
}
