//! The functions and files of the engine that a put and a get pass through.
//!
//! Callgrind follows one call of a program that is built without inlining. A function that is generic counts
//! once, and so does a closure with the function around it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::process::{cargo, show};

const PROGRAM: &str = include_str!("paths/program.rs");

/// The marked calls.
const CALLS: [&str; 2] = ["put_once", "get_once"];

/// Counts in the engine of `tree`, which may be another checkout.
pub fn run(root: &Path, tree: &Path) -> Outcome {
    let directory = root.join("target/paths");
    if let Err(error) = prepare(&directory, tree) {
        return Outcome::Failed(format!("{}: {error}", directory.display()));
    }
    let built = show(cargo(&directory).args(["build", "--quiet", "--target-dir", "target"]));
    if !matches!(built, Outcome::Passed) {
        return built;
    }
    Outcome::of_parts(CALLS.map(|call| follow(&directory, tree, call).named(call)))
}

fn prepare(directory: &Path, tree: &Path) -> io::Result<()> {
    let engine = tree.join("crates/terrace");
    fs::create_dir_all(directory.join("src"))?;
    fs::write(directory.join("src/main.rs"), PROGRAM)?;
    fs::copy(tree.join("Cargo.lock"), directory.join("Cargo.lock"))?;
    let manifest = format!(
        "[package]\nname = \"paths\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies.terrace]\npath = {engine:?}\n\n\
         [profile.dev]\nopt-level = 0\ndebug = \"line-tables-only\"\n\n[workspace]\n"
    );
    fs::write(directory.join("Cargo.toml"), manifest)
}

fn follow(directory: &Path, tree: &Path, call: &str) -> Outcome {
    let (store, profile) = (directory.join("store"), directory.join("profile"));
    let _ = fs::remove_dir_all(&store);
    let mut command = Command::new("valgrind");
    command.current_dir(directory);
    command.args(["--tool=callgrind", "--collect-atstart=no", "--quiet"]);
    command.arg(format!("--toggle-collect=paths::{call}"));
    command.arg(format!("--callgrind-out-file={}", profile.display()));
    command
        .arg(directory.join("target/debug/paths"))
        .arg(&store);
    match show(&mut command) {
        Outcome::Passed => {}
        other => return other,
    }
    match fs::read_to_string(&profile) {
        Ok(text) => {
            let seen = Seen::of(&text, &tree.join("crates").display().to_string());
            let (functions, files) = (seen.functions.len(), seen.files.len());
            println!("{call}: {functions} functions in {files} files");
            Outcome::Passed
        }
        Err(error) => Outcome::Failed(format!("{}: {error}", profile.display())),
    }
}

/// The functions below a directory that a profile has, and their files.
#[derive(Default)]
struct Seen {
    functions: BTreeSet<(String, String)>,
    files: BTreeSet<String>,
}

impl Seen {
    /// Reads a profile. A name has a number, and stands beside it where the number is new.
    fn of(profile: &str, directory: &str) -> Self {
        let mut seen = Seen::default();
        let (mut files, mut functions) = (BTreeMap::new(), BTreeMap::new());
        let mut file = String::new();
        for line in profile.lines() {
            let Some((key, name)) = line.split_once("=(") else {
                continue;
            };
            match key {
                "fl" => file = named(&mut files, name),
                "fi" | "fe" | "cfi" | "cfl" => drop(named(&mut files, name)),
                "cfn" => drop(named(&mut functions, name)),
                "fn" => {
                    let function = named(&mut functions, name);
                    if file.starts_with(directory) {
                        let own = function.split("::{{closure}}").next().unwrap_or_default();
                        let own = own.split('\'').next().unwrap_or_default();
                        seen.functions.insert((file.clone(), own.to_owned()));
                        seen.files.insert(file.clone());
                    }
                }
                _ => {}
            }
        }
        seen
    }
}

/// Returns the name with a number, as in `12) name` or, later, `12)`.
fn named(names: &mut BTreeMap<String, String>, text: &str) -> String {
    let (number, name) = text.split_once(')').unwrap_or((text, ""));
    let name = match name.trim() {
        "" => names.get(number).cloned().unwrap_or_default(),
        name => name.to_owned(),
    };
    names.insert(number.to_owned(), name.clone());
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_directory_are_counted_once_with_their_closures() {
        let profile = "fl=(1) /engine/crates/a.rs\nfn=(7) a::get\n12 3\ncfi=(2) /engine/crates/b.rs\n\
                       cfn=(8) b::find\ncalls=1 4\nfn=(9) a::get::{{closure}}\nfn=(10) a::get'2\n\
                       fl=(2)\nfn=(8)\n1 1\nfl=(3) /rust/core.rs\nfn=(11) core::clone\n";
        let seen = Seen::of(profile, "/engine/crates");
        let names: Vec<_> = seen
            .functions
            .iter()
            .map(|(_, name)| name.as_str())
            .collect();
        assert_eq!(names, ["a::get", "b::find"]);
        assert_eq!(seen.files.len(), 2);
    }
}
