//! The leveled policy: one sub-level in each level below level 0, each level a ratio larger than
//! the one above.
//!
//! Level 0 is urgent by the number of its sub-levels, because every one of them costs a reader a
//! probe; the others by bytes against their target. The most urgent level is merged into the next:
//! level 0 as a whole, any other by the one table that drags the fewest bytes of the next level
//! along. Inputs that overlap nothing below are moved, unless the target level is written in
//! another form.
//!
//! Level 0 weighs its bytes before it goes down: while it would drag more than a ratio's worth of
//! level 1 along, as in a keyspace that leaves a little in every arena, some of its sub-levels are
//! merged into one of them instead. That frees readers of the probes for a fraction of the writes.

use std::sync::Arc;

use crate::compaction::policy::{Choice, ChoiceKind, Input, Policy, Reason};
use crate::levels::{KeyRange, KeyspaceLevels, Level, Place, SubLevel};

/// What the leveled policy goes by.
#[derive(Clone, Debug)]
pub(crate) struct Leveled {
    /// Sub-levels of level 0 that start a merge.
    pub(crate) level0_merge: usize,
    pub(crate) level1_bytes: u64,
    pub(crate) level_ratio: u64,
    /// For each level, whether its tables are written in the same form (compression, filter, tier)
    /// as those of the level above: only then may a table be moved there.
    pub(crate) same_form_as_above: Vec<bool>,
}

impl Leveled {
    fn target_bytes(&self, level: u8) -> u64 {
        let ratio = self
            .level_ratio
            .saturating_pow(u32::from(level.saturating_sub(1)));
        self.level1_bytes.saturating_mul(ratio)
    }

    /// How urgent a level is, in percent; the last level never is.
    fn urgency_percent(&self, number: u8, level: &Level) -> u64 {
        if number == 0 {
            level.sub_levels.len() as u64 * 100 / self.level0_merge.max(1) as u64
        } else {
            let percent = u128::from(level.size_bytes()) * 100;
            (percent / u128::from(self.target_bytes(number).max(1))) as u64
        }
    }

    fn choose(
        &self,
        reason: Reason,
        mut inputs: Vec<Input>,
        next: &Level,
        output: Place,
    ) -> Option<Choice> {
        let hull = KeyRange::hull(inputs.iter().map(|input| &input.table.bounds))?;
        let below: Vec<Input> = overlapping(output.level, next, &hull).collect();
        let disjoint = inputs.iter().enumerate().all(|(at, input)| {
            let others = inputs.iter().take(at);
            others
                .clone()
                .all(|other| !other.table.bounds.overlaps(&input.table.bounds))
        });
        // Within level 0 nothing changes its form.
        let same_form = output.level == 0
            || self
                .same_form_as_above
                .get(usize::from(output.level))
                .is_some_and(|&same| same);
        let kind = if below.is_empty() && disjoint && same_form {
            ChoiceKind::Move
        } else {
            ChoiceKind::Merge
        };
        inputs.extend(below);
        Some(Choice {
            reason,
            kind,
            inputs,
            output,
        })
    }
}

impl Leveled {
    fn pick_in_level0(&self, level: &Level, next: &Level) -> Option<Choice> {
        let reason = Reason::Level0SubLevels(level.sub_levels.len());
        let inputs: Vec<Input> = all(0, level).collect();
        let hull = KeyRange::hull(inputs.iter().map(|input| &input.table.bounds))?;
        let dragged: u64 = overlapping(1, next, &hull)
            .map(|below| below.table.size_bytes)
            .sum();
        if dragged > level.size_bytes().saturating_mul(self.level_ratio)
            && let Some(run) = cheapest_run(level)
            && let Some(output) = all(0, &run).last().map(|oldest| oldest.place)
        {
            return self.choose(reason, all(0, &run).collect(), &Level::default(), output);
        }
        self.choose(reason, inputs, next, Place::base(1))
    }
}

impl Policy for Leveled {
    fn pick(&self, levels: &KeyspaceLevels) -> Option<Choice> {
        let last = levels.levels.len().checked_sub(1)?;
        let above_last = levels.levels.iter().zip(0u8..).take(last);
        let (percent, number) = above_last
            .map(|(level, number)| (self.urgency_percent(number, level), number))
            // Of equally urgent levels the upper one: what is below it fills up from it.
            .max_by_key(|&(percent, number)| (percent, std::cmp::Reverse(number)))?;
        let limit = if number == 0 { 100 } else { 101 };
        if percent < limit {
            return None;
        }
        let at = usize::from(number);
        let (level, next) = (levels.levels.get(at)?, levels.levels.get(at + 1)?);
        let output = Place::base(number + 1);
        if number == 0 {
            return self.pick_in_level0(level, next);
        }
        let reason = Reason::LevelSize {
            level: number,
            percent,
        };
        self.choose(reason, vec![cheapest(number, level, next)?], next, output)
    }
}

/// Every table of a level with its place, the youngest sub-level first.
fn all(number: u8, level: &Level) -> impl Iterator<Item = Input> + '_ {
    level.sub_levels.iter().flat_map(move |sub_level| {
        let place = Place {
            level: number,
            sub_level: sub_level.number,
            age: sub_level.age,
        };
        sub_level.tables.iter().map(move |table| Input {
            place,
            table: Arc::clone(table),
        })
    })
}

fn overlapping<'a>(
    number: u8,
    level: &'a Level,
    range: &'a KeyRange,
) -> impl Iterator<Item = Input> + 'a {
    all(number, level).filter(|input| input.table.bounds.overlaps(range))
}

/// The table whose merge writes the fewest bytes of the next level for each byte of its own; of
/// equals the one with the smallest keys.
fn cheapest(number: u8, level: &Level, next: &Level) -> Option<Input> {
    let cost = |input: &Input| {
        let dragged: u64 = overlapping(number + 1, next, &input.table.bounds)
            .map(|below| below.table.size_bytes)
            .sum();
        // In thousandths, so that sizes that differ little still count.
        u128::from(dragged) * 1000 / u128::from(input.table.size_bytes.max(1))
    };
    all(number, level).min_by_key(|input| cost(input))
}

/// Of all runs of neighbouring sub-levels the one whose merge writes the fewest bytes for each
/// sub-level that it removes. Small young sub-levels are merged often, large old ones rarely.
fn cheapest_run(level: &Level) -> Option<Level> {
    let runs = (0..level.sub_levels.len()).flat_map(|from| {
        let rest = level.sub_levels.get(from..).unwrap_or_default();
        (2..=rest.len()).filter_map(move |length| rest.get(..length))
    });
    let cost = |run: &&[Arc<SubLevel>]| {
        let bytes: u64 = run.iter().map(|sub_level| sub_level.size_bytes()).sum();
        u128::from(bytes) * 1000 / (run.len() as u128 - 1)
    };
    runs.min_by_key(cost).map(|run| Level {
        sub_levels: run.to_vec(),
    })
}

#[cfg(test)]
mod tests;
