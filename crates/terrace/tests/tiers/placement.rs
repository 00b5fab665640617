//! Keyspaces that keep to tiers, and tables that go to tiers by their age, their reads and their costs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use terrace::{
    Db, EventKind, KeyspaceOptions, Options, PlacedTable, Placement, ReadBufferOptions, TierOptions,
};
use terrace_storage::{Clock, DeviceProfile, SimulatedStorage};

use super::support::script::Calendar;
use super::{SLOW, STORE, check, disk, fill, options, table_bytes, value};

/// Opens a store with a fast tier of some bytes and a slow one, whose seconds pass as the calendar is asked.
fn open(
    disk: &SimulatedStorage,
    calendar: &Arc<Calendar>,
    fast_bytes: Option<u64>,
    form: impl FnOnce(&mut KeyspaceOptions),
) -> Db {
    let fast = TierOptions {
        capacity_bytes: fast_bytes,
        profile: Some(DeviceProfile::NVME_960_PRO),
        ..TierOptions::of_store("fast")
    };
    let slow = TierOptions {
        profile: Some(DeviceProfile::WD10EZEX),
        ..TierOptions::new("slow", SLOW)
    };
    let mut options = Options {
        tiers: vec![fast, slow],
        // Reads reach the files.
        cache_bytes: 0,
        read_buffer: ReadBufferOptions {
            share_percent: 0,
            ..ReadBufferOptions::default()
        },
        ..options(disk)
    };
    options.constants.slice_bytes = 1 << 20;
    form(&mut options.default_keyspace);
    terrace::internal::open_on(Path::new(STORE), options, calendar.clone()).unwrap()
}

fn pass(calendar: &Calendar, seconds: u64) {
    for _ in 0..seconds {
        calendar.unix_seconds();
    }
}

fn settle(db: &Db) {
    while db.wait_for_migration().unwrap() {}
}

/// Returns the bytes of the tables in the fast and in the slow tier.
fn bytes(disk: &SimulatedStorage) -> (u64, u64) {
    (table_bytes(disk, STORE), table_bytes(disk, SLOW))
}

#[test]
fn a_keyspace_keeps_to_its_tiers() {
    let (disk, calendar) = (disk(), Arc::default());
    let pinned = |form: &mut KeyspaceOptions| form.pinned_tiers = vec!["slow".into()];
    let db = open(&disk, &calendar, None, pinned);
    fill(&db, 0..150);
    assert_eq!(bytes(&disk).0, 0, "{:?}", db.tiers());
    db.close().unwrap();
    // Set free, it takes the fast tier; pinned again, it leaves it.
    let db = open(&disk, &calendar, None, |_| {});
    settle(&db);
    assert_eq!(bytes(&disk).1, 0);
    db.close().unwrap();
    let db = open(&disk, &calendar, None, pinned);
    pass(&calendar, 3600);
    settle(&db);
    assert_eq!(bytes(&disk).0, 0);
    check(&db, 0..150);
    // Nothing is left but the fast tier.
    db.drain_tier("slow").unwrap();
    settle(&db);
    assert_eq!(bytes(&disk).1, 0);
    check(&db, 0..150);
}

#[test]
fn old_tables_go_to_the_slow_tier_also_after_an_opening() {
    let (disk, calendar) = (disk(), Arc::default());
    let by_age = |form: &mut KeyspaceOptions| {
        form.placement = Placement::Age;
        form.tier_ages_seconds = vec![10_000];
    };
    let db = open(&disk, &calendar, None, by_age);
    fill(&db, 0..150);
    assert_eq!(bytes(&disk).1, 0, "all is young");
    db.close().unwrap();
    pass(&calendar, 10_000);
    let db = open(&disk, &calendar, None, by_age);
    settle(&db);
    assert_eq!(bytes(&disk).0, 0, "all is old");
    let old = db.placed_tables(&db.keyspace("default").unwrap()).unwrap();
    assert!(
        old.iter().all(|table| table.age_seconds >= 10_000),
        "{old:?}"
    );
    assert!(old[0].reason.contains("its age"), "{}", old[0].reason);
    // A compaction of old entries leaves them there, and new ones come to the fast tier.
    db.compact_range(..).unwrap();
    assert_eq!(bytes(&disk).0, 0);
    db.put("key-00000", value(0)).unwrap();
    db.flush().unwrap();
    assert!(bytes(&disk).0 > 0);
    check(&db, 0..150);
}

