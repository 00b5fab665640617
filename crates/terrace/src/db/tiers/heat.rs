//! The reads of tables of late, for placement by reads.
//!
//! Tables count the reads of their blocks from the file, in [`READ_PARTS`] parts of equal length. A look takes
//! the counts every few seconds and keeps a rate for each part. A read counts half as much after five
//! minutes. A compaction passes the rates of its inputs on to its outputs, by their keys. Rates are in
//! memory alone: after an opening tables stay in their places until enough was read.

mod book;

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_lsm::compaction::placement::heat::{Heat, HeatCut, competes, cuts, headroom_bytes};
use terrace_lsm::compaction::placement::{HeatFloors, TierFacts, pinned_positions};
use terrace_lsm::compaction::policy::Choice;
use terrace_lsm::levels::{KeyspaceLevels, Table, Version};
use terrace_lsm::table::{CursorOptions, READ_PARTS};
use terrace_storage::Purpose;

pub(crate) use self::book::HeatBook;
use self::book::Rates;
use super::destination::{bytes_of_levels, facts_of};
use crate::db::Store;
use crate::db::owners::Files;
use crate::{KeyspaceId, Result};

/// Reads for each table, on average, below which the rates say too little.
const MIN_READS_PER_TABLE: f64 = 8.0;
/// Part of a table that is not cut off alone.
const MIN_CUT_PART: u64 = 8;

/// The rates as of the last look.
#[derive(Default)]
pub(crate) struct HeatView {
    /// The reads that a whole table needs for its tier.
    pub(crate) table_floors: HeatFloors,
    /// The reads that a piece of a table needs for its tier.
    pub(crate) piece_floors: HeatFloors,
    /// The tiers of levels that the costs chose.
    pub(crate) chosen: Vec<String>,
    rates: BTreeMap<u64, Rates>,
}

impl HeatView {
    /// Returns the reads of a table in a second.
    pub(crate) fn reads_per_second(&self, table: u64) -> f64 {
        self.rates
            .get(&table)
            .map_or(0.0, |rates| rates.iter().sum())
    }
}

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
        let (rates, reads) = book.take_counts(&by_reads, passed_on, seconds);
        let tiers = facts_of(&self.files.space);
        let chosen = self.tiers_by_cost(&version, &tiers, &book.view().chosen);
        let view = self.view_of(rates, reads, &version, &tiers, chosen);
        book.show(view);
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

    fn view_of(
        &self,
        rates: BTreeMap<u64, Rates>,
        reads: f64,
        version: &Version,
        tiers: &[TierFacts],
        chosen: Vec<String>,
    ) -> HeatView {
        let level_bytes = bytes_of_levels(version);
        let (mut whole, mut pieces) = (Vec::new(), Vec::new());
        let mut other_bytes = BTreeMap::<u8, u64>::new();
        for levels in version.keyspaces.values() {
            let positions = pinned_positions(self.form_of(levels), tiers);
            for (place, table) in levels.tables() {
                let rates = rates.get(&table.number);
                let Some(rates) = rates.filter(|_| competes(place.level, &level_bytes)) else {
                    *other_bytes.entry(table.tier).or_default() += table.size_bytes;
                    continue;
                };
                let heat = |bytes, reads_per_second| Heat {
                    bytes,
                    reads_per_second,
                    positions,
                };
                whole.push(heat(table.size_bytes, rates.iter().sum()));
                let part_bytes = table.size_bytes / READ_PARTS as u64;
                pieces.extend(rates.iter().map(|rate| heat(part_bytes, *rate)));
            }
        }
        let says_enough = reads >= MIN_READS_PER_TABLE * whole.len() as f64;
        let room = room_for_competing(tiers, &other_bytes, headroom_bytes(&level_bytes));
        let floors = |parts: Vec<Heat>| match says_enough {
            true => HeatFloors::of(parts, &room),
            false => HeatFloors::default(),
        };
        HeatView {
            table_floors: floors(whole),
            piece_floors: floors(pieces),
            chosen,
            rates,
        }
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
        let floors = &outlook.heat.piece_floors;
        if floors.is_empty() {
            return Ok(Vec::new());
        }
        let min_bytes = form.table_bytes / MIN_CUT_PART;
        Ok(cuts(pieces, floors, &outlook.tiers, min_bytes))
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
            let rates = heat.rates.get(&table.number);
            // Each piece begins where the one before it ends.
            keys.pop();
            let starts = std::iter::once(table.bounds.smallest.clone()).chain(keys);
            let starts = starts
                .enumerate()
                .filter(|(_, key)| table.bounds.contains(key));
            pieces.extend(starts.map(|(at, from)| HeatCut {
                from,
                bytes,
                reads_per_byte: rates.map_or(0.0, |rates| {
                    rate_of(rates, at, parts) / (bytes as f64).max(1.0)
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

/// Returns the bytes of each tier that tables of deep levels compete for: all that others leave. Files in
/// progress and those that wait for their deletion do not count, or each compaction would send tables away.
fn room_for_competing(
    tiers: &[TierFacts],
    other_bytes: &BTreeMap<u8, u64>,
    headroom_bytes: u64,
) -> Vec<(u8, Option<u64>)> {
    let room = tiers.iter().enumerate().map(|(at, tier)| {
        let others = other_bytes.get(&tier.number).copied().unwrap_or(0);
        let kept_bytes = if at == 0 { headroom_bytes } else { 0 };
        let usable = tier.capacity_bytes.map(|bytes| {
            let left_bytes = bytes.saturating_sub(others);
            left_bytes.saturating_sub(kept_bytes)
        });
        (tier.number, if tier.is_open { usable } else { Some(0) })
    });
    room.collect()
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
