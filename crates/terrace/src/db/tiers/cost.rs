//! The tiers of upper levels by their costs, for the placement `auto`.

use terrace_lsm::compaction::cost::{LevelTraffic, Load, TierCost, Traffic};
use terrace_lsm::compaction::placement::{TierFacts, auto};
use terrace_lsm::keyspace_options::Placement;
use terrace_lsm::levels::Version;

use super::destination::bytes_of_levels;
use crate::db::Store;

/// Threads that the prediction assumes. The order of placements hardly depends on their number.
const THREADS: u32 = 8;
/// Time of a request on a processor that the prediction assumes, in microseconds. Gains below a part of it are
/// none.
const REQUEST_US: f64 = 5.0;

impl Store {
    /// Returns the names of the tiers that serve the traffic since the opening best, for levels 0, 1, 2 and so
    /// on. It returns `chosen`, those of before, if they are about as good, or if a device is unknown.
    pub(super) fn tiers_by_cost(
        &self,
        version: &Version,
        tiers: &[TierFacts],
        chosen: &[String],
    ) -> Vec<String> {
        let mut keyspaces = version.keyspaces.values();
        let is_auto = |placement| placement == Placement::Auto;
        let accounts = self.files.space.accounts();
        let costs = accounts.iter().map(|account| {
            Some(TierCost {
                profile: account.tier.profile?,
                capacity_bytes: (account.tier.capacity_bytes > 0)
                    .then_some(account.tier.capacity_bytes),
            })
        });
        let costs: Option<Vec<TierCost>> = costs.collect();
        let Some(costs) = costs
            .filter(|costs| costs.len() == tiers.len() && costs.iter().all(TierCost::is_known))
        else {
            return chosen.to_vec();
        };
        if !keyspaces.any(|levels| is_auto(self.form_of(levels).placement)) {
            return Vec::new();
        }
        let load = Load {
            threads: THREADS,
            processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            cpu_us: REQUEST_US,
            background_cpu_us: 0.0,
        };
        let traffic = self.traffic(version);
        if !self.files.heat.is_worth_a_choice(traffic.requests) {
            return chosen.to_vec();
        }
        let wanted = auto::choose(&traffic, tiers, &costs, load, chosen);
        wanted.unwrap_or_else(|| chosen.to_vec())
    }

    /// Returns the traffic of the levels since the opening.
    fn traffic(&self, version: &Version) -> Traffic {
        let latencies = self.metrics.latencies.statistics();
        let counted = [latencies.get, latencies.write];
        let requests = counted
            .iter()
            .map(|of| of.count.saturating_mul(of.one_in.into()));
        let levels = self.files.obsolete.traffic();
        let levels = levels.iter().zip(bytes_of_levels(version));
        let levels = levels.map(|(traffic, stored_bytes)| LevelTraffic {
            stored_bytes,
            reads: traffic.reads.operations,
            read_bytes: traffic.reads.bytes,
            scanned_bytes: 0,
            flushed_bytes: traffic.flushed_bytes,
            compaction_read_bytes: traffic.reads.compaction_bytes,
            compaction_written_bytes: traffic.compacted_bytes,
        });
        Traffic {
            requests: requests.sum(),
            levels: levels.collect(),
            ..Traffic::default()
        }
    }
}
