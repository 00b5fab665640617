//! Tombstones that are many or old, under any policy: they are merged down until they are gone.
//!
//! A policy sees sizes, sub-levels and versions of keys. A tombstone has no older version beside
//! it, so many of them in one place look like as many keys. The versions that they hide lie where
//! no policy looks. Scans walk over both, and deleted data stays on the disk.
//!
//! Tables *full of* tombstones, by the share of their entries, and tables with *old* ones are
//! merged onto the next older sub-level that they overlap, none skipped. That is the smallest merge
//! by which a tombstone comes closer to the versions that it hides. Where nothing older overlaps
//! the tables, they are rewritten in their place, without tombstones. Each such merge leaves its
//! tombstones in an older place or nowhere. So these merges end, and one after the other the
//! tombstones reach the oldest sub-level under any policy.
//!
//! Versions that a snapshot needs cannot be dropped, and merging them would not end by itself. So
//! tables count as full, and are rewritten in their place, only if every number in them is at or
//! below that of the oldest snapshot. Then all their tombstones go, and none is looked at twice.
//! Old ones go down beside a snapshot, too, unless it is older than all of the table: where
//! snapshots come and go all the time, tables high up may never be free of them.
//!
//! Level 0 counts as one table, for it is merged soon as it is. If it is only full, not old, it
//! waits until it is no small part of the entries that it would drag along. Full tables wait until
//! the policy itself wants nothing, merges under way included. Old ones wait for level 0 alone,
//! because level 0 holds writers back. Neither is a debt that slows writers down.
//!
//! Iterators pass over tombstones, and pay for it (`db/passed_over.rs`). A table for whose merge
//! they have paid counts as full at any share: a few tombstones side by side are in the way of
//! every iterator that begins there.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::SequenceNumber;
use crate::compaction::claim::Claim;
use crate::compaction::estimates::{Duplicates, Estimates};
use crate::compaction::policy::candidate::{Candidate, Measure, Standing};
use crate::compaction::policy::inputs::listed;
use crate::compaction::policy::tiered::{all_of, is_at_rest};
use crate::compaction::policy::{
    Choice, ChoiceKind, Input, Policy, Reason, is_idle, removal, split, unless_claimed,
};
use crate::compaction::run::Run;
use crate::levels::{KeyRange, KeyspaceLevels, Place, Table};

/// Maximum number of tables of a sub-level that go at once: a merge under way keeps level 0 from
/// its keys.
pub(super) const MOST_TABLES: usize = 8;
/// Entries that a full level 0 may drag along, as a multiple of its own and those that its ranges
/// hide.
const LEVEL0_RATIO: u64 = 4;

/// Any policy, and the rules for tombstones beside it.
pub struct Tombstones {
    pub inner: Box<dyn Policy>,
    /// Percentage of tombstones from which on a table is full; 0: none is.
    pub percent: u32,
    /// Age from which on tombstones are old; 0: none is.
    pub age_seconds: u64,
    pub seen: Arc<Seen>,
}

/// Facts about tombstones that the levels do not have.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Seconds since 1970.
    pub now_seconds: u64,
    /// Time from which on tombstones of unknown age count.
    pub opened_seconds: u64,
    /// Oldest number that a reader may read at, or an older one.
    pub oldest_snapshot: SequenceNumber,
    /// Entries, about, that the range tombstones of a table hide in older tables, by its number.
    pub hidden: Arc<BTreeMap<u64, u64>>,
    /// Numbers from which on readers see nothing of a table that younger ranges hide whole, by its
    /// number.
    pub hidden_from: Arc<BTreeMap<u64, SequenceNumber>>,
    /// Numbers of tables for whose merge iterators have paid.
    pub paid_for: Arc<BTreeSet<u64>>,
}

/// Neighbouring tables of a sub-level; or all of level 0.
struct Part {
    reason: Reason,
    inputs: Vec<Input>,
}

impl Seen {
    fn age_seconds(&self, table: &Table) -> u64 {
        let since = table.oldest_tombstone_seconds;
        self.now_seconds
            .saturating_sub(since.unwrap_or(self.opened_seconds))
    }

