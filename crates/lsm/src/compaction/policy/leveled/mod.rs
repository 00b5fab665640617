//! The leveled policy: one sub-level in each level below level 0, each level a ratio larger than
//! the one above.
//!
//! Level 0 is urgent by the number of its sub-levels, because every one of them costs a reader a
//! probe; the others by bytes against their target. The most urgent level is merged into the next:
//! level 0 as a whole, any other by the one table that drags the fewest bytes of the next level
//! along. Inputs that overlap nothing below are moved, unless the target level is written in
//! another form.
//!
//! Level 0 weighs its bytes before it goes down. While it would drag more than a ratio's worth of
//! level 1 along, as in a keyspace that leaves a little in every arena, some of its sub-levels are
//! merged into one of them instead. That frees readers of the probes for a fraction of the writes.
//!
//! The heavier level 0 has become while a merge before it ran, the deeper it goes in one merge.
//! Tables that would leave level 1 over its target would have to go on at once, and are written one
//! time less if they take level 2 along. A load of random keys that outruns its merges so writes
//! about half as much as one level at a time.
//!
//! Scans ask every sub-level of level 0. When they have paid for a merge (`level0_probes.rs` of the engine),
//! level 0 goes down however few there are, unless it would drag a multiple of its bytes along.
//! Then some of its sub-levels become one; a last one stays, for one probe is not worth rewriting a
//! level.
//!
//! A merge under way counts as done for the level that it leaves, and is left alone. A level whose
//! merge has to wait for deeper ones claims its keys all the same: nothing less urgent may begin
//! that would make it wait longer.
//!
//! Sub-levels that another policy left in a level become that level's base, the deepest level
//! first, because a base is older than all but bases. Level 1 takes level 0 along. Until then level
//! 0 goes down as the tiered policy has it, so that no writer waits for all of the store to be
//! rewritten.
mod crossing;
mod down;
mod level0;
mod settle;

use crate::compaction::claim::Claim;
use crate::compaction::debt::debt_bytes;
use crate::compaction::estimates::Estimates;
use crate::compaction::policy::candidate::{Candidate, Measure, Standing};
use crate::compaction::policy::inputs::{overlapping, remaining};
use crate::compaction::policy::{Choice, Input, Policy, Reason, assemble};
use crate::compaction::targets::{Shape, Targets};
use crate::levels::{KeyRange, KeyspaceLevels, Level, Place};

pub use self::level0::scans_merge_bytes;

/// Settings of the leveled policy.
#[derive(Clone, Debug)]
pub(crate) struct Leveled {
    /// Sub-levels of level 0 that start a merge.
    pub(crate) level0_merge: usize,
    /// Whether scans have paid for the merge of level 0, however few its sub-levels are.
    pub(crate) level0_is_paid_for: bool,
    pub(crate) shape: Shape,
    /// Maximum bytes of a table and the neighbours that go down with it.
    pub(crate) slice_bytes: u64,
    /// For each level, whether its tables are written in the same form (compression, filter, tier)
    /// as those of the level above: only then may a table be moved there.
    pub(crate) same_form_as_above: Vec<bool>,
}

impl Leveled {
    /// Returns the number of sub-levels of level 0 that makes it due.
    fn most_of_level0(&self) -> usize {
        if self.level0_is_paid_for {
            1
        } else {
            self.level0_merge.max(1)
        }
    }

    /// Returns how urgent a level is, in percent, by its tables that are not on their way down
    /// already.
    fn urgency_percent(&self, number: u8, remaining: &Level, targets: &Targets) -> u64 {
        if number == 0 {
            let least = self.most_of_level0() as u64;
            remaining.sub_levels.len() as u64 * 100 / least
        } else {
            percent(remaining.size_bytes(), targets.urgent_bytes(number))
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

    /// Returns the levels above the last one, the most urgent first, each with its tables that are
    /// not on their way down, and its standing. A crossing goes first: it costs next to nothing.
    fn by_urgency<'a>(
        &'a self,
        levels: &'a KeyspaceLevels,
        under_way: &'a [Claim],
    ) -> impl Iterator<Item = (u8, Level, Standing)> + 'a {
        let targets = Targets::of(levels, self.shape);
        let mut crossing = self.cross(levels, &targets, under_way);
        let crosses = crossing.as_ref().map(|(number, _)| *number);
        let last = levels.levels.len().saturating_sub(1);
        let above_last = levels.levels.iter().zip(0u8..).take(last);
        let mut urgent: Vec<(u64, u8, Level)> = above_last
            .map(|(level, number)| (number, remaining(level, under_way)))
            .map(|(number, level)| {
                (
                    self.urgency_percent(number, &level, &targets),
                    number,
                    level,
                )
            })
            .collect();
        // Of equally urgent levels the upper one goes first: those below it fill up from it.
        urgent.sort_by_key(|&(percent, number, _)| {
            (crosses != Some(number), std::cmp::Reverse(percent), number)
        });
        let mut claims = under_way.to_vec();
        urgent.into_iter().map(move |(percent, number, remaining)| {
            if let Some((_, choice)) = crossing.take() {
                return (number, remaining, Standing::Ready(choice));
            }
            let is_due = match number {
                0 => percent >= 100,
                _ => targets.is_over(number, remaining.size_bytes()),
            };
            let standing = Standing::of(is_due, || {
                self.pick_in(levels, number, &remaining, &targets, &mut claims)
            });
            (number, remaining, standing)
        })
    }

    /// Picks the merge of a level. One that has to wait for others is added to the claims.
    fn pick_in(
        &self,
        levels: &KeyspaceLevels,
        number: u8,
        remaining: &Level,
        targets: &Targets,
        claims: &mut Vec<Claim>,
    ) -> Option<Choice> {
        if number > 0 {
            return self.pick_below_level0(levels, number, remaining, targets, claims);
        }
        let level = levels.levels.first()?;
        let choice = self.pick_in_level0(remaining, levels.levels.get(1..)?, targets)?;
        let claim = Claim::of(&choice)?;
        if !claims.iter().any(|other| other.conflicts_with(&claim)) {
            return Some(choice);
        }
        if level.sub_levels.len() == remaining.sub_levels.len() {
            claims.push(claim);
        }
        None
    }

    /// Returns how far level 0 is due, given its tables that are not on their way down.
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
            let targets = Targets::of(levels, self.shape);
            let candidate = |(level, remaining, standing): (u8, Level, Standing)| Candidate {
                measure: match level {
                    0 => self.measure_of_level0(&remaining),
                    _ => Measure::Size {
                        level,
                        bytes: remaining.size_bytes(),
                        target: targets.most_bytes(level),
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
        let targets = Targets::of(levels, self.shape);
        debt_bytes(levels, self.level0_merge, &targets)
    }
}

/// Returns the percentage of a part in a whole, which counts as 1 at least.
fn percent(part: u64, whole: u64) -> u64 {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}
