//! Commands about tiers.

mod add;
mod advise;
mod drain;
mod explain;
mod list;
mod probe;
mod remove;

use crate::arguments::Tier;
use crate::failure::Result;

pub fn run(what: &Tier) -> Result<()> {
    match what {
        Tier::List(arguments) => list::run(arguments),
        Tier::Add(arguments) => add::run(arguments),
        Tier::Drain(arguments) => drain::run(arguments),
        Tier::Remove(arguments) => remove::run(arguments),
        Tier::Explain(arguments) => explain::run(arguments),
        Tier::Advise(arguments) => advise::run(arguments),
        Tier::Probe(arguments) => probe::run(arguments),
    }
}

/// Returns columns as lines, each as wide as its widest cell. Cells of columns in `left` begin at their
/// left, others end at their right. The last column of the left has no end.
pub(super) fn aligned(rows: &[Vec<String>], left: &[usize]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column);
            match left.contains(&column) {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
