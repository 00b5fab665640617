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
//!
//! The heavier level 0 has become while a merge before it ran, the deeper it goes in one merge: what
//! would leave level 1 over its target would have to go on at once, and is written one time less if
//! it takes level 2 along. A load of random keys that outruns its merges so writes about half as
//! much as one level at a time.
//!
//! Scans ask every sub-level of level 0. When they have paid for a merge (`db/level0_probes.rs`), level 0
//! goes down however few there are, unless it would drag a multiple of its bytes along. Then some of its
//! sub-levels become one; a last one stays, for one probe is not worth writing a level anew.
//!
//! What is under way counts as done for the level it leaves and is left alone. A level whose merge
//! has to wait for deeper ones claims its keys all the same: nothing less urgent may begin that
//! would make it wait longer.
//!
//! What another policy left in several sub-levels of a level becomes that level's base, the deepest
//! level first, because a base is older than all but bases; level 1 takes level 0 along. Until then level
//! 0 goes down as the tiered policy has it, so that nobody waits for all of the store to be rewritten.

use std::sync::Arc;

use crate::compaction::claim::Claim;
use crate::compaction::debt::{Targets, debt_bytes};
use crate::compaction::estimates::Estimates;
use crate::compaction::policy::candidate::{Candidate, Measure, Standing};
use crate::compaction::policy::inputs::{all, bytes, overlapping, place, remaining};
use crate::compaction::policy::tiered::{dragged, level0_down};
use crate::compaction::policy::{
    Choice, Input, Policy, Reason, assemble, target_bytes, unless_claimed,
};
use crate::levels::{KeyRange, KeyspaceLevels, Level, Place, SubLevel};

/// What the leveled policy goes by.
#[derive(Clone, Debug)]
pub(crate) struct Leveled {
    /// Sub-levels of level 0 that start a merge.
    pub(crate) level0_merge: usize,
    /// Scans have paid for the merge of level 0, whatever its sub-levels are.
    pub(crate) level0_is_paid_for: bool,
    pub(crate) level1_bytes: u64,
    pub(crate) level_ratio: u64,
    /// For each level, whether its tables are written in the same form (compression, filter, tier)
    /// as those of the level above: only then may a table be moved there.
    pub(crate) same_form_as_above: Vec<bool>,
}

impl Leveled {
    fn target_bytes(&self, level: u8) -> u64 {
        target_bytes(level, self.level1_bytes, self.level_ratio)
    }

    /// Sub-levels of level 0 that make it due.
    fn most_of_level0(&self) -> usize {
        if self.level0_is_paid_for {
            1
        } else {
            self.level0_merge.max(1)
        }
    }

    /// How urgent a level is, in percent, by what is not on its way down already.
    fn urgency_percent(&self, number: u8, remaining: &Level) -> u64 {
        if number == 0 {
            let least = self.most_of_level0() as u64;
            remaining.sub_levels.len() as u64 * 100 / least
        } else {
            let percent = u128::from(remaining.size_bytes()) * 100;
            (percent / u128::from(self.target_bytes(number).max(1))) as u64
        }
    }

    fn choose(
        &self,
        reason: Reason,
        inputs: Vec<Input>,
        next: &Level,
        output: Place,
    ) -> Option<Choice> {
        let hull = KeyRange::hull(inputs.iter().map(|input| &input.table.bounds))?;
        let below = overlapping(output.level, next, &hull).collect();
        assemble(reason, inputs, below, output, &self.same_form_as_above)
    }
}

/// Times its bytes that level 0 may drag along of level 1 for nothing but faster scans. Without it a
/// store that is scanned wrote 269 bytes for each that was inserted.
const SCANS_RATIO: u64 = 4;
/// Times the bytes on their way that a level may have to be taken along by a merge that could have
/// ended above it.
const DEEPER_RATIO: u64 = 2;

impl Leveled {
    /// `below` holds level 1 and those under it.
    fn pick_in_level0(&self, level: &Level, below: &[Level]) -> Option<Choice> {
        let next = below.first()?;
        let reason = match level.sub_levels.len() {
            count if count < self.level0_merge => Reason::Level0Scans(count),
            count => Reason::Level0SubLevels(count),
        };
        let inputs: Vec<Input> = all(0, level).collect();
        let dragged = dragged_bytes(&inputs, next)?;
        let for_scans = matches!(reason, Reason::Level0Scans(_));
        let most_ratio = if for_scans {
            SCANS_RATIO
        } else {
            self.level_ratio
        };
        if dragged <= level.size_bytes().saturating_mul(most_ratio) {
            return self.choose_depth(reason, inputs, below);
        }
        match cheapest_run(level) {
            Some(run) => {
                let output = all(0, &run).last()?.place;
                self.choose(reason, all(0, &run).collect(), &Level::default(), output)
            }
            None if for_scans => None,
            None => self.choose_depth(reason, inputs, below),
        }
    }

