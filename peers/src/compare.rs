//! `peers compare` and `peers reproduce`: Terrace and every store that was compiled in, through the
//! workloads and experiments of `terrace_bench`.

use terrace_bench::arguments::Bench;
use terrace_bench::contest::Program;
use terrace_bench::reproduce::{self, arguments::Reproduce};
use terrace_bench::{Result, drive, stores};
use terrace_peers::contestants::contestants;

/// redb has no class of durability like the others': it takes part where it is named.
const ONLY_WHEN_NAMED: &str = "redb";

pub fn run(what: &Bench) -> Result<()> {
    drive::run(&program(&["compare", "run-one"]), what, &typed())
}

/// `peers reproduce`: `terrace reproduce`, with the stores that an experiment names.
pub fn reproduce(what: &Reproduce) -> Result<()> {
    reproduce::run(&program(&["reproduce", "run-one"]), what, &typed())
}

/// Returns this program: Terrace and every store that was compiled in.
pub fn program(child_arguments: &[&'static str]) -> Program {
    let mut all = stores::terrace::CONTESTANTS.to_vec();
    let peers = contestants();
    let names = peers.iter().map(|peer| peer.name);
    let default_contestants = ["terrace"]
        .into_iter()
        .chain(names.filter(|name| *name != ONLY_WHEN_NAMED))
        .collect();
    all.extend(peers);
    all.push(stores::NOTHING);
    Program {
        contestants: all,
        default_contestants,
        child_arguments: child_arguments.to_vec(),
    }
}

/// Returns the command as it was typed.
pub fn typed() -> String {
    let command: Vec<_> = std::env::args().skip(1).collect();
    format!("peers {}", command.join(" "))
}
