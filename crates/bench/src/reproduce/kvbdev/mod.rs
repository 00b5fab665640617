//! A key-value store on the storage node (KVBDEV, 2022), beside an LSM tree on the host.
//!
//! `systems` holds the compared stores, and `contests` the phases of a run. `measured` reads runs
//! off, and each section has a file.

mod claims;
mod contests;
mod fill;
mod gaps;
mod index_memory;
mod measured;
mod paper;
mod recovery;
mod setting;
mod systems;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::arguments::Kvbdev;
use super::report::{Reproduction, Section};
use crate::contest::{self, Program};
use crate::outcome::{Contest, Failure};
use crate::{Result, machine, node};
use setting::Setting;
use systems::System;

pub use index_memory::IndexMemory;
pub use measured::{Measured, Repeat};
pub use recovery::Recovery;
pub use systems::CONTESTANTS;

/// All that was measured, as numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// Each system in each phase.
    pub measured: Vec<Measured>,
    /// Memory of the node's index.
    pub index_memory: IndexMemory,
    /// Systems that were killed and opened again.
    pub recovery: Recovery,
    /// All runs.
    pub contest: Contest,
}

impl Figures {
    /// Checks that no system has failed.
    ///
    /// # Errors
    /// The failures of all systems, with their phases.
    pub fn succeeded(&self) -> Result<()> {
        let failures = self.contest.failures.iter().chain(&self.recovery.failures);
        Failure::none_of(&failures.cloned().collect::<Vec<_>>())
    }
}

/// Measures every figure.
///
/// # Errors
/// Arguments that make no sense, a directory that cannot be written to, and the failure of all
/// systems: a single system that fails is left out, and reported.
pub fn reproduce(
    program: &Program,
    asked: &Kvbdev,
    command: &str,
) -> Result<Reproduction<Figures>> {
    let setting = Setting::of(asked)?;
    contest::check_directory(&setting.directory)?;
    let systems = systems::known(program);
    say("the node's file");
    let place = tempfile::Builder::new()
        .prefix("terrace-kvbdev-")
        .tempdir_in(&setting.directory)?;
    let file = place.path().join("node");
    node::make_file(&file, setting.dataset().expected_bytes())?;
    say("fillsequential, reads and overwrites");
    let contest = contests::hold(program, &setting, &systems, &file, command)?;
    say("memory of the index");
    let index_memory = index_memory::measure(&setting, &file)?;
    say("recovery");
    let recovery = recovery::measure(program, &setting, &systems, &file)?;
    let figures = Figures {
        measured: measured::measured(&contest),
        index_memory,
        recovery,
        contest,
    };
    let mut machine = machine::describe(&setting.directory);
    machine.harness = figures.contest.machine.harness.clone();
    Ok(Reproduction {
        command: command.into(),
        paper: paper::TITLE.into(),
        model: None,
        conditions: conditions(&setting, &systems, &figures),
        machine,
        sections: sections(&figures, &systems),
        claims: claims::claims(&figures.measured, !setting.tiny),
        figures,
    })
}

/// Says how far it is; contests report their own runs.
fn say(part: &str) {
    crate::output::tell(&format!("kvbdev: {part}"));
}

/// Returns the setting, and the nature and durability of each system.
fn conditions(setting: &Setting, systems: &[System], figures: &Figures) -> Vec<(String, String)> {
    let mut conditions = setting.conditions();
    for system in systems {
        let mut runs = figures.contest.runs.iter();
        let promised = runs.find(|run| run.store == system.name && run.label.is_empty());
        let promised = promised.map_or("no run", |run| run.durability.as_str());
        let text = format!("{}; durable runs: {promised}", system.about);
        conditions.push((system.name.into(), text));
    }
    conditions
}

fn sections(figures: &Figures, systems: &[System]) -> Vec<Section> {
    let measured = &figures.measured;
    let mut sections = vec![
        fill::durable(measured, systems),
        fill::unsynced(measured, systems),
        gaps::section(measured, systems),
        gaps::clients_section(measured, systems),
        index_memory::section(&figures.index_memory),
        recovery::section(&figures.recovery, systems),
    ];
    // First the notes without which a reader errs.
    if let (Err(failed), Some(first)) = (figures.succeeded(), sections.first_mut()) {
        first.notes.insert(0, failed.to_string());
    }
    sections
}
