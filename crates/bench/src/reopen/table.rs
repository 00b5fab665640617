//! The report as text.

use super::{ReopenReport, ReopenRun};
use crate::report::figures::{Figure, spread};
use crate::report::layout::line;
use crate::report::numbers;
use crate::report::quantities::{Better, Unit};
use crate::report::table as text;

const LEGEND: &str = "
* best of its row; [least..most] of all repeats; \"1st vs best\": how many times better the first store
is than the best of the others. Each record that was acknowledged before the kill was read and compared.
";

/// A quantity of a run: stable name, name in words, unit, better direction.
type Quantity = (
    &'static str,
    &'static str,
    Unit,
    Better,
    fn(&ReopenRun) -> f64,
);

const QUANTITIES: [Quantity; 6] = {
    use Better::{Higher, Lower};
    use Unit::{Bytes, Microseconds, PerSecond, Ratio};
    [
        ("open", "open", Microseconds, Lower, |run| run.open_us),
        ("first_get", "first get", Microseconds, Lower, |run| {
            run.first_get_us
        }),
        (
            "answering",
            "open and first get",
            Microseconds,
            Lower,
            |run| run.open_us + run.first_get_us,
        ),
        ("lost", "records lost", Ratio, Lower, |run| run.lost as f64),
        ("space", "on disk at the kill", Bytes, Lower, |run| {
            run.space_bytes as f64
        }),
        ("filled", "op/s, fill", PerSecond, Higher, |run| {
            run.records as f64 / run.filled_s.max(f64::MIN_POSITIVE)
        }),
    ]
};

/// Returns the whole report.
pub fn table(report: &ReopenReport) -> String {
    let mut contestants: Vec<String> = Vec::new();
    for run in &report.runs {
        if !contestants.contains(&run.store) {
            contestants.push(run.store.clone());
        }
    }
    let records = report.runs.first().map_or(0, |run| run.records);
    let mut shown = format!(
        "{}\n{}",
        line(&report.title),
        text::failures(&report.failures)
    );
    text::write_conditions(
        &mut shown,
        &report.command,
        &report.conditions,
        &report.machine,
    );
    for contestant in &contestants {
        if let Some(run) = report.runs.iter().find(|run| run.store == *contestant) {
            let mut told = vec![("durability".to_owned(), run.durability.clone())];
            told.extend(run.settings.iter().cloned());
            text::write_settings(&mut shown, contestant, &told);
        }
    }
    shown.push_str(LEGEND);
    shown += &format!(
        "\n== reopen: {} records, killed at the last acknowledgement\n",
        numbers::grouped(records)
    );
    let figures: Vec<Figure> = QUANTITIES
        .iter()
        .map(|quantity| figure(quantity, &contestants, report))
        .collect();
    text::write_figures(&mut shown, &contestants, &figures);
    shown
}

fn figure(quantity: &Quantity, contestants: &[String], report: &ReopenReport) -> Figure {
    let (identifier, label, unit, better, read) = *quantity;
    let cells = contestants.iter().map(|contestant| {
        let runs = report.runs.iter().filter(|run| run.store == *contestant);
        spread(runs.map(read), unit)
    });
    Figure {
        identifier: identifier.into(),
        label: label.into(),
        unit,
        better,
        cells: cells.collect(),
        best: None,
        advantage: None,
    }
    .ranked(&[])
}
