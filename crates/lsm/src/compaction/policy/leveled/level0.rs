//! Merges of level 0: their inputs, and their depth.

use std::sync::Arc;

use crate::compaction::policy::inputs::{all, bytes, overlapping};
use crate::compaction::policy::leveled::Leveled;
use crate::compaction::policy::{Choice, Input, Reason};
use crate::compaction::targets::{Shape, Targets};
use crate::debug_expect::DebugExpect;
use crate::levels::{KeyRange, KeyspaceLevels, Level, Place, SubLevel};

/// Bytes that level 0 may drag along for nothing but faster scans, as a multiple of its own.
/// Without this limit a store that is scanned wrote 269 bytes for each that was inserted.
const SCANS_RATIO: u64 = 4;
/// Bytes that a level may have to be taken along by a merge that could have ended above it, as a
/// multiple of the bytes on their way.
const DEEPER_RATIO: u64 = 2;

impl Leveled {
    /// Picks a merge of level 0. `below` holds level 1 and those under it.
    pub(super) fn pick_in_level0(
        &self,
        level: &Level,
        below: &[Level],
        targets: &Targets,
    ) -> Option<Choice> {
        let reason = match level.sub_levels.len() {
            count if count < self.level0_merge => Reason::Level0Scans(count),
            count => Reason::Level0SubLevels(count),
        };
        let inputs: Vec<Input> = all(0, level).collect();
        let dragged = dragged_bytes(&inputs, below, targets)?;
        let for_scans = matches!(reason, Reason::Level0Scans(_));
        let most_ratio = if for_scans {
            SCANS_RATIO
        } else {
            self.shape.level_ratio
        };
        if dragged <= level.size_bytes().saturating_mul(most_ratio) {
            return self.choose_depth(reason, inputs, below, targets);
        }
        match cheapest_run(level) {
            Some(run) => {
                let output = all(0, &run).last()?.place;
                self.choose(reason, all(0, &run).collect(), &Level::default(), output)
            }
            None if for_scans => None,
            None => self.choose_depth(reason, inputs, below, targets),
        }
    }

    /// Takes level after level along while the one above is not used, or would be over its target
    /// and the next one is not much larger than the bytes that come down on it.
    fn choose_depth(
        &self,
        reason: Reason,
        mut inputs: Vec<Input>,
        below: &[Level],
        targets: &Targets,
    ) -> Option<Choice> {
        let mut carried = bytes(&inputs);
        for (number, pair) in (1u8..).zip(below.windows(2)) {
            let [level, next] = pair else { break };
            let hull = KeyRange::hull(inputs.iter().map(|input| &input.table.bounds))?;
            let taken: Vec<Input> = overlapping(number, level, &hull).collect();
            let hull = KeyRange::hull(taken.iter().map(|i| &i.table.bounds).chain([&hull]))?;
            let dragged: Vec<Input> = overlapping(number + 1, next, &hull).collect();
            let is_over = targets.is_over(number, carried + level.size_bytes());
            carried += bytes(&taken);
            let is_cheap = bytes(&dragged) <= carried.saturating_mul(DEEPER_RATIO);
            if targets.is_used(number) && !(is_over && is_cheap) {
                return self.choose(reason, inputs, level, Place::base(number));
            }
            inputs.extend(taken);
        }
        let last = u8::try_from(below.len()).ok()?;
        self.choose(reason, inputs, below.last()?, Place::base(last))
    }
}

/// Returns the bytes that a merge for scans alone would read of level 0 and those down to the first
/// used; `None` if there would be no merge, however much scans pay.
pub fn scans_merge_bytes(levels: &KeyspaceLevels, shape: Shape) -> Option<u64> {
    let (level0, below) = levels.levels.split_first()?;
    let inputs: Vec<Input> = all(0, level0).collect();
    let dragged = dragged_bytes(&inputs, below, &Targets::of(levels, shape))?;
    let bytes = level0.size_bytes();
    if dragged <= bytes.saturating_mul(SCANS_RATIO) {
        return Some(bytes + dragged);
    }
    cheapest_run(level0).map(|run| run.size_bytes())
}

/// Returns the bytes that a merge of these tables of level 0 drags along down to the first level
/// that is used; `None` if there are no tables. `below` holds level 1 and those under it.
fn dragged_bytes(inputs: &[Input], below: &[Level], targets: &Targets) -> Option<u64> {
    let hull = KeyRange::hull(inputs.iter().map(|input| &input.table.bounds))?;
    let reached = (1..=targets.first_used()).zip(below);
    let dragged = reached.flat_map(|(number, level)| overlapping(number, level, &hull));
    Some(dragged.map(|input| input.table.size_bytes).sum())
}

/// Returns the run of neighbouring sub-levels whose merge writes the fewest bytes for each
/// sub-level that it removes. Small young sub-levels are merged often, large old ones rarely.
fn cheapest_run(level: &Level) -> Option<Level> {
    let runs = (0..level.sub_levels.len()).flat_map(|from| {
        let rest = level
            .sub_levels
            .get(from..)
            .debug_expect("a run begins in its level");
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
