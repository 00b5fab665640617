//! The deduplicating policy (PlexDB, 2020): tiered, and a level that holds too many stale versions becomes
//! one sub-level before it is full.
//!
//! How many there are is estimated (`compaction/estimates.rs`). Size goes first: what goes down is merged
//! anyway. What is left of a level stays there if at least half of its sub-levels are free then, for it
//! would be the only one to go down; else it goes where a full level goes.
//!
//! Level 0 is left out: it is small, and goes down soon.

use crate::compaction::claim::Claim;
use crate::compaction::estimates::{Duplicates, Estimates};
use crate::compaction::overdue::by_duplicates;
use crate::compaction::policy::candidate::{Candidate, Measure, Standing};
use crate::compaction::policy::tiered::{LOWEST, Tiered, is_at_rest, sub_levels};
use crate::compaction::policy::{Choice, ChoiceKind, Policy, Reason, unless_claimed};
use crate::compaction::run::Run;
use crate::levels::KeyspaceLevels;

/// What the deduplicating policy goes by.
#[derive(Clone, Debug)]
pub(crate) struct Dedup {
    pub(crate) tiered: Tiered,
    /// Versions of a level for each that would stay at which it is merged.
    pub(crate) threshold: f64,
}

impl Dedup {
    fn is_over(&self, duplicates: &Duplicates) -> bool {
        duplicates.rate() >= self.threshold
    }

    /// The levels that may be merged, the worst first. What snapshots keep is looked at only where it
    /// matters.
    fn by_rate(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Vec<(u8, Duplicates)> {
        let runs = self.runs(levels).into_iter();
        let mut known: Vec<(u8, Duplicates)> = runs
            .filter_map(|run| {
                let number = run.oldest()?.level;
                let at_rest = is_at_rest(levels, number, under_way);
                let at_most = estimates.merged(levels, &run).filter(|_| at_rest)?;
                let now = match self.is_over(&at_most) {
                    true => estimates.merged_now(levels, &run, at_most)?,
                    false => at_most,
                };
                Some((number, now))
            })
            .collect();
        known.sort_by(|a, b| b.1.rate().total_cmp(&a.1.rate()));
        known
    }

    /// What is done about a level over the threshold.
    fn choose(
        &self,
        levels: &KeyspaceLevels,
        level: u8,
        duplicates: Duplicates,
        under_way: &[Claim],
    ) -> Option<Choice> {
        let percent = (duplicates.rate() * 100.0) as u64;
        let reason = Reason::Duplicates { level, percent };
        let choice = self.merge_level(levels, level, reason, under_way)?;
        let choice = unless_claimed(choice, under_way)?;
        Some(Choice {
            // Moved, they would keep what they are chosen for.
            kind: ChoiceKind::Merge,
            predicted: Some(duplicates),
            ..choice
        })
    }

    fn merge_level(
        &self,
        levels: &KeyspaceLevels,
        number: u8,
        reason: Reason,
        under_way: &[Claim],
    ) -> Option<Choice> {
        let most = self.tiered.sub_levels;
        let free = most.saturating_sub(sub_levels(levels, number));
        if number < LOWEST && free * 2 < most {
            return self.tiered.down_from(levels, number, reason, under_way);
        }
        self.tiered.onto_oldest(reason, Vec::new(), levels, number)
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
        by_size.or_else(|| {
            let by_rate = self.by_rate(levels, under_way, estimates).into_iter();
            let mut over = by_rate.filter(|(_, duplicates)| self.is_over(duplicates));
            over.find_map(|(level, duplicates)| self.choose(levels, level, duplicates, under_way))
        })
    }

    fn candidates(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Vec<Candidate> {
        let mut candidates = self.tiered.candidates(levels, under_way, estimates);
        let by_rate = self.by_rate(levels, under_way, estimates).into_iter();
        candidates.extend(by_rate.map(|(level, duplicates)| Candidate {
            measure: Measure::Duplicates {
                level,
                duplicates,
                threshold: self.threshold,
            },
            standing: Standing::of(self.is_over(&duplicates), || {
                self.choose(levels, level, duplicates, under_way)
            }),
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
        let below_level0 = (1..=LOWEST).filter_map(|number| Run::of_level(levels, number));
        below_level0.filter(|run| run.count() > 1).collect()
    }
}