    /// Returns whether no snapshot is in the way of anything in the table.
    fn is_free(&self, table: &Table) -> bool {
        table.max_sequence <= self.oldest_snapshot
    }

    /// Counts tombstones, a range for itself and the entries that it hides; and these with all
    /// other entries.
    fn weights<'a>(&self, tables: impl Iterator<Item = &'a Arc<Table>>) -> (u64, u64) {
        tables.fold((0, 0), |(tombstones, all), table| {
            let hidden = self.hidden.get(&table.number).copied().unwrap_or(0);
            let ranges = table.range_tombstones.saturating_add(hidden);
            (
                tombstones
                    .saturating_add(table.tombstones)
                    .saturating_add(ranges),
                all.saturating_add(table.entries).saturating_add(ranges),
            )
        })
    }

    /// Returns the percentage of all entries that are tombstones.
    fn percent<'a>(&self, tables: impl Iterator<Item = &'a Arc<Table>>) -> u64 {
        let (tombstones, all) = self.weights(tables);
        let percent = u128::from(tombstones) * 100 / u128::from(all.max(1));
        u64::try_from(percent).unwrap_or(100)
    }
}

impl Tombstones {
    fn is_old(&self, table: &Table) -> bool {
        self.age_seconds > 0
            && table.has_tombstones()
            && self.seen.age_seconds(table) >= self.age_seconds
            && table.min_sequence <= self.seen.oldest_snapshot
    }

    fn is_full(&self, tables: &[Arc<Table>]) -> bool {
        self.percent > 0
            && tables.iter().any(|table| table.has_tombstones())
            && tables.iter().all(|table| self.seen.is_free(table))
            && (self.is_paid_for(tables)
                || self.seen.percent(tables.iter()) >= u64::from(self.percent))
    }

    fn is_paid_for(&self, tables: &[Arc<Table>]) -> bool {
        let mut numbers = tables.iter().map(|table| table.number);
        numbers.any(|number| self.seen.paid_for.contains(&number))
    }

    /// Returns the parts with old tombstones, the oldest first.
    fn old_parts(&self, levels: &KeyspaceLevels) -> Vec<Part> {
        let age = |tables: &[Arc<Table>]| {
            let with = tables.iter().filter(|table| table.has_tombstones());
            with.map(|table| self.seen.age_seconds(table))
                .max()
                .unwrap_or(0)
        };
        let level0: Vec<Input> = all_of(levels, 0).collect();
        let is_due = level0.iter().any(|input| self.is_old(&input.table));
        let mut parts = parts(
            levels,
            |table| self.is_old(table),
            |table| self.seen.is_free(table),
        );
        parts.extend(is_due.then_some(level0));
        let mut parts: Vec<Part> = parts
            .into_iter()
            .map(|inputs| {
                let (level, seconds) = (level_of(&inputs), age(&tables(&inputs)));
                let reason = Reason::TombstoneAge { level, seconds };
                Part { reason, inputs }
            })
            .collect();
        parts.sort_by_key(|part| match part.reason {
            Reason::TombstoneAge { seconds, .. } => Reverse(seconds),
            _ => Reverse(0),
        });
        parts
    }

    /// Returns the parts that iterators have paid for, then the fullest first.
    fn full_parts(&self, levels: &KeyspaceLevels) -> Vec<Part> {
        let level0: Vec<Input> = all_of(levels, 0).collect();
        let is_due = self.is_full(&tables(&level0)) && self.is_worth_it(levels, &level0);
        let is_full = |table: &Arc<Table>| self.is_full(std::slice::from_ref(table));
        let is_paid_for = |table: &Arc<Table>| self.is_paid_for(std::slice::from_ref(table));
        let mut parts = parts(levels, is_full, is_paid_for);
        parts.extend(is_due.then_some(level0));
        let mut parts: Vec<Part> = parts
            .into_iter()
            .map(|inputs| {
                let (level, tables) = (level_of(&inputs), tables(&inputs));
                let percent = self.seen.percent(tables.iter());
                let reason = match self.is_paid_for(&tables) {
                    true => Reason::PassedOver { level },
                    false => Reason::Tombstones { level, percent },
                };
                Part { reason, inputs }
            })
            .collect();
        parts.sort_by_key(|part| match part.reason {
            Reason::Tombstones { percent, .. } => Reverse(percent),
            _ => Reverse(u64::MAX),
        });
        parts
    }

