//! The tiered policy: a level holds several sub-levels and goes down as a whole, as one new sub-level
//! of the next level, when it has its number of them.
//!
//! So every byte is written once for each level that it passes, however much is there already: as
//! little as a merge of sorted runs can write. The price is space and probes: a level may hold as
//! many versions of a key as sub-levels.
//!
//! Below level 0, a level that would be full with the tables that come down on it goes along in the
//! same merge, and so does the one below. These tables are written one time less, as when a counter
//! carries. The last level of all, which has none below, becomes one sub-level again.
//!
//! The lazy policy (Dayan, Idreos: Dostoevsky, SIGMOD 2018) is tiered but for the lowest level that
//! holds tables, which has one sub-level. Tables that come down on it are merged with those that
//! they overlap there. Most stale versions and most probes of a tiered store are in that level.
//! Once it is over its target it goes down with the tables that came on it, and a lower one is the
//! last.
//!
//! A sub-level may only go down with all older ones of its level. So while some of a level is under
//! way, sub-levels that arrive there wait, and go down together.

use std::ops::RangeInclusive;

use crate::compaction::claim::Claim;
use crate::compaction::estimates::Estimates;
use crate::compaction::lateness::by_sub_levels;
use crate::compaction::policy::candidate::{Candidate, Measure, Standing};
use crate::compaction::policy::inputs::{all, bytes, overlapping, place};
use crate::compaction::policy::{Choice, Input, Policy, Reason, assemble, unless_claimed};
use crate::compaction::targets::Shape;
use crate::levels::{KeyRange, KeyspaceLevels, LEVELS, Level, Place};

/// Settings of the tiered policy.
#[derive(Clone, Debug)]
pub(crate) struct Tiered {
    /// Sub-levels of level 0 that start a merge.
    pub(crate) level0_merge: usize,
    /// Sub-levels of any other level that start one.
    pub(crate) sub_levels: usize,
    pub(crate) last_level: LastLevel,
    /// As in [`Leveled`](super::leveled::Leveled).
    pub(crate) same_form_as_above: Vec<bool>,
}

/// Form of the lowest level that holds tables.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LastLevel {
    /// Like every other level.
    Tiered,
    /// It is one sub-level, until it is over its target.
    Leveled(Shape),
}

/// The lowest level of all.
pub(super) const LOWEST: u8 = LEVELS as u8 - 1;

impl Tiered {
    fn most_sub_levels(&self, number: u8) -> usize {
        match number {
            0 => self.level0_merge,
            _ => self.sub_levels,
        }
    }

    /// Returns whether a level goes down if it gets `more` sub-levels.
    pub(super) fn is_full(&self, levels: &KeyspaceLevels, number: u8, more: usize) -> bool {
        let sub_levels = sub_levels(levels, number);
        sub_levels > 0
            && sub_levels + more >= self.most_sub_levels(number)
            && !self.is_kept_as_one(levels, number)
    }

    fn is_kept_as_one(&self, levels: &KeyspaceLevels, number: u8) -> bool {
        matches!(self.last_level, LastLevel::Leveled(_))
            && number > 0
            && number == levels.deepest_level()
    }

    /// Returns the lowest level that goes down with this one. Level 0 goes alone: as long as it is
    /// under way nothing else of it may go down, and a merge of lower levels takes too long for
    /// that.
    fn last_full(&self, levels: &KeyspaceLevels, number: u8, under_way: &[Claim]) -> u8 {
        let mut last = number;
        while (1..LOWEST).contains(&last)
            && self.is_full(levels, last + 1, 1)
            && is_at_rest(levels, last + 1, under_way)
        {
            last += 1;
        }
        last
    }

