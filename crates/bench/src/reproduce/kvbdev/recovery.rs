//! How soon a system that was killed answers again.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::contests::own_options;
use super::fill::label;
use super::measured::text;
use super::setting::Setting;
use super::systems::System;
use crate::Result;
use crate::contest::Program;
use crate::outcome::Failure;
use crate::reopen::{self, ReopenRun, Rows};
use crate::reproduce::plexdb::Figure;
use crate::reproduce::report::{Section, Table};
use crate::settings::DurabilityClass;

/// All runs: each fills a system, kills it and opens it again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Recovery {
    /// Pairs.
    pub records: u64,
    /// Repeat by repeat.
    pub runs: Vec<ReopenRun>,
    /// Systems that failed, or lost a pair.
    pub failures: Vec<Failure>,
}

/// Holds them.
///
/// # Errors
/// All systems have failed.
pub fn measure(
    program: &Program,
    setting: &Setting,
    systems: &[System],
    file: &Path,
) -> Result<Recovery> {
    let names: Vec<String> = systems.iter().map(|one| one.name.to_string()).collect();
    let dataset = setting.small_dataset();
    let setup = reopen::Setup {
        contestants: program.named(&names)?,
        own: own_options(file),
        rows: Rows {
            dataset,
            seed: setting.seed,
            settings: setting.settings(DurabilityClass::ProcessCrash, &dataset),
        },
        repeats: setting.repeats,
        directory: setting.directory.clone(),
    };
    let (runs, failures) = reopen::hold(program, &setup)?;
    Ok(Recovery {
        records: dataset.records,
        runs,
        failures,
    })
}

/// Shows the recoveries to people.
pub fn section(found: &Recovery, systems: &[System]) -> Section {
    let mut table = Table::new(
        &format!("{} pairs of 4 and 100 B, after SIGKILL", found.records),
        &[
            "system",
            "open ms",
            "first get us",
            "MiB read to open",
            "k pairs/s",
        ],
    );
    for system in systems {
        let runs = found.runs.iter().filter(|run| run.store == system.name);
        let runs: Vec<&ReopenRun> = runs.collect();
        let over = |read: &dyn Fn(&ReopenRun) -> f64| {
            let values: Vec<f64> = runs.iter().map(|run| read(run)).collect();
            Figure::of(&values).map_or("-".into(), text)
        };
        table.rows.push(vec![
            label(system.name),
            over(&|run| run.open_us / 1e3),
            over(&|run| run.first_get_us),
            over(&|run| run.open_read_bytes as f64 / f64::from(1 << 20)),
            over(&|run| run.records as f64 / run.open_us.max(1.0) * 1e3),
        ]);
    }
    Section {
        figure: "Not in the paper".into(),
        title: "recovery after a kill".into(),
        notes: vec![
            "The paper's index is volatile: after a restart nothing is found. Here each pair that was \
             acknowledged is read after the kill and compared; a system that lost one is an error. Host and \
             node are killed together. Writes were not synced, which a kill does not tell from synced ones."
                .into(),
            "What is read to open is counted at the device. The node reads past the page cache; files of a \
             file system are still in it."
                .into(),
        ],
        tables: vec![table],
        ..Section::default()
    }
}
