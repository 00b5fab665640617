//! Published experiments held again, with the published numbers beside ours and a verdict on each
//! claim.
//!
//! - [`wbl`]: write-behind logging, figure by figure
//! - [`region_model`]: persistent memory that is not there
//! - [`report`]: what a reproduction found; `text` and `page` show it

pub mod arguments;
mod page;
pub mod region_model;
pub mod report;
mod text;
pub mod wbl;

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::Result;
use crate::contest::{self, Program};

use arguments::Reproduce;
use report::Reproduction;

/// Does what was typed: holds the experiment and shows what it gave. The program's
/// `child_arguments` must lead back to this function with [`Reproduce::RunOne`].
///
/// # Errors
/// Arguments that make no sense, a store that fails, and output that cannot be written.
pub fn run(program: &Program, what: &Reproduce, command: &str) -> Result<()> {
    let program = extended(program);
    match what {
        Reproduce::RunOne => contest::run_one(&program),
        Reproduce::Wbl(asked) => {
            check_output(asked.html.as_deref())?;
            let report = wbl::reproduce(&program, asked, command)?;
            show(&report, asked.json, asked.html.as_deref())
        }
    }
}

/// The program's stores, and those that only reproductions know.
fn extended(program: &Program) -> Program {
    let mut program = program.clone();
    program.contestants.extend(wbl::CONTESTANTS);
    program
}

/// Before minutes of work, not after.
fn check_output(html: Option<&Path>) -> Result<()> {
    let Some(path) = html else { return Ok(()) };
    let opened = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path);
    opened
        .map(drop)
        .map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

fn show<Figures: Serialize>(
    report: &Reproduction<Figures>,
    json: bool,
    html: Option<&Path>,
) -> Result<()> {
    if let Some(path) = html {
        std::fs::write(path, page::page(report))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let text = if json {
        serde_json::to_string_pretty(report)? + "\n"
    } else {
        text::text(report)
    };
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    if let (Some(path), false) = (html, json) {
        writeln!(stdout, "\nThe page is in {}", path.display())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