    /// Sends a level down, and those that are full with it.
    pub(super) fn down_from(
        &self,
        levels: &KeyspaceLevels,
        number: u8,
        reason: Reason,
        under_way: &[Claim],
    ) -> Option<Choice> {
        let last = self.last_full(levels, number, under_way);
        if last == LOWEST {
            let above = (number..last).flat_map(|n| all_of(levels, n)).collect();
            return self.onto_oldest(reason, above, levels, last);
        }
        let inputs: Vec<Input> = (number..=last).flat_map(|n| all_of(levels, n)).collect();
        match self.last_level {
            LastLevel::Leveled(shape) if last + 1 == levels.deepest_level() => {
                let most_bytes = shape.most_bytes_down_to(last + 1);
                self.onto_last(reason, inputs, levels, last + 1, most_bytes)
            }
            _ => onto_next(reason, inputs, levels, last, &self.same_form_as_above),
        }
    }

    /// Merges tables from above and the younger sub-levels of a level into its oldest one. Of that
    /// the tables that they overlap take part, so that a merge which was cut short does the rest.
    pub(super) fn onto_oldest(
        &self,
        reason: Reason,
        mut inputs: Vec<Input>,
        levels: &KeyspaceLevels,
        number: u8,
    ) -> Option<Choice> {
        let output = oldest(levels, number)?;
        let level = levels.levels.get(usize::from(number))?;
        let is_younger = |input: &Input| input.place.age != output.age;
        inputs.extend(all(number, level).filter(is_younger));
        let hull = KeyRange::hull(inputs.iter().map(|input| &input.table.bounds))?;
        let dragged = dragged(levels, output, &hull);
        assemble(reason, inputs, dragged, output, &self.same_form_as_above)
    }

    /// Merges inputs onto the level that is kept as one sub-level; both go to the next if it would
    /// be too large.
    fn onto_last(
        &self,
        reason: Reason,
        mut inputs: Vec<Input>,
        levels: &KeyspaceLevels,
        last: u8,
        most_bytes: u64,
    ) -> Option<Choice> {
        let level = levels.levels.get(usize::from(last))?;
        if last < LOWEST && bytes(&inputs) + level.size_bytes() > most_bytes {
            inputs.extend(all(last, level));
            return onto_next(reason, inputs, levels, last, &self.same_form_as_above);
        }
        self.onto_oldest(reason, inputs, levels, last)
    }
}

impl Tiered {
    /// Picks the uppermost of these levels that is full and may go down. The upper levels go first:
    /// they hold writers back, and take along full levels below.
    pub(super) fn pick_full(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        mut within: RangeInclusive<u8>,
    ) -> Option<Choice> {
        within.find_map(|number| {
            let may_go = self.is_full(levels, number, 0) && is_at_rest(levels, number, under_way);
            let count = sub_levels(levels, number);
            let reason = match number {
                0 => Reason::Level0SubLevels(count),
                level => Reason::SubLevels { level, count },
            };
            let down = || self.down_from(levels, number, reason, under_way);
            unless_claimed(may_go.then(down)??, under_way)
        })
    }

    /// Returns how full each of these levels is, the uppermost first.
    pub(super) fn candidates_within(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        within: RangeInclusive<u8>,
    ) -> Vec<Candidate> {
        let candidate = |level: u8| {
            let count = sub_levels(levels, level);
            let pick = || self.pick_full(levels, under_way, level..=level);
            (count > 0).then(|| Candidate {
                measure: match self.last_level {
                    LastLevel::Leveled(shape) if self.is_kept_as_one(levels, level) => {
                        Measure::Size {
                            level,
                            bytes: levels
                                .levels
                                .get(usize::from(level))
                                .map_or(0, Level::size_bytes),
                            target: shape.most_bytes_down_to(level),
                        }
                    }
                    _ => Measure::SubLevels {
                        level,
                        count,
                        most: self.most_sub_levels(level),
                    },
                },
                standing: Standing::of(self.is_full(levels, level, 0), pick),
            })
        };
        within.filter_map(candidate).collect()
    }
}

impl Policy for Tiered {
    fn pick(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        _: &dyn Estimates,
    ) -> Option<Choice> {
        self.pick_full(levels, under_way, 0..=LOWEST)
    }

    fn candidates(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        _: &dyn Estimates,
    ) -> Vec<Candidate> {
        self.candidates_within(levels, under_way, 0..=LOWEST)
    }

