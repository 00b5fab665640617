//! Space that a snapshot held comes back when the snapshot is gone, under every policy.

mod support;

use std::collections::BTreeMap;

use terrace::CompactionPolicy::{self, Dedup, Lazy, Leveled, Score, Tiered};
use terrace::{Background, Db, IterOptions, KeyspaceOptions, Options, internal};
use terrace_tools::explain::explain_compaction;

const STORE: &str = "/store";
const POLICIES: [CompactionPolicy; 5] = [Leveled, Tiered, Lazy, Dedup, Score];
const KEYS: u32 = 1_000;

/// A store and its expected rows.
struct Bench {
    options: Options,
    db: Db,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn key(number: u32) -> Vec<u8> {
    format!("key-{number:05}").into_bytes()
}

impl Bench {
    /// Opens a store that merges nothing for tombstones.
    fn new(compaction_policy: CompactionPolicy) -> Self {
        let base = support::script::tiny(Options::in_memory());
        let options = Options {
            compaction_policy,
            background: Background::Inline,
            arena_bytes: 256 << 10,
            level0_merge: if compaction_policy == Score { 1 } else { 4 },
            default_keyspace: KeyspaceOptions {
                level_ratio: 4,
                level1_bytes: 64 << 10,
                ..base.default_keyspace
            },
            tombstone_percent: 0,
            tombstone_age_seconds: 0,
            ..base
        };
        let db = Db::open(STORE, options.clone()).unwrap();
        Bench {
            options,
            db,
            model: BTreeMap::new(),
        }
    }

    fn reopen(&mut self) {
        self.db.close().unwrap();
        self.db = Db::open(STORE, self.options.clone()).unwrap();
    }

    /// Writes some keys.
    fn fill(&mut self, keys: impl Iterator<Item = u32>, round: u8) {
        for number in keys {
            let (key, value) = (key(number), vec![round; 100]);
            self.db.put(&key, &value).unwrap();
            self.model.insert(key, value);
        }
    }

    fn entries(&self) -> u64 {
        let keyspaces = self.db.levels().keyspaces.into_iter();
        let sub_levels = keyspaces.flat_map(|keyspace| keyspace.levels).flatten();
        let tables = sub_levels.flat_map(|sub_level| sub_level.tables);
        tables.map(|table| table.entries).sum()
    }

    fn written_bytes(&self) -> u64 {
        let compactions = self.db.compactions();
        compactions.iter().map(|past| past.output_bytes).sum()
    }

    fn check(&self) {
        let found = self.db.iter(IterOptions::default()).unwrap();
        let found = found.entries().map(|entry| {
            let (key, value) = entry.unwrap();
            (key.to_vec(), value.to_vec())
        });
        let found: BTreeMap<_, _> = found.collect();
        assert!(found == self.model, "the store and the model differ");
        internal::check_ages(&self.db).unwrap();
        let problems = self.db.verify(|_, _| ()).unwrap().problems;
        assert!(problems.is_empty(), "{problems:?}");
    }

