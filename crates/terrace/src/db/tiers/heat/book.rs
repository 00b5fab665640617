//! The rates of tables from one look to the next.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use terrace_lsm::compaction::placement::heat::HeatCut;
use terrace_lsm::compaction::policy::Choice;
use terrace_lsm::levels::Table;
use terrace_lsm::sync::atomic::{AtomicU64, Ordering};
use terrace_lsm::sync::{ArcSwap, Mutex};
use terrace_lsm::table::READ_PARTS;

use super::HeatView;
use crate::KeyspaceId;

/// Time after which a read counts half as much.
const HALF_LIFE_SECONDS: f64 = 300.0;
/// Least time between two looks.
const LOOK_SECONDS: u64 = 5;
/// Pieces of compactions that wait for a look at the outputs, but for those of the last one.
const MAX_WAITING_PIECES: usize = 50_000;
/// Time after which a table that was tried may be tried again: by then other keys may be hot.
const RESTS_SECONDS: u64 = 3600;
/// Part of all requests that have to be new for another choice by cost.
const MORE_PART: u64 = 10;

/// Reads in a second of each part of a table.
pub(super) type Rates = [f64; READ_PARTS];

/// The reads of a table as a look shows them.
pub(super) struct Shown {
    pub(super) rates: Rates,
    /// Reads that were counted at this table. They fade as the rates do.
    pub(super) counted_reads: f64,
}

/// A table and its keyspace.
pub(super) type OfKeyspace<'a> = (KeyspaceId, &'a Arc<Table>);

/// The rates of all tables whose placement goes by reads.
#[derive(Default)]
pub(crate) struct HeatBook {
    state: Mutex<State>,
    view: ArcSwap<HeatView>,
    divisions: Mutex<Divisions>,
    /// Requests at the last choice of tiers by cost.
    chosen_at: AtomicU64,
}

/// The tables that are to be divided.
#[derive(Default)]
struct Divisions {
    /// The gain of each in reads in a second.
    gains: Arc<BTreeMap<u64, f64>>,
    /// Those that were tried, with the time. They rest: a compaction without room or with a damaged table would
    /// come back at once, and so would one that finds nothing to cut.
    tried: BTreeMap<u64, u64>,
}

#[derive(Default)]
struct State {
    tables: BTreeMap<u64, Known>,
    looked_seconds: Option<u64>,
    /// The largest number of a table at the last look. The counts of a larger one began after it.
    max_table: u64,
    /// Reads that were counted. They do not fade: after a quiet night the order of tables still holds.
    reads: f64,
    /// The pieces of compactions of late, for their outputs.
    waiting: VecDeque<Waiting>,
}

/// The pieces of a compaction that wait for a look at its outputs.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) keyspace: KeyspaceId,
    pub(super) pieces: Arc<[HeatCut]>,
}

struct Known {
    counted: [u32; READ_PARTS],
    rates: Rates,
    /// Part of the time constant in which the table was seen: a young table has a rate, too.
    weight: f64,
    counted_reads: f64,
}

impl HeatBook {
    /// Returns the rates as of the last look.
    pub(crate) fn view(&self) -> Arc<HeatView> {
        self.view.load_full()
    }

    /// Returns whether there were so many more requests since the last choice of tiers by cost that another one
    /// may come out.
    pub(in crate::db::tiers) fn is_worth_a_choice(&self, requests: u64) -> bool {
        let before = self.chosen_at.load(Ordering::Relaxed);
        let is_worth = requests > before.saturating_add(before / MORE_PART);
        if is_worth {
            self.chosen_at.store(requests, Ordering::Relaxed);
        }
        is_worth
    }

    /// Returns the tables that are to be divided, each with its gain in reads in a second.
    pub(crate) fn gains_of_divisions(&self) -> Arc<BTreeMap<u64, f64>> {
        Arc::clone(&self.divisions.lock().gains)
    }

    /// Shows the gains of a look, but for tables that rest. Returns whether there are any.
    pub(super) fn show_gains(&self, mut gains: BTreeMap<u64, f64>, now_seconds: u64) -> bool {
        let mut divisions = self.divisions.lock();
        // The clock may have gone back.
        let rests = |tried: u64| now_seconds.abs_diff(tried) < RESTS_SECONDS;
        divisions.tried.retain(|_, tried| rests(*tried));
        gains.retain(|table, _| !divisions.tried.contains_key(table));
        divisions.gains = Arc::new(gains);
        !divisions.gains.is_empty()
    }

    /// Notes that the inputs of a compaction are about to be divided.
    pub(crate) fn try_division(&self, choice: &Choice, now_seconds: u64) {
        let tables = choice.inputs.iter().map(|input| input.table.number);
        self.rest(tables, now_seconds);
    }

    fn rest(&self, tables: impl Iterator<Item = u64>, now_seconds: u64) {
        let mut divisions = self.divisions.lock();
        let divisions = &mut *divisions;
        let gains = Arc::make_mut(&mut divisions.gains);
        for table in tables {
            gains.remove(&table);
            divisions.tried.insert(table, now_seconds);
        }
    }

    /// Shows the rates of a look.
    pub(super) fn show(&self, view: HeatView) {
        self.view.store(Arc::new(view));
    }

    /// Returns the tables that no look has seen, and the pieces that compactions passed on, the last one first.
    pub(super) fn unseen<'a>(
        &self,
        tables: &[OfKeyspace<'a>],
    ) -> (Vec<OfKeyspace<'a>>, Vec<Waiting>) {
        let state = self.state.lock();
        let is_new = |table: &Table| !state.tables.contains_key(&table.number);
        let new = tables.iter().filter(|(_, table)| is_new(table));
        let waiting = state.waiting.iter().rev().cloned();
        (new.copied().collect(), waiting.collect())
    }

