//! What a contest found, for people and for programs: a table, JSON, and one HTML page.

pub mod figures;
pub(crate) mod html;
pub(crate) mod layout;
pub mod numbers;
pub mod quantities;
#[cfg(test)]
pub(crate) mod sample;
mod settings;
mod summary;
pub(crate) mod table;

use crate::Result;
use crate::outcome::Contest;

/// The page: one file that needs nothing else and asks nobody for anything.
///
/// # Errors
/// Numbers that JSON does not have.
pub fn page(contest: &Contest) -> Result<String> {
    html::page(contest, &format!("{:032x}", rand::random::<u128>()))
}

/// Tables for a terminal, plain text of at most 100 columns where names allow it.
pub fn table(contest: &Contest) -> String {
    table::table(contest)
}

/// Where the time went, in the first run of each store that watches itself.
pub fn profiles(contest: &Contest) -> String {
    let first = contest.runs.iter().filter(|run| run.repeat == 0);
    let phases = first.flat_map(|run| run.phases.iter().map(move |phase| (run, phase)));
    let mut text = table::failures(&contest.failures);
    for (run, phase) in phases {
        let rate = phase.operations as f64 / phase.acknowledged_s.max(f64::MIN_POSITIVE);
        text += &format!(
            "== {}, {}: {} operations/s\n\n",
            run.store,
            phase.name,
            numbers::text(quantities::Unit::PerSecond, rate)
        );
        match &phase.time_profile {
            Some(profile) => text += &format!("{profile}\n"),
            None => text += "this store does not watch itself\n\n",
        }
    }
    text
}
