//! What was found, as tables of a document: a short one of each section, and all figures of each phase.

mod everything;
mod paced;
mod short;

use std::collections::BTreeMap;

use terrace_bench::outcome::{Contest, RunOutcome};
use terrace_bench::report::figures::{Figures, PhaseFigures, Spread, median};
use terrace_bench::report::numbers::digits;

use super::measurements::{Measurement, Section};

/// The store that the others are set beside, and the one that is shown where there is room for two.
const FIRST: &str = "terrace";
const SECOND: &str = "rocksdb";

/// What was found of a measurement.
type Held<'a> = (&'static Measurement, &'a Contest);

/// By marker: `NAME` is the short table of a section, `NAME-all` has all its figures, `written` what each
/// comparison wrote as a whole. `None` where nothing was measured.
pub fn of(
    sections: &'static [Section],
    contests: &BTreeMap<&'static str, Contest>,
) -> BTreeMap<String, Option<String>> {
    let found = |one: &'static Measurement| Some((one, contests.get(one.name)?));
    let mut tables = BTreeMap::new();
    let mut written_rows = Vec::new();
    for section in sections {
        let held: Vec<Held<'_>> = section.measurements.iter().filter_map(found).collect();
        let whole = held.iter().filter(|(one, _)| !one.is_paced());
        written_rows.extend(whole.map(|(one, contest)| written_row(one, contest)));
        let short = (!held.is_empty()).then(|| short_table(section, &held));
        let all = held
            .iter()
            .map(|(one, contest)| everything::figures_of(one, contest));
        let all = short.is_some().then(|| all.collect::<String>());
        tables.insert(section.marker.to_owned(), short);
        tables.insert(format!("{}-all", section.marker), all);
    }
    let written = markdown(&["", FIRST, SECOND].map(String::from), &written_rows);
    tables.insert(
        "written".to_owned(),
        (!written_rows.is_empty()).then_some(written),
    );
    tables
}

fn short_table(section: &Section, held: &[Held<'_>]) -> String {
    let mut text = match held.iter().any(|(one, _)| one.is_paced()) {
        true => paced::table(held),
        false => short::table(held),
    };
    for failure in held.iter().flat_map(|(_, contest)| &contest.failures) {
        text += &format!("\n{failure}.\n");
    }
    let is_missing = |one: &&Measurement| !held.iter().any(|(found, _)| found.name == one.name);
    let missing = section.measurements.iter().filter(is_missing);
    let missing: Vec<_> = missing.map(|one| one.name).collect();
    if !missing.is_empty() {
        text += &format!("\nNot measured yet: {}.\n", missing.join(", "));
    }
    text
}

/// Bytes that reached the device for each byte of user data, load included.
fn written_row(measurement: &Measurement, contest: &Contest) -> Vec<String> {
    let of = |store: &str| {
        let runs = contest.runs.iter().filter(|run| run.store == store);
        median(runs.filter_map(amplification)).map_or("-".into(), digits)
    };
    vec![measurement.name.to_owned(), of(FIRST), of(SECOND)]
}

fn amplification(run: &RunOutcome) -> Option<f64> {
    let written = run
        .phases
        .iter()
        .map(|phase| phase.usage.device_write_bytes);
    let written: u64 = written.sum::<Option<u64>>()?;
    let user: u64 = run
        .phases
        .iter()
        .map(|phase| phase.user_written_bytes)
        .sum();
    (user > 0).then(|| written as f64 / user as f64)
}

/// A phase's name without the regime of memory, which the section's title has.
fn title(phase: &PhaseFigures) -> String {
    phase.title().replace(", bounded", "")
}

fn cell<'a>(
    found: &Figures,
    phase: &'a PhaseFigures,
    identifier: &str,
    store: &str,
) -> Option<&'a Spread> {
    let index = found.contestants.iter().position(|name| name == store)?;
    phase.figure(identifier)?.cells.get(index)?.as_ref()
}

fn markdown(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let body: String = rows.iter().map(|row| line(row)).collect();
    format!("{}|{}\n{body}", line(head), "---|".repeat(head.len()))
}

#[cfg(test)]
mod tests;
