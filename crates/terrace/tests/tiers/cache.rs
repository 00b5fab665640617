//! The cache of a fast tier: right reads whatever lies in its file, its bound, restarts, and failures.

use std::path::Path;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::{
    Background, Db, Error, Options, ReadBufferOptions, TierCacheStatistics, TierOptions,
    TierStatistics,
};
use terrace_storage::{
    CrashKind, CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, OpenMode, OpenOptions,
    Operation, Purpose, SimulatedStorage, Storage,
};

use super::support;
use super::support::machine::{Machine, Method};
use super::support::model::Model;
use super::support::script::{KEYSPACES, Run, Script, policies};
use super::{
    MIDDLE, SLOW, STORE, check, disk, fill, options, table_bytes, value, with_level_tiers,
};

const CACHE_BYTES: u64 = 128 << 10;

/// Returns the options of a store without a cache in memory, whose tables lie in a slow tier.
fn with_cache(options: Options, cache_bytes: u64) -> Options {
    let fast = TierOptions {
        cache_bytes,
        ..TierOptions::of_store("fast")
    };
    let options = Options {
        tiers: vec![fast, TierOptions::new("slow", SLOW)],
        cache_bytes: 0,
        read_buffer: ReadBufferOptions {
            share_percent: 0,
            ..ReadBufferOptions::default()
        },
        max_open_tables: Some(1000),
        ..options
    };
    with_level_tiers(options, &["slow"])
}

fn cached(disk: &SimulatedStorage) -> Options {
    with_cache(options(disk), CACHE_BYTES)
}

fn cache(db: &Db) -> TierCacheStatistics {
    db.tiers()[0].cache.expect("the fast tier has a cache")
}

/// Returns the reads of the slow tier's tables by gets.
fn slow_reads(db: &Db) -> u64 {
    let tiers = db.tiers();
    let slow = tiers.iter().find(|tier| tier.name == "slow").unwrap();
    slow.io.of(Purpose::Read).reads
}

fn cache_file(disk: &SimulatedStorage, directory: &str) -> Option<u64> {
    let entries = disk.list(Path::new(directory)).unwrap();
    let file = entries.into_iter().find(|entry| entry.name == "CACHE");
    file.map(|file| file.length_bytes)
}

/// Returns the bytes of the cache file in the store's directory.
fn bytes_of_cache(disk: &SimulatedStorage) -> Vec<u8> {
    let path = Path::new(STORE).join("CACHE");
    let file = disk
        .open(&path, OpenOptions::buffered(OpenMode::Read))
        .unwrap();
    let length = file.length_bytes().unwrap() as usize;
    file.read_vec_at(length, 0, Purpose::Other).unwrap()
}

fn write_cache(disk: &SimulatedStorage, bytes: &[u8], offset: u64) {
    let path = Path::new(STORE).join("CACHE");
    let mode = match cache_file(disk, STORE) {
        Some(_) => OpenMode::ReadWrite,
        None => OpenMode::CreateNew,
    };
    let file = disk.open(&path, OpenOptions::buffered(mode)).unwrap();
    file.write_at(bytes, offset, Purpose::Other).unwrap();
}

/// Returns the disk after the death of every process.
fn killed(disk: &SimulatedStorage) -> SimulatedStorage {
    disk.crash(CrashKind::Kill, 0, CrashSwitch::new())
}

#[test]
fn gets_find_their_blocks_in_the_fast_tier_and_a_restart_is_warm() {
    let disk = disk();
    let db = Db::open(STORE, cached(&disk)).unwrap();
    fill(&db, 0..300);
    assert_eq!(table_bytes(&disk, STORE), 0);
    check(&db, 0..300);
    let after_first = slow_reads(&db);
    assert!(after_first > 100, "{after_first}");
    check(&db, 0..300);
    assert_eq!(
        slow_reads(&db),
        after_first,
        "all blocks are on the fast tier"
    );
    let statistics = cache(&db);
    assert!(statistics.hits > statistics.misses, "{statistics:?}");
    assert!(
        statistics.is_on && statistics.memory_bytes > 0,
        "{statistics:?}"
    );
    db.close().unwrap();

    let db = Db::open(STORE, cached(&disk)).unwrap();
    // Tables are opened first: their footers and filters come from the slow tier.
    let absent = |db: &Db| {
        for number in 0..300 {
            let key = format!("key-{number:05}x");
            assert_eq!(db.get(key).unwrap(), None);
        }
    };
    absent(&db);
    let opened = slow_reads(&db);
    check(&db, 0..300);
    assert_eq!(slow_reads(&db), opened);
    let statistics = cache(&db);
    assert_eq!(
        (statistics.misses, statistics.damaged),
        (0, 0),
        "{statistics:?}"
    );
    assert!(statistics.hits >= 300, "{statistics:?}");
    db.close().unwrap();

    // A kill takes the segment that was being filled, and no more.
    let db = Db::open(STORE, cached(&disk)).unwrap();
    let disk = killed(&disk);
    drop(db);
    let db = Db::open(STORE, cached(&disk)).unwrap();
    check(&db, 0..300);
    let statistics = cache(&db);
    assert!(statistics.hits > 9 * statistics.misses, "{statistics:?}");
}

