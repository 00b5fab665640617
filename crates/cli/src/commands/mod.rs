//! One file for each command, or for a few that are alike.

mod bench;
mod dump;
pub mod entries;
mod events;
mod explain;
mod export;
mod history;
mod import;
mod keyspaces;
mod kv;
mod levels;
mod maintenance;
mod manual;
mod node;
mod options;
mod packaging;
mod repair;
mod reproduce;
pub mod scan;
mod simulate;
mod stats;
mod tier;
mod verify;

use std::path::Path;

use crate::arguments::{Command, FileFormat};
use crate::demo;
use crate::failure::{Failure, Result};
use crate::shell;
use crate::text::shown;

pub use levels::picture;

pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Put(arguments) => entries::put(&arguments),
        Command::Get(arguments) => entries::get(&arguments),
        Command::Del(arguments) => entries::del(&arguments),
        Command::Scan(arguments) => scan::run(&arguments),
        Command::Count(arguments) => scan::count(&arguments),
        Command::Shell(arguments) => shell::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Compact(arguments) => maintenance::compact(&arguments),
        Command::Checkpoint(arguments) => maintenance::checkpoint(&arguments),
        Command::Flush(arguments) => maintenance::flush(&arguments),
        Command::Keyspaces { what } => keyspaces::run(&what),
        Command::Stats(arguments) => stats::run(&arguments),
        Command::Levels(arguments) => levels::run(&arguments),
        Command::Events(arguments) => events::run(&arguments),
        Command::Explain { what } => explain::run(&what),
        Command::Simulate { what } => simulate::run(&what),
        Command::Tier { what } => tier::run(&what),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Repair(arguments) => repair::run(&arguments),
        Command::Options(arguments) => options::run(&arguments),
        Command::Completions(arguments) => packaging::completions(&arguments),
        Command::Man(arguments) => packaging::man(&arguments),
        Command::Node { what } => node::run(&what),
        Command::Kv { what } => kv::run(&what),
        Command::Bench { what } => bench::run(&what),
        Command::Reproduce { what } => reproduce::run(&what),
        Command::Dump(arguments) => dump::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::DemoChild(arguments) => demo::child(&arguments.directory),
    }
}

/// Returns the format of a file of rows by its name.
fn format_by_name(file: &Path) -> Result<FileFormat> {
    let extension = file.extension().and_then(|extension| extension.to_str());
    match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("csv") => Ok(FileFormat::Csv),
        Some("tsv" | "tab") => Ok(FileFormat::Tsv),
        Some("jsonl" | "ndjson") => Ok(FileFormat::Jsonl),
        _ => Err(Failure::Usage(format!(
            "the name {} does not tell the format; give --format csv, tsv or jsonl",
            shown(file)
        ))),
    }
}
