//! The table as a whole, and the rules that keep it readable.

use super::*;
use crate::report::sample;

/// Run with `TERRACE_UPDATE_GOLDEN=1` to write the present table, and read the difference.
#[test]
fn the_sample_is_shown_as_before() {
    let shown = table(&sample::contest());
    if std::env::var_os("TERRACE_UPDATE_GOLDEN").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/report/table/golden.txt");
        std::fs::write(path, &shown).unwrap();
        return;
    }
    assert_eq!(shown, include_str!("golden.txt"));
}

/// A terminal shows the end: of 30 rows, none is a setting's.
#[test]
fn the_figures_come_last() {
    let shown = table(&sample::contest());
    let last = shown.lines().last().unwrap();
    assert!(last.starts_with("peak memory, cgroup"), "{last}");
    let first_figures = shown.find("\n== ").unwrap();
    for told in [
        "\nConditions",
        "\nMachine",
        "\nSettings of",
        "\n* best of its row",
    ] {
        assert!(shown.rfind(told).unwrap() < first_figures, "{told}");
    }
}

#[test]
fn no_line_is_wider_than_a_terminal() {
    for line in table(&sample::contest()).lines() {
        assert!(line.chars().count() <= WIDTH, "{line}");
    }
}

#[test]
fn names_cannot_steer_a_terminal() {
    let mut contest = sample::contest();
    for run in &mut contest.runs {
        run.store = run.store.replace("terrace", "\u{1b}[2Jterrace\r\n");
    }
    let shown = table(&contest);
    assert!(!shown.contains('\u{1b}') && !shown.contains('\r'));
}

#[test]
fn many_contestants_come_in_blocks() {
    let mut contest = sample::contest();
    let mut more = contest.runs.clone();
    for run in &mut more {
        run.store.push_str(" again");
    }
    contest.runs.extend(more);
    let shown = table(&contest);
    let headings = shown.lines().filter(|line| line.contains("terrace again"));
    assert!(headings.count() >= 2);
    assert!(shown.lines().all(|line| line.chars().count() <= WIDTH));
}

#[test]
fn a_contest_of_nothing_is_shown() {
    let mut contest = sample::contest();
    contest.runs.clear();
    assert!(table(&contest).contains("Machine"));
}

#[test]
fn failures_come_first_and_a_lost_pace_is_said() {
    let mut contest = sample::contest();
    for run in contest.runs.iter_mut().take(2) {
        for phase in &mut run.phases {
            phase.rate = Some(1e6);
        }
    }
    let shown = table(&contest);
    let second = shown.lines().nth(1).unwrap();
    assert_eq!(
        second,
        "FAILED: brittle <i>, bounded, repeat 1: phase A: key user7 is missing; it has no more figures"
    );
    assert!(shown.contains("pace not kept"), "{shown}");
}
