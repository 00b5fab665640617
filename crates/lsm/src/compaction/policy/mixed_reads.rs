//! Tables whose parts are worth different tiers by their reads, under any policy: they are divided.
//!
//! Compactions end their outputs where the tier changes, but a level that is seldom written keeps its tables for
//! long. So a table is rewritten in its place once enough is known about the reads of its parts. The store says which
//! tables gain from it, and names each once. Such a compaction goes behind everything else that is due in any
//! keyspace, and is no debt that slows writers down. Neighbours go together, so cold ends of two tables become one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compaction::claim::Claim;
use crate::compaction::estimates::Estimates;
use crate::compaction::policy::candidate::{Candidate, Measure, Standing};
use crate::compaction::policy::inputs::{listed, neighbours};
use crate::compaction::policy::tombstones::MOST_TABLES;
use crate::compaction::policy::{
    Choice, ChoiceKind, Input, Policy, Reason, is_idle, unless_claimed,
};
use crate::compaction::run::Run;
use crate::levels::KeyspaceLevels;

/// Any policy, and the rule for tables with mixed reads beside it.
pub struct MixedReads {
    /// The policy.
    pub inner: Box<dyn Policy>,
    /// The gain of dividing a table by its number, in reads in a second.
    pub gains: Arc<BTreeMap<u64, f64>>,
}

/// Returns the compaction of neighbouring tables of a sub-level in their place.
fn in_place(inputs: Vec<Input>) -> Option<Choice> {
    let output = inputs.first()?.place;
    Some(Choice {
        reason: Reason::MixedReads {
            level: output.level,
            tables: inputs.len(),
        },
        kind: ChoiceKind::Merge,
        output,
        predicted: None,
        inputs,
    })
}

impl MixedReads {
    fn gain(&self, inputs: &[Input]) -> f64 {
        let gains = inputs
            .iter()
            .map(|input| self.gains.get(&input.table.number));
        gains.map(|gain| gain.copied().unwrap_or(0.0)).sum()
    }

    /// Returns the tables to divide, neighbours together; those with the largest gain first. All of level 0 is merged
    /// soon.
    fn parts(&self, levels: &KeyspaceLevels) -> Vec<Vec<Input>> {
        if self.gains.is_empty() {
            return Vec::new();
        }
        let mixed = neighbours(levels, |table| self.gains.contains_key(&table.number));
        let mixed = mixed.filter(|(place, _)| place.level > 0);
        let chunks = mixed.flat_map(|(place, tables)| {
            let chunks = tables.chunks(MOST_TABLES);
            chunks.map(move |tables| listed(place, tables))
        });
        let mut parts: Vec<Vec<Input>> = chunks.collect();
        parts.sort_by(|a, b| self.gain(b).total_cmp(&self.gain(a)));
        parts
    }
}