    /// Takes level after level along while the one above would be over its target and the next one
    /// is not much larger than what comes down on it.
    fn choose_depth(
        &self,
        reason: Reason,
        mut inputs: Vec<Input>,
        below: &[Level],
    ) -> Option<Choice> {
        let mut carried = bytes(&inputs);
        for (number, pair) in (1u8..).zip(below.windows(2)) {
            let [level, next] = pair else { break };
            let hull = KeyRange::hull(inputs.iter().map(|input| &input.table.bounds))?;
            let taken: Vec<Input> = overlapping(number, level, &hull).collect();
            let hull = KeyRange::hull(taken.iter().map(|i| &i.table.bounds).chain([&hull]))?;
            let dragged: Vec<Input> = overlapping(number + 1, next, &hull).collect();
            let is_over = carried + level.size_bytes() > self.target_bytes(number);
            carried += bytes(&taken);
            if !is_over || bytes(&dragged) > carried.saturating_mul(DEEPER_RATIO) {
                return self.choose(reason, inputs, level, Place::base(number));
            }
            inputs.extend(taken);
        }
        let last = u8::try_from(below.len()).ok()?;
        self.choose(reason, inputs, below.last()?, Place::base(last))
    }

    /// Of the tables that may be merged now the one whose merge writes the fewest bytes of the next
    /// level for each byte of its own; of equals the one with the smallest keys.
    fn pick_by_size(
        &self,
        reason: Reason,
        number: u8,
        level: &Level,
        next: &Level,
        claims: &[Claim],
    ) -> Option<Choice> {
        let cost = |input: &Input| {
            let dragged: u64 = overlapping(number + 1, next, &input.table.bounds)
                .map(|below| below.table.size_bytes)
                .sum();
            // In thousandths, so that sizes that differ little still count.
            u128::from(dragged) * 1000 / u128::from(input.table.size_bytes.max(1))
        };
        let mut inputs: Vec<Input> = all(number, level).collect();
        inputs.sort_by_cached_key(cost);
        let output = Place::base(number + 1);
        inputs.into_iter().find_map(|input| {
            let choice = self.choose(reason, vec![input], next, output)?;
            let claim = Claim::of(&choice)?;
            let waits = claims.iter().any(|other| other.conflicts_with(&claim));
            (!waits).then_some(choice)
        })
    }
}

/// What a merge for the sake of scans alone would read of levels 0 and 1; `None` if there would be none,
/// however much they pay.
pub(crate) fn scans_merge_bytes(levels: &KeyspaceLevels) -> Option<u64> {
    let [level0, level1, ..] = levels.levels.as_slice() else {
        return None;
    };
    let inputs: Vec<Input> = all(0, level0).collect();
    let dragged = dragged_bytes(&inputs, level1)?;
    let bytes = level0.size_bytes();
    if dragged <= bytes.saturating_mul(SCANS_RATIO) {
        return Some(bytes + dragged);
    }
    cheapest_run(level0).map(|run| run.size_bytes())
}

impl Leveled {
    /// The deepest level that has more than a base, and what it has.
    fn deepest_unsettled(levels: &KeyspaceLevels) -> Option<(u8, &Level)> {
        let below_level0 = (0u8..).zip(&levels.levels).skip(1);
        let has_others = |&(number, level): &(u8, &Level)| {
            let mut sub_levels = level.sub_levels.iter();
            sub_levels.any(|sub_level| !place(number, sub_level).is_base())
        };
        below_level0.filter(has_others).last()
    }

    /// Makes a base of what a level holds.
    fn settle_level(
        &self,
        levels: &KeyspaceLevels,
        number: u8,
        level: &Level,
        under_way: &[Claim],
    ) -> Option<Choice> {
        let level0 = levels.levels.first()?;
        let reason = Reason::OtherPolicy {
            level: number,
            sub_levels: level.sub_levels.len(),
        };
        let above = if number == 1 { Some(level0) } else { None };
        let above = above.into_iter().flat_map(|level0| all(0, level0));
        let younger = all(number, level).filter(|input| !input.place.is_base());
        let inputs: Vec<Input> = above.chain(younger).collect();
        let hull = KeyRange::hull(inputs.iter().map(|input| &input.table.bounds))?;
        let output = Place::base(number);
        let base = dragged(levels, output, &hull);
        let same_form = &self.same_form_as_above;
        unless_claimed(
            assemble(reason, inputs, base, output, same_form)?,
            under_way,
        )
    }

    /// Lets level 0 go down beside a level that has to wait until it is a base.
    fn level0_meanwhile(&self, levels: &KeyspaceLevels, under_way: &[Claim]) -> Option<Choice> {
        let is_due = levels.levels.first()?.sub_levels.len() >= self.level0_merge;
        let same_form = &self.same_form_as_above;
        let choice = is_due.then(|| level0_down(levels, under_way, same_form))?;
        unless_claimed(choice?, under_way)
    }

