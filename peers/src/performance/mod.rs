//! `peers performance`: everything that docs/performance.md shows, measured by one command, which can be
//! interrupted and goes on where it was.
//!
//! Each comparison is a process of its own, as if somebody had typed it. Its results are a file that has
//! its name only when it is whole: what is there is not measured again. A store that fails drops out of its
//! comparison, a comparison that fails leaves the others alone; the command ends with what has failed.

mod document;
mod measurements;
mod results;
mod tables;

use std::fs;
use std::path::Path;

use terrace_bench::{Result, memory_limit};

use crate::arguments::Performance;
use measurements::{Measurement, SECTIONS};
use results::Results;

/// The running program, also when its file has been replaced meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Measures what is missing, then writes the document's tables.
pub fn run(asked: &Performance) -> Result<()> {
    run_with(Path::new(THIS_PROGRAM), asked)
}

fn run_with(program: &Path, asked: &Performance) -> Result<()> {
    let wanted = wanted(&asked.only)?;
    let results = Results::of(asked)?;
    // Before hours of work, not after.
    if let Some(path) = &asked.document {
        fill(path, &results)?;
    }
    if !asked.tables_only {
        measure(program, asked, &results, &wanted)?;
    }
    if let Some(path) = &asked.document {
        fill(path, &results)?;
    }
    results.succeeded(&wanted)
}

fn measure(
    program: &Path,
    asked: &Performance,
    results: &Results,
    wanted: &[&'static Measurement],
) -> Result<()> {
    let missing = wanted.iter().filter(|one| !results.path(one).exists());
    let missing: Vec<_> = missing.collect();
    if !asked.tiny && missing.iter().any(|one| one.is_bounded()) {
        memory_limit::available()
            .map_err(|error| format!("comparisons in bounded memory: {error}"))?;
    }
    results.claim(program)?;
    for (number, measurement) in missing.iter().enumerate() {
        eprintln!("{} of {}: {}", number + 1, missing.len(), measurement.name);
        if let Err(error) = results.hold(program, asked, measurement) {
            eprintln!("{}: {error}", measurement.name);
        }
    }
    Ok(())
}

/// All, or those named.
fn wanted(only: &[String]) -> Result<Vec<&'static Measurement>> {
    let all = || SECTIONS.iter().flat_map(|section| section.measurements);
    if let Some(unknown) = only
        .iter()
        .find(|name| !all().any(|one| one.name == **name))
    {
        let known: Vec<_> = all().map(|one| one.name).collect();
        let known = known.join(", ");
        return Err(format!("--only: there is no {unknown}; there are {known}").into());
    }
    let is_wanted =
        |one: &&Measurement| only.is_empty() || only.iter().any(|name| name == one.name);
    Ok(all().filter(is_wanted).collect())
}

/// Writes the document anew, with the tables of what is there.
fn fill(path: &Path, results: &Results) -> Result<()> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| named(&error))?;
    let tables = tables::of(SECTIONS, &results.contests()?);
    let text = document::filled(&text, &tables).map_err(|error| named(&error))?;
    let unfinished = path.with_extension("unfinished");
    let written = fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, path));
    Ok(written.map_err(|error| named(&error))?)
}

#[cfg(test)]
mod tests;
