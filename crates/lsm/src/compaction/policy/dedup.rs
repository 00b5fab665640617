//! The deduplicating policy (PlexDB, 2020): tiered, and a level that holds too many stale versions becomes
//! one sub-level before it is full.
//!
//! Their number is estimated (`compaction/estimates.rs`). Size goes first: a level that goes down
//! is merged anyway. The sub-level that is left of a level stays there if at least half of its
//! sub-levels are free then, for it would be the only one to go down. Else it goes where a full
//! level goes.
//!
//! Where most of the stale versions are in a few keys, it is enough to merge these
//! (`compaction/parts.rs`). The policy takes the part that gives most for its writes, if it drops
//! most of the versions that merging the level would, and has at most half of its bytes. No part is
//! merged before the level is at the threshold, however stale a range is. The threshold says how
//! much space stale versions may take, and the longer a range waits the more it frees for the same
//! writes. Nor is one if the level would go down, since it does so as a whole.
//!
//! Tables that go down on a level that would be over the threshold with them are merged straight
//! into that level's oldest sub-level. A sub-level of their own there would be written for nothing:
//! the merge of the level is due as soon as it is installed.
//!
//! Level 0 is left out: it is small, and goes down soon.

use crate::compaction::claim::Claim;
use crate::compaction::estimates::{Duplicates, Estimates};
use crate::compaction::lateness::by_duplicates;
use crate::compaction::parts::best_part;
use crate::compaction::policy::candidate::{Candidate, Measure, Standing};
use crate::compaction::policy::score::score_of_part;
use crate::compaction::policy::tiered::{LOWEST, Tiered, all_of, is_at_rest, sub_levels};
use crate::compaction::policy::{Choice, ChoiceKind, Input, Policy, Reason, unless_claimed};
use crate::compaction::run::Run;
use crate::levels::KeyspaceLevels;

/// Share of the versions that merging a level drops, which a part merged alone has to drop. If
/// stale versions are spread evenly, half of the bytes have half of them, give or take the error of
/// sketches.
const LEAST_FREED: f64 = 0.7;

/// Settings of the deduplicating policy.
#[derive(Clone, Debug)]
pub(crate) struct Dedup {
    pub(crate) tiered: Tiered,
    /// Versions of a level, for each that would stay, from which on it is merged.
    pub(crate) threshold: f64,
}

impl Dedup {
    fn is_over(&self, duplicates: &Duplicates) -> bool {
        duplicates.rate() >= self.threshold
    }

