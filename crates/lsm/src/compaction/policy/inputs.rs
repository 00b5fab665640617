//! The tables of the levels that a merge may take.

use std::sync::Arc;

use crate::compaction::claim::Claim;
use crate::compaction::policy::Input;
use crate::levels::{KeyRange, KeyspaceLevels, Level, Place, SubLevel, Table};

/// Returns the tables of a level that are not on their way down.
pub(super) fn remaining(level: &Level, under_way: &[Claim]) -> Level {
    let stays = |table: &Arc<Table>| {
        let mut claims = under_way.iter();
        !claims.any(|claim| claim.carries_down(table.number))
    };
    let sub_levels = level.sub_levels.iter().map(|sub_level| {
        if sub_level.tables.iter().all(stays) {
            return Arc::clone(sub_level);
        }
        let tables = sub_level.tables.iter().filter(|table| stays(table));
        let tables = tables.cloned().collect();
        Arc::new(SubLevel::new(sub_level.number, sub_level.age, tables))
    });
    Level {
        sub_levels: sub_levels
            .filter(|sub_level| !sub_level.tables.is_empty())
            .collect(),
    }
}

/// Returns the tables of each sub-level that `is_in` takes, neighbours together.
pub(super) fn neighbours<'a>(
    levels: &'a KeyspaceLevels,
    is_in: impl Fn(&Arc<Table>) -> bool + Copy + 'a,
) -> impl Iterator<Item = (Place, &'a [Arc<Table>])> {
    levels.sub_levels().flat_map(move |(place, sub_level)| {
        let runs = sub_level.tables.chunk_by(move |a, b| is_in(a) == is_in(b));
        let taken = runs.filter(move |run| run.first().is_some_and(is_in));
        taken.map(move |run| (place, run))
    })
}

/// Returns tables of a sub-level as inputs.
pub(super) fn listed(place: Place, tables: &[Arc<Table>]) -> Vec<Input> {
    let inputs = tables.iter().map(|table| Input::new(place, table));
    inputs.collect()
}

pub(super) fn place(number: u8, sub_level: &SubLevel) -> Place {
    Place {
        level: number,
        sub_level: sub_level.number,
        age: sub_level.age,
    }
}

/// Returns every table of a level with its place, the youngest sub-level first.
pub(super) fn all(number: u8, level: &Level) -> impl Iterator<Item = Input> + '_ {
    level.sub_levels.iter().flat_map(move |sub_level| {
        let place = place(number, sub_level);
        sub_level.tables.iter().map(move |table| Input {
            place,
            table: Arc::clone(table),
        })
    })
}

pub(super) fn bytes(inputs: &[Input]) -> u64 {
    inputs.iter().map(|input| input.table.size_bytes).sum()
}

/// Returns the tables of a level that overlap a range, as [`all`] does.
pub(super) fn overlapping<'a>(
    number: u8,
    level: &'a Level,
    range: &'a KeyRange,
) -> impl Iterator<Item = Input> + 'a {
    level.sub_levels.iter().flat_map(move |sub_level| {
        let place = place(number, sub_level);
        let tables = sub_level.overlapping(range).iter();
        tables.map(move |table| Input::new(place, table))
    })
}