    /// Writes each key once, and `rounds` times more under the returned snapshot, with a brief
    /// snapshot beside each round. Everything lies in one sub-level at the end.
    fn held(policy: CompactionPolicy, rounds: u8) -> (Self, terrace::Snapshot) {
        let mut bench = Bench::new(policy);
        bench.fill(0..KEYS, 0);
        bench.db.compact_range(..).unwrap();
        assert_eq!(bench.entries(), u64::from(KEYS));
        let snapshot = bench.db.snapshot();
        for round in 1..=rounds {
            bench.fill(0..KEYS, round);
            let _beside = bench.db.snapshot();
            bench.db.flush().unwrap();
        }
        bench.db.compact_range(..).unwrap();
        assert_eq!(bench.entries(), 2 * u64::from(KEYS));
        (bench, snapshot)
    }
}

#[test]
fn what_a_snapshot_held_goes_by_itself() {
    for policy in POLICIES {
        let (bench, snapshot) = Bench::held(policy, 3);
        bench.db.compact().unwrap();
        assert_eq!(bench.entries(), 2 * u64::from(KEYS), "{policy}");
        drop(snapshot);
        bench.db.compact().unwrap();
        assert_eq!(bench.entries(), u64::from(KEYS), "{policy}");
        bench.check();
        let written = bench.written_bytes();
        bench.db.compact().unwrap();
        bench.db.compact_range(..).unwrap();
        assert_eq!(bench.written_bytes(), written, "{policy}: again");
    }
}

#[test]
fn what_a_snapshot_held_goes_after_an_opening() {
    for policy in POLICIES {
        let (mut bench, snapshot) = Bench::held(policy, 1);
        drop(snapshot);
        bench.reopen();
        bench.db.compact().unwrap();
        assert_eq!(bench.entries(), u64::from(KEYS), "{policy}");
        bench.check();
    }
}

/// Below a quarter no table is rewritten for it, unless a caller asks.
#[test]
fn compact_range_drops_the_little_that_a_snapshot_held() {
    for policy in POLICIES {
        let mut bench = Bench::new(policy);
        bench.fill(0..KEYS, 0);
        bench.db.compact_range(..).unwrap();
        let snapshot = bench.db.snapshot();
        // A tenth of the first quarter of the keys, so that no table has a quarter of them.
        bench.fill((0..KEYS / 4).step_by(10), 1);
        bench.db.flush().unwrap();
        let _younger = bench.db.snapshot();
        bench.db.compact_range(..).unwrap();
        let held = u64::from(KEYS + KEYS / 40);
        assert_eq!(bench.entries(), held, "{policy}");
        let written = bench.written_bytes();
        bench.db.compact_range(..).unwrap();
        assert_eq!(
            bench.written_bytes(),
            written,
            "{policy}: the snapshot needs it"
        );
        drop(snapshot);
        bench.db.compact().unwrap();
        assert_eq!(bench.entries(), held, "{policy}: less than a quarter");
        bench.db.compact_range(..).unwrap();
        assert_eq!(bench.entries(), u64::from(KEYS), "{policy}");
        let levels = bench.db.levels().keyspaces.remove(0).levels;
        let of_all = levels.iter().flatten();
        let bytes: u64 = of_all
            .flat_map(|s| &s.tables)
            .map(|table| table.size_bytes)
            .sum();
        let more = bench.written_bytes() - written;
        assert!(
            more < bytes / 2,
            "{policy}: {more} of {bytes} bytes for a part of the keys"
        );
        bench.check();
    }
}

#[test]
fn rows_under_a_deleted_range_go_with_the_snapshot() {
    for policy in POLICIES {
        let mut bench = Bench::new(policy);
        bench.fill(0..KEYS, 0);
        let snapshot = bench.db.snapshot();
        let (from, to) = (key(KEYS / 10), key(KEYS));
        bench.db.delete_range(&from, &to).unwrap();
        bench.model.retain(|key, _| *key < from);
        bench.db.compact_range(..).unwrap();
        bench.db.compact().unwrap();
        assert_eq!(bench.entries(), u64::from(KEYS), "{policy}");
        drop(snapshot);
        bench.db.compact().unwrap();
        assert_eq!(bench.entries(), u64::from(KEYS / 10), "{policy}");
        bench.check();
    }
}

#[test]
fn a_snapshot_that_is_let_go_wakes_the_merges() {
    let mut bench = Bench::new(Leveled);
    bench.options.background = Background::Threads;
    bench.reopen();
    bench.fill(0..KEYS, 0);
    bench.db.compact_range(..).unwrap();
    let snapshot = bench.db.snapshot();
    bench.fill(0..KEYS, 1);
    bench.db.compact_range(..).unwrap();
    bench.db.compact().unwrap();
    assert_eq!(bench.entries(), 2 * u64::from(KEYS));
    // The last look that the merge asked for is over by then.
    std::thread::sleep(std::time::Duration::from_millis(500));
    drop(snapshot);
    // A third of the time after which the store looks by itself.
    for _ in 0..20_000 {
        if bench.entries() > u64::from(KEYS) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    assert_eq!(bench.entries(), u64::from(KEYS));
}

#[test]
fn an_old_snapshot_is_told_with_what_it_keeps() {
    let (bench, snapshot) = Bench::held(Leveled, 2);
    let oldest = bench.db.statistics().oldest_snapshot.unwrap();
    assert_eq!(oldest.sequence, snapshot.sequence());
    let bytes: u64 = bench.db.statistics().levels.iter().map(|l| l.bytes).sum();
    // Half of all versions, without the bytes of filters and indexes.
    assert!(
        (bytes / 3..=bytes / 2).contains(&oldest.kept_bytes),
        "{oldest:?} of {bytes}"
    );
    let explained = explain_compaction(&bench.db).keyspaces.remove(0);
    assert_eq!(explained.oldest_snapshot, Some(oldest));
    assert_eq!(explained.choice, None);
    drop(snapshot);
    assert_eq!(bench.db.statistics().oldest_snapshot, None);
    let explained = explain_compaction(&bench.db).keyspaces.remove(0);
    let reason = explained.choice.unwrap().reason;
    assert!(reason.contains("no snapshot needs it"), "{reason}");
}