    /// Begins a look, and returns the seconds since the last one; `None` so soon after it. The first one has no
    /// time that its counts are of. Nor has one after a step of the clock back.
    pub(super) fn begin_look(&self, now_seconds: u64) -> Option<Option<u64>> {
        let mut state = self.state.lock();
        let looked = state.looked_seconds.filter(|looked| *looked <= now_seconds);
        let since = looked.map(|looked| now_seconds - looked);
        if since.is_some_and(|since| since < LOOK_SECONDS) {
            return None;
        }
        state.looked_seconds = Some(now_seconds);
        Some(since)
    }

    /// Takes the counts of some seconds; of no known time, they are left out. Returns the rates, and the reads
    /// that were counted up to now.
    pub(super) fn take_counts(
        &self,
        tables: &[OfKeyspace<'_>],
        mut passed_on: BTreeMap<u64, Rates>,
        seconds: Option<u64>,
    ) -> (BTreeMap<u64, Shown>, f64) {
        let mut state = self.state.lock();
        let stays = 0.5f64.powf(seconds.unwrap_or(0) as f64 / HALF_LIFE_SECONDS);
        let max_table = state.max_table;
        let mut known_tables = BTreeMap::new();
        for (_, table) in tables {
            let counts = table.reads_by_part();
            let known = state.tables.remove(&table.number);
            let mut known = known.unwrap_or_else(|| Known {
                counted: match table.number > max_table {
                    true => [0; READ_PARTS],
                    false => counts,
                },
                ..Known::of(passed_on.remove(&table.number))
            });
            match seconds {
                Some(seconds) => state.reads += known.take(counts, seconds as f64, stays),
                None => known.counted = counts,
            }
            known_tables.insert(table.number, known);
        }
        let numbers = tables.iter().map(|(_, table)| table.number);
        state.max_table = numbers.max().unwrap_or(0).max(max_table);
        state.tables = known_tables;
        let shown = state
            .tables
            .iter()
            .map(|(number, known)| (*number, known.shown()));
        (shown.collect(), state.reads)
    }

    /// Has the outputs of a compaction get the rates of its inputs.
    pub(super) fn pass_on(&self, keyspace: KeyspaceId, pieces: &[HeatCut]) {
        let mut state = self.state.lock();
        let pieces = pieces.into();
        state.waiting.push_back(Waiting { keyspace, pieces });
        let count = |waiting: &VecDeque<Waiting>| -> usize {
            waiting.iter().map(|of| of.pieces.len()).sum()
        };
        while state.waiting.len() > 1 && count(&state.waiting) > MAX_WAITING_PIECES {
            state.waiting.pop_front();
        }
    }
}

impl Default for Known {
    fn default() -> Self {
        Known {
            counted: [0; READ_PARTS],
            rates: [0.0; READ_PARTS],
            weight: 0.0,
            counted_reads: 0.0,
        }
    }
}

impl Known {
    /// Returns a table with the rates that a compaction passed on, or with none.
    fn of(rates: Option<Rates>) -> Known {
        Known {
            weight: if rates.is_some() { 1.0 } else { 0.0 },
            rates: rates.unwrap_or([0.0; READ_PARTS]),
            ..Known::default()
        }
    }

    /// Takes new counts, and returns the reads among them.
    fn take(&mut self, counts: [u32; READ_PARTS], seconds: f64, stays: f64) -> f64 {
        let mut reads = 0.0;
        let parts = self.rates.iter_mut().zip(&mut self.counted).zip(counts);
        for ((rate, counted), count) in parts {
            let new = f64::from(count.wrapping_sub(*counted));
            *counted = count;
            *rate = *rate * stays + new / seconds * (1.0 - stays);
            reads += new;
        }
        self.weight = self.weight * stays + (1.0 - stays);
        self.counted_reads = self.counted_reads * stays + reads;
        reads
    }

    fn shown(&self) -> Shown {
        let weight = self.weight.max(f64::MIN_POSITIVE);
        Shown {
            rates: self.rates.map(|rate| rate / weight),
            counted_reads: self.counted_reads,
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_was_tried_rests_for_an_hour() {
        let book = HeatBook::default();
        let gains = || BTreeMap::from([(7, 2.0), (8, 1.0)]);
        assert!(book.show_gains(gains(), 10_000));
        book.rest([7].into_iter(), 10_000);
        assert_eq!(*book.gains_of_divisions(), BTreeMap::from([(8, 1.0)]));
        book.show_gains(gains(), 13_599);
        assert_eq!(*book.gains_of_divisions(), BTreeMap::from([(8, 1.0)]));
        book.show_gains(gains(), 13_600);
        assert_eq!(*book.gains_of_divisions(), gains());
        // After a step of the clock back, too.
        book.rest([7].into_iter(), 13_600);
        assert!(!book.show_gains(BTreeMap::from([(7, 2.0)]), 13_599));
        assert!(book.show_gains(gains(), 10_000));
        assert_eq!(*book.gains_of_divisions(), gains());
    }

    #[test]
    fn a_rate_is_known_at_once_and_fades() {
        let mut known = Known::default();
        let stays = |seconds: f64| 0.5f64.powf(seconds / HALF_LIFE_SECONDS);
        let mut counts = [0; READ_PARTS];
        counts[3] = 50;
        assert_eq!(known.take(counts, 5.0, stays(5.0)), 50.0);
        assert!(
            (known.shown().rates[3] - 10.0).abs() < 1e-9,
            "{:?}",
            known.shown().rates
        );
        assert_eq!(known.take(counts, 300.0, stays(300.0)), 0.0, "no new ones");
        let faded = known.shown().rates[3];
        assert!(faded > 0.0 && faded < 1.0, "{faded}");
    }
}
