//! Tables of a level below level 0 that go down.

use crate::compaction::claim::Claim;
use crate::compaction::policy::inputs::{all, overlapping};
use crate::compaction::policy::leveled::{Leveled, percent};
use crate::compaction::policy::{Choice, Input, Reason};
use crate::compaction::targets::Targets;
use crate::levels::{KeyRange, KeyspaceLevels, Level, Place};

impl Leveled {
    /// Returns the merge of a level that is over its target. A level that is not urgent begins
    /// beside nothing.
    pub(super) fn pick_below_level0(
        &self,
        levels: &KeyspaceLevels,
        level: u8,
        remaining: &Level,
        targets: &Targets,
        claims: &[Claim],
    ) -> Option<Choice> {
        let bytes = remaining.size_bytes();
        let urgent_bytes = targets.urgent_bytes(level);
        let target = match targets.bytes(level) {
            0 => urgent_bytes,
            target => target,
        };
        let percent = percent(bytes, target);
        let reason = if bytes > urgent_bytes {
            Reason::LevelSize { level, percent }
        } else if !claims.is_empty() {
            return None;
        } else if targets.is_used(level) {
            Reason::Leftover { level, percent }
        } else {
            Reason::UnusedLevel { level }
        };
        self.pick_by_size(reason, level, remaining, levels, targets, claims)
    }

    /// Picks of the tables that may be merged now the one whose merge writes the fewest bytes of
    /// the next level for each byte of its own; of equals the one with the smallest keys. Its
    /// neighbours go along where that drags no more.
    fn pick_by_size(
        &self,
        reason: Reason,
        number: u8,
        level: &Level,
        levels: &KeyspaceLevels,
        targets: &Targets,
        claims: &[Claim],
    ) -> Option<Choice> {
        let next = levels.levels.get(usize::from(number) + 1)?;
        let cost = |input: &Input| {
            let dragged: u64 = overlapping(number + 1, next, &input.table.bounds)
                .map(|below| below.table.size_bytes)
                .sum();
            // In thousandths, so that sizes that differ little still count.
            u128::from(dragged) * 1000 / u128::from(input.table.size_bytes.max(1))
        };
        let by_key: Vec<Input> = all(number, level).collect();
        let mut by_cost: Vec<usize> = (0..by_key.len()).collect();
        by_cost.sort_by_cached_key(|&at| by_key.get(at).map(cost));
        by_cost.into_iter().find_map(|at| {
            let run = self.with_neighbours(&by_key, at, number + 1, next)?;
            let choice = self.choose_used(reason, run.to_vec(), number + 1, levels, targets)?;
            let claim = Claim::of(&choice)?;
            let waits = claims.iter().any(|other| other.conflicts_with(&claim));
            (!waits).then_some(choice)
        })
    }

    /// Returns the table at a place of its level, with the neighbours that lie within its dragged
    /// tables of the next level, up to a slice. Small tables above large ones would drag them again
    /// and again.
    fn with_neighbours<'a>(
        &self,
        by_key: &'a [Input],
        at: usize,
        next_number: u8,
        next: &Level,
    ) -> Option<&'a [Input]> {
        let chosen = by_key.get(at)?;
        let dragged = overlapping(next_number, next, &chosen.table.bounds);
        let dragged: Vec<Input> = dragged.collect();
        let within = KeyRange::hull(dragged.iter().map(|input| &input.table.bounds));
        let mut left_bytes = self.slice_bytes.saturating_sub(chosen.table.size_bytes);
        let mut goes_along = |input: &&Input| {
            let bounds = &input.table.bounds;
            let is_within = within.as_ref().is_some_and(|range| range.encloses(bounds));
            let left = left_bytes.checked_sub(input.table.size_bytes);
            left_bytes = left.unwrap_or(left_bytes);
            is_within && left.is_some()
        };
        let before = by_key.get(..at)?.iter().rev();
        let before = before.take_while(&mut goes_along).count();
        let behind = by_key.get(at + 1..)?.iter();
        let behind = behind.take_while(&mut goes_along).count();
        by_key.get(at - before..=at + behind)
    }

    /// Chooses the first level from `number` on that is used. Tables of those before go along where
    /// they are in the way.
    fn choose_used(
        &self,
        reason: Reason,
        mut inputs: Vec<Input>,
        number: u8,
        levels: &KeyspaceLevels,
        targets: &Targets,
    ) -> Option<Choice> {
        for (number, level) in (0u8..).zip(&levels.levels).skip(usize::from(number)) {
            if targets.is_used(number) {
                return self.choose(reason, inputs, level, Place::base(number));
            }
            let hull = KeyRange::hull(inputs.iter().map(|input| &input.table.bounds))?;
            inputs.extend(overlapping(number, level, &hull));
        }
        None
    }
}
