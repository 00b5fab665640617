//! Tombstones that are many, or old, go under every policy, and nothing that they hid is seen again.
//!
//! `TERRACE_TOMBSTONE_STEPS` sets how long the random run with each policy is (400 by default).

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::CompactionPolicy::{self, Dedup, Lazy, Leveled, Score, Tiered};
use terrace::{Background, Db, IterOptions, KeyspaceOptions, Options, internal};
use terrace_storage::Clock;

const STORE: &str = "/store";
const POLICIES: [CompactionPolicy; 5] = [Leveled, Tiered, Lazy, Dedup, Score];
const KEYS: u32 = 1_000;
/// Sub-levels that a load makes.
const ROUNDS: u32 = 6;

/// A calendar that the test moves.
#[derive(Debug, Default)]
struct Calendar(AtomicU64);

impl Calendar {
    fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::SeqCst);
    }
}

impl Clock for Calendar {
    fn now_ns(&self) -> u64 {
        0
    }

    fn sleep(&self, _: Duration) {}

    fn unix_seconds(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A store, its expected contents, and its time.
struct Bench {
    options: Options,
    calendar: Arc<Calendar>,
    db: Db,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn key(number: u32) -> Vec<u8> {
    format!("key-{number:05}").into_bytes()
}

impl Bench {
    /// Opens a store in which only the given options make tables full or old.
    fn new(compaction_policy: CompactionPolicy, percent: u32, age_seconds: u64) -> Self {
        let base = support::script::tiny(Options::in_memory());
        let options = Options {
            compaction_policy,
            background: Background::Inline,
            arena_bytes: 256 << 10,
            // The policy of the score lets level 0 have four times as many sub-levels.
            level0_merge: if compaction_policy == Score { 1 } else { 4 },
            default_keyspace: KeyspaceOptions {
                level_ratio: 4,
                level1_bytes: 64 << 10,
                ..base.default_keyspace
            },
            tombstone_percent: percent,
            tombstone_age_seconds: age_seconds,
            ..base
        };
        let calendar = Arc::new(Calendar::default());
        let db = internal::open_on(STORE, options.clone(), calendar.clone()).unwrap();
        Bench {
            options,
            calendar,
            db,
            model: BTreeMap::new(),
        }
    }

    fn reopen(&mut self, change: impl FnOnce(&mut Options)) {
        self.db.close().unwrap();
        change(&mut self.options);
        let options = self.options.clone();
        self.db = internal::open_on(STORE, options, self.calendar.clone()).unwrap();
    }

    fn put(&mut self, number: u32, byte: u8) {
        let (key, value) = (key(number), vec![byte; 100]);
        self.db.put(&key, &value).unwrap();
        self.model.insert(key, value);
    }

    fn delete(&mut self, number: u32) {
        self.db.delete(key(number)).unwrap();
        self.model.remove(&key(number));
    }

    fn delete_range(&mut self, from: u32, to: u32) {
        self.db.delete_range(key(from), key(to)).unwrap();
        self.model.retain(|k, _| *k < key(from) || *k >= key(to));
    }

    /// Writes each key once, in sub-levels that overlap.
    fn load(&mut self) {
        for round in 0..ROUNDS {
            let of_round = (0..KEYS).filter(|number| number % ROUNDS == round);
            of_round.for_each(|number| self.put(number, round as u8));
            self.db.flush().unwrap();
        }
        self.settle();
    }

    fn settle(&self) {
        self.db.compact().unwrap();
    }

    fn check(&self) {
        let found = self.db.iter(IterOptions::default()).unwrap();
        let found = found.entries().map(|entry| {
            let (key, value) = entry.unwrap();
            (key.to_vec(), value.to_vec())
        });
        let found: BTreeMap<_, _> = found.collect();
        assert!(found == self.model, "the store and the model differ");
        for number in 0..KEYS {
            let found = self.db.get(key(number)).unwrap();
            assert_eq!(
                found.as_deref(),
                self.model.get(&key(number)).map(Vec::as_slice),
                "key {number}"
            );
        }
        internal::check_ages(&self.db).unwrap();
    }

    /// Returns the entries of tables, and the tombstones among them and among their ranges.
    fn stored(&self) -> (u64, u64) {
        let keyspaces = self.db.levels().keyspaces.into_iter();
        let sub_levels = keyspaces.flat_map(|keyspace| keyspace.levels).flatten();
        let tables = sub_levels.flat_map(|sub_level| sub_level.tables);
        tables.fold((0, 0), |(entries, tombstones), table| {
            let of_table = table.tombstones + table.range_tombstones;
            (entries + table.entries, tombstones + of_table)
        })
    }

    /// Returns whether tables hold the contents of the model, and nothing else.
    fn is_clean(&self) -> bool {
        self.stored() == (self.model.len() as u64, 0)
    }
}

/// Deletes all but a tenth of the keys, one by one or in two ranges.
fn delete_most(bench: &mut Bench, in_ranges: bool) {
    if in_ranges {
        bench.delete_range(KEYS / 20, KEYS / 2);
        bench.delete_range(KEYS / 2, KEYS - KEYS / 20);
    } else {
        let most = (0..KEYS).filter(|number| !number.is_multiple_of(10));
        most.for_each(|number| bench.delete(number));
    }
    bench.db.flush().unwrap();
}

#[test]
fn many_tombstones_go_with_what_they_hide() {
    for policy in POLICIES {
        for in_ranges in [false, true] {
            let mut bench = Bench::new(policy, 0, 0);
            // The policy of the score has its own reasons, or it would drop them by itself.
            bench.reopen(|options| options.min_score = 100.0);
            bench.load();
            delete_most(&mut bench, in_ranges);
            bench.settle();
            let (_, before) = bench.stored();
            assert!(before > 0, "{policy}: the policy alone drops them");
            bench.reopen(|options| options.tombstone_percent = 50);
            bench.settle();
            bench.check();
            let left = bench.stored();
            // Ranges over tables that went by an edit hide nothing any more, and are few.
            let is_clean = bench.is_clean() || (in_ranges && left.1 <= 4);
            assert!(is_clean, "{policy}, ranges {in_ranges}: {left:?}");
        }
    }
}

#[test]
fn old_tombstones_go_although_they_are_few() {
    for policy in POLICIES {
        let mut bench = Bench::new(policy, 0, 1_000);
        bench.calendar.set(5_000);
        bench.load();
        (0..10).for_each(|number| bench.delete(number * 97));
        bench.delete_range(500, 503);
        bench.db.flush().unwrap();
        bench.calendar.set(5_999);
        bench.settle();
        assert!(bench.stored().1 > 0, "{policy}: too early");
        bench.reopen(|_| {});
        bench.settle();
        assert!(
            bench.stored().1 > 0,
            "{policy}: too early after a reopening"
        );
        bench.calendar.set(6_000);
        bench.settle();
        bench.check();
        assert!(bench.is_clean(), "{policy}: {:?}", bench.stored());
    }
}

/// A merge between does not make tombstones young again, and neither does another policy.
#[test]
fn merges_keep_the_age_of_tombstones() {
    let mut bench = Bench::new(Tiered, 0, 1_000);
    bench.calendar.set(5_000);
    bench.load();
    bench.delete(7);
    bench.db.flush().unwrap();
    bench.calendar.set(5_900);
    let merges = bench.db.statistics().merges;
    for round in 0..4 {
        (0..KEYS)
            .step_by(3)
            .for_each(|number| bench.put(number + 2, round));
        bench.db.flush().unwrap();
    }
    bench.settle();
    assert!(bench.db.statistics().merges > merges && bench.stored().1 > 0);
    bench.reopen(|options| options.compaction_policy = Dedup);
    bench.calendar.set(6_000);
    bench.settle();
    assert_eq!(bench.stored().1, 0);
    bench.check();
}

#[test]
fn what_a_snapshot_needs_is_not_merged_over_and_over_and_goes_after_it() {
    for policy in POLICIES {
        for (percent, age_seconds) in [(20, 0), (0, 10)] {
            let mut bench = Bench::new(policy, percent, age_seconds);
            bench.load();
            let before = bench.model.clone();
            let half = |number: &u32| number.is_multiple_of(2);
            (0..KEYS)
                .filter(half)
                .for_each(|number| bench.delete(number));
            // It sees half of the deletions that are in one table.
            let snapshot = bench.db.snapshot();
            (0..KEYS)
                .filter(|n| !half(n))
                .for_each(|number| bench.delete(number));
            bench.db.flush().unwrap();
            bench.calendar.set(100);
            bench.settle();
            assert!(bench.stored().1 > 0, "{policy}: the snapshot needs some");
            let merges = bench.db.statistics().merges;
            for _ in 0..5 {
                bench.settle();
                bench.calendar.set(bench.calendar.unix_seconds() + 100);
            }
            assert_eq!(bench.db.statistics().merges, merges, "{policy}");
            let seen = |number| bench.db.get_at(&snapshot, key(number)).unwrap();
            assert_eq!(seen(7).as_deref(), before.get(&key(7)).map(Vec::as_slice));
            assert!(seen(8).is_none());
            drop(snapshot);
            bench.settle();
            bench.check();
            assert_eq!(bench.stored(), (0, 0), "{policy}: all is deleted");
        }
    }
}

/// Deleted keys stay deleted, after any merge and under any next policy.
#[test]
fn nothing_rises_from_the_dead() {
    for (seed, first) in (0u64..).zip(POLICIES) {
        let mut bench = Bench::new(first, 10, 200);
        let mut random = SmallRng::seed_from_u64(seed);
        for step in 0..support::scale("TERRACE_TOMBSTONE_STEPS", 400) {
            for _ in 0..random.random_range(1..60) {
                let number = random.random_range(0..KEYS);
                match random.random_range(0..20) {
                    0 => bench.delete_range(number, number + random.random_range(1..KEYS / 4)),
                    1..10 => bench.delete(number),
                    _ => bench.put(number, step as u8),
                }
            }
            if random.random_ratio(1, 3) {
                bench.db.flush().unwrap();
            }
            bench.calendar.set(step * 10);
            if random.random_ratio(1, 25) {
                let policy = POLICIES[random.random_range(0..POLICIES.len())];
                let percent = [0, 1, 10, 50][random.random_range(0..4)];
                bench.reopen(|options| {
                    options.compaction_policy = policy;
                    options.tombstone_percent = percent;
                });
            }
            bench.check();
        }
        bench.reopen(|options| options.tombstone_age_seconds = 1);
        bench.db.flush().unwrap();
        bench.calendar.set(1 << 20);
        bench.settle();
        bench.check();
        assert_eq!(bench.stored().1, 0, "{first}: all tombstones are old");
    }
}

/// Without any call, old tombstones go by themselves, and a dropped snapshot's versions, too.
#[test]
fn an_idle_store_looks_at_its_tombstones() {
    let mut bench = Bench::new(Tiered, 0, 1);
    bench.reopen(|options| options.background = Background::Threads);
    bench.load();
    let snapshot = bench.db.snapshot();
    bench.delete(7);
    bench.db.flush().unwrap();
    bench.calendar.set(2);
    bench.settle();
    assert!(bench.stored().1 > 0);
    drop(snapshot);
    while bench.stored().1 > 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    bench.check();
}
