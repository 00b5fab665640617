//! A store's reports: each merge with its prediction and result, and the contents of its levels.

mod support;

use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::{
    Background, Compaction, CompactionKind, CompactionPolicy, Db, KeyspaceOptions, LevelsReport,
    Options,
};
use terrace_storage::{
    CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, Operation, Purpose,
    SimulatedStorage,
};
use terrace_tools::inspect::prometheus;

/// Bytes of a union of sketches.
const UNION_BYTES: u64 = 1 << 14;
/// Bytes of the sketch that is kept of each table besides.
const SMALL_BYTES: u64 = 1 << 10;

fn options(compaction_policy: CompactionPolicy) -> Options {
    let base = support::script::tiny(Options::in_memory());
    Options {
        compaction_policy,
        background: Background::Inline,
        level0_merge: 4,
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

fn update(db: &Db, keys: u32, updates: u32, random: &mut SmallRng) {
    for _ in 0..updates {
        db.put(key(random.random_range(0..keys)), [7; 100]).unwrap();
    }
}

/// Returns the number of versions in tables.
fn versions(levels: &LevelsReport) -> u64 {
    let levels = levels.keyspaces[0].levels.iter().flatten();
    let tables = levels.flat_map(|sub_level| &sub_level.tables);
    tables.map(|table| table.entries).sum()
}

#[test]
fn what_a_merge_was_to_drop_is_told_beside_what_it_dropped() {
    let db = Db::open("/store", options(CompactionPolicy::Dedup)).unwrap();
    // No key twice in a buffer: a flush would drop it.
    for step in 0..16_000 {
        db.put(key(step * 7_919 % 2_000), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    let past = db.compactions();
    assert_eq!(db.levels().compactions, past);
    let for_duplicates: Vec<&Compaction> = past
        .iter()
        .filter(|past| past.reason.contains("versions for 100 that would stay"))
        .collect();
    assert!(for_duplicates.len() > 3, "{past:#?}");
    for past in for_duplicates {
        let predicted = past.predicted_dropped.unwrap() as f64;
        let off = (past.dropped as f64 - predicted).abs();
        assert!(off <= 0.05 * past.entries as f64, "{past:#?}");
        assert!(!past.setback && past.kind == CompactionKind::Merge);
    }
    for past in past
        .iter()
        .filter(|past| past.kind == CompactionKind::Merge)
    {
        assert!(past.slices > 0 && past.installed_slices == past.slices);
        assert!(past.input_bytes > past.output_bytes / 2 && past.output_bytes > 0);
        assert!(past.dropped < past.entries && past.output_tables > 0);
        assert_eq!(past.cut_short, None);
    }
    let by_size = past.iter().find(|past| past.reason.contains("level 0 has"));
    assert_eq!(by_size.unwrap().predicted_dropped, None);

    // None was forgotten yet, so they add up.
    let sum = |of: fn(&Compaction) -> u64| past.iter().map(of).sum::<u64>();
    let statistics = db.statistics();
    assert!(past.len() < 256);
    assert_eq!(
        (statistics.merged_entries, statistics.dropped_entries),
        (sum(|past| past.entries), sum(|past| past.dropped))
    );
    assert_eq!(
        statistics.io.of(Purpose::Compaction).written_bytes,
        sum(|past| past.output_bytes)
    );
    assert_eq!(
        versions(&db.levels()),
        16_000 - sum(|past| past.dropped),
        "what was put and not dropped is there"
    );
    assert_eq!(statistics.setbacks, 0);
}

#[test]
fn a_move_is_told_too() {
    let db = Db::open("/store", options(CompactionPolicy::Leveled)).unwrap();
    for number in 0..1_000 {
        db.put(key(number), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    let past = db.compactions();
    let moved = past.iter().find(|past| past.kind == CompactionKind::Move);
    let moved = moved.unwrap();
    assert!(moved.input_tables > 0 && moved.input_bytes > 0);
    assert_eq!((moved.output_bytes, moved.entries, moved.slices), (0, 0, 0));
}

/// Of a few keys the sample may have none; then the store cannot know that snapshots keep them all.
#[test]
fn a_merge_that_frees_less_than_predicted_is_a_setback_and_not_repeated() {
    let set_back = (0..100).find_map(|_| {
        let db = Db::open("/store", options(CompactionPolicy::Dedup)).unwrap();
        let mut held = Vec::new();
        for round in 0..40u32 {
            held.push(db.snapshot());
            for number in 0..8 {
                db.put(key(number), round.to_be_bytes()).unwrap();
            }
            db.flush().unwrap();
        }
        let past = db.compactions();
        let setbacks = past.iter().filter(|past| past.setback).count() as u64;
        assert_eq!(db.statistics().setbacks, setbacks);
        (setbacks > 0).then_some((db, held, past))
    });
    let (db, _held, past) = set_back.expect("one of a hundred stores");
    let first = past.iter().find(|past| past.setback).unwrap();
    assert_eq!(first.dropped, 0);
    assert!(first.predicted_dropped.unwrap() >= first.entries / 4);
    // Each needs a quarter more versions than the last one left.
    let sizes: Vec<u64> = past
        .iter()
        .filter(|p| p.setback)
        .map(|p| p.entries)
        .collect();
    assert!(
        sizes.windows(2).all(|pair| pair[1] * 4 >= pair[0] * 5),
        "{sizes:?}"
    );
    let metrics = prometheus(&db.statistics());
    let line = format!("\nterrace_setbacks_total {}\n", sizes.len());
    assert!(metrics.contains(&line), "{metrics}");
    let told = db
        .events()
        .iter()
        .any(|event| event.to_string().ends_with(", a setback"));
    assert!(told);
}

#[test]
fn sketches_stay_within_a_union_a_sub_level() {
    let sketch_bytes = |db: &Db| db.statistics().memory.sketch_bytes;
    for policy in [CompactionPolicy::Dedup, CompactionPolicy::Score] {
        let db = Db::open("/store", options(policy)).unwrap();
        let mut random = SmallRng::seed_from_u64(2);
        let mut most = 0;
        for step in 0..40 {
            update(&db, 2_000, 500, &mut random);
            let levels = &db.levels().keyspaces[0].levels;
            let sub_levels: usize = levels.iter().map(Vec::len).sum();
            let bytes = sketch_bytes(&db);
            let tables: usize = levels.iter().flatten().map(|s| s.tables.len()).sum();
            // Looked at before the last edit: a merge may have left fewer since.
            let room = sub_levels as u64 + 6;
            assert!(
                bytes <= room * UNION_BYTES + (tables as u64 + 30) * SMALL_BYTES,
                "{policy}, step {step}: {bytes}"
            );
            most = most.max(bytes);
        }
        assert!(most >= UNION_BYTES, "{policy}: {most}");

        // A snapshot makes samples needed: one key in 64, of few bytes each.
        let snapshot = db.snapshot();
        update(&db, 2_000, 4_000, &mut random);
        let all = versions(&db.levels());
        let levels = &db.levels().keyspaces[0].levels;
        let sub_levels: usize = levels.iter().map(Vec::len).sum();
        let tables: usize = levels.iter().flatten().map(|s| s.tables.len()).sum();
        let small = (tables as u64 + 30) * SMALL_BYTES;
        let most = (sub_levels as u64 + 6) * UNION_BYTES + small + all / 64 * 3 * 64;
        assert!(sketch_bytes(&db) <= most, "{}", sketch_bytes(&db));
        drop(snapshot);
    }
    let db = Db::open("/store", options(CompactionPolicy::Leveled)).unwrap();
    update(&db, 2_000, 8_000, &mut SmallRng::seed_from_u64(3));
    assert_eq!(sketch_bytes(&db), 0, "nobody asks");
}

/// In several sub-levels of a level, under either policy.
#[test]
fn a_level_tells_how_often_it_has_its_keys() {
    for policy in [CompactionPolicy::Leveled, CompactionPolicy::Tiered] {
        let options = Options {
            compaction_policy: policy,
            background: Background::Inline,
            level0_merge: 100,
            level0_slowdown: 1000,
            // Tables of level 0 stay as they are flushed.
            arena_bytes: 1 << 20,
            ..Options::in_memory()
        };
        let db = Db::open("/store", options).unwrap();
        for from in [0u32, 2_000, 4_000, 5_000] {
            for number in from..from + 5_000 {
                db.put(key(number), b"value").unwrap();
            }
            db.flush().unwrap();
        }
        for number in 0..7 {
            db.delete(key(number)).unwrap();
        }
        db.flush().unwrap();
        assert!(db.levels().keyspaces[0].duplicates.is_empty());
        let levels = db.levels_with_duplicates();
        let [level0, below @ ..] = &levels.keyspaces[0].duplicates[..] else {
            panic!("{levels:?}");
        };
        assert_eq!((level0.versions, level0.tombstones), (20_007, 7));
        // Five times the usual error.
        let rate = level0.rate().unwrap();
        assert!((rate / 2.0007 - 1.0).abs() < 0.04, "{policy}: {rate}");
        assert!(
            below
                .iter()
                .all(|level| level.rate().is_none() && level.versions == 0)
        );
    }
}

#[test]
fn a_sketch_that_cannot_be_read_leaves_the_keys_unknown() {
    let disk = SimulatedStorage::new(1, CrashSwitch::new());
    let filter = FaultFilter::everything().purpose(Purpose::Other);
    let reads = FaultPlan::new(filter.operations(&[Operation::Read]));
    let options = Options {
        storage: Arc::new(FailingStorage::new(Arc::new(disk), reads.clone())),
        ..options(CompactionPolicy::Leveled)
    };
    let db = Db::open("/store", options).unwrap();
    for number in 0..1_000 {
        db.put(key(number), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    let known = || {
        let levels = db.levels_with_duplicates();
        let levels = levels.keyspaces[0].duplicates.iter();
        let with_versions = levels.filter(|level| level.versions > 0);
        with_versions
            .map(|level| level.keys.is_some())
            .collect::<Vec<_>>()
    };
    assert!(!known().is_empty() && known().iter().all(|&known| known));
    reads.fail_from(reads.count(), Fault::Io);
    assert!(known().iter().all(|&known| !known));
    reads.heal();
    assert!(known().iter().all(|&known| known));
}
