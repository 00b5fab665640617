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
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::arguments::Arguments;
use crate::failure::Failure;

/// Lets this process have as many descriptors as the system allows. The library leaves the limit of its
/// process alone; here nobody uses select(2), which knows no more than 1,024.
fn raise_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

fn main() -> ExitCode {
    raise_descriptors();
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