#[test]
fn the_file_keeps_its_bound_and_hot_blocks_stay() {
    let disk = disk();
    let db = Db::open(STORE, cached(&disk)).unwrap();
    fill(&db, 0..2500);
    let mut random = SmallRng::seed_from_u64(1);
    let mut get = |from: u32, to: u32| {
        let number = random.random_range(from..to);
        let found = db.get(format!("key-{number:05}")).unwrap();
        assert_eq!(found.as_deref(), Some(&value(number)[..]));
    };
    for _ in 0..4000 {
        get(0, 2500);
        get(0, 100);
        assert!(cache_file(&disk, STORE).unwrap() <= CACHE_BYTES);
    }
    let statistics = cache(&db);
    assert!(
        statistics.evicted > 0 && statistics.rejected > 0,
        "{statistics:?}"
    );
    assert_eq!((statistics.damaged, statistics.failures), (0, 0));
    let before = cache(&db).misses;
    (0..300).for_each(|_| get(0, 100));
    let missed = cache(&db).misses - before;
    assert!(missed < 30, "{missed} misses of hot blocks");
}

#[test]
fn walks_checks_and_compactions_leave_the_cache_as_it_is() {
    let disk = disk();
    let db = Db::open(STORE, cached(&disk)).unwrap();
    fill(&db, 0..300);
    check(&db, 0..100);
    let before = cache(&db);
    assert_eq!(db.range(..).unwrap().count(), 300);
    assert_eq!(db.range(..).unwrap().rev().count(), 300);
    assert!(db.verify(|_, _| ()).unwrap().problems.is_empty());
    assert_eq!(cache(&db), before);
    db.compact_range(..).unwrap();
    let moved = cache(&db);
    let reads = |cache: &TierCacheStatistics| (cache.hits, cache.misses, cache.admitted);
    assert_eq!(reads(&moved), reads(&before));
    check(&db, 0..300);
}

#[test]
fn many_keys_at_once_are_found_in_the_cache() {
    let disk = disk();
    let db = Db::open(STORE, cached(&disk)).unwrap();
    fill(&db, 0..300);
    let keys: Vec<String> = (0..300).map(|number| format!("key-{number:05}")).collect();
    let get_all = || {
        let found = db.multi_get(&keys, &Default::default()).unwrap();
        for (number, found) in found.into_iter().enumerate() {
            assert_eq!(found.as_deref(), Some(&value(number as u32)[..]));
        }
    };
    get_all();
    let before = slow_reads(&db);
    get_all();
    assert_eq!(slow_reads(&db), before);
}

#[test]
fn a_flipped_byte_gives_a_right_read() {
    let disk = disk();
    let db = Db::open(STORE, cached(&disk)).unwrap();
    fill(&db, 0..40);
    check(&db, 0..40);
    db.close().unwrap();
    let reading = Options {
        read_only: true,
        ..cached(&disk)
    };
    let db = Db::open(STORE, reading.clone()).unwrap();
    check(&db, 0..40);
    let whole = cache(&db);
    assert_eq!((whole.misses, whole.damaged), (0, 0), "{whole:?}");
    drop(db);
    let bytes = bytes_of_cache(&disk);
    let stride = support::scale("TERRACE_FLIP_STRIDE", 5) as usize;
    let mut missed = 0;
    let header = 0..72;
    let rest = (4096..bytes.len()).step_by(stride);
    for at in header.chain(rest) {
        let flipped = bytes[at] ^ 1 << (at % 8);
        write_cache(&disk, &[flipped], at as u64);
        let db = Db::open(STORE, reading.clone()).unwrap();
        check(&db, 0..40);
        missed += u64::from(db.tiers()[0].cache.unwrap().misses > 0 || at < 72);
        drop(db);
        write_cache(&disk, &bytes[at..=at], at as u64);
    }
    assert!(missed > 100, "{missed} flips were met");
    // An owner makes the damaged file good.
    for at in [3, 4100, 4140, bytes.len() - 3] {
        write_cache(&disk, &[bytes[at] ^ 4], at as u64);
        for is_warm in [false, true] {
            let db = Db::open(STORE, cached(&disk)).unwrap();
            check(&db, 0..40);
            assert!(!is_warm || cache(&db).misses == 0, "at {at}");
            db.close().unwrap();
        }
    }
}

