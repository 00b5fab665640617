//! The reports' page in a real browser; skipped, aloud, where there is none.

use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::process::{cargo, show, succeeds};

/// The names under which distributions install one.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

pub fn run(root: &Path) -> Outcome {
    if !BROWSERS
        .iter()
        .any(|name| succeeds(Command::new(name).arg("--version")))
    {
        return Outcome::Skipped(format!("none of {} is installed", BROWSERS.join(", ")));
    }
    show(
        cargo(root)
            .args(["test", "--workspace", "--locked", "--test", "page"])
            // Else a browser that cannot start would be a skip within a step that passes.
            .env("TERRACE_BROWSER", "required"),
    )
}
