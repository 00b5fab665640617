//! The README's test command: the tests of every crate, and a list of those that failed.

use std::io::IsTerminal;
use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::process::{cargo, show_to};
use crate::test_log::{TestLog, summary};

/// A failed program does not stop the others: one run tells everything.
const KEEP_ON: &str = "--no-fail-fast";

pub fn run(root: &Path, arguments: &[String]) -> Outcome {
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--locked"]);
    if !arguments.iter().any(|argument| argument == KEEP_ON) {
        command.arg(KEEP_ON);
    }
    command.args(arguments);
    if std::io::stdout().is_terminal() {
        as_on_a_terminal(&mut command, arguments);
    }
    let mut log = TestLog::default();
    match show_to(&mut command, |piece| log.read(piece)) {
        Outcome::Failed(what) => Outcome::Failed(what + &summary(&log.failed())),
        outcome => outcome,
    }
}

/// Cargo and its tests see a pipe. Their colours and their progress stay.
fn as_on_a_terminal(command: &mut Command, arguments: &[String]) {
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
        if !arguments.iter().any(|argument| argument == "--") {
            command.arg("--");
        }
        command.arg("--color=always");
    }
}
