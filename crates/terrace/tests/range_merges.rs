//! Merges of a range of keys: they save work where updates come in clusters, and lose nothing,
//! beside any other event.
//!
//! `TERRACE_CRASH_POINTS` sets how many crash points are tried for each policy (40 by default).

mod support;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use support::machine::{Machine, Method};
use support::model::{Change, Model};
use support::script::{KEYSPACES, Operation, Run, is_frozen};
use terrace::{Background, CompactionPolicy, Db, KeyspaceId, KeyspaceOptions, Options, internal};
use terrace_storage::CrashKind;

const KEYS: u32 = 20_000;
/// Updates of all kinds for each key.
const ROUNDS: u32 = 12;

fn options(compaction_policy: CompactionPolicy) -> Options {
    let base = support::script::tiny(Options::in_memory());
    Options {
        compaction_policy,
        background: Background::Inline,
        arena_bytes: 64 << 10,
        default_keyspace: KeyspaceOptions {
            table_bytes: 8 << 10,
            block_bytes: 1 << 10,
            level_ratio: 10,
            ..base.default_keyspace
        },
        level0_merge: 4,
        min_score: 0.4,
        dedup_threshold: 1.2,
        cache_bytes: 8 << 20,
        max_open_tables: Some(1000),
        constants: terrace::Constants {
            slice_bytes: 256 << 10,
            manifest_bytes: 1 << 20,
            ..terrace::Constants::default()
        },
        ..base
    }
}

/// Draws a key of a store that is updated for a while.
type Draw = fn(&mut SmallRng) -> u32;

/// Draws keys: nine of ten updates are to a twentieth of them.
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