#[test]
fn another_stores_file_and_an_older_copys_are_ignored() {
    // Two stores of the same tables but for the values.
    let (first, second) = (disk(), disk());
    let db = Db::open(STORE, cached(&first)).unwrap();
    fill(&db, 0..200);
    check(&db, 0..200);
    db.close().unwrap();
    let other = |number: u32| vec![7; value(number).len()];
    let fill_other = |db: &Db| {
        for number in 0..200 {
            db.put(format!("key-{number:05}"), other(number)).unwrap();
        }
        db.flush().unwrap();
        db.compact().unwrap();
    };
    let check_other = |db: &Db| {
        for number in 0..200 {
            let found = db.get(format!("key-{number:05}")).unwrap();
            assert_eq!(found.as_deref(), Some(&other(number)[..]), "{number}");
        }
    };
    let db = Db::open(STORE, cached(&second)).unwrap();
    fill_other(&db);
    db.close().unwrap();
    write_cache(&second, &bytes_of_cache(&first), 0);
    let db = Db::open(STORE, cached(&second)).unwrap();
    check_other(&db);
    assert_eq!(cache(&db).damaged, 0);

    // The store goes on, and then an older copy of it comes back beside the cache of today.
    let older = killed(&first);
    let db = Db::open(STORE, cached(&first)).unwrap();
    fill_other(&db);
    check_other(&db);
    db.close().unwrap();
    write_cache(&older, &bytes_of_cache(&first), 0);
    let db = Db::open(STORE, cached(&older)).unwrap();
    check(&db, 0..200);
    // Tables get numbers that the other history gave, too.
    fill(&db, 100..300);
    check(&db, 0..300);
    check(&db, 0..300);
    assert_eq!(cache(&db).damaged, 0, "{:?}", cache(&db));
}

#[test]
fn any_operation_on_the_file_may_fail() {
    for fault in [Fault::Io, Fault::NoSpace, Fault::ShortWrite] {
        for lasts in [false, true] {
            let (mut at, mut ended) = (0, false);
            while !ended {
                let disk = disk();
                let filter = FaultFilter::everything().path_contains("CACHE");
                let plan = FaultPlan::new(filter);
                let failing = FailingStorage::new(Arc::new(disk.clone()), plan.clone());
                let options = Options {
                    storage: Arc::new(failing),
                    ..cached(&disk)
                };
                match lasts {
                    true => plan.fail_from(at, fault),
                    false => plan.fail_at(at, fault),
                }
                for _ in 0..2 {
                    let db = Db::open(STORE, options.clone()).unwrap();
                    fill(&db, 0..30);
                    check(&db, 0..30);
                    check(&db, 0..30);
                    assert_eq!(db.statistics().step_failures, 0);
                    let statistics = cache(&db);
                    assert!(!lasts || statistics.failures <= 8, "{statistics:?}");
                    db.close().unwrap();
                }
                ended = plan.failures() == 0;
                at += if lasts { 7 } else { 1 };
            }
            assert!(at > 20, "{at} operations only");
        }
    }
}

