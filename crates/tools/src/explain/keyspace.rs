//! One keyspace explained: a pure function of its levels, of the work under way, and of known
//! duplicates.

use std::sync::Arc;

use terrace::{Options, SequenceNumber};
use terrace_lsm::compaction::claim::Claim;
use terrace_lsm::compaction::estimates::{Duplicates, Estimates};
use terrace_lsm::compaction::oldest_snapshot::OldestSnapshot;
use terrace_lsm::compaction::policy::candidate::{Candidate, Measure, Standing};
use terrace_lsm::compaction::policy::settings::CompactionPolicy;
use terrace_lsm::compaction::policy::{Choice, ChoiceKind, Policy};
use terrace_lsm::compaction::run::Run;
use terrace_lsm::compaction::targets::{Shape, Targets};
use terrace_lsm::keyspace_options::KeyspaceOptions;
use terrace_lsm::levels::{KeyspaceLevels, Place};

use crate::explain::{
    ExplainedLevel, ExplainedSubLevel, KeyspaceExplanation, LevelTarget, Measured, Plan, PlanInput,
    PlanKind, Setback, Settings, UnderWay, Waiting, Weighed, WeighedStanding,
};

/// Number of runs shown beside those that may begin, the best ones.
const RUNS_SHOWN: usize = 10;

/// The subject of an explanation.
pub(crate) struct Asked<'a> {
    pub(crate) levels: &'a KeyspaceLevels,
    pub(crate) settings: Settings,
    pub(crate) policy: &'a dyn Policy,
    pub(crate) under_way: &'a [(Claim, UnderWay)],
    /// Estimates that the policy goes by.
    pub(crate) estimates: &'a dyn Estimates,
    /// Estimates that are shown beside it: of any run, even one that is put off or not asked for.
    pub(crate) shown: &'a dyn Estimates,
    /// Sub-levels by their names, with the versions that a run with them needs.
    pub(crate) setbacks: Vec<(u64, u64)>,
    /// The oldest snapshot, if there is one.
    pub(crate) oldest_snapshot: Option<SequenceNumber>,
}

impl Settings {
    /// Returns the settings that the options give a keyspace of some form.
    pub(crate) fn of(options: &Options, form: &KeyspaceOptions) -> Self {
        use CompactionPolicy::{Dedup, Lazy, Leveled, Score};
        let policy = options.compaction_policy;
        Settings {
            policy,
            level0_merge: options.level0_merge,
            level_ratio: form.level_ratio,
            level1_bytes: matches!(policy, Leveled | Lazy).then_some(form.level1_bytes),
            dedup_threshold: (policy == Dedup).then_some(options.dedup_threshold),
            min_score: (policy == Score).then_some(options.min_score),
        }
    }
}