#[derive(Debug)]
struct Outcome {
    #[expect(dead_code, reason = "printed")]
    policy: CompactionPolicy,
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
        db.put(number.to_be_bytes(), value(1)).unwrap();
    }
    let (mut sum, mut steps) = (0.0, 0);
    for step in 0..ROUNDS * 4 {
        for _ in 0..KEYS / 4 {
            let number = draw(&mut random);
            written[number as usize] += 1;
            let times = written[number as usize];
            db.put(number.to_be_bytes(), value(times)).unwrap();
        }
        if step >= ROUNDS * 2 {
            sum += versions(&db) as f64 / f64::from(KEYS);
            steps += 1;
        }
    }
    let statistics = db.statistics();
    let outcome = Outcome {
        policy: options.compaction_policy,
        mean: sum / f64::from(steps),
        written: statistics.write_amplification.unwrap(),
        range_merges: internal::range_merges(&db),
        merges: statistics.merges,
    };
    println!("{outcome:?}");
    for (number, &times) in (0u32..).zip(&written) {
        let found = db.get(number.to_be_bytes()).unwrap();
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
    assert!(written < 3.37 && mean < 1.32, "{written} {mean}");
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

/// Returns options for a store whose tables hold a few of 600 keys each.
fn small(machine: &Machine) -> Options {
    let base = machine.options();
    Options {
        default_keyspace: KeyspaceOptions {
            table_bytes: 1 << 10,
            level_ratio: 8,
            ..base.default_keyspace
        },
        level0_merge: 2,
        // Nor does the policy of the score wait for more.
        level0_slowdown: 5,
        min_score: 0.2,
        dedup_threshold: 1.2,
        // Which merges pay depends on the hashes of keys; a run repeats.
        randomness: internal::Randomness::seeded(1),
        constants: terrace::Constants {
            slice_bytes: 8 << 10,
            ..terrace::Constants::default()
        },
        ..base
    }
}

/// Draws an operation: mostly puts, most of them to one key in twelve.
fn write(random: &mut SmallRng) -> Operation {
    let key = |random: &mut SmallRng| {
        let number = match random.random_ratio(5, 6) {
            true => 200 + random.random_range(0..50),
            false => random.random_range(0..600),
        };
        format!("key-{number:03}").into_bytes()
    };
    let one = |_| {
        let first = key(random);
        let change = match random.random_range(0..40) {
            0 => {
                let mut end = first.clone();
                end.push(b'~');
                Change::DeleteRange(end)
            }
            1..5 => Change::Delete,
            byte => Change::Put(vec![byte; random.random_range(20..120)]),
        };
        (KeyspaceId::DEFAULT, first, change)
    };
    Operation::Write {
        writes: (0..20).map(one).collect(),
        sync: false,
    }
}

fn any(random: &mut SmallRng) -> Operation {
    match random.random_range(0..100) {
        0..3 => Operation::TakeSnapshot,
        3..6 => Operation::DropSnapshot,
        6..8 => Operation::Check,
        8 => Operation::Reopen,
        _ => write(random),
    }
}

fn run_of(model: Model, policy: CompactionPolicy) -> Run {
    let mut run = Run::new(model);
    run.policies = vec![policy];
    run
}

#[test]
fn random_operations_agree_with_the_model() {
    for policy in [CompactionPolicy::Dedup, CompactionPolicy::Score] {
        let machine = Machine::new(Method::Written, 1);
        let options = small(&machine);
        let mut random = SmallRng::seed_from_u64(5);
        let mut run = run_of(Model::default(), policy);
        run.open(options.clone()).unwrap();
        let mut range_merges = 0;
        for _ in 0..1_500 {
            let operation = any(&mut random);
            if matches!(operation, Operation::Reopen) {
                range_merges += internal::range_merges(run.db());
            }
            run.apply(operation, &options).unwrap();
        }
        run.model.check(run.db(), &KEYSPACES).unwrap();
        internal::check_ages(run.db()).unwrap();
        range_merges += internal::range_merges(run.db());
        assert!(range_merges > 2, "{policy}: {range_merges}");
    }
}

/// The first opening that merges nothing for its tombstones.
const NO_TOMBSTONES: usize = 5;

/// A machine with a store that has lived, and one that goes on until it freezes.
#[test]
fn crash_points_among_them_lose_nothing() {
    for policy in [CompactionPolicy::Dedup, CompactionPolicy::Score] {
        let base = Machine::new(Method::Written, 2);
        let mut random = SmallRng::seed_from_u64(6);
        let mut lived = run_of(Model::default(), policy);
        lived.openings = NO_TOMBSTONES;
        lived.open(small(&base)).unwrap();
        for _ in 0..150 {
            lived.apply(write(&mut random), &small(&base)).unwrap();
        }
        lived.db().close().unwrap();
        lived.db = None;
        lived.model.persisted = lived.model.tried();
        let go_on = |machine: &Machine| {
            let options = small(machine);
            let mut random = SmallRng::seed_from_u64(7);
            let mut run = run_of(lived.model.clone(), policy);
            run.openings = NO_TOMBSTONES;
            let mut work = || {
                run.open(options.clone())?;
                (0..400).try_for_each(|_| run.apply(write(&mut random), &options))
            };
            if let Err(error) = work() {
                assert!(machine.is_frozen() && is_frozen(&error), "{error}");
            }
            run
        };
        let whole = base.copy(0);
        let merges = internal::range_merges(go_on(&whole).db());
        assert!(merges > 0, "{policy}: {merges}");
        let points = support::scale("TERRACE_CRASH_POINTS", 40);
        let steps = whole.steps();
        for point in (0..steps).step_by((steps / points).max(1) as usize) {
            for kind in [CrashKind::Kill, CrashKind::PowerCut] {
                let machine = base.copy(point);
                machine.freeze_at(point);
                let mut run = go_on(&machine);
                run.db = None;
                let promised = run.promised(kind == CrashKind::PowerCut);
                let crashed = machine.crash(kind, point);
                run.open(small(&crashed)).unwrap();
                let db = run.db().clone();
                run.model
                    .check_recovered(&db, &KEYSPACES, promised)
                    .unwrap();
                internal::check_ages(&db).unwrap();
            }
        }
    }
}
