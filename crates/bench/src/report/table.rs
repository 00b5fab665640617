//! Tables for a terminal: the conditions, and under them a table per phase. Figures come last: a terminal
//! shows the end of a text.

use std::fmt::Write;

use super::figures::{Figure, Figures, PhaseFigures, Spread, figures};
use super::layout::{GAP, WIDTH, line, widths, write_grid, write_pairs};
use super::numbers;
use super::settings::settings;
use crate::outcome::{Contest, Failure, Machine};

/// Stands for a figure that is not available.
const NONE: &str = "-";

/// Returns the whole report. Writing to a `String` cannot fail, so results of `write!` are dropped.
pub fn table(contest: &Contest) -> String {
    let figures = figures(contest);
    let mut text = format!("{}\n{}", line(&contest.title), failures(&contest.failures));
    write_conditions(
        &mut text,
        &contest.command,
        &contest.conditions,
        &contest.machine,
    );
    for contestant in &figures.contestants {
        write_settings(&mut text, contestant, &settings(contest, contestant));
    }
    text.push_str(LEGEND);
    for phase in &figures.phases {
        text.push('\n');
        write_phase(&mut text, &figures, phase);
    }
    text
}

/// Stores that failed, a line each.
pub fn failures(failures: &[Failure]) -> String {
    failures
        .iter()
        .map(|failure| format!("{}\n", line(&failure.to_string())))
        .collect()
}

const LEGEND: &str = "
* best of its row; [least..most] of all repeats; - cannot be had here; \"1st vs best\": how many times
better the first contestant is than the best of the others. What a phase costs is counted until
nothing is left to flush, merge or write back. Amplifications are for one byte of keys and values;
`process` is what the kernel counted of it, `device` of the whole device. Resident memory has mapped
files in it, and the page cache not. Gaps and tails have what a host stole in them. 1 MB = 10^6 B.
";

/// Stands for the pace of a contestant that completed less than the requested rate.
const PACE_NOT_KEPT: &str = "pace not kept";

fn write_phase(text: &mut String, figures: &Figures, phase: &PhaseFigures) {
    let _ = writeln!(text, "== {}: {}", line(&phase.title()), about(phase));
    let _ = writeln!(text, "{}", line(&phase.summary));
    let rows = phase.figures.iter().map(row);
    write_rows(
        text,
        &figures.contestants,
        paces(phase).into_iter().chain(rows),
    );
}

/// Writes a row for each figure and a column for each contestant.
pub(crate) fn write_figures(text: &mut String, contestants: &[String], figures: &[Figure]) {
    write_rows(text, contestants, figures.iter().map(row));
}

fn write_rows(text: &mut String, contestants: &[String], rows: impl Iterator<Item = Vec<String>>) {
    let grid: Vec<Vec<String>> = std::iter::once(header(contestants)).chain(rows).collect();
    for block in blocks(&grid) {
        text.push('\n');
        write_grid(text, &block);
    }
}

/// Describes operations, clients and pace of a phase.
fn about(phase: &PhaseFigures) -> String {
    let clients = match phase.clients {
        1 => "1 client".into(),
        more => format!("{more} clients"),
    };
    let pace = match phase.rate {
        Some(rate) => format!(
            "open loop, {} operations/s asked for",
            numbers::digits(rate)
        ),
        None => "closed loop".into(),
    };
    let operations = numbers::grouped(phase.operations);
    format!("{operations} operations, {clients}, {pace}")
}

fn header(contestants: &[String]) -> Vec<String> {
    let mut header = vec![String::new()];
    header.extend_from_slice(contestants);
    if contestants.len() > 1 {
        header.push("1st vs best".into());
    }
    header
}

/// Returns, for an open loop, which contestants kept the pace.
fn paces(phase: &PhaseFigures) -> Option<Vec<String>> {
    phase.rate?;
    let mut row = vec!["pace".to_string()];
    row.extend(phase.pace_not_kept.iter().map(|late| {
        let word = if *late { PACE_NOT_KEPT } else { "kept" };
        word.to_string()
    }));
    if phase.pace_not_kept.len() > 1 {
        row.push(String::new());
    }
    Some(row)
}

