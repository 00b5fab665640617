use super::*;
use crate::compaction::placement::heat::Heat;

fn tier(number: u8, capacity_bytes: Option<u64>, room_bytes: u64) -> TierFacts {
    TierFacts {
        number,
        name: format!("t{number}"),
        capacity_bytes,
        room_bytes,
        is_open: true,
    }
}

/// Returns the tiers for a new table of a level.
fn of_level(
    options: &KeyspaceOptions,
    level: u8,
    level_bytes: &[u64],
    tiers: &[TierFacts],
) -> Vec<u8> {
    let surroundings = Surroundings {
        options,
        level_bytes,
        tiers,
        reserve_rooms: &[],
        floors: &HeatFloors::default(),
        chosen: &[],
    };
    tiers_for(&surroundings, NewTable::of_level(level))
}

fn by_default(level: u8, level_bytes: &[u64], tiers: &[TierFacts]) -> Vec<u8> {
    of_level(&KeyspaceOptions::default(), level, level_bytes, tiers)
}

#[test]
fn levels_fill_the_fast_tiers_from_the_top() {
    let tiers = [
        tier(1, Some(100), 90),
        tier(2, Some(1000), 900),
        tier(3, None, 9000),
    ];
    let levels = [10, 50, 500, 5000];
    assert_eq!(by_default(0, &levels, &tiers), [1, 2, 3]);
    assert_eq!(by_default(1, &levels, &tiers), [1, 2, 3]);
    assert_eq!(by_default(2, &levels, &tiers), [1, 2, 3], "a part of it");
    assert_eq!(by_default(3, &levels, &tiers), [2, 3, 1], "a part of it");
    // The first tier keeps room for another copy of levels 0 and 1.
    let full = [
        tier(1, Some(100), 60),
        tier(2, Some(1000), 500),
        tier(3, None, 9000),
    ];
    assert_eq!(by_default(2, &levels, &full), [2, 3, 1]);
    assert_eq!(by_default(3, &levels, &full), [3, 2, 1]);
    assert_eq!(
        by_default(6, &levels, &full),
        [3, 2, 1],
        "a level without tables"
    );
}

#[test]
fn a_level_that_asks_for_a_tier_gets_it_before_the_others() {
    let options = KeyspaceOptions {
        level_tiers: vec!["t2".into(), "t3".into(), "gone".into()],
        ..KeyspaceOptions::default()
    };
    let tiers = [
        tier(1, Some(100), 90),
        tier(2, None, 900),
        tier(3, None, 9000),
    ];
    let of = |level| of_level(&options, level, &[5, 5, 5], &tiers);
    assert_eq!(of(0), [2, 3, 1]);
    assert_eq!(of(1), [3, 2, 1]);
    assert_eq!(of(2), [1, 2, 3], "a name that no tier has is none");
}

#[test]
fn a_tier_that_is_not_open_gets_nothing() {
    let mut tiers = [tier(1, None, 90), tier(2, None, 900)];
    tiers[0].is_open = false;
    assert_eq!(by_default(0, &[1], &tiers), [2]);
    tiers[1].is_open = false;
    assert_eq!(by_default(0, &[1], &tiers), [0u8; 0]);
    assert_eq!(by_default(0, &[1], &[]), [0u8; 0]);
}

fn table(number: u64, level: u8, tier: u8, size_bytes: u64) -> TableFacts {
    TableFacts {
        number,
        level,
        tier,
        size_bytes,
        age_seconds: 0,
        reads_per_second: 0.0,
        has_moved: false,
    }
}

/// Returns the number, the tier and the reason of the next migration.
fn next(
    options: &KeyspaceOptions,
    tiers: &[TierFacts],
    tables: &[TableFacts],
) -> Option<(u64, u8, MigrationReason)> {
    let mut level_bytes = [0; 7];
    for table in tables {
        level_bytes[usize::from(table.level)] += table.size_bytes;
    }
    next_by(options, tiers, tables, &level_bytes, &HeatFloors::default())
}

fn next_by(
    options: &KeyspaceOptions,
    tiers: &[TierFacts],
    tables: &[TableFacts],
    level_bytes: &[u64],
    floors: &HeatFloors,
) -> Option<(u64, u8, MigrationReason)> {
    let surroundings = Surroundings {
        options,
        level_bytes,
        tiers,
        reserve_rooms: &[],
        floors,
        chosen: &[],
    };
    let migration = next_migration(&surroundings, tables.iter().copied())?;
    Some((migration.table.number, migration.to, migration.why))
}

#[test]
fn tables_leave_a_tier_that_is_drained_first_of_all() {
    let options = KeyspaceOptions::default();
    let mut tiers = [tier(1, Some(100), 100), tier(2, None, 900)];
    tiers[1].is_open = false;
    let tables = [table(1, 3, 2, 70), table(2, 0, 2, 10)];
    assert_eq!(
        next(&options, &tiers, &tables),
        Some((2, 1, MigrationReason::Draining))
    );
    // Without room they wait.
    tiers[0].room_bytes = 9;
    assert_eq!(next(&options, &tiers, &tables), None);
}