#[test]
fn a_crash_at_any_step_leaves_right_reads() {
    let stride = support::scale("TERRACE_CRASH_STRIDE", 3);
    let run = |disk: &SimulatedStorage| -> terrace::Result<()> {
        let db = Db::open(STORE, cached(disk))?;
        for number in (0..60).chain(0..60) {
            db.get(format!("key-{number:05}"))?;
        }
        for number in 60..120 {
            db.put(format!("key-{number:05}"), value(number))?;
        }
        db.flush()?;
        db.compact()?;
        for number in (0..120).chain(0..120) {
            db.get(format!("key-{number:05}"))?;
        }
        db.close()
    };
    let base = disk();
    let db = Db::open(STORE, cached(&base)).unwrap();
    fill(&db, 0..60);
    check(&db, 0..60);
    db.close().unwrap();
    let switch = CrashSwitch::new();
    run(&base.crash(CrashKind::Kill, 0, switch.clone())).unwrap();
    let steps = switch.count();
    assert!(steps > 30, "{steps} steps");
    for point in (0..steps).step_by(stride as usize) {
        for kind in [CrashKind::Kill, CrashKind::PowerCut] {
            let switch = CrashSwitch::new();
            let disk = base.crash(CrashKind::Kill, point, switch.clone());
            switch.freeze_at(point);
            let _ = run(&disk);
            let disk = disk.crash(kind, point, CrashSwitch::new());
            for _ in 0..2 {
                let db = Db::open(STORE, cached(&disk)).unwrap();
                check(&db, 0..60);
                check(&db, 0..60);
                for number in 60..120 {
                    let found = db.get(format!("key-{number:05}")).unwrap();
                    assert!(found.is_none_or(|found| found[..] == value(number)[..]));
                }
                assert!(cache_file(&disk, STORE).unwrap() <= CACHE_BYTES);
                db.close().unwrap();
            }
        }
    }
}

#[test]
fn a_reader_of_the_store_uses_the_file_and_writes_none() {
    let disk = disk();
    let db = Db::open(STORE, cached(&disk)).unwrap();
    fill(&db, 0..200);
    check(&db, 0..100);
    db.close().unwrap();
    let before = bytes_of_cache(&disk);
    let changes = [
        Operation::Write,
        Operation::Remove,
        Operation::Allocate,
        Operation::Truncate,
    ];
    let plan = FaultPlan::new(FaultFilter::everything().operations(&changes));
    let reading = Options {
        storage: Arc::new(FailingStorage::new(Arc::new(disk.clone()), plan.clone())),
        read_only: true,
        ..cached(&disk)
    };
    let db = Db::open(STORE, reading.clone()).unwrap();
    check(&db, 0..200);
    check(&db, 0..200);
    let statistics = cache(&db);
    assert!(
        statistics.hits >= 200 && statistics.misses > 0,
        "{statistics:?}"
    );
    assert_eq!(statistics.admitted, 0);
    drop(db);
    assert_eq!(plan.count(), 0, "a write");
    assert_eq!(bytes_of_cache(&disk), before);
    // A size of its own is no reason to make the file again either.
    let resized = with_cache(reading, 2 * CACHE_BYTES);
    let db = Db::open(STORE, resized).unwrap();
    check(&db, 0..200);
    assert!(!cache(&db).is_on);
    assert_eq!(plan.count(), 0, "a write");
}

#[test]
fn the_option_decides_on_the_file() {
    let disk = disk();
    let db = Db::open(STORE, cached(&disk)).unwrap();
    fill(&db, 0..200);
    check(&db, 0..200);
    db.close().unwrap();
    assert!(cache_file(&disk, STORE).is_some());
    // Without the option a reader leaves the file alone, and an owner removes it.
    let without = with_cache(options(&disk), 0);
    let reading = Options {
        read_only: true,
        ..without.clone()
    };
    let db = Db::open(STORE, reading).unwrap();
    check(&db, 0..200);
    assert_eq!(db.tiers()[0].cache, None);
    drop(db);
    assert!(cache_file(&disk, STORE).is_some());
    let db = Db::open(STORE, without).unwrap();
    check(&db, 0..200);
    assert_eq!(cache_file(&disk, STORE), None);
    db.close().unwrap();
    // Another size begins empty.
    for factor in [1, 2, 1] {
        let db = Db::open(STORE, with_cache(options(&disk), factor * CACHE_BYTES)).unwrap();
        assert_eq!(cache(&db).blocks, 0);
        check(&db, 0..200);
        assert!(cache_file(&disk, STORE).unwrap() <= factor * CACHE_BYTES);
        db.close().unwrap();
    }
    // The slowest tier has no use for a cache, nor has the only one.
    let alone = super::disk();
    let mut options = options(&alone);
    options.tiers = vec![TierOptions {
        cache_bytes: CACHE_BYTES,
        ..TierOptions::of_store("fast")
    }];
    let db = Db::open(STORE, options).unwrap();
    fill(&db, 0..50);
    check(&db, 0..50);
    assert_eq!(cache_file(&alone, STORE), None);
    let mut tier = TierOptions::new("slow", SLOW);
    tier.cache_bytes = CACHE_BYTES;
    let error = db.add_tier(&tier).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
}

