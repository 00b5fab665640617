//! A reproduction as plain text.

use std::fmt::Write;

use super::report::{Reproduction, Section, Table};
use crate::report::table::machine;

/// Lines of notes are broken here.
const WIDTH: usize = 100;

/// The whole report. Writing to a `String` cannot fail, so results of `write!` are dropped.
pub fn text<Figures>(report: &Reproduction<Figures>) -> String {
    let mut text = format!("{}\n", report.paper);
    if let Some(model) = &report.model {
        let _ = writeln!(
            text,
            "Figures marked [modelled] are of modelled memory: {model}."
        );
    }
    for section in &report.sections {
        write_section(&mut text, section);
    }
    let _ = writeln!(text, "\n== What is left of the claims");
    for claim in &report.claims {
        let _ = writeln!(text, "\n{}", claim.claim);
        let verdict = claim.verdict.name();
        let line = format!(
            "{verdict}: published {}, here {}. {}",
            claim.paper, claim.ours, claim.because
        );
        write_folded(&mut text, &line);
    }
    write_pairs(&mut text, "Conditions", &report.conditions);
    write_pairs(&mut text, "Machine", &machine(&report.machine));
    let _ = writeln!(text, "\nCommand: {}", report.command);
    text
}

fn write_section(text: &mut String, section: &Section) {
    let _ = writeln!(text, "\n== {}", section.heading());
    for table in &section.tables {
        write_table(text, table);
    }
    if !section.notes.is_empty() {
        text.push('\n');
    }
    for note in &section.notes {
        write_folded(text, note);
    }
}

/// Columns as wide as their widest cell, names to the left, numbers to the right.
fn write_table(text: &mut String, table: &Table) {
    let _ = writeln!(text, "\n{}", table.title);
    let lines = || std::iter::once(&table.header).chain(&table.rows);
    let columns = lines().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for line in lines() {
        let mut out = String::from(" ");
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(out, " {cell:<width$}"),
                _ => write!(out, "  {cell:>width$}"),
            };
        }
        let _ = writeln!(text, "{}", out.trim_end());
    }
}

fn write_pairs(text: &mut String, title: &str, pairs: &[(String, String)]) {
    let _ = writeln!(text, "\n{title}");
    let width = pairs.iter().map(|(name, _)| name.chars().count()).max();
    let width = width.unwrap_or(0);
    for (name, value) in pairs {
        let _ = writeln!(text, "  {name:<width$}  {value}");
    }
}

/// Words in lines, indented.
fn write_folded(text: &mut String, words: &str) {
    let mut line = String::from(" ");
    for word in words.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{line}");
            line = String::from(" ");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
}
