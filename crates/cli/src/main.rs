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
// These macros panic when a write fails; `output` does not.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

mod arguments;
mod commands;
mod demo;
mod events;
mod export;
mod failure;
mod import;
mod node;
mod output;
mod progress;
mod report;
mod shell;
mod store;
mod text;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use rustix::process::{Resource, getrlimit, setrlimit};
use signal_hook::consts::SIGXFSZ;
use terrace_storage::Escaped;

use crate::arguments::Arguments;
use crate::failure::{Failure, Result, exit};
use crate::text::asks_for_json;

/// Lets this process have as many descriptors as the system allows. The library leaves the limit of
/// its process alone; this program has no select(2), which knows no more than 1,024.
fn raise_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Lets a write beyond the file-size limit of the process fail. Without a handler, the signal would end
/// the process.
fn survive_file_size_limit() {
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

fn main() -> ExitCode {
    raise_descriptors();
    survive_file_size_limit();
    match Arguments::try_parse() {
        Ok(arguments) => end(commands::run(arguments.command)),
        Err(answer) => {
            let is_help = answer.exit_code() == 0;
            let answer = escaped(answer);
            if !is_help && is_json_asked() {
                return end(Err(Failure::of_arguments(&answer)));
            }
            let shown = end(output::show(&answer));
            match is_help {
                true => shown,
                false => ExitCode::from(exit::USAGE),
            }
        }
    }
}

/// Returns the answer to wrong arguments. It names them, so an argument with a character that steers
/// the terminal, or with a line of its own, is escaped first.
fn escaped(answer: clap::Error) -> clap::Error {
    let typed = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let typed: Vec<String> = typed.collect();
    let message = |argument: &String| Escaped::message(argument).to_string();
    let escaped: Vec<String> = typed.iter().map(message).collect();
    if escaped == typed {
        return answer;
    }
    match Arguments::try_parse_from(&escaped) {
        Err(again) => again,
        Ok(_) => answer,
    }
}

/// Returns whether the output is to be JSON. A failure is then, too.
fn is_json_asked() -> bool {
    let arguments: Vec<_> = std::env::args_os().collect();
    asks_for_json(&arguments)
}

/// Tells why a command failed, and returns the exit code.
fn end(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output has seen enough, as in `terrace scan | head`.
        Err(Failure::BrokenPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell(None, is_json_asked());
            ExitCode::from(failure.exit_code())
        }
    }
}
