//! Sub-levels that are next to one another in age, which may be merged into one.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::levels::{KeyspaceLevels, Place, SubLevel, Table};

/// Neighbouring sub-levels, the youngest first.
#[derive(Clone, Debug)]
pub struct Run {
    sub_levels: Vec<(Place, Arc<SubLevel>)>,
}

impl Run {
    /// Makes a run; `None` of no sub-levels.
    pub fn new(sub_levels: Vec<(Place, Arc<SubLevel>)>) -> Option<Run> {
        (!sub_levels.is_empty()).then_some(Run { sub_levels })
    }

    /// Returns all of a level; `None` if it is empty.
    pub fn of_level(levels: &KeyspaceLevels, number: u8) -> Option<Run> {
        Run::of_levels(levels, number..=number)
    }

    /// Returns all of neighbouring levels; `None` if they are empty.
    pub(crate) fn of_levels(levels: &KeyspaceLevels, within: RangeInclusive<u8>) -> Option<Run> {
        let is_within = |(place, _): &(Place, &Arc<SubLevel>)| within.contains(&place.level);
        let sub_levels = levels.sub_levels().filter(is_within);
        Run::new(
            sub_levels
                .map(|(place, s)| (place, Arc::clone(s)))
                .collect(),
        )
    }

    /// Returns every run of two sub-levels or more within these levels: those that end in the same
    /// sub-level follow one another, each with one younger one.
    pub(crate) fn all_within(levels: &KeyspaceLevels, within: RangeInclusive<u8>) -> Vec<Run> {
        let sub_levels = levels.sub_levels().map(|(p, s)| (p, Arc::clone(s)));
        let sub_levels: Vec<_> = sub_levels
            .filter(|(p, _)| within.contains(&p.level))
            .collect();
        let ends = 2..=sub_levels.len();
        let runs = ends.flat_map(|end| {
            let begins = (0..end - 1).rev();
            begins.map(move |begin| (begin, end))
        });
        runs.filter_map(|(begin, end)| Run::new(sub_levels.get(begin..end)?.to_vec()))
            .collect()
    }

    /// Returns its sub-levels with their places, the youngest first.
    pub fn sub_levels(&self) -> &[(Place, Arc<SubLevel>)] {
        &self.sub_levels
    }

    pub fn count(&self) -> usize {
        self.sub_levels.len()
    }

    /// Returns the place of the oldest; the outputs of a merge go there, or below.
    pub fn oldest(&self) -> Option<Place> {
        self.sub_levels.last().map(|&(place, _)| place)
    }

    /// Returns the numbers of its sub-levels, the youngest first, by which it is known.
    pub fn name(&self) -> Vec<u64> {
        self.sub_levels.iter().map(|(_, s)| s.number).collect()
    }

    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.sub_levels.iter().flat_map(|(_, s)| &s.tables)
    }

    /// Returns its tables with their places.
    pub(crate) fn tables_with_places(&self) -> impl Iterator<Item = (Place, &Arc<Table>)> {
        let sub_levels = self.sub_levels.iter();
        sub_levels.flat_map(|(place, s)| s.tables.iter().map(|table| (*place, table)))
    }

    /// Returns those of its tables that are not in its oldest sub-level, with their places.
    pub(crate) fn younger_tables(&self) -> impl Iterator<Item = (Place, &Arc<Table>)> {
        let younger = self.sub_levels.len().saturating_sub(1);
        let younger = self.sub_levels.iter().take(younger);
        younger.flat_map(|(place, s)| s.tables.iter().map(|table| (*place, table)))
    }

    pub fn versions(&self) -> u64 {
        self.tables().map(|table| table.entries).sum()
    }

    /// Returns whether the sub-levels are the other run's own: no table has come or gone.
    pub fn is(&self, other: &Run) -> bool {
        let ours = self.sub_levels.iter().map(|(_, sub_level)| sub_level);
        let theirs = other.sub_levels.iter().map(|(_, sub_level)| sub_level);
        self.count() == other.count() && ours.zip(theirs).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.sub_levels.iter().map(|(_, s)| s.size_bytes()).sum()
    }

    /// Returns the bytes of its largest sub-level.
    pub(crate) fn largest_bytes(&self) -> u64 {
        let sizes = self.sub_levels.iter().map(|(_, s)| s.size_bytes());
        sizes.max().unwrap_or(0)
    }

    /// Returns whether it leaves out tables of its sub-levels.
    pub fn is_part_of(&self, levels: &KeyspaceLevels) -> bool {
        let names = self.name();
        let listed = levels
            .sub_levels()
            .filter(|(_, s)| names.contains(&s.number));
        let listed: usize = listed.map(|(_, s)| s.tables.len()).sum();
        self.tables().count() < listed
    }

    /// Returns whether nothing in the levels is older.
    pub fn is_oldest_of(&self, levels: &KeyspaceLevels) -> bool {
        let oldest = levels.sub_levels().last().map(|(place, _)| place);
        self.oldest() == oldest
    }
}
