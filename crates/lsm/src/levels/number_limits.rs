//! Numbers that no store gives: those that leave no room for the ones to come.
//!
//! Good checksums prove nothing about the numbers in a record. A number near the end of its range would
//! make the next one overflow, so a manifest that holds one is damaged.

use super::edit::Edit;
use super::version::{StructureError, Version};
use crate::key::{MAX_KEYSPACE, MAX_STORED_SEQUENCE};

/// Of names, generations, ages, slots and seconds. Half of the range stays free.
pub const MAX_NUMBER: u64 = u64::MAX / 2;
/// Of a number that is given: its successor is the next one, which is written, too.
const MAX_GIVEN: u64 = MAX_NUMBER - 1;
/// Maximum sum of the bytes, and of each count, of all tables.
const MAX_TOTAL: u64 = 1 << 56;

/// Refuses an edit with a number that leaves no room for the next one.
pub(super) fn check_numbers(edit: &Edit) -> Result<(), StructureError> {
    check(
        "sequence number",
        MAX_STORED_SEQUENCE,
        [
            edit.flushed_sequence,
            edit.persisted_until,
            edit.clean_close.map(|close| close.last_sequence),
        ]
        .into_iter()
        .flatten()
        .chain(edit.region_losses.iter().map(|loss| loss.promised))
        .chain(
            edit.tables_added
                .iter()
                .map(|added| added.table.max_sequence),
        ),
    )?;
    let created = edit.keyspaces_created.iter();
    let created = created.map(|created| created.id.0.into());
    check("keyspace", u64::from(MAX_KEYSPACE) - 1, created)?;
    let next = edit.next_keyspace.map(u64::from);
    check("next keyspace", MAX_KEYSPACE.into(), next.into_iter())?;
    let added = edit.tables_added.iter().map(|added| &added.table);
    let tables = added.clone().map(|table| table.number);
    check("table", MAX_GIVEN, tables)?;
    let next = edit.next_table_number.into_iter();
    check("next table", MAX_NUMBER, next)?;
    let ages = added.filter_map(|table| table.oldest_tombstone_seconds);
    check("second", MAX_NUMBER, ages)?;
    let added = edit.tables_added.iter().map(|added| added.place);
    let places = added.chain(edit.tables_moved.iter().map(|moved| moved.to));
    let names = places.clone().map(|place| place.sub_level);
    check("sub-level", MAX_GIVEN, names)?;
    let next = edit.next_sub_level.into_iter();
    check("next sub-level", MAX_NUMBER, next)?;
    check("age", MAX_NUMBER, places.map(|place| place.age))?;
    let issued = edit.arenas_issued.iter();
    let generations = issued.clone().map(|issued| issued.generation);
    check("generation", MAX_GIVEN, generations)?;
    let next = edit.next_generation.into_iter();
    check("next generation", MAX_NUMBER, next)?;
    check("slot", MAX_NUMBER, issued.clone().map(|issued| issued.slot))?;
    check(
        "capacity",
        terrace_region::MAX_CAPACITY_BYTES,
        issued.map(|issued| issued.capacity_bytes),
    )
}

/// Refuses tables that claim more together than any sum may be.
pub(super) fn check_totals(version: &Version) -> Result<(), StructureError> {
    let tables = || version.tables().map(|(_, table)| table);
    let total = |numbers: &mut dyn Iterator<Item = u64>| {
        numbers.fold(0u64, |sum, number| sum.saturating_add(number))
    };
    let totals = [
        ("bytes", total(&mut tables().map(|table| table.size_bytes))),
        ("entries", total(&mut tables().map(|table| table.entries))),
        (
            "tombstones",
            total(&mut tables().map(|table| table.tombstones)),
        ),
        (
            "range tombstones",
            total(&mut tables().map(|table| table.range_tombstones)),
        ),
    ];
    match totals.into_iter().find(|(_, total)| *total > MAX_TOTAL) {
        Some((what, total)) => Err(StructureError(format!(
            "the tables are said to hold {total} {what} or more, which no store holds"
        ))),
        None => Ok(()),
    }
}