    /// The levels above the last one, the most urgent first, each with what of it is not on its way
    /// down, and what may be done about it.
    fn by_urgency<'a>(
        &'a self,
        levels: &'a KeyspaceLevels,
        under_way: &'a [Claim],
    ) -> impl Iterator<Item = (u8, Level, Standing)> + 'a {
        let last = levels.levels.len().saturating_sub(1);
        let above_last = levels.levels.iter().zip(0u8..).take(last);
        let mut urgent: Vec<(u64, u8, Level)> = above_last
            .map(|(level, number)| (number, remaining(level, under_way)))
            .map(|(number, level)| (self.urgency_percent(number, &level), number, level))
            .collect();
        // Of equally urgent levels the upper one: what is below it fills up from it.
        urgent.sort_by_key(|&(percent, number, _)| (std::cmp::Reverse(percent), number));
        let mut claims = under_way.to_vec();
        urgent.into_iter().map(move |(percent, number, remaining)| {
            let is_due = percent >= if number == 0 { 100 } else { 101 };
            let standing = Standing::of(is_due, || {
                self.pick_in(levels, number, percent, &remaining, &mut claims)
            });
            (number, remaining, standing)
        })
    }

    /// What may be done about a level. What it has to wait for others with is added to the claims.
    fn pick_in(
        &self,
        levels: &KeyspaceLevels,
        number: u8,
        percent: u64,
        remaining: &Level,
        claims: &mut Vec<Claim>,
    ) -> Option<Choice> {
        let at = usize::from(number);
        let (level, next) = (levels.levels.get(at)?, levels.levels.get(at + 1)?);
        if number > 0 {
            let reason = Reason::LevelSize {
                level: number,
                percent,
            };
            return self.pick_by_size(reason, number, remaining, next, claims);
        }
        let choice = self.pick_in_level0(remaining, levels.levels.get(1..)?)?;
        let claim = Claim::of(&choice)?;
        if !claims.iter().any(|other| other.conflicts_with(&claim)) {
            return Some(choice);
        }
        if level.sub_levels.len() == remaining.sub_levels.len() {
            claims.push(claim);
        }
        None
    }

    /// How far level 0 is due, given what of it is not on its way down.
    fn measure_of_level0(&self, remaining: &Level) -> Measure {
        Measure::SubLevels {
            level: 0,
            count: remaining.sub_levels.len(),
            most: self.most_of_level0(),
        }
    }
}

impl Policy for Leveled {
    fn pick(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        _: &dyn Estimates,
    ) -> Option<Choice> {
        match Leveled::deepest_unsettled(levels) {
            Some((number, level)) => self
                .settle_level(levels, number, level, under_way)
                .or_else(|| self.level0_meanwhile(levels, under_way)),
            None => {
                let mut by_urgency = self.by_urgency(levels, under_way);
                by_urgency.find_map(|(.., standing)| match standing {
                    Standing::Ready(choice) => Some(choice),
                    _ => None,
                })
            }
        }
    }

    fn candidates(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        _: &dyn Estimates,
    ) -> Vec<Candidate> {
        let Some((number, level)) = Leveled::deepest_unsettled(levels) else {
            let candidate = |(level, remaining, standing): (u8, Level, Standing)| Candidate {
                measure: match level {
                    0 => self.measure_of_level0(&remaining),
                    _ => Measure::Size {
                        level,
                        bytes: remaining.size_bytes(),
                        target: self.target_bytes(level),
                    },
                },
                standing,
            };
            let by_urgency = self.by_urgency(levels, under_way);
            let has_tables = |(_, level, _): &(u8, Level, Standing)| !level.sub_levels.is_empty();
            return by_urgency.filter(has_tables).map(candidate).collect();
        };
        let other_policy = Candidate {
            measure: Measure::OtherPolicy {
                level: number,
                sub_levels: level.sub_levels.len(),
            },
            standing: Standing::of(true, || self.settle_level(levels, number, level, under_way)),
        };
        let level0 = levels.levels.first().map(|level0| Candidate {
            measure: Measure::SubLevels {
                level: 0,
                count: level0.sub_levels.len(),
                most: self.level0_merge,
            },
            standing: Standing::of(level0.sub_levels.len() >= self.level0_merge, || {
                self.level0_meanwhile(levels, under_way)
            }),
        });
        [other_policy].into_iter().chain(level0).collect()
    }

    fn debt_bytes(&self, levels: &KeyspaceLevels) -> u64 {
        debt_bytes(
            levels,
            Targets {
                level0_merge: self.level0_merge,
                level1_bytes: self.level1_bytes,
                level_ratio: self.level_ratio,
            },
        )
    }
}

/// What a merge of these tables of level 0 drags along of level 1; `None` if there are none.
fn dragged_bytes(inputs: &[Input], level1: &Level) -> Option<u64> {
    let hull = KeyRange::hull(inputs.iter().map(|input| &input.table.bounds))?;
    let below = overlapping(1, level1, &hull);
    Some(below.map(|input| input.table.size_bytes).sum())
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