impl Asked<'_> {
    pub(crate) fn explain(self) -> KeyspaceExplanation {
        let levels = self.levels;
        let claims: Vec<Claim> = self.under_way.iter().map(|(c, _)| c.clone()).collect();
        let candidates = self.policy.candidates(levels, &claims, self.estimates);
        let picked = self.policy.pick(levels, &claims, self.estimates);
        let chosen = candidates.iter().position(|c| c.choice().is_some());
        let score = chosen.and_then(|chosen| score_of(candidates.get(chosen)?));
        let choice = picked.map(|choice| self.plan(&choice, score));
        let waiting = match choice {
            None if !claims.is_empty() => self.waiting(&claims),
            _ => None,
        };
        let left_out = left_out(&candidates);
        let is_shown = |at: &usize| !left_out.contains(at);
        let weighed = candidates.iter().enumerate().filter(|(at, _)| is_shown(at));
        let weighed: Vec<Weighed> = weighed
            .map(|(at, candidate)| self.weighed(candidate, Some(at) == chosen))
            .collect();
        let is_over = choice.is_some() || waiting.is_some();
        let nearest = (0..weighed.len())
            .zip(&weighed)
            .filter(|(_, weighed)| weighed.due_share <= 1.0)
            .max_by(|(_, a), (_, b)| a.due_share.total_cmp(&b.due_share))
            .map(|(at, _)| at);
        KeyspaceExplanation {
            id: levels.id.number(),
            name: levels.name.clone(),
            levels: self.levels_shown(),
            targets: self.targets(),
            under_way: self.under_way.iter().map(|(_, u)| u.clone()).collect(),
            choice,
            waiting,
            nearest: nearest.filter(|_| !is_over),
            candidates: weighed,
            candidates_left_out: left_out.len(),
            setbacks: self.setbacks_shown(),
            oldest_snapshot: self.oldest_snapshot.map(|sequence| {
                let tables = levels.tables().map(|(_, table)| &**table);
                OldestSnapshot::of(sequence, tables)
            }),
            settings: self.settings,
        }
    }

    /// Returns the work that would begin if nothing were under way, and the work that keeps it from
    /// that.
    fn waiting(&self, claims: &[Claim]) -> Option<Waiting> {
        let wanted = self.policy.pick(self.levels, &[], self.estimates)?;
        let claim = Claim::of(&wanted)?;
        let takes_its_tables = |other: &Claim| {
            let mut inputs = wanted.inputs.iter();
            inputs.any(|input| other.takes(input.table.number))
        };
        let in_its_way = |other: &Claim| {
            // Leftovers begin beside nothing.
            wanted.is_leftover() || other.conflicts_with(&claim) || takes_its_tables(other)
        };
        let others = (0..claims.len()).zip(claims);
        let in_its_way = others.filter(|(_, other)| in_its_way(other));
        Some(Waiting {
            plan: self.plan(&wanted, None),
            until: in_its_way.map(|(at, _)| at).collect(),
        })
    }

    fn weighed(&self, candidate: &Candidate, is_chosen: bool) -> Weighed {
        Weighed {
            measure: measured(&candidate.measure),
            due_share: candidate.due_share(),
            standing: match candidate.standing {
                Standing::Ready(_) if is_chosen => WeighedStanding::Chosen,
                Standing::Ready(_) => WeighedStanding::MayBegin,
                Standing::Waits => WeighedStanding::Waits,
                Standing::NotLookedAt => WeighedStanding::NotLookedAt,
                Standing::NotDue => WeighedStanding::NotDue,
            },
            plan: candidate
                .choice()
                .map(|choice| self.plan(choice, score_of(candidate))),
        }
    }

    fn plan(&self, choice: &Choice, score: Option<f64>) -> Plan {
        let read_bytes = choice.inputs.iter().map(|i| i.table.size_bytes).sum();
        let (written_bytes, dropped) = match choice.kind {
            ChoiceKind::Move => (Some(0), Some(0.0)),
            ChoiceKind::Removal => {
                let entries = choice.inputs.iter().map(|input| input.table.entries);
                (Some(0), Some(entries.sum::<u64>() as f64))
            }
            ChoiceKind::Merge => {
                let predicted = self.predicted(choice);
                let stays = predicted.map(|p| 1.0 - p.droppable_share());
                let written = stays.map(|share| (read_bytes as f64 * share) as u64);
                (written, predicted.map(|p| p.droppable))
            }
        };
        Plan {
            kind: match choice.kind {
                ChoiceKind::Move => PlanKind::Move,
                ChoiceKind::Merge => PlanKind::Merge,
                ChoiceKind::Removal => PlanKind::Removal,
            },
            reason: choice.reason.to_string(),
            inputs: inputs(choice),
            output_level: choice.output.level,
            output_age: choice.output.age,
            output_sub_level: choice.output.name(),
            read_bytes,
            entries: choice.inputs.iter().map(|i| i.table.entries).sum(),
            written_bytes,
            dropped_entries: dropped.map(|dropped| dropped.round() as u64),
            score,
        }
    }

    fn predicted(&self, choice: &Choice) -> Option<Duplicates> {
        let whole = || {
            self.shown
                .merged(self.levels, &whole_run(self.levels, choice)?)
        };
        choice.predicted.or_else(whole)
    }

    fn targets(&self) -> Vec<LevelTarget> {
        let (CompactionPolicy::Leveled, Some(level1_bytes)) =
            (self.settings.policy, self.settings.level1_bytes)
        else {
            return Vec::new();
        };
        let shape = Shape {
            level1_bytes,
            level_ratio: self.settings.level_ratio,
        };
        let targets = Targets::of(self.levels, shape);
        let of_level = |level| LevelTarget {
            level,
            bytes: targets.bytes(level),
        };
        (1..=targets.deepest()).map(of_level).collect()
    }

    fn levels_shown(&self) -> Vec<ExplainedLevel> {
        let shown = (0u8..)
            .zip(&self.levels.levels)
            .filter_map(|(level, held)| {
                let run = Run::of_level(self.levels, level)?;
                let duplicates = self.shown.merged(self.levels, &run);
                let sub_levels = held.sub_levels.iter().map(|s| ExplainedSubLevel {
                    number: s.number,
                    age: s.age,
                    tables: s.tables.len(),
                    bytes: s.size_bytes(),
                    entries: s.tables.iter().map(|table| table.entries).sum(),
                    tombstones: s.tables.iter().map(|table| table.tombstones).sum(),
                });
                Some(ExplainedLevel {
                    level,
                    sub_levels: sub_levels.collect(),
                    duplicate_rate: duplicates.map(|d| d.rate()),
                })
            });
        shown.collect()
    }

    fn setbacks_shown(&self) -> Vec<Setback> {
        let runs = self.policy.runs(self.levels);
        let place_of = |number: u64| {
            let mut places = self.levels.sub_levels().map(|(place, _)| place);
            places.find(|place| place.sub_level == number)
        };
        let shown = self.setbacks.iter().filter_map(|&(number, needed)| {
            let place = place_of(number)?;
            let with_it = runs.iter().filter(|run| run.name().contains(&number));
            Some(Setback {
                level: place.level,
                sub_level: number,
                age: place.age,
                needed_entries: needed,
                present_entries: with_it.map(Run::versions).max().unwrap_or(0),
            })
        });
        shown.collect()
    }
}

