//! The reads of tables of late, for placement by reads.
//!
//! Tables count the reads of their blocks from the file, in [`READ_PARTS`] parts of equal length. A look takes
//! the counts every few seconds and keeps a rate for each part. A read counts half as much after five
//! minutes. A compaction passes the rates of its inputs on to its outputs, by their keys. Rates are in
//! memory alone: after an opening tables stay in their places until enough was read.

mod book;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_lsm::compaction::placement::heat::{HeatCut, competes, cuts};
use terrace_lsm::compaction::placement::pinned_tiers;
use terrace_lsm::compaction::policy::Choice;
use terrace_lsm::levels::{KeyspaceLevels, Table, Version};
use terrace_lsm::table::{CursorOptions, READ_PARTS};
use terrace_storage::Purpose;

pub(crate) use self::book::HeatBook;
use self::book::Rates;
pub(crate) use self::view::HeatView;
use super::destination::facts_of;
use crate::db::Store;
use crate::db::owners::Files;
use crate::options::Background;
use crate::{KeyspaceId, Result};

/// Part of a table that is not cut off alone.
const MIN_CUT_PART: u64 = 8;

impl Store {
    /// Takes the counts of tables, if the last look is some seconds old and a keyspace goes by reads.
    pub(crate) fn look_at_heat(&self) {
        let version = Arc::clone(&self.reads.view.load().version);
        let by_reads = self.tables_by_reads(&version);
        if by_reads.is_empty() {
            return;
        }
        let book = &self.files.heat;
        let now_seconds = self.lifecycle.clock.unix_seconds();
        let Some(seconds) = book.begin_look(now_seconds) else {
            return;
        };
        // Files may have to be read, and compactions wait for the book.
        let passed_on = self.files.passed_on(&by_reads);
        let (shown, reads) = book.take_counts(&by_reads, passed_on, seconds);
        let tiers = facts_of(&self.files.space);
        let chosen = self.tiers_by_cost(&version, &tiers, &book.view().chosen);
        let mut view = self.view_of(shown, reads, &version, &tiers);
        view.chosen = chosen;
        let gains = self.gains_of_divisions(&view, &version, &tiers);
        book.show(view);
        // A step of a store without threads asks for none of another kind: two callers would wait for each other.
        let has_threads = self.options.background == Background::Threads;
        if book.show_gains(gains, now_seconds) && has_threads {
            self.lifecycle.background.compaction_wanted(self);
        }
    }

    /// Returns the tables of keyspaces that go by reads.
    fn tables_by_reads<'a>(&self, version: &'a Version) -> Vec<(KeyspaceId, &'a Arc<Table>)> {
        let keyspaces = version.keyspaces.values();
        let by_reads = keyspaces.filter(|levels| self.form_of(levels).placement.is_by_reads());
        let tables = by_reads.flat_map(|levels| {
            let tables = levels.tables();
            tables.map(|(_, table)| (levels.id, table))
        });
        tables.collect()
    }

    /// Returns the parts of a compaction's output that are for different tiers, and has the outputs get the
    /// rates of the inputs.
    pub(crate) fn heat_cuts(
        &self,
        levels: &KeyspaceLevels,
        choice: &Choice,
    ) -> Result<Vec<HeatCut>> {
        let form = self.form_of(levels);
        let outlook = self.outlook();
        let is_by_reads = form.placement.is_by_reads() && self.files.space.is_limited();
        if !is_by_reads || !competes(choice.output.level, &outlook.level_bytes) {
            return Ok(Vec::new());
        }
        let pieces = self.files.pieces_of(choice, &outlook.heat)?;
        self.files.heat.pass_on(levels.id, &pieces);
        let floors = &outlook.heat.cut_floors;
        if floors.is_empty() {
            return Ok(Vec::new());
        }
        let min_bytes = form.table_bytes / MIN_CUT_PART;
        let tiers = pinned_tiers(form, &outlook.tiers);
        Ok(cuts(pieces, floors, &tiers, min_bytes))
    }
}

