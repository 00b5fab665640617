//! The store as placement sees it at a moment.

use std::sync::Arc;

use terrace_lsm::compaction::placement::{
    HeatFloors, NewTable, Surroundings, TableFacts, TierFacts, tiers_for,
};
use terrace_lsm::keyspace_options::KeyspaceOptions;
use terrace_lsm::levels::{Moments, Place, Table};

use super::destination::{bytes_of_levels, facts_of, reserve_rooms_of};
use super::heat::HeatView;
use crate::db::Store;

/// The tiers and the levels of a store, the reads and the ages of its tables.
pub(crate) struct Outlook {
    pub(crate) tiers: Vec<TierFacts>,
    pub(crate) level_bytes: Vec<u64>,
    /// Bytes that are left in tiers with their reserves, while one is drained.
    reserve_rooms: Vec<(u8, u64)>,
    pub(crate) heat: Arc<HeatView>,
    moments: Moments,
    now_seconds: u64,
}

impl Store {
    /// Returns the store as placement sees it now.
    pub(crate) fn outlook(&self) -> Outlook {
        Outlook {
            tiers: facts_of(&self.files.space),
            level_bytes: bytes_of_levels(&self.reads.view.load().version),
            reserve_rooms: reserve_rooms_of(
                &self.files.space,
                self.unflushed_table_bytes() + self.next_arena_bytes(),
            ),
            heat: self.files.heat.view(),
            moments: self.files.moments.lock().clone(),
            now_seconds: self.lifecycle.clock.unix_seconds(),
        }
    }
}

impl Outlook {
    /// Returns the surroundings of tables that are there.
    pub(crate) fn of_tables<'a>(&'a self, options: &'a KeyspaceOptions) -> Surroundings<'a> {
        self.with_floors(options, &self.heat.table_floors)
    }

    /// Returns the surroundings of new tables. Compactions cut these by their reads, so they are judged as
    /// pieces are.
    fn of_new_tables<'a>(&'a self, options: &'a KeyspaceOptions) -> Surroundings<'a> {
        self.with_floors(options, &self.heat.piece_floors)
    }

    fn with_floors<'a>(
        &'a self,
        options: &'a KeyspaceOptions,
        floors: &'a HeatFloors,
    ) -> Surroundings<'a> {
        Surroundings {
            options,
            level_bytes: &self.level_bytes,
            tiers: &self.tiers,
            reserve_rooms: &self.reserve_rooms,
            floors,
            chosen: &self.heat.chosen,
        }
    }

    /// Returns a table as placement sees it.
    pub(crate) fn facts(&self, place: Place, table: &Table) -> TableFacts {
        TableFacts {
            number: table.number,
            level: place.level,
            tier: table.tier,
            size_bytes: table.size_bytes,
            age_seconds: self.age_seconds(table.max_sequence),
            reads_per_second: self.heat.reads_per_second(table.number),
            has_moved: false,
        }
    }

    /// Returns the tiers for new tables of a level, the best first. `max_sequence` is the largest sequence
    /// number among their entries, `None` if these are new.
    pub(crate) fn tiers_of_new(
        &self,
        options: &KeyspaceOptions,
        level: u8,
        max_sequence: Option<u64>,
        reads_per_byte: Option<f64>,
    ) -> Vec<u8> {
        let table = NewTable {
            level,
            age_seconds: max_sequence.map_or(0, |sequence| self.age_seconds(sequence)),
            reads_per_byte,
        };
        tiers_for(&self.of_new_tables(options), table)
    }

    fn age_seconds(&self, sequence: u64) -> u64 {
        self.moments.age_seconds(sequence, self.now_seconds)
    }
}
