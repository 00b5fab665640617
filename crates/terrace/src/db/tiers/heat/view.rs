//! The rates as of a look: the floors of tiers, and the tables that are to be divided.

use std::collections::BTreeMap;

use terrace_lsm::compaction::placement::heat::{
    Heat, HeatCut, competes, gain_of_cuts, headroom_bytes,
};
use terrace_lsm::compaction::placement::{
    HeatFloors, Positions, TierFacts, pinned_positions, pinned_tiers,
};
use terrace_lsm::levels::Version;
use terrace_lsm::table::READ_PARTS;

use super::MIN_CUT_PART;
use super::book::Shown;
use crate::db::Store;
use crate::db::tiers::destination::bytes_of_levels;

/// Reads for each table, on average, below which the rates say too little.
const MIN_READS_PER_TABLE: f64 = 8.0;
/// Time in which the compaction that divides a table pays.
const PAYS_WITHIN_SECONDS: f64 = 3600.0;
const BLOCK_BYTES: u64 = 4096;
/// Standard deviations of chance from which on a gain is one.
const SURE_DEVIATIONS: f64 = 3.0;

/// The rates as of the last look.
#[derive(Default)]
pub(crate) struct HeatView {
    /// The reads that a whole table needs for its tier.
    pub(crate) table_floors: HeatFloors,
    /// The reads that a piece of a table needs for its tier.
    pub(crate) piece_floors: HeatFloors,
    /// The price of bytes for which a table is cut. Where all that is read fits, pieces ask for next to nothing, and cold
    /// bytes would go along. So the price is half of the mean at least.
    pub(super) cut_floors: HeatFloors,
    /// The tiers of levels that the costs chose.
    pub(crate) chosen: Vec<String>,
    pub(super) shown: BTreeMap<u64, Shown>,
}

impl HeatView {
    /// Returns the reads of a table in a second.
    pub(crate) fn reads_per_second(&self, table: u64) -> f64 {
        let shown = self.shown.get(&table);
        shown.map_or(0.0, |shown| shown.rates.iter().sum())
    }
}

impl Store {
    /// Returns the view of some rates.
    pub(super) fn view_of(
        &self,
        shown: BTreeMap<u64, Shown>,
        reads: f64,
        version: &Version,
        tiers: &[TierFacts],
    ) -> HeatView {
        let level_bytes = bytes_of_levels(version);
        let (mut whole, mut pieces) = (Vec::new(), Vec::new());
        let mut other_bytes = BTreeMap::<u8, u64>::new();
        for levels in version.keyspaces.values() {
            let positions = pinned_positions(self.form_of(levels), tiers);
            for (place, table) in levels.tables() {
                let shown = shown.get(&table.number);
                let Some(shown) = shown.filter(|_| competes(place.level, &level_bytes)) else {
                    *other_bytes.entry(table.tier).or_default() += table.size_bytes;
                    continue;
                };
                let heat = |bytes, reads_per_second| Heat {
                    bytes,
                    reads_per_second,
                    positions,
                };
                whole.push(heat(table.size_bytes, shown.rates.iter().sum()));
                // As large as those that are cut off: smaller ones look hot by chance.
                let parts = shown.rates.chunks(READ_PARTS / MIN_CUT_PART as usize);
                let part_bytes = table.size_bytes / MIN_CUT_PART;
                pieces.extend(parts.map(|rates| heat(part_bytes, rates.iter().sum())));
            }
        }
        if reads < MIN_READS_PER_TABLE * whole.len() as f64 {
            return HeatView {
                shown,
                ..HeatView::default()
            };
        }
        let room = room_for_competing(tiers, &other_bytes, headroom_bytes(&level_bytes));
        let piece_floors = HeatFloors::of(pieces, &room);
        let mean = mean_reads_per_byte(&whole);
        let cut_floors = piece_floors.clone().at_least(mean / 2.0);
        HeatView {
            table_floors: HeatFloors::of(whole, &room),
            piece_floors,
            cut_floors,
            shown,
            ..HeatView::default()
        }
    }

    /// Returns the tables whose parts are worth different tiers, with the gains of dividing them in reads in a second.
    pub(super) fn gains_of_divisions(
        &self,
        view: &HeatView,
        version: &Version,
        tiers: &[TierFacts],
    ) -> BTreeMap<u64, f64> {
        let level_bytes = bytes_of_levels(version);
        let mut gains = BTreeMap::new();
        let floors = &view.cut_floors;
        if floors.is_empty() {
            return gains;
        }
        for levels in version.keyspaces.values() {
            let form = self.form_of(levels);
            let kept: Vec<TierFacts> = pinned_tiers(form, tiers).into_owned();
            let min_bytes = form.table_bytes / MIN_CUT_PART;
            let tables = levels.tables();
            for (_, table) in tables.filter(|(place, _)| competes(place.level, &level_bytes)) {
                if let Some(shown) = view.shown.get(&table.number)
                    && let pieces = shown.pieces(table.size_bytes)
                    && let gain = gain_of_cuts(&pieces, floors, &kept, min_bytes)
                    && shown.is_worth_it(gain, table.size_bytes)
                {
                    gains.insert(table.number, gain);
                }
            }
        }
        gains
    }
}

impl Shown {
    /// Returns the parts of a table's file. Their keys are left out.
    fn pieces(&self, table_bytes: u64) -> Vec<HeatCut> {
        let bytes = table_bytes / READ_PARTS as u64;
        let piece = |rate: &f64| HeatCut {
            from: Vec::new(),
            bytes,
            reads_per_byte: rate / (bytes as f64).max(1.0),
        };
        self.rates.iter().map(piece).collect()
    }

    /// Returns whether a table is to be divided for a gain of some reads in a second. The compaction has to pay: within
    /// an hour more reads gain than blocks of 4 KiB are written. And the gain is not to be chance: of `n` reads
    /// chance makes parts of one over the root of `n`.
    fn is_worth_it(&self, gain: f64, table_bytes: u64) -> bool {
        let all: f64 = self.rates.iter().sum();
        let share = if all > 0.0 { gain / all } else { 0.0 };
        let is_chance = share * self.counted_reads.sqrt() < SURE_DEVIATIONS;
        !is_chance && gain * PAYS_WITHIN_SECONDS >= (table_bytes / BLOCK_BYTES) as f64
    }
}

fn mean_reads_per_byte(tables: &[Heat]) -> f64 {
    let sum = Heat {
        bytes: tables.iter().map(|table| table.bytes).sum(),
        reads_per_second: tables.iter().map(|table| table.reads_per_second).sum(),
        positions: Positions::ALL,
    };
    sum.reads_per_byte()
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
    fn a_division_pays_and_is_no_chance() {
        let shown = |counted_reads, all| {
            let mut rates = [0.0; READ_PARTS];
            rates[0] = all;
            Shown {
                rates,
                counted_reads,
            }
        };
        // A tenth of the reads: 3 deviations of 900.
        assert!(shown(900.0, 10.0).is_worth_it(1.0, 1 << 20));
        assert!(!shown(899.0, 10.0).is_worth_it(1.0, 1 << 20));
        // In an hour it serves 3,600 reads.
        assert!(shown(900.0, 10.0).is_worth_it(1.0, 3600 << 12));
        assert!(!shown(900.0, 10.0).is_worth_it(1.0, 3601 << 12));
        assert!(!shown(0.0, 0.0).is_worth_it(0.0, 1 << 20));
    }
}
