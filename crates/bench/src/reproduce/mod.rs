//! Re-runs of published experiments, with the published numbers beside ours and a verdict on each
//! claim.
//!
//! - [`wbl`]: write-behind logging, figure by figure
//! - [`plexdb`]: deduplication compaction: what policies write, and the space that they take
//! - [`kvbdev`]: a key-value store on the storage node, beside an LSM tree on the host
//! - [`tiers`]: levels of a tree on devices of different speed
//! - [`region_model`]: persistent memory that is not there
//! - [`report`]: the findings of a reproduction; `text`, [`page`] and `images` show it

pub mod arguments;
mod images;
pub mod kvbdev;
pub mod page;
pub mod plexdb;
mod plot;
pub mod region_model;
pub mod report;
#[cfg(test)]
pub(crate) mod sample;
mod text;
pub mod tiers;
pub mod wbl;

use std::path::Path;

use serde::Serialize;

use crate::Result;
use crate::contest::{self, Program};
use crate::output::Output;

use arguments::Reproduce;
use report::Reproduction;

/// Runs the command: re-runs the experiment and shows its outcome. The program's `child_arguments`
/// must lead back to this function with [`Reproduce::RunOne`].
///
/// # Errors
/// Arguments that make no sense, a store that fails, and output that cannot be written.
pub fn run(program: &Program, what: &Reproduce, command: &str) -> Result<()> {
    let program = extended(program);
    match what {
        Reproduce::RunOne => contest::run_one(&program),
        Reproduce::Wbl(asked) => {
            let output = Output {
                json: asked.json,
                html: asked.html.as_deref(),
            };
            output.check()?;
            let report = wbl::reproduce(&program, asked, command)?;
            output.show(&report, || text::text(&report), || Ok(page::page(&report)))
        }
        Reproduce::Plexdb(asked) => {
            let output = Output {
                json: asked.json,
                html: asked.html.as_deref(),
            };
            let hold = || plexdb::reproduce(&program, asked, command);
            show_with_plots(&output, asked.plots.as_deref(), hold)?.succeeded()
        }
        Reproduce::Kvbdev(asked) => {
            let output = Output {
                json: asked.json,
                html: asked.html.as_deref(),
            };
            let hold = || kvbdev::reproduce(&program, asked, command);
            show_with_plots(&output, asked.plots.as_deref(), hold)?.succeeded()
        }
        Reproduce::Tiers(asked) => {
            let output = Output {
                json: asked.json,
                html: asked.html.as_deref(),
            };
            let hold = || tiers::reproduce(asked, command);
            show_with_plots(&output, asked.plots.as_deref(), hold).map(drop)
        }
    }
}

/// Returns the program with its stores and those that only reproductions know.
fn extended(program: &Program) -> Program {
    let mut program = program.clone();
    program.contestants.extend(wbl::CONTESTANTS);
    program.contestants.extend(kvbdev::CONTESTANTS);
    let points = plexdb::contestants(&program);
    program.contestants.extend(points);
    program
}

/// Holds an experiment, shows its report, and writes its plots as images if a directory is named. An
/// output that cannot be written is an error before the experiment is held. Returns the figures.
fn show_with_plots<Figures: Serialize>(
    output: &Output<'_>,
    plots: Option<&Path>,
    hold: impl FnOnce() -> Result<Reproduction<Figures>>,
) -> Result<Figures> {
    output.check()?;
    plots.map_or(Ok(()), images::check)?;
    let report = hold()?;
    output.show(&report, || text::text(&report), || Ok(page::page(&report)))?;
    if let Some(directory) = plots {
        images::write(directory, &report.sections)?;
    }
    Ok(report.figures)
}

#[cfg(test)]
mod tests;