#[test]
fn a_drain_takes_the_reserve_of_another_tier_if_no_other_room_is_left() {
    let mut tiers = [
        tier(1, Some(100), 9),
        tier(2, Some(100), 0),
        tier(3, None, 0),
    ];
    let tables = [table(1, 0, 3, 10)];
    let next = |tiers: &[TierFacts], reserve_rooms: &[(u8, u64)]| {
        let surroundings = Surroundings {
            options: &KeyspaceOptions::default(),
            level_bytes: &[10],
            tiers,
            reserve_rooms,
            floors: &HeatFloors::default(),
            chosen: &[],
        };
        let migration = next_migration(&surroundings, tables.iter().copied())?;
        Some((migration.to, migration.why))
    };
    let drained = |to| Some((to, MigrationReason::Draining));
    assert_eq!(
        next(&tiers, &[(1, 10), (2, 10)]),
        None,
        "no tier is drained"
    );
    tiers[2].is_open = false;
    assert_eq!(next(&tiers, &[(1, 10), (2, 10)]), drained(1));
    assert_eq!(next(&tiers, &[(1, 9), (2, 10)]), drained(2));
    assert_eq!(next(&tiers, &[(1, 9), (2, 9)]), None);
    assert_eq!(next(&tiers, &[]), None);
    // A tier with room is asked before a reserve is taken.
    tiers[1].room_bytes = 10;
    assert_eq!(next(&tiers, &[(1, 10)]), drained(2));
    tiers[0].is_open = false;
    tiers[1].room_bytes = 0;
    assert_eq!(next(&tiers, &[(1, 10)]), None, "it is drained itself");
}

#[test]
fn tables_go_to_the_tier_that_their_level_names() {
    let options = KeyspaceOptions {
        level_tiers: vec!["t1".into(), "t2".into()],
        ..KeyspaceOptions::default()
    };
    let tiers = [tier(1, None, 900), tier(2, None, 900)];
    let tables = [table(1, 0, 1, 10), table(2, 1, 1, 10), table(3, 4, 2, 10)];
    assert_eq!(
        next(&options, &tiers, &tables),
        Some((2, 2, MigrationReason::LevelTier))
    );
    let placed = [table(1, 0, 1, 10), table(2, 1, 2, 10), table(3, 4, 2, 10)];
    assert_eq!(next(&options, &tiers, &placed), None);
}

#[test]
fn a_fast_tier_is_filled_and_keeps_room_for_the_levels_above() {
    let options = KeyspaceOptions::default();
    let upper = table(1, 1, 1, 40);
    let deep = |number, tier| table(number, 3, tier, 20);
    // 100 bytes, 40 of them taken by level 1, which needs another 40 to be written again.
    let with_room = |room| [tier(1, Some(100), room), tier(2, None, 9000)];
    let tables = [upper, deep(2, 2), deep(3, 2), deep(4, 2), deep(5, 2)];
    assert_eq!(
        next(&options, &with_room(60), &tables),
        Some((2, 1, MigrationReason::Room))
    );
    let tables = [upper, deep(2, 1), deep(3, 2), deep(4, 2), deep(5, 2)];
    assert_eq!(next(&options, &with_room(40), &tables), None);
    // Level 1 has grown: a table of level 3 makes room, and does not come back at once.
    assert_eq!(
        next(&options, &with_room(9), &tables),
        Some((2, 2, MigrationReason::LevelsAbove))
    );
    assert_eq!(next(&options, &with_room(29), &tables), None);
}

#[test]
fn a_keyspace_keeps_to_its_tiers_as_long_as_one_takes_tables() {
    let options = KeyspaceOptions {
        pinned_tiers: vec!["t2".into(), "t3".into()],
        level_tiers: vec!["t1".into(), "t3".into()],
        ..KeyspaceOptions::default()
    };
    let mut tiers = [
        tier(1, Some(100), 90),
        tier(2, Some(100), 90),
        tier(3, None, 9000),
    ];
    let of = |level, tiers: &[TierFacts]| of_level(&options, level, &[5, 5, 5], tiers);
    assert_eq!(of(0, &tiers), [2, 3], "a level cannot ask for another");
    assert_eq!(of(1, &tiers), [3, 2]);
    let tables = [table(1, 0, 1, 10), table(2, 1, 3, 10)];
    let moved = next(&options, &tiers, &tables);
    assert_eq!(moved, Some((1, 2, MigrationReason::Pinned)));
    // A store may lose them all: its tables have to lie somewhere.
    (tiers[1].is_open, tiers[2].is_open) = (false, false);
    assert_eq!(of(1, &tiers), [1]);
    assert_eq!(next(&options, &tiers, &tables[..1]), None);
}