impl Files {
    /// Returns the rates that compactions passed on to tables that were not seen before. A table that cannot be
    /// opened has none.
    fn passed_on(&self, tables: &[(KeyspaceId, &Arc<Table>)]) -> BTreeMap<u64, Rates> {
        let (new, waiting) = self.heat.unseen(tables);
        let rates = new.into_iter().filter_map(|(keyspace, table)| {
            let is_of = |piece: &&HeatCut| table.bounds.contains(&piece.from);
            let mut pieces = waiting.iter().filter_map(|of| {
                let pieces = of.pieces.iter().filter(is_of);
                let pieces: Vec<&HeatCut> = pieces.collect();
                (of.keyspace == keyspace && !pieces.is_empty()).then_some(pieces)
            });
            let rates = self.rates_of(table, &pieces.next()?);
            Some((table.number, rates.ok()?))
        });
        rates.collect()
    }

    /// Returns the rates of the parts of a table by the pieces that lie in them.
    fn rates_of(&self, table: &Arc<Table>, pieces: &[&HeatCut]) -> Result<Rates> {
        let options = CursorOptions::uncached(Purpose::Other);
        let keys = table.open(&self.tables)?.sampled_keys(options)?;
        let mut rates = [0.0; READ_PARTS];
        for piece in pieces {
            let behind = keys.partition_point(|key| *key <= piece.from);
            let part = behind * READ_PARTS / keys.len().max(1);
            if let Some(rate) = rates.get_mut(part.min(READ_PARTS - 1)) {
                *rate += piece.reads_per_byte * piece.bytes as f64;
            }
        }
        Ok(rates)
    }

    /// Returns the pieces of a compaction's inputs in the order of their keys.
    fn pieces_of(&self, choice: &Choice, heat: &HeatView) -> Result<Vec<HeatCut>> {
        let options = CursorOptions::uncached(Purpose::Compaction);
        let mut pieces = Vec::new();
        for input in &choice.inputs {
            let table = &input.table;
            let mut keys = table.open(&self.tables)?.sampled_keys(options)?;
            let parts = keys.len().max(1);
            let bytes = table.size_bytes / parts as u64;
            let shown = heat.shown.get(&table.number);
            // Each piece begins where the one before it ends.
            keys.pop();
            let starts = std::iter::once(table.bounds.smallest.clone()).chain(keys);
            let starts = starts
                .enumerate()
                .filter(|(_, key)| table.bounds.contains(key));
            pieces.extend(starts.map(|(at, from)| HeatCut {
                from,
                bytes,
                reads_per_byte: shown.map_or(0.0, |shown| {
                    rate_of(&shown.rates, at, parts) / (bytes as f64).max(1.0)
                }),
            }));
        }
        pieces.sort_by(|a, b| a.from.cmp(&b.from));
        Ok(pieces)
    }
}

/// Returns the reads of a piece, one of `parts` of equal length.
fn rate_of(rates: &Rates, piece: usize, parts: usize) -> f64 {
    let scale = READ_PARTS as f64 / parts as f64;
    let (from, to) = (piece as f64 * scale, (piece + 1) as f64 * scale);
    let shares = rates.iter().enumerate().map(|(at, rate)| {
        let inside = (to.min(at as f64 + 1.0) - from.max(at as f64)).max(0.0);
        inside * rate
    });
    shares.sum()
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_piece_has_the_reads_of_the_parts_that_it_covers() {
        let mut rates = [0.0; READ_PARTS];
        rates[0] = 4.0;
        rates[READ_PARTS - 1] = 8.0;
        assert_eq!(rate_of(&rates, 0, 1), 12.0);
        assert_eq!([rate_of(&rates, 0, 2), rate_of(&rates, 1, 2)], [4.0, 8.0]);
        // Pieces that are smaller than a part share its reads.
        assert_eq!(rate_of(&rates, 1, READ_PARTS * 2), 2.0);
        let thirds: f64 = (0..3).map(|piece| rate_of(&rates, piece, 3)).sum();
        assert!((thirds - 12.0).abs() < 1e-9);
    }
}
