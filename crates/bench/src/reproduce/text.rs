//! A reproduction as plain text. The verdicts come last: a terminal shows the end of a text.

use std::fmt::Write;

use super::report::{Reproduction, Section};
use crate::report::layout::{WIDTH, line, write_grid, write_pairs};
use crate::report::table::machine;

/// Returns the whole report. Writing to a `String` cannot fail, so results of `write!` are dropped.
pub fn text<Figures>(report: &Reproduction<Figures>) -> String {
    let mut text = format!("{}\n", line(&report.paper));
    if let Some(model) = &report.model {
        let _ = writeln!(
            text,
            "Figures marked [modelled] are of modelled memory: {}.",
            line(model)
        );
    }
    let command = ("command".to_string(), report.command.clone());
    let conditions = std::iter::once(command).chain(report.conditions.iter().cloned());
    write_pairs(&mut text, "Conditions", &conditions.collect::<Vec<_>>());
    write_pairs(&mut text, "Machine", &machine(&report.machine));
    for section in &report.sections {
        write_section(&mut text, section);
    }
    let _ = writeln!(text, "\n== What is left of the claims");
    for claim in &report.claims {
        let _ = writeln!(text, "\n{}", line(&claim.claim));
        let verdict = claim.verdict.name();
        let found = format!(
            "{verdict}: published {}, here {}. {}",
            claim.paper, claim.ours, claim.because
        );
        write_folded(&mut text, &found);
    }
    text
}

fn write_section(text: &mut String, section: &Section) {
    let _ = writeln!(text, "\n== {}", line(&section.heading()));
    for table in &section.tables {
        let _ = writeln!(text, "\n{}", line(&table.title));
        let rows = std::iter::once(&table.header).chain(&table.rows);
        write_grid(text, &rows.cloned().collect::<Vec<_>>());
    }
    if !section.notes.is_empty() {
        text.push('\n');
    }
    for note in &section.notes {
        write_folded(text, note);
    }
}

/// Words in lines, indented.
fn write_folded(text: &mut String, words: &str) {
    let mut out = String::from(" ");
    for word in line(words).split_whitespace() {
        if out.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{out}");
            out = String::from(" ");
        }
        out.push(' ');
        out.push_str(word);
    }
    let _ = writeln!(text, "{out}");
}