    /// Returns whether level 0 is no small part of the entries that it would drag along.
    fn is_worth_it(&self, levels: &KeyspaceLevels, level0: &[Input]) -> bool {
        let Some((_, dragged)) = next_older(levels, level0) else {
            return true;
        };
        let (_, weight) = self.seen.weights(tables(level0).iter());
        let entries: u64 = dragged.iter().map(|input| input.table.entries).sum();
        entries <= weight.saturating_mul(LEVEL0_RATIO)
    }

    /// Merges a part onto the next older sub-level that it overlaps; where there is none, in its
    /// own place, if that drops all of its tombstones.
    fn merge(&self, levels: &KeyspaceLevels, part: Part) -> Option<Choice> {
        let Part { reason, mut inputs } = part;
        let (output, predicted) = match next_older(levels, &inputs) {
            Some((output, dragged)) => {
                inputs.extend(dragged);
                (output, None)
            }
            None if inputs.iter().all(|input| self.seen.is_free(&input.table)) => {
                let output = oldest(&inputs)?;
                (output, all_dropped(&inputs))
            }
            None => return None,
        };
        Some(Choice {
            reason,
            // A move would keep the tombstones.
            kind: ChoiceKind::Merge,
            inputs,
            output,
            predicted,
        })
    }

    /// Returns a part as a candidate; `may_begin` if nothing goes before all of its kind.
    fn candidate(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        part: Part,
        may_begin: bool,
    ) -> Candidate {
        let measure = match part.reason {
            Reason::TombstoneAge { level, seconds } => Measure::TombstoneAge {
                level,
                seconds,
                due: self.age_seconds,
            },
            Reason::PassedOver { level } => Measure::PassedOver { level },
            _ => Measure::Tombstones {
                level: level_of(&part.inputs),
                percent: self.seen.percent(tables(&part.inputs).iter()),
                due: u64::from(self.percent),
            },
        };
        let choice = self.merge(levels, part).filter(|_| may_begin);
        let choice = choice.and_then(|choice| unless_claimed(choice, under_way));
        Candidate {
            measure,
            standing: choice.map_or(Standing::Waits, Standing::Ready),
        }
    }

    fn first_of(
        &self,
        parts: Vec<Part>,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
    ) -> Option<Choice> {
        let mut choices = parts
            .into_iter()
            .filter_map(|part| self.merge(levels, part));
        choices.find_map(|choice| unless_claimed(choice, under_way))
    }

