//! Superseded versions that a snapshot held, under any policy: they are dropped when the snapshot is gone.
//!
//! A merge beside a snapshot keeps the versions that the snapshot sees. Such a version then lies
//! beside the newer one in one table. No policy looks for it there: the table overlaps nothing
//! below, and no sub-level is too many. So each table notes its superseded versions
//! ([`crate::table::Superseded`]). When no snapshot needs one of them any more, and they are a
//! quarter of the table's bytes, the table is rewritten in its place.
//!
//! Such a merge waits until nothing else may begin, and is no debt that slows writers down. One
//! function ([`drops_superseded`]) decides whether a merge drops a version and whether a table is
//! due. So a table is due only if the merge drops all noted versions, and no table is rewritten for
//! ever. A merge that drops less than half of them is a setback all the same, and its tables wait
//! for more.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use crate::SequenceNumber;
use crate::compaction::claim::Claim;
use crate::compaction::drop_rules::drops_superseded;
use crate::compaction::estimates::{Duplicates, Estimates};
use crate::compaction::policy::candidate::{Candidate, Measure, Standing};
use crate::compaction::policy::inputs::{listed, neighbours};
use crate::compaction::policy::tombstones::MOST_TABLES;
use crate::compaction::policy::{
    Choice, ChoiceKind, Input, Policy, Reason, is_idle, split, unless_claimed,
};
use crate::compaction::run::Run;
use crate::levels::{KeyspaceLevels, Table};

/// Percentage of a table's bytes from which on its superseded versions make it due.
pub(crate) const DUE_PERCENT: u64 = 25;

/// Any policy, and the rule for superseded versions beside it.
pub struct Superseded<P> {
    pub inner: P,
    pub seen: Arc<Seen>,
}

/// The snapshots, and the tables that are not to be tried again.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Ascending; the last is the visible number.
    pub snapshots: Vec<SequenceNumber>,
    /// Tables of places where a merge dropped less than half of the noted versions.
    pub set_back: BTreeSet<u64>,
}

/// Returns whether a merge of the table alone drops all of its superseded versions.
pub fn are_droppable(table: &Table, snapshots: &[SequenceNumber]) -> bool {
    // Every version of the table is at or above its smallest number.
    table.superseded.is_some_and(|superseded| {
        drops_superseded(snapshots, table.min_sequence, superseded.largest_by)
    })
}

/// Returns the percentage of the tables' bytes that are superseded.
fn percent<'a>(tables: impl Iterator<Item = &'a Arc<Table>>) -> u64 {
    let (superseded, all) = tables.fold((0u64, 0u64), |(superseded, all), table| {
        let bytes = table.superseded.map_or(0, |noted| noted.bytes);
        (
            superseded.saturating_add(bytes),
            all.saturating_add(table.size_bytes),
        )
    });
    u64::try_from(u128::from(superseded) * 100 / u128::from(all.max(1))).unwrap_or(100)
}

fn percent_of(inputs: &[Input]) -> u64 {
    percent(inputs.iter().map(|input| &input.table))
}

/// Returns the merge of neighbouring tables of a sub-level in their place.
fn in_place(inputs: Vec<Input>) -> Option<Choice> {
    let output = inputs.first()?.place;
    let tables = inputs.iter().map(|input| &input.table);
    // The note is that of the file.
    let is_whole = !tables.clone().any(|table| table.narrowed);
    let noted = tables.clone().filter_map(|table| table.superseded);
    let predicted = Duplicates {
        versions: tables.map(|table| table.entries as f64).sum(),
        droppable: noted.map(|noted| noted.versions as f64).sum(),
    };
    Some(Choice {
        reason: Reason::Superseded {
            level: output.level,
            percent: percent_of(&inputs),
        },
        // A move would keep the superseded versions.
        kind: ChoiceKind::Merge,
        output,
        predicted: is_whole.then_some(predicted),
        inputs,
    })
}

impl Seen {
    fn is_due(&self, table: &Arc<Table>) -> bool {
        are_droppable(table, &self.snapshots)
            && percent(std::iter::once(table)) >= DUE_PERCENT
            && !self.set_back.contains(&table.number)
    }

    /// Returns the due tables of each sub-level, neighbours together; those with the largest share first.
    fn parts(&self, levels: &KeyspaceLevels) -> Vec<Vec<Input>> {
        let due = neighbours(levels, |table| self.is_due(table));
        let chunks = due.flat_map(|(place, tables)| {
            let chunks = tables.chunks(MOST_TABLES);
            chunks.map(move |tables| listed(place, tables))
        });
        let mut parts: Vec<Vec<Input>> = chunks.collect();
        parts.sort_by_key(|inputs| Reverse(percent_of(inputs)));
        parts
    }
}

impl<'p, P: Deref<Target = dyn Policy + 'p> + Send + Sync> Policy for Superseded<P> {
    fn pick(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Option<Choice> {
        let (leftover, usual) = split(self.inner.pick(levels, under_way, estimates));
        if usual.is_some() {
            return usual;
        }
        let parts = self.seen.parts(levels);
        if parts.is_empty() || !is_idle(&*self.inner, levels, under_way, estimates) {
            return leftover;
        }
        let mut choices = parts.into_iter().filter_map(in_place);
        let choice = choices.find_map(|choice| unless_claimed(choice, under_way));
        choice.or(leftover)
    }

    /// Lists superseded versions behind the candidates of the inner policy.
    fn candidates(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Vec<Candidate> {
        let mut all = self.inner.candidates(levels, under_way, estimates);
        let leftovers = all.extract_if(.., |candidate| candidate.is_leftover());
        let leftovers: Vec<Candidate> = leftovers.collect();
        let is_picked = all.iter().any(|candidate| candidate.choice().is_some());
        let may_begin = !is_picked && is_idle(&*self.inner, levels, under_way, estimates);
        all.extend(self.seen.parts(levels).into_iter().filter_map(|inputs| {
            let measure = Measure::Superseded {
                level: inputs.first()?.place.level,
                percent: percent_of(&inputs),
                due: DUE_PERCENT,
            };
            let choice = in_place(inputs).filter(|_| may_begin);
            let choice = choice.and_then(|choice| unless_claimed(choice, under_way));
            Some(Candidate {
                measure,
                standing: choice.map_or(Standing::Waits, Standing::Ready),
            })
        }));
        all.extend(leftovers);
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
