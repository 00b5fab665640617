//! The compaction policies on a store that is updated again and again.

mod support;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::{Background, CompactionPolicy, Db, KeyspaceOptions, Options};

const KEYS: u32 = 4_000;
const UPDATES: u32 = 9;

fn options(compaction_policy: CompactionPolicy) -> Options {
    let base = support::script::tiny(Options::in_memory());
    Options {
        compaction_policy,
        background: Background::Inline,
        arena_bytes: 16 << 10,
        level0_merge: 6,
        default_keyspace: KeyspaceOptions {
            level_ratio: 6,
            level1_bytes: 64 << 10,
            ..base.default_keyspace
        },
        ..base
    }
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Returns a value that says how often its key was written.
fn value(times: u32) -> Vec<u8> {
    times.to_be_bytes().repeat(25)
}

/// Updates random keys, each as often as it comes. Counts in `written` how often each was written.
fn update(db: &Db, updates: u32, written: &mut [u32], random: &mut SmallRng) {
    for _ in 0..updates {
        let number = random.random_range(0..KEYS);
        written[number as usize] += 1;
        db.put(key(number), value(written[number as usize]))
            .unwrap();
    }
}

/// Returns the number of versions in tables.
fn versions(db: &Db) -> u64 {
    let keyspaces = db.levels().keyspaces;
    let levels = keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    let tables = levels.flatten().flat_map(|sub_level| &sub_level.tables);
    tables.map(|table| table.entries).sum()
}

fn check(db: &Db, written: &[u32]) {
    for (number, &times) in (0..).zip(written) {
        let found = db.get(key(number)).unwrap();
        let expected = (times > 0).then(|| value(times));
        assert_eq!(found.as_deref(), expected.as_deref(), "key {number}");
    }
    terrace::internal::check_ages(db).unwrap();
}

/// Returns versions for each key over the second half of the updates (mean and most), and bytes
/// written for each byte put.
fn load(compaction_policy: CompactionPolicy) -> (f64, f64, f64) {
    let options = options(compaction_policy);
    let db = Db::open("/store", options.clone()).unwrap();
    let mut random = SmallRng::seed_from_u64(7);
    let mut written = vec![0; KEYS as usize];
    let (mut sum, mut most) = (0.0, 0.0f64);
    let steps = 2 * UPDATES;
    for step in 0..steps {
        update(&db, KEYS / 2, &mut written, &mut random);
        let rate = versions(&db) as f64 / f64::from(KEYS);
        if step >= steps / 2 {
            sum += rate;
            most = most.max(rate);
        }
    }
    check(&db, &written);
    let written_bytes = db.statistics().write_amplification.unwrap();
    db.close().unwrap();
    let db = Db::open("/store", options).unwrap();
    check(&db, &written);
    (sum / f64::from(steps - steps / 2), most, written_bytes)
}

#[test]
fn each_policy_trades_space_for_writes_as_it_says() {
    use CompactionPolicy::{Lazy, Leveled, Tiered};
    let (leveled, _, leveled_writes) = load(Leveled);
    let (lazy, _, lazy_writes) = load(Lazy);
    let (tiered, _, tiered_writes) = load(Tiered);
    assert!(tiered_writes < lazy_writes && lazy_writes < leveled_writes);
    assert!(leveled < lazy && lazy < tiered);
}

/// In any direction, with data in place.
#[test]
fn a_policy_is_changed_at_any_opening() {
    use CompactionPolicy::{Dedup, Lazy, Leveled, Score, Tiered};
    let shared = options(Leveled);
    let mut random = SmallRng::seed_from_u64(8);
    let mut written = vec![0; KEYS as usize];
    let policies = [
        Leveled, Tiered, Leveled, Lazy, Tiered, Lazy, Leveled, Dedup, Leveled, Score, Leveled,
    ];
    for policy in policies {
        let options = Options {
            compaction_policy: policy,
            ..shared.clone()
        };
        let db = Db::open("/store", options).unwrap();
        check(&db, &written);
        update(&db, 2 * KEYS, &mut written, &mut random);
        db.compact().unwrap();
        check(&db, &written);
        if policy == Leveled {
            let keyspace = &db.levels().keyspaces[0];
            assert!(keyspace.levels.iter().skip(1).all(|level| level.len() <= 1));
        }
        db.close().unwrap();
    }
}

#[test]
fn duplicates_are_kept_to_the_threshold() {
    let (tiered, _, _) = load(CompactionPolicy::Tiered);
    let (dedup, most, dedup_writes) = load(CompactionPolicy::Dedup);
    let (_, _, leveled_writes) = load(CompactionPolicy::Leveled);
    assert!(
        dedup < 1.5 && most < 1.8 && dedup < tiered,
        "{dedup} {most}, tiered {tiered}"
    );
    assert!(
        dedup_writes < leveled_writes,
        "{dedup_writes}, leveled {leveled_writes}"
    );
}

/// Versions that a snapshot keeps cannot be dropped, and are not merged for ever.
#[test]
fn pinned_versions_are_not_merged_again_and_again() {
    let db = Db::open("/store", options(CompactionPolicy::Dedup)).unwrap();
    let mut random = SmallRng::seed_from_u64(9);
    let mut written = vec![0; KEYS as usize];
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(db.snapshot());
        update(&db, KEYS, &mut written, &mut random);
    }
    let merges = db.statistics().merges;
    db.compact().unwrap();
    check(&db, &written);
    assert!(merges < 200, "{merges} merges");
    let pinned = versions(&db) as f64 / f64::from(KEYS);
    drop(held);
    // Nothing holds them any more: the next work drops them.
    update(&db, 2 * KEYS, &mut written, &mut random);
    db.compact().unwrap();
    check(&db, &written);
    let rate = versions(&db) as f64 / f64::from(KEYS);
    // Several levels may hold a key, each once: a level does not see the others.
    assert!(
        pinned > 5.0 && rate < 3.0,
        "{pinned}, then {rate} versions a key"
    );
}
