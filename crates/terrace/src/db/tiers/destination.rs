//! The tiers for the new tables of a job, by the placement and the books of the tiers.

use terrace_lsm::compaction::placement::{TierFacts, tiers_for};
use terrace_lsm::data_files::OWN_TIER;
use terrace_lsm::levels::{KeyspaceLevels, LEVELS, Version};

use super::space::{Account, Destination, SpaceBook};
use crate::db::Store;

impl Account {
    fn facts(&self) -> TierFacts {
        let capacity_bytes = self.tier.capacity_bytes;
        TierFacts {
            number: self.tier.number,
            name: self.tier.name.clone(),
            capacity_bytes: (capacity_bytes > 0)
                .then(|| capacity_bytes.saturating_sub(self.tier.reserve_bytes)),
            // A device that does not answer gets nothing new.
            room_bytes: self.room_bytes(false).unwrap_or(0),
            is_open: self.is_open(),
        }
    }
}

impl Store {
    /// Returns the tiers for new tables of a level. A job that makes room may take the reserves.
    pub(crate) fn destination(
        &self,
        levels: &KeyspaceLevels,
        level: u8,
        takes_reserve: bool,
    ) -> Destination {
        let book = &self.files.space;
        let tiers = match book.is_limited() {
            true => {
                let facts = facts_of(book);
                let level_bytes = bytes_of_levels(&self.reads.view.load().version);
                tiers_for(self.form_of(levels), level, &level_bytes, &facts)
            }
            false => vec![OWN_TIER],
        };
        Destination {
            tiers,
            takes_reserve,
            is_exact: false,
        }
    }
}

/// Returns the tiers as placement sees them.
pub(super) fn facts_of(book: &SpaceBook) -> Vec<TierFacts> {
    book.accounts().iter().map(Account::facts).collect()
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
