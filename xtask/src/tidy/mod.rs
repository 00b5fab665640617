//! The order of the house: imports point downwards, functions and files stay short, crates do not grow
//! unseen. Each count has a limit in `xtask/limits.toml`, which may only fall.

mod counts;
mod crates;
mod imports;
mod layers;
mod source;

use std::fs;
use std::path::Path;

use counts::{Counts, Limits};
use layers::Layers;

use crate::Outcome;

pub fn run(root: &Path, shows_places: bool) -> Outcome {
    match check(root, shows_places) {
        Ok(broken) if broken.is_empty() => Outcome::Passed,
        Ok(broken) => Outcome::Failed(broken.join("; ")),
        Err(what) => Outcome::Failed(what),
    }
}

/// Returns the limits that do not hold.
fn check(root: &Path, shows_places: bool) -> Result<Vec<String>, String> {
    let limits = read(&root.join("xtask/limits.toml"))?;
    let limits: Limits =
        toml::from_str(&limits).map_err(|error| format!("xtask/limits.toml: {error}"))?;
    let layers = Layers::parse(&read(&root.join("ARCHITECTURE.md"))?)?;
    let crates = crates::crates(root)?;
    let counts = Counts::of(&crates, &layers)?;
    if shows_places {
        counts.show_places();
    }
    Ok(counts.beyond(&limits))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
