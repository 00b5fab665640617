//! Traffic of levels: reads, flushes, compactions and migrations, counted where the tables are.

use std::time::Duration;

use terrace::{Db, LevelLatencies, LevelStatistics, Options, TierLatencies, TierOptions};
use terrace_storage::Purpose;

use super::{SLOW, STORE, check, disk, fill, options, with_level_tiers, with_three};

/// Returns options for three tiers, by level, and a cache that holds every block.
fn three(disk: &terrace_storage::SimulatedStorage) -> Options {
    let options = Options {
        cache_bytes: 16 << 20,
        max_open_tables: None,
        ..with_three(options(disk), 1 << 20, 1 << 20)
    };
    with_level_tiers(options, &["fast", "middle", "slow"])
}

fn sum(levels: &[LevelStatistics], of: impl Fn(&LevelStatistics) -> u64) -> u64 {
    levels.iter().map(of).sum()
}

/// Checks that no total went back.
fn check_grown(before: &[LevelStatistics], after: &[LevelStatistics]) {
    for (before, after) in before.iter().zip(after) {
        let totals = |level: &LevelStatistics| {
            [
                level.reads,
                level.read_bytes,
                level.compaction_read_bytes,
                level.flushed_bytes,
                level.loaded_bytes,
                level.compaction_written_bytes,
                level.migrated_bytes,
            ]
        };
        let pairs = totals(before).into_iter().zip(totals(after));
        assert!(
            pairs.into_iter().all(|(before, after)| before <= after),
            "{before:?} {after:?}"
        );
    }
}

#[test]
fn traffic_of_levels_adds_up_to_that_of_the_files() {
    let disk = disk();
    let db = Db::open(STORE, three(&disk)).unwrap();
    let mut before = db.statistics().levels;
    for round in 0..6 {
        fill(&db, round * 100..(round + 1) * 100);
        let statistics = db.statistics();
        let (levels, io) = (&statistics.levels, &statistics.io);
        check_grown(&before, levels);
        assert_eq!(
            sum(levels, |level| level.flushed_bytes),
            io.of(Purpose::Flush).written_bytes
        );
        assert_eq!(
            sum(levels, |level| level.compaction_written_bytes),
            io.of(Purpose::Compaction).written_bytes
        );
        let read_bytes = sum(levels, |level| level.compaction_read_bytes);
        assert!(read_bytes <= io.of(Purpose::Compaction).read_bytes);
        before = statistics.levels;
    }
    assert!(before[0].compaction_read_bytes > 0, "{before:?}");
    let deepest = before.iter().rposition(|level| level.tables > 0).unwrap();
    assert!(deepest >= 2, "{before:?}");
    assert!(before[deepest].compaction_written_bytes > 0, "{before:?}");
}

#[test]
fn reads_count_for_the_level_of_the_table_and_blocks_in_memory_are_none() {
    let disk = disk();
    let db = Db::open(STORE, three(&disk)).unwrap();
    fill(&db, 0..600);
    db.close().unwrap();
    // The levels come from edits that were replayed.
    let db = Db::open(STORE, three(&disk)).unwrap();
    assert_eq!(sum(&db.statistics().levels, |level| level.reads), 0);
    check(&db, 0..600);
    let first = db.statistics().levels;
    for level in &first {
        assert_eq!(level.reads > 0, level.tables > 0, "{first:?}");
        assert!(level.read_bytes <= level.bytes, "{first:?}");
        assert_eq!(level.flushed_bytes + level.compaction_written_bytes, 0);
    }
    let mut of_tables = 0;
    for (number, level) in db.levels().keyspaces[0].levels.iter().enumerate() {
        let tables = level.iter().flat_map(|sub_level| &sub_level.tables);
        let reads: u64 = tables.map(|table| table.reads).sum();
        assert_eq!(reads, first[number].reads, "no table is gone");
        of_tables += reads;
    }
    assert_eq!(of_tables, sum(&first, |level| level.reads));
    check(&db, 0..600);
    let again = db.statistics().levels;
    assert_eq!(first, again, "every block is in memory");
}

#[test]
fn counts_stay_when_tables_leave_their_level_and_their_tier() {
    let disk = disk();
    let db = Db::open(STORE, three(&disk)).unwrap();
    fill(&db, 0..300);
    check(&db, 0..300);
    let before = db.statistics();
    db.drain_tier("slow").unwrap();
    while db.wait_for_migration().unwrap() {}
    let migrated = db.statistics();
    let bytes = migrated.io.of(Purpose::Migration).written_bytes;
    assert!(bytes > 0);
    assert_eq!(sum(&migrated.levels, |level| level.migrated_bytes), bytes);
    for level in &migrated.levels {
        let times = level.latencies.migration;
        assert_eq!(times.count > 0, level.migrated_bytes > 0, "{level:?}");
    }
    let timed = sum(&migrated.levels, |level| level.latencies.migration.count);
    assert_eq!(timed, migrated.migrations);
    check_grown(&before.levels, &migrated.levels);
    // Compactions and flushes replace tables; the reads of those that are gone stay.
    fill(&db, 0..300);
    check(&db, 0..300);
    check_grown(&migrated.levels, &db.statistics().levels);
    assert!(db.statistics().levels != migrated.levels);
}