const KEYS: u32 = 1600;
/// The hot keys begin and end inside tables.
const HOT: std::ops::Range<u32> = 1010..1130;

fn by_heat(form: &mut KeyspaceOptions) {
    form.placement = Placement::Heat;
}

fn read_hot(db: &Db, rounds: u32) {
    for _ in 0..rounds {
        check(db, HOT);
    }
}

/// Returns the reads of the slow tier that reading the hot keys once costs.
fn slow_reads(db: &Db) -> u64 {
    let reads = || db.tiers()[1].io.of(terrace_storage::Purpose::Read).reads;
    let before = reads();
    check(db, HOT);
    reads() - before
}

/// Returns the tables that are read.
fn read_tables(db: &Db) -> Vec<PlacedTable> {
    let placed = db.placed_tables(&db.keyspace("default").unwrap()).unwrap();
    let read = placed
        .into_iter()
        .filter(|table| table.reads_per_second > 0.0);
    read.collect()
}

fn hottest(db: &Db) -> PlacedTable {
    let placed = db
        .placed_tables(&db.keyspace("default").unwrap())
        .unwrap()
        .into_iter();
    let by_reads =
        |a: &PlacedTable, b: &PlacedTable| a.reads_per_second.total_cmp(&b.reads_per_second);
    placed.max_by(by_reads).unwrap()
}

#[test]
fn tables_that_are_read_come_to_the_fast_tier_and_others_leave_it() {
    let (disk, calendar) = (disk(), Arc::default());
    let db = open(&disk, &calendar, Some(150_000), by_heat);
    fill(&db, 0..KEYS);
    // Tables may move again.
    pass(&calendar, 3600);
    settle(&db);
    let (fast, slow) = bytes(&disk);
    assert!(
        fast > 0 && slow > 0,
        "the capacity decides: {fast} and {slow}"
    );
    // Without reads nothing moves; with a few neither.
    let moved = db.statistics().migrations;
    check(&db, 0..10);
    pass(&calendar, 5);
    settle(&db);
    assert_eq!(db.statistics().migrations, moved);
    read_hot(&db, 20);
    pass(&calendar, 5);
    settle(&db);
    assert_eq!(slow_reads(&db), 0, "{:?}", read_tables(&db));
    let hottest = hottest(&db);
    assert_eq!(hottest.tier, "fast");
    assert!(hottest.reason.contains("its reads"), "{}", hottest.reason);
    // It stays so.
    let moved = db.statistics().migrations;
    for _ in 0..5 {
        read_hot(&db, 1);
        pass(&calendar, 5);
        settle(&db);
    }
    assert_eq!(db.statistics().migrations, moved);
    check(&db, 0..KEYS);
}

#[test]
fn reads_move_a_table_twice_an_hour_at_most() {
    let (disk, calendar) = (disk(), Arc::default());
    // Room for the tables of one of two ranges.
    let db = open(&disk, &calendar, Some(60_000), by_heat);
    fill(&db, 0..KEYS);
    pass(&calendar, 3600);
    settle(&db);
    let before = db.events().len();
    let ranges = [100..220, 1010..1130];
    for hot in ranges.iter().cycle().take(8) {
        for _ in 0..40 {
            check(&db, hot.clone());
        }
        pass(&calendar, 300);
        settle(&db);
    }
    let mut moves = BTreeMap::<u64, u32>::new();
    for event in db.events().iter().skip(before) {
        if let EventKind::TableMigrated { table, .. } = event.kind {
            *moves.entry(table).or_default() += 1;
        }
    }
    assert_eq!(moves.values().max(), Some(&2), "{moves:?}");
}

