//! Refuses an edit that would put an older version of a key above a newer one. It looks at bounds and ages
//! alone.

use std::collections::{BTreeSet, HashMap};

use super::{KeyspaceLevels, StructureError};
use crate::levels::edit::TableAdded;
use crate::levels::table_meta::{KeyRange, Table};

/// Keys that an edit takes from one age: to another (a move), or into the tables it adds (a merge).
pub(super) struct Shift {
    number: u64,
    range: KeyRange,
    from_age: u64,
    to_age: Option<u64>,
}

impl Shift {
    /// Returns the shift of a whole table, merged (`to_age` is `None`) or moved.
    pub(super) fn of_table(table: &Table, from_age: u64, to_age: Option<u64>) -> Shift {
        Shift {
            number: table.number,
            range: table.bounds.clone(),
            from_age,
            to_age,
        }
    }

    /// Returns the keys that a table loses when its bounds shrink: a piece at the front, one at the
    /// back, or both.
    pub(super) fn of_slices(
        table: &Table,
        kept: &KeyRange,
        age: u64,
    ) -> impl Iterator<Item = Shift> {
        let front = KeyRange {
            smallest: table.bounds.smallest.clone(),
            largest: kept.smallest.clone(),
            largest_excluded: true,
        };
        let back = KeyRange {
            smallest: kept.largest.clone(),
            ..table.bounds.clone()
        };
        let back_is_cut = kept.ends_before(&table.bounds.largest) && !back.is_empty();
        let number = table.number;
        [
            (!front.is_empty()).then_some(front),
            back_is_cut.then_some(back),
        ]
        .into_iter()
        .flatten()
        .map(move |range| Shift {
            number,
            range,
            from_age: age,
            to_age: None,
        })
    }
}

/// Checks that new tables are younger than those they overlap. Merged tables hold only keys that
/// were merged, and nothing passes a table that stays outside. A flush may merge tables with its
/// new writes: then its outputs are younger than all overlapping tables that stay listed.
pub(super) fn check_age_order(
    before: &KeyspaceLevels,
    after: &KeyspaceLevels,
    shifts: &[Shift],
    added: &[TableAdded],
    is_flush: bool,
) -> Result<(), StructureError> {
    let added: Vec<&TableAdded> = added
        .iter()
        .filter(|added| added.table.keyspace == before.id)
        .collect();
    let merged = shifts.iter().filter(|shift| shift.to_age.is_none());
    match KeyRange::hull(merged.map(|shift| &shift.range)) {
        Some(merged) if !is_flush => check_outputs(&added, &merged)?,
        _ => check_new(before, shifts, &added)?,
    }
    check_passing(before, after, shifts, &added)
}

fn check_outputs(added: &[&TableAdded], merged: &KeyRange) -> Result<(), StructureError> {
    match added
        .iter()
        .find(|added| !merged.encloses(&added.table.bounds))
    {
        None => Ok(()),
        Some(stray) => Err(StructureError(format!(
            "table {} {:?} lies outside of the merged keys {merged:?}",
            stray.table.number, stray.table.bounds
        ))),
    }
}

/// Checks tables with new writes: these are younger than all old ones that are not merged with them.
fn check_new(
    before: &KeyspaceLevels,
    shifts: &[Shift],
    added: &[&TableAdded],
) -> Result<(), StructureError> {
    let merged: BTreeSet<u64> = shifts.iter().map(|shift| shift.number).collect();
    for added in added {
        for (place, sub_level) in before.sub_levels() {
            let mut others = sub_level.overlapping(&added.table.bounds).iter();
            if place.age >= added.place.age
                && let Some(other) = others.find(|other| !merged.contains(&other.number))
            {
                return Err(StructureError(format!(
                    "new table {} at {} is not younger than table {} at {place}",
                    added.table.number, added.place, other.number
                )));
            }
        }
    }
    Ok(())
}

/// Checks that no keys pass a table that overlaps them and stays outside: younger keys stay
/// younger, older ones stay older. So a merge of sub-levels 3 and 1 without an overlapping 2 is
/// refused, whichever place its output takes.
fn check_passing(
    before: &KeyspaceLevels,
    after: &KeyspaceLevels,
    shifts: &[Shift],
    added: &[&TableAdded],
) -> Result<(), StructureError> {
    if shifts.is_empty() {
        return Ok(());
    }
    let output_ages: BTreeSet<u64> = added.iter().map(|added| added.place.age).collect();
    let ages_before: HashMap<u64, u64> = before
        .tables()
        .map(|(place, table)| (table.number, place.age))
        .collect();
    for shift in shifts {
        let targets = match shift.to_age {
            Some(age) => BTreeSet::from([age]),
            None => output_ages.clone(),
        };
        // With the bounds and ages they have after the edit: a table that lost its slice to this
        // very merge is outside only for the keys that it keeps.
        for (place, sub_level) in after.sub_levels() {
            for other in sub_level.overlapping(&shift.range) {
                let Some(&age_before) = ages_before.get(&other.number) else {
                    continue;
                };
                let passes = |&target: &u64| {
                    target == place.age || (shift.from_age > age_before) != (target > place.age)
                };
                if other.number != shift.number && targets.iter().any(passes) {
                    return Err(StructureError(format!(
                        "keys {:?} of table {} would pass table {} at {place}, which overlaps \
                         them and is not part of the edit",
                        shift.range, shift.number, other.number
                    )));
                }
            }
        }
    }
    Ok(())
}
