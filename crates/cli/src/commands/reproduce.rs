//! `terrace reproduce`: published experiments. `peers reproduce` holds them with other stores, too.

use terrace_bench::reproduce::{self, arguments::Reproduce};

use super::bench;
use crate::failure::Result;

pub fn run(what: &Reproduce) -> Result<()> {
    let program = bench::program(&["reproduce", "run-one"]);
    reproduce::run(&program, what, &bench::typed()).map_err(bench::failure)
}