#[test]
fn operations_are_timed_by_tier_and_purpose_in_a_store_of_several() {
    let disk = disk();
    let db = Db::open(STORE, three(&disk)).unwrap();
    fill(&db, 0..300);
    check(&db, 0..300);
    db.drain_tier("slow").unwrap();
    while db.wait_for_migration().unwrap() {}
    for tier in db.tiers() {
        for (operation, purpose, times) in tier.latencies.all() {
            let purpose = Purpose::ALL
                .into_iter()
                .find(|known| known.name() == purpose)
                .unwrap();
            let io = tier.io.of(purpose);
            let count = match operation {
                "read" => io.reads,
                "write" => io.writes,
                _ => io.syncs,
            };
            assert_eq!(times.count, count, "{operation} {purpose:?}: {tier:?}");
            assert!(times.count == 0 || times.max > Duration::ZERO);
        }
    }
    let [fast, middle, slow] = &db.tiers()[..] else {
        panic!("three tiers");
    };
    assert!(fast.latencies.flush_write.count > 0 && middle.latencies.read.count > 0);
    assert!(slow.latencies.migration_read.count > 0 && slow.latencies.flush_write.count == 0);
}

#[test]
fn operations_are_timed_by_level_in_a_store_of_several_tiers() {
    let disk = disk();
    let db = Db::open(STORE, three(&disk)).unwrap();
    fill(&db, 0..600);
    let levels = db.statistics().levels;
    assert!(levels[0].latencies.compaction_read.count > 0);
    for level in &levels {
        let LevelLatencies {
            flush_write,
            compaction_write,
            ..
        } = level.latencies;
        assert_eq!(flush_write.count > 0, level.flushed_bytes > 0, "{level:?}");
        let written_bytes = level.compaction_written_bytes;
        assert_eq!(compaction_write.count > 0, written_bytes > 0, "{level:?}");
    }
    let tiers = db.tiers();
    let of_tiers = |of: fn(&TierLatencies) -> u64| -> u64 {
        tiers.iter().map(|tier| of(&tier.latencies)).sum()
    };
    assert_eq!(
        sum(&levels, |level| level.latencies.flush_write.count),
        of_tiers(|tier| tier.flush_write.count)
    );
    assert_eq!(
        sum(&levels, |level| level.latencies.compaction_write.count),
        of_tiers(|tier| tier.compaction_write.count)
    );
    db.close().unwrap();
    let db = Db::open(STORE, three(&disk)).unwrap();
    check(&db, 0..600);
    let levels = db.statistics().levels;
    assert!(sum(&levels, |level| level.reads) > 0);
    for level in &levels {
        let times = level.latencies.read;
        assert_eq!(times.count, level.reads, "{level:?}");
        assert_eq!(times.mean() > Duration::ZERO, level.reads > 0, "{level:?}");
        assert!(times.p99 >= times.p50 && times.max >= times.p99);
    }
    assert_eq!(db.levels().totals, levels);
}

#[test]
fn writes_of_a_bulk_load_are_timed_for_its_tier_alone() {
    let disk = disk();
    let db = Db::open(STORE, three(&disk)).unwrap();
    let mut load = db.ingest().unwrap();
    for row in 0u32..500 {
        load.put(row.to_be_bytes(), [1; 100]).unwrap();
    }
    load.finish().unwrap();
    let levels = db.statistics().levels;
    assert!(sum(&levels, |level| level.loaded_bytes) > 0);
    assert_eq!(sum(&levels, |level| level.latencies.flush_write.count), 0);
    let of_tiers = db.tiers();
    let mut of_tiers = of_tiers.iter().map(|tier| tier.latencies.flush_write.count);
    assert!(of_tiers.any(|count| count > 0));
}

#[test]
fn a_store_of_one_tier_times_nothing_until_it_gets_another() {
    let disk = disk();
    let db = Db::open(STORE, options(&disk)).unwrap();
    fill(&db, 0..50);
    check(&db, 0..50);
    let timed = || {
        let levels = db.statistics().levels;
        sum(&levels, |level| {
            let timed = level.latencies.all().into_iter();
            timed.map(|(_, _, times)| times.count).sum()
        })
    };
    assert!(sum(&db.statistics().levels, |level| level.reads) > 0);
    assert_eq!(db.tiers()[0].latencies, TierLatencies::default());
    assert_eq!(timed(), 0);
    db.add_tier(&TierOptions::new("slow", SLOW)).unwrap();
    fill(&db, 50..100);
    check(&db, 0..100);
    assert!(db.tiers()[0].latencies.flush_write.count > 0);
    let levels = db.statistics().levels;
    assert!(sum(&levels, |level| level.latencies.read.count) > 0);
    assert!(sum(&levels, |level| level.latencies.flush_write.count) > 0);
}