    /// Returns the levels that may be merged, the worst first. Looks at the versions that snapshots
    /// keep only where they matter.
    fn by_rate(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Vec<(Run, Duplicates)> {
        let runs = of_levels(levels);
        let mut known: Vec<(Run, Duplicates)> = runs
            .filter_map(|run| {
                let number = run.oldest()?.level;
                let at_rest = is_at_rest(levels, number, under_way);
                let at_most = estimates.merged(levels, &run).filter(|_| at_rest)?;
                let now = match self.is_over(&at_most) {
                    true => estimates.merged_now(levels, &run, at_most)?,
                    false => at_most,
                };
                Some((run, now))
            })
            .collect();
        known.sort_by(|a, b| b.1.rate().total_cmp(&a.1.rate()));
        known
    }

    /// Chooses the merge of a level over the threshold.
    fn choose(
        &self,
        levels: &KeyspaceLevels,
        run: &Run,
        duplicates: Duplicates,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Option<Choice> {
        let part = self.merge_part(levels, run, duplicates, estimates);
        let whole = || self.merge_level(levels, run, duplicates, under_way);
        unless_claimed(part.or_else(whole)?, under_way)
    }

    /// Returns whether a level stays where it is when it, and `more` sub-levels that it gets,
    /// become one.
    fn stays(&self, levels: &KeyspaceLevels, number: u8, more: usize) -> bool {
        let most = self.tiered.sub_levels;
        let free = most.saturating_sub(sub_levels(levels, number) + more);
        number == LOWEST || free * 2 >= most
    }

    /// Sends full levels that go down into the oldest sub-level below, if that level would be
    /// merged for it anyway.
    fn straight(
        &self,
        down: Choice,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Choice {
        let merged = || self.merge_with_next(&down, levels, under_way, estimates);
        merged().unwrap_or(down)
    }

    fn merge_with_next(
        &self,
        down: &Choice,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Option<Choice> {
        let top = down.inputs.iter().map(|input| input.place.level).min()?;
        let below = down.output.level;
        // A merge that was cut short goes on as it began.
        let is_new = down.inputs.iter().all(|input| input.place.level < below);
        let may_merge = top > 0
            && is_new
            && is_at_rest(levels, below, under_way)
            && self.stays(levels, below, 1);
        let run = with_next(levels, top, below).filter(|_| may_merge)?;
        let above = Run::of_levels(levels, top..=below - 1)?;
        let is_over = |all: &Duplicates| {
            // One version of each key that goes down would arrive.
            let arrives = estimates.keys(levels, &above)?;
            let would_be = run.versions() as f64 - above.versions() as f64 + arrives;
            let kept = run.versions() as f64 / all.rate();
            (would_be / kept >= self.threshold).then_some(())
        };
        let at_most = estimates.merged(levels, &run)?;
        is_over(&at_most)?;
        let now = estimates.merged_now(levels, &run, at_most)?;
        is_over(&now)?;
        let reason = Reason::Duplicates {
            level: below,
            percent: (now.rate() * 100.0) as u64,
        };
        let inputs = (top..below).flat_map(|number| all_of(levels, number));
        let choice = self
            .tiered
            .onto_oldest(reason, inputs.collect(), levels, below)?;
        let choice = Choice {
            kind: ChoiceKind::Merge,
            predicted: Some(now),
            ..choice
        };
        unless_claimed(choice, under_way)
    }

    /// Merges the part of a level that pays for the rest; `None` if that is all of it.
    fn merge_part(
        &self,
        levels: &KeyspaceLevels,
        run: &Run,
        all: Duplicates,
        estimates: &dyn Estimates,
    ) -> Option<Choice> {
        let level = run.oldest()?.level;
        if !self.stays(levels, level, 0) {
            return None;
        }
        let is_enough = |part: Duplicates| part.droppable >= all.droppable * LEAST_FREED;
        let measure = |bytes, part: Duplicates| {
            is_enough(part).then(|| score_of_part(bytes, part, run.size_bytes()))
        };
        let (part, at_most) = best_part(&estimates.parts(levels, run), measure)?;
        let now = estimates.merged_now(levels, &part, at_most);
        let now = now.filter(|now| is_enough(*now) && now.rate() >= self.threshold)?;
        let inputs = part.tables_with_places();
        Some(Choice {
            reason: Reason::DuplicatesOfRange {
                level,
                percent: (now.rate() * 100.0) as u64,
            },
            kind: ChoiceKind::Merge,
            output: part.oldest()?,
            inputs: inputs
                .map(|(place, table)| Input::new(place, table))
                .collect(),
            predicted: Some(now),
        })
    }

    fn merge_level(
        &self,
        levels: &KeyspaceLevels,
        run: &Run,
        duplicates: Duplicates,
        under_way: &[Claim],
    ) -> Option<Choice> {
        let number = run.oldest()?.level;
        let percent = (duplicates.rate() * 100.0) as u64;
        let reason = Reason::Duplicates {
            level: number,
            percent,
        };
        let choice = if self.stays(levels, number, 0) {
            self.tiered.onto_oldest(reason, Vec::new(), levels, number)
        } else {
            self.tiered.down_from(levels, number, reason, under_way)
        }?;
        Some(Choice {
            // A move would keep the stale versions.
            kind: ChoiceKind::Merge,
            predicted: Some(duplicates),
            ..choice
        })
    }
}

impl Policy for Dedup {
    fn pick(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Option<Choice> {
        let by_size = self.tiered.pick(levels, under_way, estimates);
        let by_size = by_size.map(|down| self.straight(down, levels, under_way, estimates));
        by_size.or_else(|| {
            let by_rate = self.by_rate(levels, under_way, estimates).into_iter();
            let mut over = by_rate.filter(|(_, duplicates)| self.is_over(duplicates));
            over.find_map(|(run, duplicates)| {
                self.choose(levels, &run, duplicates, under_way, estimates)
            })
        })
    }

    fn candidates(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Vec<Candidate> {
        let by_size = self.tiered.candidates(levels, under_way, estimates);
        let by_size = by_size.into_iter().map(|candidate| Candidate {
            standing: candidate
                .standing
                .map(|down| self.straight(down, levels, under_way, estimates)),
            ..candidate
        });
        let mut candidates: Vec<Candidate> = by_size.collect();
        let by_rate = self.by_rate(levels, under_way, estimates).into_iter();
        candidates.extend(by_rate.filter_map(|(run, duplicates)| {
            let choice = || self.choose(levels, &run, duplicates, under_way, estimates);
            Some(Candidate {
                measure: Measure::Duplicates {
                    level: run.oldest()?.level,
                    duplicates,
                    threshold: self.threshold,
                },
                standing: Standing::of(self.is_over(&duplicates), choice),
            })
        }));
        candidates
    }

    fn debt_bytes(&self, levels: &KeyspaceLevels) -> u64 {
        self.tiered.debt_bytes(levels)
    }

    fn overdue(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> f64 {
        let by_size = self.tiered.overdue(levels, under_way, estimates);
        by_duplicates(levels, under_way, estimates, self.threshold - 1.0).max(by_size)
    }

    fn runs(&self, levels: &KeyspaceLevels) -> Vec<Run> {
        let mut runs: Vec<Run> = of_levels(levels).collect();
        for top in 1..LOWEST {
            let mut below = top + 1;
            runs.extend(with_next(levels, top, below));
            while below < LOWEST && self.tiered.is_full(levels, below, 1) {
                below += 1;
                runs.extend(with_next(levels, top, below));
            }
        }
        runs
    }
}

/// Returns the levels that have anything to merge.
fn of_levels(levels: &KeyspaceLevels) -> impl Iterator<Item = Run> + '_ {
    let below_level0 = (1..=LOWEST).filter_map(|number| Run::of_level(levels, number));
    below_level0.filter(|run| run.count() > 1)
}

/// Returns levels with the one that they go down to, if it holds anything and they do.
fn with_next(levels: &KeyspaceLevels, top: u8, below: u8) -> Option<Run> {
    let ends = [top, below].map(|number| sub_levels(levels, number));
    Run::of_levels(levels, top..=below).filter(|_| ends.iter().all(|&count| count > 0))
}
