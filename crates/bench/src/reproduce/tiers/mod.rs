//! RocksDB on tiered storage (2018): levels of a tree on a hard disk, SATA flash and NVMe flash.
//!
//! `devices` emulates the paper's devices, and `store` loads a store once, copies it for each run and places
//! it. `experiment` has the compared cases. `run` and `measured` have the findings, and `sections` and `claims`
//! show them.

mod claims;
mod clients;
mod cost;
pub mod devices;
mod experiment;
mod measured;
mod paper;
mod prediction;
mod run;
mod sections;
mod setting;
mod store;
mod table_rows;
mod traffic;

use serde::{Deserialize, Serialize};

use super::arguments::Tiers;
use super::report::{Reproduction, Section};
use crate::contest;
use crate::output::tell;
use crate::{Result, machine};
use experiment::Experiment;
use setting::Setting;

pub use experiment::Found;
pub use measured::Measured;
pub use prediction::{Check, Predicted};
pub use run::{DeviceTraffic, LevelTraffic, Run};
pub use setting::Memory;

/// All that was measured, as numbers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// The sweep of data size.
    pub sizes: Found,
    /// The nine placements.
    pub placements: Found,
    /// The placements of five levels.
    pub five_levels: Found,
    /// Each case over its repeats.
    pub measured: Vec<Measured>,
    /// Predictions of the cost model.
    pub predicted: Vec<Predicted>,
    /// The predictions beside the measurements.
    pub checks: Vec<Check>,
}

impl Figures {
    fn measured(&self, case: &str, memory: Memory) -> Option<&Measured> {
        let mut measured = self.measured.iter();
        measured.find(|one| one.case == case && one.memory == memory)
    }

    fn predicted(&self, case: &str, memory: Memory) -> Option<&Predicted> {
        let mut predicted = self.predicted.iter();
        predicted.find(|one| one.case == case && one.memory == memory)
    }

    fn repeats(&self) -> u32 {
        let repeats = self.placements.runs.iter().map(|run| run.repeat + 1);
        repeats.max().unwrap_or(0)
    }
}

/// Measures every figure.
///
/// # Errors
/// Arguments that make no sense, a directory that cannot be written to, a store that fails, and an answer that
/// contradicts the graph.
pub fn reproduce(asked: &Tiers, command: &str) -> Result<Reproduction<Figures>> {
    let setting = Setting::of(asked)?;
    contest::check_directory(&setting.directory)?;
    let place = tempfile::Builder::new()
        .prefix("terrace-tiers-")
        .tempdir_in(&setting.directory)?;
    let hold = |experiment: Experiment| experiment.hold(&setting, place.path());
    let mut figures = Figures {
        sizes: hold(Experiment::sizes())?,
        placements: hold(Experiment::placements())?,
        five_levels: hold(Experiment::five_levels())?,
        ..Figures::default()
    };
    tell("tiers: done");
    summarise(&mut figures, &setting);
    Ok(Reproduction {
        command: command.into(),
        paper: paper::TITLE.into(),
        model: None,
        conditions: setting.conditions(),
        machine: machine::describe(&setting.directory),
        sections: sections(&figures),
        claims: claims::claims(&figures, !setting.is_tiny),
        figures,
    })
}

/// Adds the figures of cases and the predictions.
fn summarise(figures: &mut Figures, setting: &Setting) {
    let experiments = [
        (Experiment::sizes(), &figures.sizes),
        (Experiment::placements(), &figures.placements),
        (Experiment::five_levels(), &figures.five_levels),
    ];
    let mut measured = Vec::new();
    for (experiment, found) in experiments {
        for case in &experiment.cases {
            for memory in Memory::ALL {
                measured.extend(Measured::of(&found.runs, &case.name, memory, setting.scale));
            }
        }
    }
    figures.measured = measured;
    prediction::predict(figures, setting);
}

fn sections(figures: &Figures) -> Vec<Section> {
    let mut sections = vec![
        sections::sizes(figures),
        sections::placements(figures),
        sections::differences(figures),
        sections::five_levels(figures),
    ];
    sections.extend(prediction::section(figures));
    sections
}