impl Policy for MixedReads {
    fn pick(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Option<Choice> {
        let other = self.inner.pick(levels, under_way, estimates);
        if other.is_some() {
            return other;
        }
        let parts = self.parts(levels);
        if parts.is_empty() || !is_idle(&*self.inner, levels, under_way, estimates) {
            return None;
        }
        let mut choices = parts.into_iter().filter_map(in_place);
        choices.find_map(|choice| unless_claimed(choice, under_way))
    }

    /// Lists tables with mixed reads behind the candidates of the inner policy.
    fn candidates(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Vec<Candidate> {
        let mut all = self.inner.candidates(levels, under_way, estimates);
        let is_picked = all.iter().any(|candidate| candidate.choice().is_some());
        let may_begin = !is_picked && is_idle(&*self.inner, levels, under_way, estimates);
        all.extend(self.parts(levels).into_iter().filter_map(|inputs| {
            let measure = Measure::MixedReads {
                level: inputs.first()?.place.level,
                tables: inputs.len(),
            };
            let choice = in_place(inputs).filter(|_| may_begin);
            let choice = choice.and_then(|choice| unless_claimed(choice, under_way));
            Some(Candidate {
                measure,
                standing: choice.map_or(Standing::Waits, Standing::Ready),
            })
        }));
        all
    }

    fn debt_bytes(&self, levels: &KeyspaceLevels) -> u64 {
        self.inner.debt_bytes(levels)
    }

    fn overdue(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> f64 {
        self.inner.overdue(levels, under_way, estimates)
    }

    fn runs(&self, levels: &KeyspaceLevels) -> Vec<Run> {
        self.inner.runs(levels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::policy::sequence_tests::NoEstimates;
    use crate::levels::testing::{added, flush_place, levels, sub_level_place, version};

    /// Wants what it is told.
    struct Told(Option<Choice>);

    impl Policy for Told {
        fn pick(
            &self,
            _: &KeyspaceLevels,
            under_way: &[Claim],
            _: &dyn Estimates,
        ) -> Option<Choice> {
            unless_claimed(self.0.clone()?, under_way)
        }

        fn candidates(&self, _: &KeyspaceLevels, _: &[Claim], _: &dyn Estimates) -> Vec<Candidate> {
            Vec::new()
        }

        fn debt_bytes(&self, _: &KeyspaceLevels) -> u64 {
            0
        }
    }

    fn mixed(inner: Option<Choice>, gains: &[(u64, f64)]) -> MixedReads {
        MixedReads {
            inner: Box::new(Told(inner)),
            gains: Arc::new(gains.iter().copied().collect()),
        }
    }

    #[test]
    fn tables_with_mixed_reads_are_divided_when_nothing_else_is_due() {
        let below = sub_level_place(1, 1);
        let version = version(vec![
            added(flush_place(9), 10, "a", "z"),
            added(below, 1, "a", "b"),
            added(below, 2, "c", "d"),
            added(below, 3, "e", "f"),
            added(below, 4, "g", "h"),
        ]);
        let levels = levels(&version);
        let numbers = |choice: &Choice| -> Vec<u64> {
            choice
                .inputs
                .iter()
                .map(|input| input.table.number)
                .collect()
        };
        let gains = [(1, 1.0), (2, 1.0), (4, 3.0), (10, 9.0), (99, 9.0)];
        let policy = mixed(None, &gains);
        let first = policy.pick(levels, &[], &NoEstimates).unwrap();
        assert_eq!((numbers(&first), first.output), (vec![4], below));
        assert_eq!(first.kind, ChoiceKind::Merge);
        assert!(!first.frees_space(), "it may not take the reserve");
        // Beside it the neighbours go together, and then there is none.
        let mut claims = vec![Claim::of(&first).unwrap()];
        let second = policy.pick(levels, &claims, &NoEstimates).unwrap();
        assert_eq!((numbers(&second), second.output), (vec![1, 2], below));
        claims.push(Claim::of(&second).unwrap());
        assert!(policy.pick(levels, &claims, &NoEstimates).is_none());
        let standings = policy.candidates(levels, &claims[..1], &NoEstimates);
        let standings = standings.iter().map(|of| &of.standing);
        let ready = standings.map(|standing| matches!(standing, Standing::Ready(_)));
        assert_eq!(ready.collect::<Vec<_>>(), [false, true]);
        // What the policy wants goes first, also while it waits for another compaction.
        let wanted = Choice {
            reason: Reason::AskedFor,
            inputs: listed(below, &levels.levels[1].sub_levels[0].tables[2..3]),
            ..first.clone()
        };
        let busy = mixed(Some(wanted.clone()), &gains);
        let picked = busy.pick(levels, &[], &NoEstimates).unwrap();
        assert_eq!(numbers(&picked), [3]);
        let claims = [Claim::of(&wanted).unwrap()];
        assert!(busy.pick(levels, &claims, &NoEstimates).is_none());
        assert!(mixed(None, &[]).pick(levels, &[], &NoEstimates).is_none());
    }
}
