//! Whether a merge keeps the order of ages: checked before any policy's choice is carried out.
//!
//! The invariant of the levels: for each key, every version in a younger sub-level is newer than
//! every version in an older one. Four rules keep it:
//! 1. The versions that a table carries down must not pass older ones: of every sub-level between
//!    the table's own and the output's, the output's included, all tables that overlap it take
//!    part.
//! 2. The outputs may span all keys of the inputs: of the output's sub-level, every table that
//!    overlaps that span takes part.
//! 3. Nothing moves up: the output is not younger than any input. Tables that are moved instead of
//!    merged end in one sub-level and so do not overlap.
//! 4. Ages descend from level to level, the output's place included: inputs may still be listed when
//!    the first slice of the outputs is.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::compaction::drop_rules::Keys;
use crate::compaction::policy::{Choice, ChoiceKind, Input};
use crate::levels::{KeyRange, KeyspaceLevels, Place, Table};

/// Checks a choice; `Err` names the first rule that it breaks.
pub fn check_legal(levels: &KeyspaceLevels, choice: &Choice) -> Result<(), String> {
    let numbers: BTreeSet<u64> = choice
        .inputs
        .iter()
        .map(|input| input.table.number)
        .collect();
    if numbers.len() != choice.inputs.len() || numbers.is_empty() {
        return Err("a table takes part twice, or none does".to_owned());
    }
    check_place(levels, choice.output)?;
    if choice.kind == ChoiceKind::Removal {
        // No table takes another place; deleted ranges tell that no reader sees the tables.
        return Ok(());
    }
    let hull = KeyRange::hull(choice.inputs.iter().map(|input| &input.table.bounds));
    for (Place { age, .. }, sub_level) in levels.sub_levels() {
        if age < choice.output.age {
            continue;
        }
        for table in sub_level
            .tables
            .iter()
            .filter(|table| !numbers.contains(&table.number))
        {
            let passed = choice
                .inputs
                .iter()
                .find(|input| input.place.age > age && input.table.bounds.overlaps(&table.bounds));
            if let Some(input) = passed {
                return Err(format!(
                    "table {} of age {} would pass the older table {} of age {age}",
                    input.table.number, input.place.age, table.number
                ));
            }
            let in_output = age == choice.output.age;
            // Moved tables keep their bounds; merged ones may span the whole.
            let spanned = if choice.kind == ChoiceKind::Merge {
                hull.as_ref()
                    .is_some_and(|hull| hull.overlaps(&table.bounds))
            } else {
                let mut inputs = choice.inputs.iter();
                inputs.any(|input| input.table.bounds.overlaps(&table.bounds))
            };
            if in_output && spanned {
                return Err(format!("the outputs would overlap table {}", table.number));
            }
        }
    }
    if choice.kind == ChoiceKind::Move
        && let Some(number) = first_overlapping(&choice.inputs)
    {
        return Err(format!("table {number} and one moved with it overlap"));
    }
    match choice
        .inputs
        .iter()
        .find(|input| input.place.age < choice.output.age)
    {
        Some(input) => Err(format!("table {} would move up", input.table.number)),
        None => Ok(()),
    }
}

fn check_place(levels: &KeyspaceLevels, output: Place) -> Result<(), String> {
    let fits = |place: Place| match place.level.cmp(&output.level) {
        Ordering::Less => place.age > output.age,
        Ordering::Equal => place.age != output.age || place.sub_level == output.sub_level,
        Ordering::Greater => place.age < output.age,
    };
    let mut places = levels.sub_levels().map(|(place, _)| place);
    match places.find(|&place| !fits(place)) {
        Some(place) => Err(format!("{output} is out of order with {place}")),
        None => Ok(()),
    }
}

fn first_overlapping(inputs: &[Input]) -> Option<u64> {
    let pairs = inputs.iter().enumerate();
    pairs
        .filter(|(at, input)| {
            let mut earlier = inputs.iter().take(*at);
            earlier.any(|other| other.table.bounds.overlaps(&input.table.bounds))
        })
        .map(|(_, input)| input.table.number)
        .next()
}

/// Returns whether some table outside the merge may hold older versions of some user keys than its
/// inputs.
pub fn older_elsewhere(levels: &KeyspaceLevels, choice: &Choice, keys: Keys<'_>) -> bool {
    let youngest = choice
        .inputs
        .iter()
        .map(|input| input.place.age)
        .max()
        .unwrap_or(u64::MAX);
    let older = levels
        .sub_levels()
        .filter(|(place, _)| place.age < youngest);
    let is_outside = |table: &Arc<Table>| {
        let mut inputs = choice.inputs.iter();
        !inputs.any(|input| input.table.number == table.number)
    };
    match keys {
        Keys::One(key) => older
            .filter_map(|(_, sub_level)| sub_level.table_for_key(key))
            .any(is_outside),
        Keys::Range(start, end) => {
            let range = KeyRange::half_open(start, end);
            let mut older = older.flat_map(|(_, sub_level)| sub_level.overlapping(&range));
            older.any(is_outside)
        }
    }
}

#[cfg(test)]
mod tests;
