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
    /// The levels over the threshold, the worst first.
    fn over_threshold(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Vec<(u8, Duplicates)> {
        let is_over = |duplicates: &Duplicates| duplicates.rate() >= self.threshold;
        let runs = self.runs(levels).into_iter();
        let mut over: Vec<(u8, Duplicates)> = runs
            .filter_map(|run| {
                let number = run.oldest()?.level;
                let at_rest = is_at_rest(levels, number, under_way);
                let at_most = estimates.merged(levels, &run).filter(|_| at_rest);
                let now = estimates.merged_now(levels, &run, at_most.filter(is_over)?);
                Some((number, now.filter(is_over)?))
            })
            .collect();
        over.sort_by(|a, b| b.1.rate().total_cmp(&a.1.rate()));
        over
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
            let over = self.over_threshold(levels, under_way, estimates);
            over.into_iter().find_map(|(level, duplicates)| {
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
            })
        })
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
