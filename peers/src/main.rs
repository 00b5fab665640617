//! The program `peers`: Terrace beside other stores. README.md has a command for every figure.
#![forbid(unsafe_code)]

mod arguments;
mod compare;
mod measure;
mod report;
mod runs;
mod settings;
mod store;
mod stores;
mod stream;
mod workloads;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command, Plan};
use crate::report::Report;

/// Every error ends the program with its text; nothing here is handled by kind.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Compare { what } => compare::run(&what),
        Command::Reproduce { what } => compare::reproduce(&what),
        Command::Run(arguments) => run(&arguments.plan()),
        Command::Measure { job } => runs::phase(&job),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(plan: &Plan) -> Result<()> {
    std::fs::create_dir_all(&plan.directory)?;
    let finished = runs::all(plan)?;
    let report = Report::of(plan, &finished);
    if plan.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.text());
    }
    Ok(())
}
