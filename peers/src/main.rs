//! The program `peers`: Terrace beside other stores. README.md has a command for every question.
#![forbid(unsafe_code)]

mod arguments;
mod compare;
mod performance;
mod transactions;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Compare { what } => compare::run(&what),
        Command::Performance(asked) => performance::run(&asked),
        Command::Reproduce { what } => compare::reproduce(&what),
        Command::Transactions(asked) => transactions::run(&asked),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}
