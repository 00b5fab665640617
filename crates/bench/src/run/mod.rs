//! One run: a store is opened and goes through all phases of a plan, in this process.

pub(crate) mod client;
mod gathered;
pub mod pace;
mod phase;
mod scan_check;
pub(crate) mod start;
mod timeline;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::linkbench::audit::audit;
use crate::linkbench::graph::InUse;
use crate::linkbench::{Graph, perform::GraphStore};
use crate::outcome::{PhaseOutcome, RunOutcome};
use crate::settings::Settings;
use crate::store::{Contestant, Opened};
use crate::tables::Tables;
use crate::workload::{Dataset, Phase, PhaseKind};

pub(crate) use client::Tally;
pub use phase::Progress;
pub use timeline::INTERVAL_MS;

/// The work of every contestant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The form of the records.
    pub dataset: Dataset,
    /// The phases, in order, the first in an empty store.
    pub phases: Vec<Phase>,
    /// Operations a second of all clients together, by the name of the phase; the others run in a
    /// closed loop.
    pub rates: BTreeMap<String, f64>,
    /// Share of its operations that each phase that does not begin empty does beforehand,
    /// unmeasured: caches are as they are after a while, and not as a load left them.
    pub warm_up: f64,
    /// Time between two samples of a phase, ms; longer in a phase that has many.
    pub sample_interval_ms: u64,
    /// Seed from which all streams are made.
    pub seed: u64,
    /// Settings of all stores.
    pub settings: Settings,
    /// Words behind the name of each phase, so that the same plan under other conditions stands
    /// beside it.
    pub label: String,
}

impl Plan {
    /// Returns the graph that it is of, if it is LinkBench's.
    pub fn graph(&self) -> Option<Graph> {
        let is_of_graph = self.phases.iter().any(Phase::is_of_graph);
        is_of_graph.then(|| Graph::new(self.dataset.records, self.seed))
    }

    /// Cuts the plan where it begins again with an empty store. All streams stay the same: they
    /// depend on the phase and the seed, not on earlier phases.
    pub fn parts(&self) -> Vec<Plan> {
        let mut parts: Vec<Plan> = Vec::new();
        for phase in &self.phases {
            match parts.last_mut() {
                Some(part) if !phase.starts_empty => part.phases.push(phase.clone()),
                _ => parts.push(Plan {
                    phases: vec![phase.clone()],
                    ..self.clone()
                }),
            }
        }
        parts
    }
}

/// Opens a store in `directory` for each part of the plan and goes through it.
///
/// # Errors
/// Any error of the store, and any answer that contradicts the workload: there are no figures of a
/// store that is wrong.
pub fn run(
    contestant: &Contestant,
    plan: &Plan,
    repeat: u32,
    directory: &Path,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<RunOutcome> {
    let values = plan.dataset.values(plan.seed);
    let mut outcome = RunOutcome {
        store: contestant.name.into(),
        repeat,
        label: plan.label.clone(),
        ..RunOutcome::default()
    };
    for (number, part) in plan.parts().iter().enumerate() {
        let directory = directory.join(number.to_string());
        fs::create_dir(&directory)?;
        let opened = (contestant.open)(&directory, &plan.settings)?;
        let graph = part.graph();
        let in_use = InUse::default();
        let graph = match &graph {
            Some(graph) => Some(GraphStore {
                tables: tables_of(&opened, contestant)?,
                graph,
                in_use: &in_use,
            }),
            None => None,
        };
        let context = phase::Context {
            store: opened.store.as_ref(),
            plan: part,
            values: &values,
            graph,
            directory: &directory,
            progress,
        };
        outcome.phases.extend(phases(&context)?);
        (outcome.durability, outcome.settings) = (opened.durability, opened.settings);
        opened.store.close()?;
        fs::remove_dir_all(&directory)?;
    }
    Ok(outcome)
}

fn tables_of<'a>(opened: &'a Opened, contestant: &Contestant) -> Result<&'a dyn Tables> {
    let needed = || {
        format!(
            "{} has no transactions over several tables, which linkbench needs",
            contestant.name
        )
    };
    opened.store.tables().ok_or_else(|| needed().into())
}

/// Phases that follow each other on one store.
fn phases(context: &phase::Context<'_>) -> Result<Vec<PhaseOutcome>> {
    let mut live_bytes = None;
    let phases = context.plan.phases.iter();
    phases
        .map(|phase| {
            phase::run(context, phase, &mut live_bytes)
                .and_then(|outcome| {
                    audited(context, phase)?;
                    Ok(outcome)
                })
                .map_err(|error| format!("phase {}: {error}", phase.name).into())
        })
        .collect()
}

/// Compares the tables of a graph with each other, and with the requests so far.
fn audited(context: &phase::Context<'_>, phase: &Phase) -> Result<()> {
    match &context.graph {
        Some(store) => audit(store, phase.kind == PhaseKind::GraphLoad),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