fn row(figure: &Figure) -> Vec<String> {
    let medians = figure.cells.iter().flatten().map(|spread| spread.median);
    let least = medians.filter(|median| *median > 0.0).reduce(f64::min);
    let (divisor, label) = numbers::row(figure.unit, &figure.label, least.unwrap_or(0.0));
    let mut row = vec![label];
    row.extend(figure.cells.iter().enumerate().map(|(index, spread)| {
        let best = figure.cells.len() > 1 && figure.best == Some(index);
        cell(spread.as_ref(), divisor, best)
    }));
    if figure.cells.len() > 1 {
        row.push(figure.advantage.map_or(NONE.into(), |factor| {
            format!("{}x", numbers::digits(factor))
        }));
    }
    row
}

fn cell(spread: Option<&Spread>, divisor: f64, best: bool) -> String {
    let Some(spread) = spread else {
        return NONE.into();
    };
    let mark = if best { "*" } else { "" };
    let shown = |value: f64| numbers::digits(value / divisor);
    let median = shown(spread.median);
    match spread.repeats {
        1 => format!("{mark}{median}"),
        _ => format!(
            "{mark}{median} [{}..{}]",
            shown(spread.least),
            shown(spread.most)
        ),
    }
}

/// Returns the same rows with as many columns as fit, again and again until all have been shown.
/// The first column names the rows and comes in every block.
fn blocks(grid: &[Vec<String>]) -> Vec<Vec<Vec<String>>> {
    let widths = widths(grid);
    let (label, others) = widths.split_first().unwrap_or((&0, &[]));
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    let mut used = WIDTH;
    for (column, width) in others.iter().enumerate() {
        let needed = GAP.len() + width;
        match blocks.last_mut() {
            Some(block) if used + needed <= WIDTH => block.push(column + 1),
            _ => {
                blocks.push(vec![0, column + 1]);
                used = *label;
            }
        }
        used += needed;
    }
    let pick = |columns: &Vec<usize>, row: &Vec<String>| {
        let cells = columns.iter().filter_map(|column| row.get(*column));
        cells.cloned().collect()
    };
    let picked = blocks
        .iter()
        .map(|columns| grid.iter().map(|row| pick(columns, row)).collect());
    picked.collect()
}

pub(crate) fn write_conditions(
    text: &mut String,
    command: &str,
    conditions: &[(String, String)],
    of: &Machine,
) {
    let mut pairs = vec![("command".to_string(), command.to_string())];
    pairs.extend(conditions.iter().cloned());
    write_pairs(text, "Conditions, the same for all", &pairs);
    write_pairs(text, "Machine", &machine(of));
}

/// Returns the machine in words.
pub fn machine(machine: &Machine) -> Vec<(String, String)> {
    let mut pairs = vec![
        ("day".into(), machine.day.clone()),
        ("processor".into(), machine.processor.clone()),
        ("processors in use".into(), machine.processors.to_string()),
        ("memory".into(), memory(machine)),
        ("kernel".into(), machine.kernel.clone()),
        ("file system".into(), machine.file_system.clone()),
    ];
    pairs.retain(|(_, value): &(String, String)| !value.is_empty());
    pairs.extend(machine.harness.iter().map(|cost| {
        (
            format!("harness alone, {}", cost.phase),
            format!(
                "about {} ns an operation, of few records",
                numbers::digits(cost.nanoseconds)
            ),
        )
    }));
    pairs
}

fn memory(machine: &Machine) -> String {
    let gibibytes = machine.memory_bytes as f64 / f64::from(1 << 30);
    format!("{} GiB", numbers::digits(gibibytes))
}

/// Returns the machine and the day for a title: `A processor, 8 processors in use, 32.0 GiB; 2026-11-27`.
pub fn machine_line(machine: &Machine) -> String {
    let plural = if machine.processors == 1 { "" } else { "s" };
    let parts = [
        machine.processor.clone(),
        format!("{} processor{plural} in use", machine.processors),
        memory(machine),
    ];
    let day = match machine.day.as_str() {
        "" => String::new(),
        day => format!("; {day}"),
    };
    parts.join(", ") + &day
}

/// Writes a store's settings, its durability first.
pub(crate) fn write_settings(text: &mut String, store: &str, told: &[(String, String)]) {
    write_pairs(text, &format!("Settings of {store}"), told);
}

#[cfg(test)]
#[path = "table/tests.rs"]
mod tests;
