//! A row for each kind of operation of each phase that was held at a rate, all stores side by side.

use terrace_bench::report::figures::{Figures, PhaseFigures, figures};
use terrace_bench::report::numbers::digits;

use super::{Held, cell, markdown, title};

const HEAD: [&str; 7] = [
    "",
    "op/s asked for",
    "stores",
    "p50, us",
    "p99, us",
    "p99.9, us",
    "longest gap, ms",
];

pub fn table(held: &[Held<'_>]) -> String {
    let mut rows = Vec::new();
    for (measurement, contest) in held {
        let regime = if measurement.is_bounded() {
            "bounded"
        } else {
            "in memory"
        };
        let found = figures(contest);
        for phase in found.phases.iter().filter(|phase| phase.rate.is_some()) {
            rows.extend(rows_of(&found, phase, regime));
        }
    }
    markdown(&HEAD.map(String::from), &rows)
}

fn rows_of(found: &Figures, phase: &PhaseFigures, regime: &str) -> Vec<Vec<String>> {
    let each = |identifier: &str, divisor: f64| {
        let of = |store: &String| {
            let spread = cell(found, phase, identifier, store);
            spread.map_or("-".into(), |spread| digits(spread.median / divisor))
        };
        found
            .contestants
            .iter()
            .map(of)
            .collect::<Vec<_>>()
            .join(" / ")
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for kind in phase.kinds.iter().map(|kind| kind.name()) {
        // What is of the phase stands beside its first kind.
        let of_phase = |text: String| if rows.is_empty() { text } else { String::new() };
        let row = vec![
            format!("{}, {regime}: {kind}", title(phase)),
            of_phase(phase.rate.map_or(String::new(), digits)),
            of_phase(stores(found, phase)),
            each(&format!("{kind}.p50"), 1.0),
            each(&format!("{kind}.p99"), 1.0),
            each(&format!("{kind}.p99.9"), 1.0),
            of_phase(each("longest_gap", 1e3)),
        ];
        rows.push(row);
    }
    rows
}

/// Their names; in brackets who did not keep the pace.
fn stores(found: &Figures, phase: &PhaseFigures) -> String {
    let stores = found.contestants.iter().zip(&phase.pace_not_kept);
    let names = stores.map(|(name, late)| match late {
        true => format!("({name})"),
        false => name.clone(),
    });
    names.collect::<Vec<_>>().join(" / ")
}
