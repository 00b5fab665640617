//! `peers performance`: everything that docs/performance.md shows, measured by one command, which can be
//! interrupted and goes on where it was.
//!
//! Each comparison is a process of its own, as if somebody had typed it. Its results are a file that has
//! its name only when it is whole: what is there is not measured again.

mod document;
mod measurements;
mod tables;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use terrace_bench::Result;
use terrace_bench::outcome::Contest;

use crate::arguments::Performance;
use measurements::{Measurement, SECTIONS};

/// Measures what is missing, then writes the document's tables.
pub fn run(asked: &Performance) -> Result<()> {
    fs::create_dir_all(&asked.results)
        .map_err(|error| format!("{}: {error}", asked.results.display()))?;
    let wanted = wanted(&asked.only)?;
    for (number, measurement) in wanted.iter().enumerate() {
        let path = results(asked, measurement);
        if asked.tables_only || path.exists() {
            continue;
        }
        eprintln!("{} of {}: {}", number + 1, wanted.len(), measurement.name);
        hold(asked, measurement, &path)?;
    }
    let Some(path) = &asked.document else {
        return Ok(());
    };
    let named = |error| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(named)?;
    let tables = tables::of(SECTIONS, &contests(asked)?);
    let text =
        document::filled(&text, &tables).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(fs::write(path, text)?)
}

/// All, or those named.
fn wanted(only: &[String]) -> Result<Vec<&'static Measurement>> {
    let all = || SECTIONS.iter().flat_map(|section| section.measurements);
    if let Some(unknown) = only
        .iter()
        .find(|name| !all().any(|known| known.name == **name))
    {
        let known: Vec<_> = all().map(|known| known.name).collect();
        return Err(format!(
            "--only: there is no {unknown}; there are {}",
            known.join(", ")
        )
        .into());
    }
    let is_wanted =
        |known: &&Measurement| only.is_empty() || only.iter().any(|name| name == known.name);
    Ok(all().filter(is_wanted).collect())
}

fn results(asked: &Performance, measurement: &Measurement) -> PathBuf {
    asked.results.join(format!("{}.json", measurement.name))
}

fn hold(asked: &Performance, measurement: &Measurement, path: &Path) -> Result<()> {
    let unfinished = path.with_extension("unfinished");
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("compare")
        .args(measurement.arguments.split_ascii_whitespace())
        .arg("--directory")
        .arg(&asked.directory)
        .args(asked.tiny.then_some("--tiny"))
        .arg("--json")
        .arg("--html")
        .arg(path.with_extension("html"))
        .stdout(File::create(&unfinished)?);
    let status = command.status()?;
    if !status.success() {
        let typed = measurement.arguments;
        return Err(format!("`peers compare {typed}` ended with {status}").into());
    }
    Ok(fs::rename(unfinished, path)?)
}

/// What was found, by name.
fn contests(asked: &Performance) -> Result<BTreeMap<&'static str, Contest>> {
    let mut found = BTreeMap::new();
    for measurement in wanted(&[])? {
        let path = results(asked, measurement);
        if !path.exists() {
            continue;
        }
        let contest = serde_json::from_slice(&fs::read(&path)?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        found.insert(measurement.name, contest);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use terrace_bench::arguments::Bench;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(subcommand)]
        bench: Bench,
    }

    #[test]
    fn every_measurement_has_a_name_of_its_own_and_is_understood() {
        let all = wanted(&[]).unwrap();
        let mut names: Vec<_> = all.iter().map(|one| one.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        for measurement in all {
            let words = measurement.arguments.split_ascii_whitespace();
            let typed = Typed::try_parse_from(["compare"].into_iter().chain(words));
            let typed = typed.unwrap_or_else(|error| panic!("{}: {error}", measurement.name));
            let stores = &typed.bench.common().unwrap().stores.names;
            assert_eq!(stores.first().map(String::as_str), Some("terrace"));
        }
    }

    #[test]
    fn what_is_not_there_cannot_be_asked_for() {
        let error = wanted(&["durable".into(), "fits-2k".into()]).err().unwrap();
        assert!(
            error
                .to_string()
                .contains("there is no fits-2k; there are fits-1k,")
        );
        let one = wanted(&["durable".into()]).unwrap();
        assert_eq!(
            one.iter().map(|one| one.name).collect::<Vec<_>>(),
            ["durable"]
        );
    }
}
