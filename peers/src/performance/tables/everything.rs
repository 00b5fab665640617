//! All figures of a comparison: its command, and a table for each phase.

use terrace_bench::outcome::Contest;
use terrace_bench::report::figures::{Figure, figures};

use super::{markdown, title};
use crate::performance::measurements::Measurement;

/// Device reads for a lookup are shown from here on: where data is in memory the rest is chance.
const LEAST_READS: f64 = 0.01;

pub fn figures_of(measurement: &Measurement, contest: &Contest) -> String {
    let mut text = format!("```sh\npeers compare {}\n```\n\n", measurement.arguments);
    for failure in &contest.failures {
        text += &format!("{failure}.\n\n");
    }
    let found = figures(contest);
    for phase in &found.phases {
        let mut head = vec![title(phase)];
        head.extend(found.contestants.iter().cloned());
        let shown = phase.figures.iter().filter(|figure| is_shown(figure));
        text += &markdown(&head, &shown.map(row).collect::<Vec<_>>());
        text.push('\n');
    }
    text
}

fn row(figure: &Figure) -> Vec<String> {
    let cells = figure.cells.iter().map(|cell| match cell {
        Some(spread) if spread.range.is_empty() => spread.text.clone(),
        Some(spread) => format!("{} [{}]", spread.text, spread.range),
        None => "-".into(),
    });
    std::iter::once(figure.label.clone()).chain(cells).collect()
}

fn is_shown(figure: &Figure) -> bool {
    let most = figure.cells.iter().flatten().map(|cell| cell.most);
    figure.identifier != "device_reads" || most.fold(0.0, f64::max) >= LEAST_READS
}
