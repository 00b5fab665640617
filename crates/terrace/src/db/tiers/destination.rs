//! The tiers for the new tables of a job, by the placement and the books of the tiers.

use std::sync::Arc;
use std::time::Duration;

use terrace_lsm::compaction::placement::TierFacts;
use terrace_lsm::compaction::placement::heat::HeatCut;
use terrace_lsm::data_files::OWN_TIER;
use terrace_lsm::levels::{KeyspaceLevels, LEVELS, Version};

use super::space::{Account, Destination, SpaceBook};
use crate::Result;
use crate::db::Store;
use crate::db::persist_timer::Timer;
use crate::db::table_files::Expected;

impl Account {
    fn facts(&self) -> TierFacts {
        TierFacts {
            number: self.tier.number,
            name: self.tier.name.clone(),
            capacity_bytes: self.capacity_of_tables(),
            // A device that does not answer gets nothing new.
            room_bytes: self.room_bytes(false).unwrap_or(0),
            is_open: self.is_open(),
        }
    }
}

/// Time between two looks at the ages and the reads of tables.
const PAUSE: Duration = Duration::from_secs(5);

impl Store {
    /// Starts the threads that move tables, once: a store with one tier has none.
    pub(crate) fn start_placement(self: &Arc<Self>) -> Result<()> {
        self.lifecycle.background.start_migrations(self)?;
        match self.lifecycle.placement_timer.is_started() {
            true => Ok(()),
            false => Timer::start(self, |store| &store.lifecycle.placement_timer, PAUSE),
        }
    }

    /// Wakes the migrations after some time: a table may have come of age, or be read more.
    pub(crate) fn look_at_placement(&self) {
        self.lifecycle.background.migration_wanted(self);
    }

    /// Returns the tiers for new tables of a level. A job that makes room may take the reserves.
    pub(crate) fn destination(
        &self,
        levels: &KeyspaceLevels,
        level: u8,
        expected: Expected,
    ) -> Destination {
        let tiers = match self.files.space.is_limited() {
            true => {
                let form = self.form_of(levels);
                let outlook = self.outlook();
                outlook.tiers_of_new(form, level, expected.max_sequence, None)
            }
            false => vec![OWN_TIER],
        };
        Destination {
            tiers,
            takes_reserve: expected.makes_room,
            is_exact: false,
        }
    }

    /// Returns the first keys of the parts of a compaction's output, each with the tiers for its tables.
    pub(crate) fn destinations_by_heat(
        &self,
        levels: &KeyspaceLevels,
        level: u8,
        expected: Expected,
        cuts: &[HeatCut],
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        if cuts.is_empty() {
            return Vec::new();
        }
        let (form, outlook) = (self.form_of(levels), self.outlook());
        let parts = cuts.iter().map(|cut| {
            let reads = Some(cut.reads_per_byte);
            let tiers = outlook.tiers_of_new(form, level, expected.max_sequence, reads);
            (cut.from.clone(), tiers)
        });
        parts.collect()
    }
}

/// Returns the tiers as placement sees them.
pub(super) fn facts_of(book: &SpaceBook) -> Vec<TierFacts> {
    book.accounts().iter().map(Account::facts).collect()
}

/// Returns the bytes that are left with its reserve in each tier that has one, beside those that flushes may need.
/// Only tables of a drained tier take them so, so there are none while no tier is drained.
pub(super) fn reserve_rooms_of(book: &SpaceBook, flushes_bytes: u64) -> Vec<(u8, u64)> {
    let accounts = book.accounts();
    if accounts.iter().all(Account::is_open) {
        return Vec::new();
    }
    let with_reserve = accounts
        .iter()
        .filter(|account| account.tier.reserve_bytes > 0);
    let room = |account: &Account| {
        let room_bytes = account.room_bytes(true).unwrap_or(0);
        (
            account.tier.number,
            room_bytes.saturating_sub(flushes_bytes),
        )
    };
    with_reserve.map(room).collect()
}

/// Returns the bytes in each level, of all keyspaces together.
pub(super) fn bytes_of_levels(version: &Version) -> Vec<u64> {
    let mut bytes = vec![0u64; LEVELS];
    for levels in version.keyspaces.values() {
        for (sum, level) in bytes.iter_mut().zip(&levels.levels) {
            *sum = sum.saturating_add(level.size_bytes());
        }
    }
    bytes
}
