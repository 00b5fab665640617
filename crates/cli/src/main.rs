//! The command `terrace`: a store from the shell.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod demo;
mod events;
mod export;
mod failure;
mod import;
mod node;
mod progress;
mod report;
mod store;
mod text;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::Arguments;
use crate::failure::Failure;

fn main() -> ExitCode {
    match commands::run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough, as in `terrace scan | head`.
        Err(Failure::BrokenPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("terrace: {failure}");
            if let Some(hint) = failure.hint() {
                eprintln!("hint: {hint}");
            }
            ExitCode::from(failure.exit_code())
        }
    }
}
