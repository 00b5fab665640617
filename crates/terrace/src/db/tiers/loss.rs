//! Tables in tiers that are missing: compactions keep away from them.

use terrace_lsm::compaction::claim::Claim;
use terrace_lsm::levels::KeyspaceLevels;

use crate::db::owners::Files;

impl Files {
    /// Returns claims on the tables of a keyspace that lie in missing tiers. So no compaction takes one as an
    /// input, and none puts its outputs beside one.
    pub(crate) fn claims_of_lost(&self, levels: &KeyspaceLevels) -> Vec<Claim> {
        let data = &self.data;
        if !data.has_lost_tiers() {
            return Vec::new();
        }
        let lost = levels
            .tables()
            .filter(|(_, table)| !data.is_present(table.tier));
        lost.map(|(place, table)| {
            Claim::new(table.bounds.clone(), place.age, place, [table.number], [])
        })
        .collect()
    }
}
