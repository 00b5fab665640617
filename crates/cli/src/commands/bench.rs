//! `terrace bench`: Terrace in its configurations. Other stores take part in `peers compare`.

use terrace_bench::arguments::Bench;
use terrace_bench::contest::Program;
use terrace_bench::{drive, stores};

use crate::failure::{Failure, Result};

pub fn run(what: &Bench) -> Result<()> {
    let program = program(&["bench", "run-one"]);
    drive::run(&program, what, &typed()).map_err(failure)
}

/// Returns the stores that this program knows, and the arguments that make it run one of them.
pub fn program(child_arguments: &[&'static str]) -> Program {
    let mut contestants = stores::terrace::CONTESTANTS.to_vec();
    contestants.push(stores::NOTHING);
    Program {
        contestants,
        default_contestants: vec!["terrace"],
        child_arguments: child_arguments.to_vec(),
    }
}

/// Returns the command as it was typed.
pub fn typed() -> String {
    let command: Vec<_> = std::env::args().skip(1).collect();
    format!("terrace {}", command.join(" "))
}

pub fn failure(error: terrace_bench::Error) -> Failure {
    let pipe = error.downcast_ref::<std::io::Error>();
    match pipe.map(std::io::Error::kind) {
        Some(std::io::ErrorKind::BrokenPipe) => Failure::BrokenPipe,
        _ => Failure::Bench(error),
    }
}
