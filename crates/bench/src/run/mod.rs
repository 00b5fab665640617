//! One run: a store is opened and goes through all phases of a plan, in this process.

mod client;
pub mod pace;
mod phase;
mod timeline;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::outcome::{PhaseOutcome, RunOutcome};
use crate::settings::Settings;
use crate::store::Contestant;
use crate::workload::{Dataset, Phase};

pub use phase::Progress;

/// What every contestant goes through.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// What the records are like.
    pub dataset: Dataset,
    /// The phases, in order, the first in an empty store.
    pub phases: Vec<Phase>,
    /// Operations a second of all clients together, by the name of the phase; the others run in a
    /// closed loop.
    pub rates: BTreeMap<String, f64>,
    /// Of its operations each phase that does not begin empty does so many more beforehand, which are
    /// not measured: caches are as they are after a while, and not as a load left them.
    pub warm_up: f64,
    /// From which all streams are made.
    pub seed: u64,
    /// What all stores are told.
    pub settings: Settings,
    /// Behind the name of each phase, so that the same plan under other conditions stands beside it.
    pub label: String,
}

/// Opens the store in `directory` and goes through the plan.
///
/// # Errors
/// Whatever the store answers with an error or not as the workload knows it must: there are no
/// figures of a store that is wrong.
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
        ..RunOutcome::default()
    };
    let mut rest = plan.phases.as_slice();
    while let Some((first, others)) = rest.split_first() {
        let more = others
            .iter()
            .take_while(|phase| !phase.starts_empty)
            .count();
        let (one_store, behind) = rest.split_at(more + 1);
        rest = behind;
        let directory = directory.join(&first.name);
        fs::create_dir(&directory)?;
        let opened = (contestant.open)(&directory, &plan.settings)?;
        let context = phase::Context {
            store: opened.store.as_ref(),
            plan,
            values: &values,
            directory: &directory,
            progress,
        };
        outcome.phases.extend(phases(&context, one_store)?);
        (outcome.durability, outcome.settings) = (opened.durability, opened.settings);
        opened.store.close()?;
        fs::remove_dir_all(&directory)?;
    }
    Ok(outcome)
}

/// Phases that follow each other on one store.
fn phases(context: &phase::Context<'_>, phases: &[Phase]) -> Result<Vec<PhaseOutcome>> {
    let mut live_bytes = 0;
    phases
        .iter()
        .map(|phase| {
            phase::run(context, phase, &mut live_bytes)
                .map_err(|error| format!("phase {}: {error}", phase.name).into())
        })
        .collect()
}

#[cfg(test)]
mod tests;