#[test]
fn a_cache_counts_against_the_capacity() {
    const CAPACITY: u64 = 400 << 10;
    let with_capacity = |disk: &SimulatedStorage, cache_bytes| {
        let mut options = with_cache(options(disk), cache_bytes);
        options.tiers[0].capacity_bytes = Some(CAPACITY);
        options.default_keyspace.level_tiers = Vec::new();
        options
    };
    let used =
        |disk: &SimulatedStorage| table_bytes(disk, STORE) + cache_file(disk, STORE).unwrap_or(0);
    let empty = disk();
    let db = Db::open(STORE, with_capacity(&empty, CACHE_BYTES)).unwrap();
    assert_eq!(db.tiers()[0].room_bytes, CAPACITY - CACHE_BYTES);
    for part in 0..20 {
        fill(&db, part * 150..part * 150 + 150);
        check(&db, 0..part * 150 + 150);
        assert!(used(&empty) <= CAPACITY);
        assert!(table_bytes(&empty, STORE) <= CAPACITY - CACHE_BYTES);
    }
    assert!(table_bytes(&empty, SLOW) > 0);
    assert!(cache(&db).hits > 0);
    drop(db);

    // Tables are in the way of a cache that comes later: they move, and then it has room.
    let full = disk();
    let db = Db::open(STORE, with_capacity(&full, 0)).unwrap();
    fill(&db, 0..3000);
    assert!(
        table_bytes(&full, STORE) > CAPACITY - CACHE_BYTES,
        "no test"
    );
    db.close().unwrap();
    let db = Db::open(STORE, with_capacity(&full, CACHE_BYTES)).unwrap();
    assert!(!cache(&db).is_on);
    check(&db, 0..3000);
    assert!(used(&full) <= CAPACITY);
    while db.wait_for_migration().unwrap() {}
    db.close().unwrap();
    let db = Db::open(STORE, with_capacity(&full, CACHE_BYTES)).unwrap();
    assert!(cache(&db).is_on, "{:?}", db.tiers());
    check(&db, 0..3000);
    assert!(used(&full) <= CAPACITY);
}

#[test]
fn a_table_asks_the_slowest_of_the_faster_tiers_with_a_cache() {
    let disk = disk();
    let mut options = options(&disk);
    options.cache_bytes = 0;
    options.max_open_tables = Some(1000);
    let with_cache = |tier: TierOptions| TierOptions {
        cache_bytes: CACHE_BYTES,
        ..tier
    };
    options.tiers = vec![
        with_cache(TierOptions::of_store("fast")),
        with_cache(TierOptions::new("middle", MIDDLE)),
        TierOptions::new("slow", SLOW),
    ];
    let options = with_level_tiers(options, &["middle", "middle", "slow"]);
    let db = Db::open(STORE, options.clone()).unwrap();
    fill(&db, 0..300);
    assert!(table_bytes(&disk, SLOW) > 0);
    check(&db, 0..300);
    check(&db, 0..300);
    let of = |db: &Db, name: &str| -> TierStatistics {
        let mut tiers = db.tiers().into_iter();
        tiers.find(|tier| tier.name == name).unwrap()
    };
    assert!(of(&db, "middle").cache.unwrap().hits > 0);
    assert_eq!(of(&db, "slow").cache, None);
    // A tier that is removed takes its cache along.
    assert!(cache_file(&disk, MIDDLE).is_some());
    db.drain_tier("middle").unwrap();
    while db.wait_for_migration().unwrap() {}
    db.remove_tier("middle").unwrap();
    assert_eq!(cache_file(&disk, MIDDLE), None);
    check(&db, 0..300);
    check(&db, 0..300);
    db.close().unwrap();
}

