//! One file for each command, or for a few that are alike.

mod dump;
mod entries;
mod import;
mod levels;
mod scan;
mod stats;
mod verify;

use std::io::{self, Write};

use serde::Serialize;
use terrace::Options;

use crate::arguments::Command;
use crate::demo;
use crate::failure::{Failure, Result, output};

pub use levels::picture;

pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Put(arguments) => entries::put(&arguments),
        Command::Get(arguments) => entries::get(&arguments),
        Command::Del(arguments) => entries::del(&arguments),
        Command::Scan(arguments) => scan::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Stats(arguments) => stats::run(&arguments),
        Command::Levels(arguments) => levels::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Options => print(Options::default().to_toml()?),
        Command::Dump(arguments) => dump::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::DemoChild(arguments) => demo::child(&arguments.directory),
    }
}

/// A report as an indented JSON object, its names in order.
fn as_json(report: &impl Serialize) -> Result<String> {
    let value = serde_json::to_value(report).map_err(|error| Failure::io("JSON", error.into()))?;
    Ok(format!("{value:#}\n"))
}

/// Writes a finished text to standard output.
fn print(bytes: impl AsRef<[u8]>) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(bytes.as_ref())
        .and_then(|()| stdout.flush())
        .map_err(output)
}