#[test]
fn a_compaction_ends_tables_where_the_reads_change() {
    let (disk, calendar) = (disk(), Arc::default());
    let large = |form: &mut KeyspaceOptions| {
        by_heat(form);
        // Larger than all hot keys: a table that is not cut shows.
        form.table_bytes = 128 << 10;
    };
    let db = open(&disk, &calendar, Some(150_000), large);
    fill(&db, 0..KEYS);
    // Tables may move again.
    pass(&calendar, 3600);
    settle(&db);
    read_hot(&db, 20);
    pass(&calendar, 5);
    settle(&db);
    db.compact_range(..).unwrap();
    pass(&calendar, 5);
    settle(&db);
    // The reads are known by pieces: a few keys lie beyond the cuts.
    let slow = slow_reads(&db);
    assert!(slow < 30, "{slow}: {:?}", read_tables(&db));
    let hottest = hottest(&db);
    let hot_bytes = u64::from(HOT.end - HOT.start) * 220;
    assert!(
        hottest.size_bytes < 2 * hot_bytes,
        "the hot keys have tables of their own: {hottest:?}"
    );
    assert!(
        hottest.reads_per_second > 0.0,
        "outputs have the reads of inputs"
    );
    check(&db, 0..KEYS);
}

#[test]
fn a_table_with_hot_and_cold_parts_is_divided() {
    let (disk, calendar) = (disk(), Arc::default());
    let large = |form: &mut KeyspaceOptions| {
        by_heat(form);
        form.table_bytes = 128 << 10;
    };
    let db = open(&disk, &calendar, Some(150_000), large);
    fill(&db, 0..KEYS);
    db.compact_range(..).unwrap();
    pass(&calendar, 3600);
    settle(&db);
    let divisions = |db: &Db| {
        let compactions = db.compactions().into_iter();
        let divided = compactions.filter(|done| done.reason.contains("by their reads"));
        divided.count()
    };
    for key in (0..KEYS).step_by(7) {
        check(&db, key..key + 1);
    }
    pass(&calendar, 5);
    settle(&db);
    assert_eq!(divisions(&db), 0, "reads are everywhere");
    for _ in 0..4 {
        read_hot(&db, 20);
        pass(&calendar, 5);
        settle(&db);
        db.compact().unwrap();
    }
    assert!(divisions(&db) > 0);
    let hottest = hottest(&db);
    let hot_bytes = u64::from(HOT.end - HOT.start) * 220;
    assert!(hottest.size_bytes < 2 * hot_bytes, "{hottest:?}");
    assert_eq!(hottest.tier, "fast");
    let slow = slow_reads(&db);
    assert!(slow < 30, "{slow}: {:?}", read_tables(&db));
    // It stays so: nothing is divided for ever.
    let divided = divisions(&db);
    for _ in 0..4 {
        read_hot(&db, 20);
        pass(&calendar, 5);
        settle(&db);
        db.compact().unwrap();
    }
    assert_eq!(divisions(&db), divided);
    check(&db, 0..KEYS);
}

#[test]
fn costs_choose_the_tiers_of_upper_levels() {
    let (disk, calendar) = (disk(), Arc::default());
    let auto = |form: &mut KeyspaceOptions| form.placement = Placement::Auto;
    let db = open(&disk, &calendar, Some(150_000), auto);
    fill(&db, 0..KEYS);
    // Tables may move again.
    pass(&calendar, 3600);
    settle(&db);
    for _ in 0..200 {
        check(&db, HOT);
    }
    pass(&calendar, 5);
    settle(&db);
    assert_eq!(slow_reads(&db), 0, "{:?}", read_tables(&db));
    // Nobody reads or writes the upper levels, so a cheap device is as good.
    let placed = db.placed_tables(&db.keyspace("default").unwrap()).unwrap();
    let mut by_cost = placed
        .iter()
        .filter(|table| table.reason.contains("by the costs"));
    assert!(by_cost.any(|table| table.tier == "slow"), "{placed:?}");
    check(&db, 0..KEYS);
}
