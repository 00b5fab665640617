//! The policy of the best score: it merges the neighbouring sub-levels that give the most for each
//! byte written.
//!
//! A merge gives the space that it frees, of stale versions and tombstones, and the probes that it
//! saves every read, both counted in bytes. The next larger merge would free that space anyway, the
//! later the larger the merge is. So the space counts for the share of the store that is merged.
//! Otherwise the youngest sub-levels, which have the most duplicates, are merged over and over for
//! space that they take for a moment. A probe is worth [`PROBE_WORTH`] of the bytes that leave
//! small sub-levels, for the larger they are the longer it takes until as many have come again. The
//! score is the sum divided by the bytes that the merge writes. So merges for any of these reasons
//! compete with one another, wherever they are in the levels. A merge is worth it from
//! `Options::min_score` on.
//!
//! A range of keys of a run may be merged without the rest (`compaction/parts.rs`), if its own
//! score is better. Where updates come in clusters, most stale versions are in a small part of the
//! store. The range's share of the store is small, too, so more of it has to be stale until it is
//! merged: its stale bytes count by its share of the store, divided by the bytes that stay. That is
//! right. Of two ranges that cost 1 and 19 to write, it is best to merge the small one not at the same part of
//! stale versions, but at a larger one: space costs the same in both.
//!
//! A threshold on a level (`dedup.rs`) sees the level's duplicates only as a whole. A few young
//! sub-levels full of stale versions above a large old one are below it, and when it is reached the
//! old one is written for their sake.
//!
//! The tiered rules hold, too: a level that has its number of sub-levels goes down, so that reads
//! never have to ask more of them, stale or not. For level 0 that is four times the usual number:
//! there is a better time to merge it than as soon as possible. Level 0 is merged on its own, for
//! its sub-levels in a large merge would keep the next from going down.

use crate::compaction::claim::Claim;
use crate::compaction::estimates::{Duplicates, Estimates};
use crate::compaction::lateness::by_duplicates;
use crate::compaction::parts::best_part;
use crate::compaction::policy::candidate::{Candidate, Measure, Standing};
use crate::compaction::policy::tiered::{LOWEST, Tiered, below, dragged};
use crate::compaction::policy::{
    Choice, ChoiceKind, Input, Policy, Reason, assemble, unless_claimed,
};
use crate::compaction::run::Run;
use crate::levels::{KeyRange, KeyspaceLevels, Place};

/// The bytes of stale versions that are as bad as one more sub-level, for each byte that a merge of it
/// brings out of small sub-levels.
const PROBE_WORTH: f64 = 0.01;
/// Sub-levels that level 0 may have, as a multiple of the usual number.
pub(crate) const LEVEL0_TIMES: usize = 4;
/// Number of the best runs that get a closer look.
const CLOSER_LOOKS: usize = 8;

/// Settings of the policy of the best score.
#[derive(Clone, Debug)]
pub(crate) struct Score {
    /// Tiered rules, which hold at any score.
    pub(crate) tiered: Tiered,
    /// Score from which on a merge is worth its writes.
    pub(crate) min_score: f64,
}

/// A run and the gain of merging it.
#[derive(Clone, Debug)]
pub(crate) struct Scored {
    pub(crate) run: Run,
    pub(crate) duplicates: Duplicates,
    pub(crate) score: f64,
    /// Whether only a range of the run's keys is merged.
    pub(crate) is_part: bool,
}

impl Scored {
    /// Scores the merge of a run. `all_bytes` are those of all levels.
    fn new(run: Run, duplicates: Duplicates, all_bytes: u64) -> Self {
        let total = run.size_bytes() as f64;
        let freed = total * duplicates.droppable_share();
        let share = total / all_bytes.max(1) as f64;
        let moved = run.size_bytes().saturating_sub(run.largest_bytes()) as f64;
        let probes_saved = run.count().saturating_sub(1) as f64;
        let given = freed * share + PROBE_WORTH * probes_saved * moved;
        Scored {
            score: given / (total - freed).max(1.0),
            run,
            duplicates,
            is_part: false,
        }
    }

