//! The README's test command: the tests of every crate, and a list of those that failed.

use std::io::IsTerminal;
use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::process::{beside, cargo, show_at_end, show_to};
use crate::test_log::{TestLog, summary};

/// A failed program does not stop the others: one run tells everything.
const KEEP_ON: &str = "--no-fail-fast";
/// All test programs, in lanes that run beside each other: a test may wait for a disk or for a child.
/// Integration tests are halved by their first letter: either half takes about as long.
const SHOWN_LANE: [&str; 4] = ["--lib", "--bins", "--test", "[!a-f]*"];
const OTHER_LANE: [&str; 2] = ["--test", "[a-f]*"];

/// Runs all tests, or those of `arguments` of `cargo test`.
pub fn run(root: &Path, arguments: &[String]) -> Outcome {
    let shown = |arguments: &[&str]| {
        named(|log| show_to(&mut cargo_test(root, arguments), |piece| log.read(piece)))
    };
    let at_end = |arguments: &[&str]| {
        named(|log| show_at_end(&mut cargo_test(root, arguments), |piece| log.read(piece)))
    };
    if !arguments.is_empty() {
        return shown(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    }
    // Cargo builds for one lane at a time.
    match shown(&["--no-run"]) {
        Outcome::Passed => {}
        failed => return failed,
    }
    let (first, second) = beside(|| shown(&SHOWN_LANE), || at_end(&OTHER_LANE));
    Outcome::of_parts([first, second, shown(&["--doc"])])
}

/// Puts the names of the failed tests into the outcome.
fn named(run: impl FnOnce(&mut TestLog) -> Outcome) -> Outcome {
    let mut log = TestLog::default();
    match run(&mut log) {
        Outcome::Failed(what) => Outcome::Failed(what + &summary(&log.failed())),
        outcome => outcome,
    }
}

fn cargo_test(root: &Path, arguments: &[&str]) -> Command {
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--locked"]);
    if !arguments.contains(&KEEP_ON) {
        command.arg(KEEP_ON);
    }
    command.args(arguments);
    if std::io::stdout().is_terminal() {
        as_on_a_terminal(&mut command, arguments);
    }
    command
}

/// Keeps colours and progress, though cargo and its tests see a pipe.
fn as_on_a_terminal(command: &mut Command, arguments: &[&str]) {
    let columns = std::env::var("COLUMNS").unwrap_or_else(|_| "80".into());
    for (name, value) in [
        ("CARGO_TERM_COLOR", "always"),
        ("CARGO_TERM_PROGRESS_WHEN", "always"),
        ("CARGO_TERM_PROGRESS_WIDTH", &columns),
    ] {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    if !arguments
        .iter()
        .any(|argument| argument.starts_with("--color"))
    {
        if !arguments.contains(&"--") {
            command.arg("--");
        }
        command.arg("--color=always");
    }
}