    /// Returns whether level 0 is to go down, and cannot beside the merges under way.
    fn level0_waits(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> bool {
        let alone = || self.inner.pick(levels, &[], estimates);
        !under_way.is_empty()
            && is_at_rest(levels, 0, under_way)
            && alone().is_some_and(|choice| choice.is_of_level0())
    }
}

impl Policy for Tombstones {
    fn pick(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Option<Choice> {
        if let Some(removal) = removal::pick(levels, under_way, &self.seen) {
            return Some(removal);
        }
        let (leftover, usual) = split(self.inner.pick(levels, under_way, estimates));
        let has_tombstones = levels.tables().any(|(_, table)| table.has_tombstones());
        if !has_tombstones || usual.as_ref().is_some_and(Choice::goes_first) {
            return usual.or(leftover);
        }
        let old = self.old_parts(levels);
        if !old.is_empty()
            && !self.level0_waits(levels, under_way, estimates)
            && let Some(choice) = self.first_of(old, levels, under_way)
        {
            return Some(choice);
        }
        if usual.is_some() {
            return usual;
        }
        let full = self.full_parts(levels);
        if full.is_empty() || !is_idle(&*self.inner, levels, under_way, estimates) {
            return leftover;
        }
        self.first_of(full, levels, under_way).or(leftover)
    }

    /// Lists old tables before the usual candidates if they go first, full tables behind both, and
    /// leftovers last.
    fn candidates(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Vec<Candidate> {
        let removals = removal::candidates(levels, under_way, &self.seen);
        let mut usual = self.inner.candidates(levels, under_way, estimates);
        let leftovers = usual.extract_if(.., |candidate| candidate.is_leftover());
        let leftovers: Vec<Candidate> = leftovers.collect();
        let picked = usual.iter().find_map(Candidate::choice);
        let (is_picked, goes_first) = (picked.is_some(), picked.is_some_and(Choice::goes_first));
        let candidate = |part, may_begin| self.candidate(levels, under_way, part, may_begin);
        let old_first = !goes_first && !self.level0_waits(levels, under_way, estimates);
        let old = self.old_parts(levels).into_iter();
        let mut all: Vec<Candidate> = old.map(|part| candidate(part, old_first)).collect();
        let full_too = !is_picked && is_idle(&*self.inner, levels, under_way, estimates);
        let full = self.full_parts(levels).into_iter();
        let full: Vec<Candidate> = full.map(|part| candidate(part, full_too)).collect();
        if old_first {
            all.append(&mut usual);
        } else {
            usual.append(&mut all);
            all = usual;
        }
        all.extend(full);
        all.extend(leftovers);
        removals.into_iter().chain(all).collect()
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

/// Returns the bytes that merging a full table reads.
pub fn merge_bytes(levels: &KeyspaceLevels, place: Place, table: &Arc<Table>) -> u64 {
    let mut inputs = match place.level {
        0 => all_of(levels, 0).collect(),
        _ => vec![Input::new(place, table)],
    };
    if let Some((_, dragged)) = next_older(levels, &inputs) {
        inputs.extend(dragged);
    }
    let bytes = inputs.iter().map(|input| input.table.size_bytes);
    bytes.fold(0, u64::saturating_add)
}

fn tables(inputs: &[Input]) -> Vec<Arc<Table>> {
    inputs
        .iter()
        .map(|input| Arc::clone(&input.table))
        .collect()
}

fn level_of(inputs: &[Input]) -> u8 {
    inputs.first().map_or(0, |input| input.place.level)
}

fn oldest(inputs: &[Input]) -> Option<Place> {
    let places = inputs.iter().map(|input| input.place);
    places.min_by_key(|place| place.age)
}

/// Groups the due tables of each sub-level below level 0: neighbours that are alike go together.
fn parts(
    levels: &KeyspaceLevels,
    is_due: impl Fn(&Arc<Table>) -> bool,
    kind: impl Fn(&Arc<Table>) -> bool,
) -> Vec<Vec<Input>> {
    let mut parts = Vec::new();
    for (place, sub_level) in levels.sub_levels().filter(|(place, _)| place.level > 0) {
        let ends = |a: &Arc<Table>, b: &Arc<Table>| is_due(a) == is_due(b) && kind(a) == kind(b);
        let alike = sub_level.tables.chunk_by(ends);
        let due = alike.filter(|tables| tables.first().is_some_and(&is_due));
        let due = due.flat_map(|tables| tables.chunks(MOST_TABLES));
        parts.extend(due.map(|tables| listed(place, tables)));
    }
    parts
}

/// Returns the youngest of the older sub-levels that tables overlap, and its tables that they
/// overlap.
fn next_older(levels: &KeyspaceLevels, inputs: &[Input]) -> Option<(Place, Vec<Input>)> {
    let own = oldest(inputs)?;
    let hull = KeyRange::hull(inputs.iter().map(|input| &input.table.bounds))?;
    let mut older = levels.sub_levels().filter(|(place, _)| place.age < own.age);
    older.find_map(|(place, sub_level)| {
        let tables = sub_level.overlapping(&hull);
        let dragged: Vec<Input> = tables.iter().map(|t| Input::new(place, t)).collect();
        (!dragged.is_empty()).then_some((place, dragged))
    })
}

/// Returns the versions that rewriting these drops for certain; nothing is known of tables that
/// count for a part of their keys only.
fn all_dropped(inputs: &[Input]) -> Option<Duplicates> {
    let tables = inputs.iter().map(|input| &input.table);
    let is_whole = !tables.clone().any(|table| table.narrowed);
    let predicted = Duplicates {
        versions: tables.clone().map(|table| table.entries as f64).sum(),
        droppable: tables.map(|table| table.tombstones as f64).sum(),
    };
    Some(predicted).filter(|predicted| is_whole && predicted.droppable > 0.0)
}
