//! The features of the engine, each alone and none, and a program that depends on the engine with none.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::Outcome;
use crate::process::{capture, cargo, show};

/// The features of `crates/terrace/Cargo.toml` that a program may choose.
const FEATURES: [&str; 6] = ["io-uring", "lz4", "serde", "tracing", "typed", "zstd"];

/// Crates that depend on the engine with features of their choice.
const DEPENDENTS: [&str; 2] = ["terrace-node", "terrace-tools"];

/// Maximum number of crates that a program gets with the engine, the engine's own included.
const MAX_CRATES: [(&str, usize); 2] = [("default features", 45), ("no features", 30)];

const PROGRAM: &str = include_str!("features/program.rs");
const LIMIT: Duration = Duration::from_secs(600);

pub fn run(root: &Path) -> Outcome {
    let parts = std::iter::once("").chain(FEATURES).map(|feature| {
        let named = if feature.is_empty() { "none" } else { feature };
        lint(root, feature).named(named)
    });
    let dependents = DEPENDENTS.map(|name| check_alone(root, name).named(name));
    let embedded = embedded(root).named("a program without features");
    Outcome::of_parts(parts.chain(dependents).chain([embedded]))
}

/// Checks a crate by itself: in a build of the workspace it has the features that other crates ask for.
fn check_alone(root: &Path, name: &str) -> Outcome {
    show(cargo(root).args(["check", "--locked", "-p", name]))
}

/// Lints the engine with one feature, or none.
fn lint(root: &Path, feature: &str) -> Outcome {
    let mut command = cargo(root);
    command.arg("clippy");
    command.args(["-p", "terrace", "--no-default-features", "--locked"]);
    if !feature.is_empty() {
        command.args(["--features", feature]);
    }
    show(command.args(["--", "-D", "warnings"]))
}

/// Makes a program in `target/` that depends on the engine, counts its crates and runs it.
fn embedded(root: &Path) -> Outcome {
    let directory = root.join("target/embedded");
    match prepare(root, &directory) {
        Ok(()) => {}
        Err(error) => return Outcome::Failed(format!("{}: {error}", directory.display())),
    }
    let counted = MAX_CRATES.map(|(features, most)| {
        let written = write_manifest(root, &directory, features == "default features");
        match written.and_then(|()| count_crates(&directory)) {
            Ok(count) if count <= most => {
                println!("{count} crates with {features}; {most} at most");
                Outcome::Passed
            }
            Ok(count) => Outcome::Failed(format!("{count} crates with {features}, not {most}")),
            Err(error) => Outcome::Failed(error.to_string()),
        }
    });
    // The last of them has no features: so has the program.
    Outcome::of_parts(
        counted
            .into_iter()
            .chain([make_packed(root, &directory), start(&directory)]),
    )
}

fn prepare(root: &Path, directory: &Path) -> std::io::Result<()> {
    for old in ["own", "packed", "named"] {
        let _ = fs::remove_dir_all(directory.join(old));
    }
    fs::create_dir_all(directory.join("src"))?;
    fs::write(directory.join("src/main.rs"), PROGRAM)?;
    // The same versions as everywhere else, and none to be fetched.
    fs::copy(root.join("Cargo.lock"), directory.join("Cargo.lock")).map(|_| ())
}

fn write_manifest(root: &Path, directory: &Path, default_features: bool) -> std::io::Result<()> {
    let engine = root.join("crates/terrace");
    let text = format!(
        "[package]\nname = \"embedded\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies.terrace]\npath = {engine:?}\ndefault-features = {default_features}\n\n\
         [workspace]\n"
    );
    fs::write(directory.join("Cargo.toml"), text)
}

/// Returns the number of crates that the program is built from, itself not counted.
fn count_crates(directory: &Path) -> std::io::Result<usize> {
    let mut command = cargo(directory);
    command.args([
        "tree",
        "--offline",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
    ]);
    let listed = command.output()?;
    if !listed.status.success() {
        let told = String::from_utf8_lossy(&listed.stderr).into_owned();
        return Err(std::io::Error::other(told));
    }
    let listed = String::from_utf8_lossy(&listed.stdout);
    // `name version`, and a mark on those that came before.
    let name = |line: &str| line.split(" (").next().map(str::to_string);
    let crates: BTreeSet<String> = listed.lines().filter_map(name).collect();
    Ok(crates.len().saturating_sub(1))
}

/// Makes a store whose table is compressed with zstd, and one with a keyspace of the default options, by the
/// command line, which has all features.
fn make_packed(root: &Path, directory: &Path) -> Outcome {
    let options = directory.join("packed.toml");
    if let Err(error) = fs::write(&options, "default_keyspace.compression = [\"zstd\"]\n") {
        return Outcome::Failed(format!("{}: {error}", options.display()));
    }
    let commands: [(&str, &[&str]); 3] = [
        ("packed", &["put", "lisbon", "Portugal"]),
        ("packed", &["compact"]),
        (
            "named",
            &["put", "--keyspace", "cities", "lisbon", "Portugal"],
        ),
    ];
    Outcome::of_parts(commands.map(|(store, words)| {
        let mut command = cargo(root);
        command.args(["run", "--quiet", "--locked", "--bin", "terrace", "--"]);
        command
            .args(words)
            .arg("--store")
            .arg(directory.join(store));
        show(command.arg("--options").arg(&options))
    }))
}

fn start(directory: &Path) -> Outcome {
    let mut command = cargo(directory);
    command.args([
        "run",
        "--quiet",
        "--offline",
        "--",
        "own",
        "packed",
        "named",
    ]);
    println!("$ cargo run, in {}", directory.display());
    match capture(&mut command, LIMIT) {
        Ok(ended) if ended.status.is_some_and(|status| status.success()) => Outcome::Passed,
        Ok(ended) => Outcome::Failed(ended.output),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}