fn score_of(candidate: &Candidate) -> Option<f64> {
    match candidate.measure {
        Measure::Score { score, .. } => Some(score),
        _ => None,
    }
}

fn measured(measure: &Measure) -> Measured {
    match measure {
        &Measure::SubLevels { level, count, most } => Measured::SubLevels {
            level,
            sub_levels: count,
            due_at: most,
        },
        &Measure::Size {
            level,
            bytes,
            target,
        } => Measured::Size {
            level,
            bytes,
            due_at: target,
        },
        &Measure::Duplicates {
            level,
            duplicates,
            threshold,
        } => Measured::Duplicates {
            level,
            rate: duplicates.rate(),
            due_at: threshold,
        },
        Measure::Score { run, score, least } => Measured::Score {
            sub_levels: run
                .sub_levels()
                .iter()
                .map(|(p, _)| (p.level, p.age))
                .collect(),
            score: *score,
            due_at: *least,
        },
        &Measure::OtherPolicy { level, sub_levels } => Measured::OtherPolicy { level, sub_levels },
        &Measure::Tombstones {
            level,
            percent,
            due,
        } => Measured::Tombstones {
            level,
            percent,
            due_at: due,
        },
        &Measure::Superseded {
            level,
            percent,
            due,
        } => Measured::Superseded {
            level,
            percent,
            due_at: due,
        },
        &Measure::PassedOver { level } => Measured::PassedOver { level },
        &Measure::MixedReads { level, tables } => Measured::MixedReads { level, tables },
        &Measure::Hidden { level, tables } => Measured::Hidden { level, tables },
        &Measure::TombstoneAge {
            level,
            seconds,
            due,
        } => Measured::TombstoneAge {
            level,
            seconds,
            due_at: due,
        },
    }
}

/// Returns the positions of the runs that are not shown: all that may not begin, but for the best.
fn left_out(candidates: &[Candidate]) -> Vec<usize> {
    let is_run = |candidate: &Candidate| {
        matches!(candidate.measure, Measure::Score { .. }) && candidate.choice().is_none()
    };
    let runs = candidates.iter().enumerate().filter(|(_, c)| is_run(c));
    runs.skip(RUNS_SHOWN).map(|(at, _)| at).collect()
}

/// Returns the inputs by sub-level, the youngest first.
fn inputs(choice: &Choice) -> Vec<PlanInput> {
    let mut by_sub_level: Vec<PlanInput> = Vec::new();
    for input in &choice.inputs {
        let Place {
            level,
            sub_level,
            age,
        } = input.place;
        let known = by_sub_level.iter().position(|known| known.age == age);
        match known.and_then(|at| by_sub_level.get_mut(at)) {
            Some(known) => {
                known.tables.push(input.table.number);
                known.bytes += input.table.size_bytes;
            }
            None => by_sub_level.push(PlanInput {
                level,
                sub_level,
                age,
                tables: vec![input.table.number],
                bytes: input.table.size_bytes,
            }),
        }
    }
    by_sub_level.sort_by_key(|input| std::cmp::Reverse(input.age));
    by_sub_level
}

/// Returns the run that a choice merges, if it takes all of all its sub-levels.
fn whole_run(levels: &KeyspaceLevels, choice: &Choice) -> Option<Run> {
    let ages = choice.inputs.iter().map(|input| input.place.age);
    let within = ages.clone().min()?..=ages.max()?;
    let spanned = levels.sub_levels().filter(|(p, _)| within.contains(&p.age));
    let spanned: Vec<_> = spanned.map(|(p, s)| (p, Arc::clone(s))).collect();
    let taken = |place: Place| choice.inputs.iter().filter(|i| i.place == place).count();
    let is_whole = spanned.iter().all(|(p, s)| taken(*p) == s.tables.len());
    Run::new(spanned).filter(|_| is_whole)
}
