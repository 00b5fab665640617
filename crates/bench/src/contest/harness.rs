//! Cost of the harness itself for an operation of each phase.
//!
//! The phases' own mixes, by one client in a closed loop, against an ordered map. The records are
//! so few that they stay in the processor's caches. The client handles the answers as it does a
//! store's. The map's own time is in the figure; the cache misses that draws from many records cost
//! are not.

use std::collections::BTreeMap;

use crate::Result;
use crate::outcome::HarnessCost;
use crate::run::{self, Plan};
use crate::stores;
use crate::workload::Phase;

const MOST_RECORDS: u64 = 2_000;
const MOST_OPERATIONS: u64 = 100_000;

/// Number of runs; the least cost counts, for a slow run is not the doing of the harness.
const RUNS: u32 = 3;

/// Returns the cost of each phase of the plan; phases of one name are one.
pub fn costs(plan: &Plan) -> Result<Vec<HarnessCost>> {
    let plan = small(plan);
    let mut costs: Vec<HarnessCost> = Vec::new();
    for repeat in 0..RUNS {
        let directory = tempfile::tempdir()?;
        let run = run::run(&stores::MAP, &plan, repeat, directory.path(), &|_| {})?;
        for phase in run.phases.iter().filter(|phase| phase.operations > 0) {
            let nanoseconds = 1e9 / phase.completed_per_second();
            match costs.iter_mut().find(|cost| cost.phase == phase.name) {
                Some(cost) => cost.nanoseconds = cost.nanoseconds.min(nanoseconds),
                None => costs.push(HarnessCost {
                    phase: phase.name.clone(),
                    nanoseconds,
                }),
            }
        }
    }
    Ok(costs)
}

fn small(plan: &Plan) -> Plan {
    let mut dataset = plan.dataset;
    dataset.records = dataset.records.clamp(1, MOST_RECORDS);
    let phases = plan.phases.iter().map(|phase| Phase {
        operations: phase.operations.min(MOST_OPERATIONS),
        clients: 1,
        ..phase.clone()
    });
    Plan {
        phases: phases.collect(),
        dataset,
        rates: BTreeMap::new(),
        label: String::new(),
        warm_up: 0.0,
        ..plan.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The values are checked and reads find the expected records, or the map would have failed.
    #[test]
    fn every_phase_of_every_workload_has_a_cost() {
        for plan in crate::work::tests::tiny_plans() {
            let costs = costs(&plan).unwrap();
            let names: BTreeSet<_> = plan.phases.iter().map(|phase| &phase.name).collect();
            assert_eq!(costs.len(), names.len());
            for HarnessCost { phase, nanoseconds } in costs {
                assert!((1.0..1e9).contains(&nanoseconds), "{phase}: {nanoseconds}");
            }
        }
    }
}
