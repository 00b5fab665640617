//! Commands about tiers.

mod probe;

use crate::arguments::Tier;
use crate::failure::Result;

pub fn run(what: &Tier) -> Result<()> {
    match what {
        Tier::Probe(arguments) => probe::run(arguments),
    }
}