fn check(
    what: &str,
    largest: u64,
    mut numbers: impl Iterator<Item = u64>,
) -> Result<(), StructureError> {
    match numbers.find(|&number| number > largest) {
        Some(number) => Err(StructureError(format!(
            "{what} {number} leaves no room for those to come; none above {largest} is ever given"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyspaceId;
    use crate::levels::edit::{ArenaIssued, CleanClose, KeyspaceCreated, TableMoved};
    use crate::levels::testing::{added, flush_place, new_state};
    use crate::region_loss::RegionLoss;

    type Change = fn(&mut Edit);

    fn issued(edit: &mut Edit, change: fn(&mut ArenaIssued)) {
        let mut arena = ArenaIssued {
            generation: 9,
            slot: 1,
            capacity_bytes: 8192,
            replaced_generation: None,
        };
        change(&mut arena);
        edit.arenas_issued = vec![arena];
    }

    fn table(edit: &mut Edit, change: fn(&mut crate::levels::TableAdded)) {
        let mut table = added(flush_place(1), 7, "a", "b");
        change(&mut table);
        edit.tables_added = vec![table];
    }

    #[test]
    fn numbers_that_leave_no_room_are_damage() {
        const SEQUENCE: u64 = MAX_STORED_SEQUENCE + 1;
        let loss = |edit: &mut Edit| {
            edit.region_losses = vec![RegionLoss {
                kept: 0,
                promised: SEQUENCE,
            }];
        };
        let moved = |edit: &mut Edit| {
            let mut to = flush_place(1);
            to.age = u64::MAX;
            edit.tables_moved = vec![TableMoved {
                keyspace: KeyspaceId::DEFAULT,
                number: 7,
                to,
            }];
        };
        let keyspace = |edit: &mut Edit| {
            edit.keyspaces_created = vec![KeyspaceCreated {
                id: KeyspaceId(u32::MAX),
                name: "last".to_owned(),
            }];
        };
        let changes: [Change; 23] = [
            |edit| edit.flushed_sequence = Some(SEQUENCE),
            |edit| edit.persisted_until = Some(SEQUENCE),
            |edit| {
                edit.clean_close = Some(CleanClose {
                    last_sequence: SEQUENCE,
                })
            },
            loss,
            moved,
            keyspace,
            |edit| edit.next_keyspace = Some(u32::MAX),
            |edit| edit.next_table_number = Some(u64::MAX),
            |edit| edit.next_generation = Some(u64::MAX),
            |edit| edit.next_sub_level = Some(u64::MAX),
            |edit| issued(edit, |arena| arena.generation = u64::MAX),
            |edit| issued(edit, |arena| arena.slot = u64::MAX),
            |edit| issued(edit, |arena| arena.capacity_bytes = u64::MAX),
            |edit| issued(edit, |arena| arena.capacity_bytes = 1 << 32),
            |edit| table(edit, |added| added.table.max_sequence = SEQUENCE),
            |edit| table(edit, |added| added.table.number = u64::MAX),
            |edit| table(edit, |added| added.table.size_bytes = u64::MAX),
            |edit| table(edit, |added| added.table.entries = u64::MAX),
            |edit| table(edit, |added| added.table.tombstones = u64::MAX),
            |edit| table(edit, |added| added.table.range_tombstones = u64::MAX),
            |edit| {
                table(edit, |added| {
                    added.table.oldest_tombstone_seconds = Some(u64::MAX)
                })
            },
            |edit| table(edit, |added| added.place.sub_level = u64::MAX),
            |edit| table(edit, |added| added.place.age = u64::MAX),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut edit = Edit::default();
            change(&mut edit);
            let refused = check_numbers(&edit).is_err() || new_state().apply(&edit).is_err();
            assert!(refused, "change {number} is taken");
        }
        let mut honest = Edit {
            flushed_sequence: Some(MAX_STORED_SEQUENCE),
            ..Edit::default()
        };
        table(&mut honest, |added| {
            added.table.max_sequence = MAX_STORED_SEQUENCE
        });
        new_state().apply(&honest).unwrap();
    }

    /// The successor of a number that is taken is a number that may be written.
    #[test]
    fn the_state_behind_the_largest_numbers_can_be_written() {
        let keyspace = |number| Edit {
            keyspaces_created: vec![KeyspaceCreated {
                id: KeyspaceId(number),
                name: "last".to_owned(),
            }],
            ..Edit::default()
        };
        let mut edits = Vec::new();
        for below in 0..3 {
            edits.push(keyspace(MAX_KEYSPACE - below as u32));
            let mut table_edit = Edit::default();
            table(&mut table_edit, |_| ());
            table_edit.tables_added[0].table.number = MAX_NUMBER - below;
            edits.push(table_edit);
            let mut place_edit = Edit::default();
            table(&mut place_edit, |_| ());
            place_edit.tables_added[0].place.sub_level = MAX_NUMBER - below;
            edits.push(place_edit);
            let mut arena_edit = Edit::default();
            issued(&mut arena_edit, |_| ());
            arena_edit.arenas_issued[0].generation = MAX_NUMBER - below;
            edits.push(arena_edit);
        }
        let mut taken = 0;
        for edit in edits {
            if let Ok(state) = new_state().apply(&edit) {
                taken += 1;
                crate::levels::ManifestState::begin(&state.as_edit()).unwrap();
            }
        }
        assert_eq!(taken, 8);
    }
}