    /// Counts level 0, if it is full, and of the others the sub-levels beyond those that make them
    /// full: a full level is nothing to hold writers back for, however large it is.
    fn debt_bytes(&self, levels: &KeyspaceLevels) -> u64 {
        let over = |(number, level): (u8, &Level)| {
            let most = match number {
                0 if self.is_full(levels, 0, 0) => 0,
                _ => self.most_sub_levels(number),
            };
            let over = level.sub_levels.len().saturating_sub(most);
            let newest = level.sub_levels.iter().take(over);
            newest.map(|sub_level| sub_level.size_bytes()).sum::<u64>()
        };
        (0u8..).zip(&levels.levels).map(over).sum()
    }

    fn overdue(&self, levels: &KeyspaceLevels, under_way: &[Claim], _: &dyn Estimates) -> f64 {
        by_sub_levels(levels, under_way, self.sub_levels)
    }
}

/// Sends all of level 0 to a sub-level of its own in level 1, if nothing of it is under way.
pub(super) fn level0_down(
    levels: &KeyspaceLevels,
    under_way: &[Claim],
    same_form_as_above: &[bool],
) -> Option<Choice> {
    if !is_at_rest(levels, 0, under_way) {
        return None;
    }
    let reason = Reason::Level0SubLevels(sub_levels(levels, 0));
    let inputs = all_of(levels, 0).collect();
    onto_next(reason, inputs, levels, 0, same_form_as_above)
}

/// Sends inputs, of which `last` is the lowest level, to a sub-level of their own in the one below.
fn onto_next(
    reason: Reason,
    inputs: Vec<Input>,
    levels: &KeyspaceLevels,
    last: u8,
    same_form_as_above: &[bool],
) -> Option<Choice> {
    let output = below(levels, last)?;
    let hull = KeyRange::hull(inputs.iter().map(|input| &input.table.bounds))?;
    let dragged = dragged(levels, output, &hull);
    assemble(reason, inputs, dragged, output, same_form_as_above)
}

pub(super) fn sub_levels(levels: &KeyspaceLevels, number: u8) -> usize {
    let level = levels.levels.get(usize::from(number));
    level.map_or(0, |level| level.sub_levels.len())
}

pub(super) fn all_of(levels: &KeyspaceLevels, number: u8) -> impl Iterator<Item = Input> + '_ {
    let level = levels.levels.get(usize::from(number));
    level.into_iter().flat_map(move |level| all(number, level))
}

/// Returns whether nothing of a level takes part in a merge.
pub(super) fn is_at_rest(levels: &KeyspaceLevels, number: u8, under_way: &[Claim]) -> bool {
    let level = levels.levels.get(usize::from(number));
    let mut tables = level.into_iter().flat_map(Level::tables);
    !tables.any(|table| under_way.iter().any(|claim| claim.takes(table.number)))
}

fn oldest(levels: &KeyspaceLevels, number: u8) -> Option<Place> {
    let level = levels.levels.get(usize::from(number))?;
    Some(place(number, level.sub_levels.last()?))
}

/// Returns the place that a level goes to: a sub-level of its own in the next one. It may be there
/// already, if it is a base or a merge that was cut short began it.
pub(super) fn below(levels: &KeyspaceLevels, number: u8) -> Option<Place> {
    let below = oldest(levels, number)?.below();
    let next = levels.levels.get(usize::from(below.level))?;
    let mut sub_levels = next.sub_levels.iter();
    let begun = sub_levels.find(|sub_level| sub_level.age == below.age);
    Some(begun.map_or(below, |sub_level| place(below.level, sub_level)))
}

/// Returns the tables of a sub-level in the range.
pub(super) fn dragged(levels: &KeyspaceLevels, output: Place, hull: &KeyRange) -> Vec<Input> {
    let Some(level) = levels.levels.get(usize::from(output.level)) else {
        return Vec::new();
    };
    let overlapping = overlapping(output.level, level, hull);
    overlapping
        .filter(|input| input.place.age == output.age)
        .collect()
}
