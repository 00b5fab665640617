//! Deduplication compaction (PlexDB, 2020): a tiered tree that merges a level for its duplicates.
//!
//! `points` is the table of the measured stores; `contests` runs them, `measured` reads off their
//! figures, and each section has a file. `simulation` has the figures that are simulated instead.

mod amplification;
mod claims;
mod contests;
mod measured;
mod paper;
mod points;
mod setting;
mod simulation;
mod throughput;

use serde::{Deserialize, Serialize};

use super::arguments::Plexdb;
use super::report::{Claim, Reproduction, Section, Verdict};
use crate::contest::{self, Program};
use crate::outcome::{Contest, Failure};
use crate::{Result, machine};
use points::Point;
use setting::Setting;

pub use measured::{Figure, Lookups, Measured, Space, Written};
pub(super) use paper::FILTER_BITS;
pub use points::contestants;
pub use simulation::Simulated;

/// All that was measured, as numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// The paper's load.
    pub updates: Loaded,
    /// As many writes of keys that are chosen zipfian, if that was asked for.
    pub zipfian: Option<Loaded>,
    /// Simulated figures, not measured: the paper's runs at full scale, and LSM-trie.
    #[serde(default)]
    pub simulated: Vec<Simulated>,
}

/// One load of all points.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Loaded {
    /// The points of the report.
    pub points: Vec<Measured>,
    /// All runs.
    pub contest: Contest,
}

impl Figures {
    /// Checks that no store has failed.
    ///
    /// # Errors
    /// All failures, with their stores and errors.
    pub fn succeeded(&self) -> Result<()> {
        let loads = std::iter::once(&self.updates).chain(&self.zipfian);
        let failures = loads.flat_map(|load| load.contest.failures.clone());
        Failure::none_of(&failures.collect::<Vec<_>>())
    }
}

impl Loaded {
    fn of(contest: Contest, setting: &Setting) -> Self {
        Loaded {
            points: measured::measured(&contest, setting.data_bytes()),
            contest,
        }
    }
}

/// Measures every point.
///
/// # Errors
/// Arguments that make no sense, a directory that cannot be written to, and the failure of all
/// stores: a single store that fails is left out, and reported.
pub fn reproduce(
    program: &Program,
    asked: &Plexdb,
    command: &str,
) -> Result<Reproduction<Figures>> {
    let setting = Setting::of(asked)?;
    let points = contests::chosen(program, &asked.points)?;
    contest::check_directory(&setting.directory)?;
    say("updates in random order");
    let updates = contests::updates(program, &setting, &points, command)?;
    let zipfian = match asked.zipfian {
        true => Some(zipfian(program, &setting, &points, command)?),
        false => None,
    };
    say("by simulation: 20 GB and 100 GB");
    let figures = Figures {
        simulated: simulation::simulated()?,
        updates: Loaded::of(updates, &setting),
        zipfian: zipfian.map(|contest| Loaded::of(contest, &setting)),
    };
    let mut machine = machine::describe(&setting.directory);
    machine.harness = figures.updates.contest.machine.harness.clone();
    Ok(Reproduction {
        command: command.into(),
        paper: paper::TITLE.into(),
        model: None,
        conditions: setting.conditions(),
        machine,
        sections: sections(&figures),
        claims: claims(&figures, &setting),
        figures,
    })
}

fn zipfian(
    program: &Program,
    setting: &Setting,
    points: &[&Point],
    command: &str,
) -> Result<Contest> {
    let own = points.iter().copied().filter(|point| point.is_terrace());
    let own: Vec<&Point> = own.collect();
    if own.is_empty() {
        return Err("--zipfian is of Terrace's points, and --points names none of them".into());
    }
    say("zipfian updates");
    contests::zipfian(program, setting, &own, command)
}

/// Says how far it is; contests report their own runs.
fn say(part: &str) {
    crate::output::tell(&format!("plexdb: {part}"));
}

fn claims(figures: &Figures, setting: &Setting) -> Vec<Claim> {
    let mut claims = claims::claims(&figures.updates.points);
    if !setting.tells() {
        for claim in &mut claims {
            claim.verdict = Verdict::CannotBeTold;
            claim.because = format!("So little data makes no tree. {}", claim.because);
        }
    }
    // They are of as much data as the paper's.
    claims.extend(simulation::claims(&figures.simulated));
    claims
}

fn sections(figures: &Figures) -> Vec<Section> {
    let points = &figures.updates.points;
    let simulated = &figures.simulated;
    let mut sections = vec![
        amplification::section(points, simulated),
        throughput::section(points),
    ];
    if let Some(zipfian) = &figures.zipfian {
        sections.push(amplification::zipfian_section(&zipfian.points));
    }
    sections.push(simulation::section(simulated));
    // A reader must know of failures before anything else.
    if let (Err(failed), Some(first)) = (figures.succeeded(), sections.first_mut()) {
        first.notes.insert(0, failed.to_string());
    }
    sections
}