fn model(background: Background) {
    const OPERATIONS_PER_STORE: u64 = 1_000;
    let operations = support::scale("TERRACE_MODEL_OPERATIONS", 16_000) / 4;
    let (mut hits, mut admitted) = (0, 0);
    for life in 0..operations.div_ceil(OPERATIONS_PER_STORE) {
        let machine = Machine::new(Method::Written, life);
        let options = Options {
            background,
            ..with_cache(machine.options(), CACHE_BYTES)
        };
        let mut script = Script::new(life, true);
        let mut run = Run::new(Model::default());
        run.policies = policies(life);
        run.flushes = (background == Background::Inline).then(|| machine.flushes());
        run.open(options.clone()).unwrap();
        for _ in 0..OPERATIONS_PER_STORE.min(operations) {
            let operation = script.next();
            run.apply(operation.clone(), &options)
                .unwrap_or_else(|error| panic!("store {life}: {operation:?} failed: {error}"));
        }
        run.model.check(run.db(), &KEYSPACES).unwrap();
        run.model.check(run.db(), &KEYSPACES).unwrap();
        let statistics = cache(run.db());
        hits += statistics.hits;
        admitted += statistics.admitted;
        assert_eq!((statistics.damaged, statistics.failures), (0, 0));
        assert!(run.db().verify(|_, _| ()).unwrap().problems.is_empty());
    }
    assert!(
        // Beside threads a full queue drops blocks.
        hits > 100 && admitted > 20,
        "{hits} hits, {admitted} admitted"
    );
}

#[test]
fn a_store_with_a_cache_agrees_with_the_model() {
    model(Background::Inline);
}

#[test]
fn a_store_with_a_cache_and_threads_agrees_with_the_model() {
    model(Background::Threads);
}

/// Measures the hit share of a cache of a fifth of the data, against an ideal LFU. A zipfian distribution draws the
/// keys of the gets. `cargo test --release -p terrace --test tiers -- --ignored --nocapture hit_share`
#[test]
#[ignore = "a measurement"]
fn hit_share_against_an_ideal_lfu() {
    let keys = support::scale("TERRACE_CACHE_KEYS", 100_000) as u32;
    let directory = tempfile::tempdir().unwrap();
    let fast = directory.path().join("fast");
    let mut options = with_cache(Options::default(), 0);
    options.tiers[1].directory = Some(directory.path().join("slow"));
    let db = Db::open(&fast, options.clone()).unwrap();
    for number in 0..keys {
        db.put(format!("key-{number:08}"), value(number)).unwrap();
    }
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    while db.wait_for_migration().unwrap() {}
    let data_bytes: u64 = db.tiers()[1].level_bytes.iter().sum();
    db.close().unwrap();
    // Blocks of the index take room, too: the ideal cache has none of it.
    options.tiers[0].cache_bytes = data_bytes / 5;
    let db = Db::open(&fast, options).unwrap();
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=keys)
        .map(|rank| {
            sum += f64::from(rank).powf(-0.99);
            sum
        })
        .collect();
    let mut random = SmallRng::seed_from_u64(1);
    // Hashed keys: neighbours in rank lie in different blocks.
    let key_of = |rank: usize| (rank as u64 * 0x9e37_79b1 % u64::from(keys)) as u32;
    let mut counts = std::collections::BTreeMap::<u32, u64>::new();
    let per_block = data_bytes as f64 / f64::from(keys);
    let keys_per_block = (4096.0 / per_block).round() as u32;
    for round in 0..4 {
        let before = cache(&db);
        counts.clear();
        for _ in 0..keys * 5 {
            let at = random.random::<f64>() * sum;
            let number = key_of(sums.partition_point(|sum| *sum < at));
            *counts.entry(number / keys_per_block).or_default() += 1;
            db.get(format!("key-{number:08}")).unwrap().unwrap();
        }
        let after = cache(&db);
        let mut frequencies: Vec<u64> = counts.values().copied().collect();
        frequencies.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
        let blocks = (keys / keys_per_block / 5) as usize;
        let ideal = frequencies.iter().take(blocks).sum::<u64>() as f64 / f64::from(keys * 5);
        // A get asks for a partition of the index, which is always there, and for a block.
        let misses = (after.misses - before.misses) as f64;
        let share = 1.0 - misses / f64::from(keys * 5);
        println!(
            "round {round}: {share:.4} of gets without the slow tier, ideal LFU {ideal:.4}, ratio {:.3}; \
             {after:?}",
            share / ideal
        );
    }
}
