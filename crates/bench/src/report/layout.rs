//! Plain text laid out for terminals and mails: pairs, and grids of columns. No control character gets
//! through: a name must not move a terminal's cursor.

use std::fmt::Write;

use terrace_storage::Escaped;

/// Columns of terminals and mails.
pub(crate) const WIDTH: usize = 100;
/// Gap between columns.
pub(crate) const GAP: &str = "  ";

/// Returns text on one line, with escapes for all that a terminal or a page would not show as it is. All
/// names and errors in reports pass here.
pub(crate) fn line(text: &str) -> String {
    Escaped::message(text).to_string()
}

/// Writes names to the left, as wide as the longest, and their values. Writing to a `String` cannot
/// fail, so results of `write!` are dropped.
pub(crate) fn write_pairs(text: &mut String, title: &str, pairs: &[(String, String)]) {
    let _ = writeln!(text, "\n{}", line(title));
    let longest = pairs.iter().map(|(name, _)| line(name).chars().count());
    let width = longest.max().unwrap_or(0);
    for (name, value) in pairs {
        let _ = writeln!(text, "  {:<width$}  {}", line(name), line(value));
    }
}

/// Returns the width of the widest cell of each column.
pub(crate) fn widths(grid: &[Vec<String>]) -> Vec<usize> {
    let columns = grid.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = grid.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| line(cell).chars().count())
            .max()
            .unwrap_or(0)
    };
    (0..columns).map(width).collect()
}

/// Writes the first column to the left, figures to the right, and a rule under the header.
pub(crate) fn write_grid(text: &mut String, grid: &[Vec<String>]) {
    let widths = widths(grid);
    for (number, row) in grid.iter().enumerate() {
        let mut out = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cell = line(cell);
            let _ = match column {
                0 => write!(out, "{cell:<width$}"),
                _ => write!(out, "{GAP}{cell:>width$}"),
            };
        }
        let _ = writeln!(text, "{}", out.trim_end());
        if number == 0 {
            let total = widths.iter().sum::<usize>() + GAP.len() * (widths.len().max(1) - 1);
            let _ = writeln!(text, "{}", "-".repeat(total));
        }
    }
}
