//! The order of the house: imports point downwards, functions and files stay short, crates do not grow
//! unseen. Each count has a limit in `xtask/limits.toml`, which may only fall.

mod counts;
mod crates;
mod imports;
mod layers;
mod methods;
mod minutes;
mod prose;
mod sentences;
mod source;
mod texts;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use counts::{Counts, Limits};
use layers::Layers;
use sentences::Sentences;

use crate::{Outcome, gate};

pub fn run(root: &Path, shows_places: bool) -> Outcome {
    match check(root, shows_places) {
        Ok(broken) if broken.is_empty() => Outcome::Passed,
        Ok(broken) => Outcome::Failed(broken.join("; ")),
        Err(what) => Outcome::Failed(what),
    }
}

/// Returns the minutes that each step of `gate --ci` may take.
pub fn step_minutes(root: &Path) -> Result<BTreeMap<String, u32>, String> {
    Ok(limits(root)?.step_minutes)
}

fn limits(root: &Path) -> Result<Limits, String> {
    let limits = read(&root.join("xtask/limits.toml"))?;
    toml::from_str(&limits).map_err(|error| format!("xtask/limits.toml: {error}"))
}

/// Returns the limits that do not hold.
fn check(root: &Path, shows_places: bool) -> Result<Vec<String>, String> {
    let limits = limits(root)?;
    let layers = Layers::parse(&read(&root.join("ARCHITECTURE.md"))?)?;
    let crates = crates::crates(root)?;
    let clause_words = prose::clause_words_per_10_000(root)?;
    let sentences = Sentences::of(root)?;
    let counts = Counts::of(&crates, &layers, &read(&root.join("docs/options.md"))?)?;
    if shows_places {
        counts.show_places();
        println!("words of clauses in 10,000 words: {clause_words}");
        for (place, words) in &sentences.long {
            println!("  {words} words: {place}");
        }
        let (mean, long) = (sentences.mean_words(), sentences.long.len());
        println!("words of a sentence, on average: {mean}; long sentences: {long}");
    }
    let minutes = minutes::refused(&limits.step_minutes, &gate::ci_steps());
    let prose = prose::refused(clause_words, limits.clause_words_per_10_000);
    let sentences = sentences.refused(limits.mean_sentence_words, limits.long_sentences);
    Ok([counts.beyond(&limits), minutes, prose, sentences].concat())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