    /// Scores the merge of a range of keys. No sub-level goes, so it saves probes to some reads
    /// only: they do not count.
    fn of_part(run: Run, duplicates: Duplicates, all_bytes: u64) -> Self {
        Scored {
            score: score_of_part(run.size_bytes(), duplicates, all_bytes),
            run,
            duplicates,
            is_part: true,
        }
    }

    /// Scores the same run after a closer look.
    fn with(self, duplicates: Duplicates, all_bytes: u64) -> Self {
        let new = if self.is_part {
            Self::of_part
        } else {
            Self::new
        };
        new(self.run, duplicates, all_bytes)
    }
}

/// Returns the score of merging `bytes` of a range of keys.
pub(super) fn score_of_part(bytes: u64, duplicates: Duplicates, all_bytes: u64) -> f64 {
    let total = bytes as f64;
    let freed = total * duplicates.droppable_share();
    freed * (total / all_bytes.max(1) as f64) / (total - freed).max(1.0)
}

impl Score {
    /// Returns every run that may be merged now and has an estimate, and the best part of each, the
    /// best first.
    pub(crate) fn scored(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Vec<Scored> {
        let is_taken = |number| under_way.iter().any(|claim| claim.takes(number));
        let at_rest = |run: &Run| !run.tables().any(|table| is_taken(table.number));
        let runs = self.runs(levels).into_iter().filter(at_rest);
        let all_bytes = levels.size_bytes();
        let mut scored: Vec<Scored> = runs
            .flat_map(|run| {
                let part = self.best_part(levels, &run, estimates);
                let duplicates = estimates.merged(levels, &run);
                let whole = duplicates.map(|known| Scored::new(run, known, all_bytes));
                whole.into_iter().chain(part)
            })
            .collect();
        scored.sort_by(|a, b| b.score.total_cmp(&a.score));
        scored
    }

    fn best_part(
        &self,
        levels: &KeyspaceLevels,
        run: &Run,
        estimates: &dyn Estimates,
    ) -> Option<Scored> {
        let all_bytes = levels.size_bytes();
        let measure = |bytes, duplicates| {
            let score = score_of_part(bytes, duplicates, all_bytes);
            (score >= self.min_score).then_some(score)
        };
        let (run, duplicates) = best_part(&estimates.parts(levels, run), measure)?;
        Some(Scored::of_part(run, duplicates, all_bytes))
    }

    fn pick_by_score(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Option<Choice> {
        let scored = self.scored(levels, under_way, estimates).into_iter();
        let worth_it = scored.take_while(|scored| scored.score >= self.min_score);
        let mut closer = worth_it
            .take(CLOSER_LOOKS)
            .filter_map(|scored| look_closer(levels, scored, estimates));
        closer.find_map(|scored| self.choose(levels, &scored, under_way))
    }

    /// Chooses the merge of a run after a closer look, if it is still worth it and nothing is in
    /// its way.
    fn choose(
        &self,
        levels: &KeyspaceLevels,
        scored: &Scored,
        under_way: &[Claim],
    ) -> Option<Choice> {
        let choice = self
            .merge(levels, scored)
            .filter(|_| scored.score >= self.min_score);
        unless_claimed(choice?, under_way)
    }

    fn candidates_by_score(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Vec<Candidate> {
        let scored = self.scored(levels, under_way, estimates).into_iter();
        let candidate = |(rank, scored): (usize, Scored)| {
            let is_worth_it = scored.score >= self.min_score;
            let closer = (is_worth_it && rank < CLOSER_LOOKS)
                .then(|| look_closer(levels, scored.clone(), estimates));
            let (scored, standing) = match closer {
                Some(Some(closer)) => {
                    let is_worth_it = closer.score >= self.min_score;
                    let choice = || self.choose(levels, &closer, under_way);
                    let standing = Standing::of(is_worth_it, choice);
                    (closer, standing)
                }
                None if !is_worth_it => (scored, Standing::NotDue),
                _ => (scored, Standing::NotLookedAt),
            };
            Candidate {
                measure: Measure::Score {
                    run: scored.run,
                    score: scored.score,
                    least: self.min_score,
                },
                standing,
            }
        };
        scored.enumerate().map(candidate).collect()
    }

    /// Merges a run into the place of its oldest sub-level; if that is the oldest of level 0, into
    /// one of its own in level 1.
    fn merge(&self, levels: &KeyspaceLevels, scored: &Scored) -> Option<Choice> {
        let run = &scored.run;
        let (sub_levels, percent) = (run.count(), (scored.score * 100.0) as u64);
        let reason = if scored.is_part {
            Reason::ScoreOfRange {
                sub_levels,
                percent,
            }
        } else {
            Reason::Score {
                sub_levels,
                percent,
            }
        };
        let oldest = run.oldest()?;
        let level0_ends_here = || Run::of_level(levels, 0)?.oldest();
        let (output, inputs): (Place, Vec<Input>) =
            if oldest.level == 0 && level0_ends_here() == Some(oldest) {
                let inputs = run.sub_levels().iter().flat_map(|(place, sub_level)| {
                    let tables = sub_level.tables.iter();
                    tables.map(|table| Input::new(*place, table))
                });
                (below(levels, 0)?, inputs.collect())
            } else {
                let younger = run.younger_tables();
                let inputs = younger.map(|(place, table)| Input::new(place, table));
                (oldest, inputs.collect())
            };
        let hull = KeyRange::hull(inputs.iter().map(|input| &input.table.bounds))?;
        let dragged = dragged(levels, output, &hull);
        let same_form = &self.tiered.same_form_as_above;
        let choice = assemble(reason, inputs, dragged, output, same_form)?;
        Some(Choice {
            kind: match choice.kind {
                // A move would keep the duplicates, if the run is chosen for more than probes.
                ChoiceKind::Move if scored.duplicates.rate() < 1.0 + self.min_score => {
                    ChoiceKind::Move
                }
                _ => ChoiceKind::Merge,
            },
            predicted: Some(scored.duplicates),
            ..choice
        })
    }
}

/// Scores the same run less the versions that snapshots keep; `None` if they are not known.
fn look_closer(
    levels: &KeyspaceLevels,
    scored: Scored,
    estimates: &dyn Estimates,
) -> Option<Scored> {
    let now = estimates.merged_now(levels, &scored.run, scored.duplicates)?;
    Some(scored.with(now, levels.size_bytes()))
}

impl Policy for Score {
    fn pick(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Option<Choice> {
        let of_level0 = self.tiered.pick_full(levels, under_way, 0..=0);
        of_level0
            .or_else(|| self.pick_by_score(levels, under_way, estimates))
            .or_else(|| self.tiered.pick_full(levels, under_way, 1..=LOWEST))
    }

    fn candidates(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Vec<Candidate> {
        let full = |within| self.tiered.candidates_within(levels, under_way, within);
        let mut candidates = full(0..=0);
        candidates.extend(self.candidates_by_score(levels, under_way, estimates));
        candidates.extend(full(1..=LOWEST));
        candidates
    }

    fn debt_bytes(&self, levels: &KeyspaceLevels) -> u64 {
        self.tiered.debt_bytes(levels)
    }

    /// Measures the largest merge, of all below level 0: it frees for each byte nearly as much as
    /// waits there for each key.
    fn overdue(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> f64 {
        let by_size = self.tiered.overdue(levels, under_way, estimates);
        by_duplicates(levels, under_way, estimates, self.min_score).max(by_size)
    }

    fn runs(&self, levels: &KeyspaceLevels) -> Vec<Run> {
        let mut runs = Run::all_within(levels, 0..=0);
        runs.extend(Run::all_within(levels, 1..=LOWEST));
        runs
    }
}
