//! `terrace bench`: Terrace in its configurations. Other stores take part in `peers compare`.

use terrace_bench::arguments::Bench;
use terrace_bench::contest::Program;
use terrace_bench::{drive, stores};

use crate::failure::{Failure, Result};

pub fn run(what: &Bench) -> Result<()> {
    let mut contestants = stores::terrace::CONTESTANTS.to_vec();
    contestants.push(stores::NOTHING);
    let program = Program {
        contestants,
        default_contestants: vec!["terrace"],
        child_arguments: vec!["bench", "run-one"],
    };
    let command: Vec<_> = std::env::args().skip(1).collect();
    drive::run(&program, what, &format!("terrace {}", command.join(" "))).map_err(|error| {
        let pipe = error.downcast_ref::<std::io::Error>();
        match pipe.map(std::io::Error::kind) {
            Some(std::io::ErrorKind::BrokenPipe) => Failure::BrokenPipe,
            _ => Failure::Bench(error),
        }
    })
}
