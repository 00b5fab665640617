//! A row for each phase: the first store's speed, how many times that of each other it is, and what a phase
//! costs the first and the second.

use terrace_bench::report::figures::{Figures, PhaseFigures, figures};
use terrace_bench::report::numbers::digits;

use super::{FIRST, Held, SECOND, cell, markdown, title};

pub fn table(held: &[Held<'_>]) -> String {
    let all: Vec<_> = held
        .iter()
        .map(|(one, contest)| (*one, figures(contest)))
        .collect();
    let others = others(all.iter().map(|(_, found)| found));
    let mut head = vec![String::new(), format!("{FIRST}, op/s")];
    head.extend(others.iter().map(|name| format!("x {name}")));
    let costs = [
        "p99.9, us",
        "longest gap, ms",
        "CPU, us",
        "write amplification",
    ];
    head.extend(costs.map(String::from));
    let mut rows = Vec::new();
    let mut has_load = false;
    for (measurement, found) in &all {
        for phase in &found.phases {
            // The same load begins every comparison: one row of it is enough.
            if is_load(phase) && std::mem::replace(&mut has_load, true) {
                continue;
            }
            let mut row = vec![name(phase, measurement.is_durable())];
            row.extend(speeds(found, phase, &others));
            row.extend(costs_of(found, phase));
            rows.push(row);
        }
    }
    markdown(&head, &rows)
}

/// The stores besides the first, in the order in which they come.
fn others<'a>(found: impl Iterator<Item = &'a Figures>) -> Vec<String> {
    let mut others = Vec::new();
    for name in found.flat_map(|found| &found.contestants) {
        if name != FIRST && !others.contains(name) {
            others.push(name.clone());
        }
    }
    others
}

fn is_load(phase: &PhaseFigures) -> bool {
    phase.name.starts_with("load")
}

/// What only writes counts to the moment at which nothing is left to be merged.
fn is_settled(phase: &PhaseFigures) -> bool {
    is_load(phase) || phase.name.starts_with('G')
}

fn name(phase: &PhaseFigures, clients_are_in_the_title: bool) -> String {
    let mut name = title(phase);
    if is_settled(phase) {
        name.push_str(", settled");
    }
    if phase.clients > 1 && !clients_are_in_the_title {
        name.push_str(&format!(", {} clients", phase.clients));
    }
    name
}

fn speeds(found: &Figures, phase: &PhaseFigures, others: &[String]) -> Vec<String> {
    let median = |identifier, store: &str| Some(cell(found, phase, identifier, store)?.median);
    let decisive = if is_settled(phase) {
        "settled"
    } else {
        "acknowledged"
    };
    let ours = median(decisive, FIRST);
    let mut speeds = vec![ours.map_or("-".into(), |speed| format!("{} k", digits(speed / 1e3)))];
    speeds.extend(
        others
            .iter()
            .map(|other| match (ours, median(decisive, other)) {
                (Some(ours), Some(theirs)) if theirs > 0.0 => format!("{:.2}", ours / theirs),
                _ => "-".into(),
            }),
    );
    speeds
}

/// In the order of the head's columns.
fn costs_of(found: &Figures, phase: &PhaseFigures) -> Vec<String> {
    let pair = |identifier: &str, divisor: f64| {
        phase.figure(identifier)?;
        let of = |store| {
            let spread = cell(found, phase, identifier, store);
            spread.map_or("-".into(), |spread| digits(spread.median / divisor))
        };
        Some(format!("{} / {}", of(FIRST), of(SECOND)))
    };
    let tails = phase.kinds.iter().filter_map(|kind| {
        let kind = kind.name();
        Some(format!("{kind} {}", pair(&format!("{kind}.p99.9"), 1.0)?))
    });
    let others = [
        ("longest_gap", 1e3),
        ("processor", 1.0),
        ("device_write_amplification", 1.0),
    ];
    let mut costs = vec![tails.collect::<Vec<_>>().join(", ")];
    costs.extend(others.map(|(identifier, divisor)| pair(identifier, divisor).unwrap_or_default()));
    costs
}