#[test]
fn tables_move_down_as_their_youngest_write_grows_old() {
    let options = KeyspaceOptions {
        placement: Placement::Age,
        tier_ages_seconds: vec![10, 20],
        ..KeyspaceOptions::default()
    };
    let tiers = [tier(1, None, 900), tier(2, None, 900), tier(3, None, 900)];
    let aged = |age_seconds, tier| TableFacts {
        age_seconds,
        ..table(1, 3, tier, 10)
    };
    let goes = |age, present| next(&options, &tiers, &[aged(age, present)]).map(|moved| moved.1);
    assert_eq!(
        [goes(10, 1), goes(11, 1), goes(21, 1)],
        [None, Some(2), Some(3)]
    );
    assert_eq!(
        [goes(20, 2), goes(21, 2), goes(99, 3)],
        [None, Some(3), None]
    );
    let new = |age_seconds| {
        let surroundings = Surroundings {
            options: &options,
            level_bytes: &[],
            tiers: &tiers,
            reserve_rooms: &[],
            floors: &HeatFloors::default(),
            chosen: &[],
        };
        let table = NewTable {
            age_seconds,
            ..NewTable::of_level(3)
        };
        tiers_for(&surroundings, table)
    };
    assert_eq!(new(0), [1, 2, 3]);
    assert_eq!(new(15), [2, 3, 1]);
}

/// A fast tier of 100 bytes, and tables of 50 bytes in level 1 with these tiers and reads in a second.
fn next_by_heat(room_bytes: u64, tables: &[(u8, f64)]) -> Option<(u64, u8, MigrationReason)> {
    next_moved(room_bytes, tables, false)
}

fn next_moved(
    room_bytes: u64,
    tables: &[(u8, f64)],
    has_moved: bool,
) -> Option<(u64, u8, MigrationReason)> {
    let options = KeyspaceOptions {
        placement: Placement::Heat,
        ..KeyspaceOptions::default()
    };
    let tiers = [tier(1, Some(100), room_bytes), tier(2, None, 9000)];
    let tables = (1..).zip(tables);
    let tables = tables.map(|(number, &(tier, reads_per_second))| TableFacts {
        reads_per_second,
        has_moved,
        ..table(number, 1, tier, 50)
    });
    let tables: Vec<TableFacts> = tables.collect();
    let parts = tables.iter().map(|table| Heat {
        bytes: table.size_bytes,
        reads_per_second: table.reads_per_second,
        positions: Positions::ALL,
    });
    let floors = HeatFloors::of(parts.collect(), &[(1, Some(100)), (2, None)]);
    next_by(
        &options,
        &tiers,
        &tables,
        &[0, 50 * tables.len() as u64],
        &floors,
    )
}

#[test]
fn the_hottest_tables_change_places_with_the_coldest() {
    let cold_and_hot = [(1, 1.0), (1, 5.0), (2, 100.0), (2, 90.0), (2, 0.0)];
    let [leaves, comes] = [MigrationReason::Cold, MigrationReason::Hot];
    assert_eq!(next_by_heat(0, &cold_and_hot), Some((1, 2, leaves)));
    assert_eq!(next_by_heat(50, &cold_and_hot), Some((3, 1, comes)));
    let one_moved = [(2, 1.0), (1, 5.0), (1, 100.0), (2, 90.0), (2, 0.0)];
    assert_eq!(next_by_heat(0, &one_moved), Some((2, 2, leaves)));
    let all_moved = [(2, 1.0), (2, 5.0), (1, 100.0), (1, 90.0), (2, 0.0)];
    assert_eq!(next_by_heat(0, &all_moved), None);
}

#[test]
fn tables_that_are_about_as_hot_do_not_change_places() {
    assert_eq!(
        next_by_heat(0, &[(1, 10.0), (1, 9.0), (2, 11.0), (2, 12.0)]),
        None
    );
    assert!(next_by_heat(0, &[(1, 10.0), (1, 5.0), (2, 20.0), (2, 0.0)]).is_some());
    // Those that nobody reads leave, too, also if they would fit beside all that are read.
    let unread = next_by_heat(0, &[(1, 0.0), (1, 0.0), (2, 100.0), (2, 0.0)]);
    assert_eq!(unread, Some((1, 2, MigrationReason::Cold)));
    // Where nothing was read, the capacities decide.
    let moved = next_by_heat(100, &[(2, 0.0), (2, 0.0)]);
    assert_eq!(moved, Some((1, 1, MigrationReason::Room)));
}

/// A load fills the fast tier before anything is read, and these moves are not to stand in the way.
#[test]
fn tables_that_have_moved_move_again_for_their_reads_only() {
    let read = [(1, 0.0), (1, 0.0), (2, 100.0), (2, 0.0)];
    let cold = Some((1, 2, MigrationReason::Cold));
    assert_eq!(next_moved(0, &read, true), cold);
    let hot = Some((3, 1, MigrationReason::Hot));
    assert_eq!(next_moved(50, &read, true), hot);
    assert_eq!(next_moved(100, &[(2, 0.0), (2, 0.0)], true), None);
}
