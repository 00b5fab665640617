//! Findings, as a table or as JSON.

use std::fmt::Write;

use serde_json::{Value, json};
use terrace_bench::report::figures::median;
use terrace_bench::report::numbers;
use terrace_bench::report::quantities::Unit;
use terrace_bench::{Result, machine};

use super::counter::{KEY_BYTES, VALUE_BYTES};
use super::one::Counted;
use super::{Measure, Run};
use crate::arguments::Transactions;
use crate::compare;

const GAP: &str = "   ";

/// Returns a line for each store: medians, with the least and the most.
pub fn table(runs: &[Run], asked: &Transactions) -> String {
    let seconds = asked.seconds;
    let of = match asked.repeats {
        0 | 1 => format!("one run of {seconds} s"),
        repeats => format!("medians of {repeats} runs of {seconds} s [least..most]"),
    };
    let mut text = format!(
        "Two reads and two writes, per second: {of}\n\
         Keys of {KEY_BYTES} B, values of {VALUE_BYTES} B, 1 client and {} keys but where others are named\n\n",
        numbers::grouped(Measure::Alone.sizes().records)
    );
    let mut grid = vec![header()];
    // The first repeat has the stores in their order.
    let firsts = runs
        .iter()
        .filter(|run| run.repeat == 0 && run.measure == Measure::Plain);
    grid.extend(firsts.map(|first| line(first.store, runs)));
    write_grid(&mut text, &grid);
    text
}

fn header() -> Vec<String> {
    let sizes = Measure::Contended.sizes();
    [
        "",
        "no transaction",
        "transactions",
        &format!(
            "{} clients, {} keys",
            sizes.clients,
            numbers::grouped(sizes.records)
        ),
        "runs each",
    ]
    .map(str::to_owned)
    .into()
}

fn line(store: &str, runs: &[Run]) -> Vec<String> {
    let figures = |measure, unit, figure: fn(&Counted) -> f64| {
        let of_store = runs
            .iter()
            .filter(|run| run.store == store && run.measure == measure);
        cell(
            unit,
            &of_store.map(|run| figure(&run.counted)).collect::<Vec<_>>(),
        )
    };
    let mut cells = vec![store.to_owned()];
    let rates = Measure::ALL.map(|measure| figures(measure, Unit::PerSecond, |run| run.per_second));
    cells.extend(rates);
    let runs_each = figures(Measure::Contended, Unit::Ratio, |run| run.runs_per_step);
    cells.push(runs_each);
    cells
}

/// Returns the median, and the least and the most where there are several.
fn cell(unit: Unit, values: &[f64]) -> String {
    let text = median(values.iter().copied())
        .map_or_else(String::new, |median| numbers::text(unit, median));
    if values.len() < 2 {
        return text;
    }
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{text} [{}]", numbers::range(unit, least, most))
}

/// Writes names to the left, and figures to the right. Writing to a `String` cannot fail.
fn write_grid(text: &mut String, grid: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = grid.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    for line in grid {
        for (column, cell) in line.iter().enumerate() {
            let width = width(column);
            let _ = match column {
                0 => write!(text, "{cell:<width$}"),
                _ => write!(text, "{GAP}{cell:>width$}"),
            };
        }
        text.push('\n');
    }
}

/// Returns every run, with what its store was told.
pub fn json(runs: &[Run], asked: &Transactions) -> Result<String> {
    let run = |run: &Run| -> Value {
        let sizes = run.measure.sizes();
        json!({
            "store": run.store,
            "measure": run.measure.name(),
            "repeat": run.repeat,
            "records": sizes.records,
            "clients": sizes.clients,
            "per_second": run.counted.per_second,
            "runs_per_step": run.counted.runs_per_step,
            "durability": run.counted.durability,
            "settings": run.counted.settings,
        })
    };
    let all = json!({
        "command": compare::typed(),
        "seconds": asked.seconds,
        "machine": machine::describe(&asked.directory),
        "runs": runs.iter().map(run).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}
