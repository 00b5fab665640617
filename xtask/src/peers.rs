//! The comparison with other stores, at a scale that checks values and measures nothing.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::Outcome;
use crate::process::{capture, cargo, show};

/// Stores that build wherever the rest does: LMDB is a little C, redb is Rust, like fjall.
const ALWAYS: &str = "lmdb,redb";
/// LevelDB is the system's; its package brings this header.
const LEVELDB_HEADER: &str = "/usr/include/leveldb/c.h";

/// All stores through reads, updates and scans, through db_bench's keys and a writer beside readers,
/// and through a kill.
const COMPARE: [&[&str]; 3] = [
    &["--", "compare", "ycsb", "a", "e", "--tiny"],
    &[
        "--",
        "compare",
        "db-bench",
        "fillrandom",
        "readwhilewriting",
        "--tiny",
    ],
    &["--", "compare", "reopen", "--tiny"],
];

/// An experiment in debug builds takes a minute or two; one that hangs must not hang the gate.
const EXPERIMENT_LIMIT: Duration = Duration::from_secs(1800);

/// Formats, lints, tests and runs `peers/`, which is a workspace of its own. Not with `--locked`: a
/// dependency that the engine gains belongs into this lock file too, and may just be added.
pub fn run(root: &Path) -> Outcome {
    let features = features("");
    let build = ["--features", &features];
    let checked = all(
        root,
        &[
            &["fmt", "--check"],
            &[
                &["clippy", "--all-targets"],
                &build[..],
                &["--", "-D", "warnings"],
            ]
            .concat(),
        ],
    );
    match checked {
        Outcome::Passed => tested(root, &build),
        other => other,
    }
}

/// Runs the same with RocksDB, optimised as it is for measuring: the C++ build is kept for that.
pub fn with_rocksdb(root: &Path) -> Outcome {
    let features = features(",rocksdb");
    let build = ["--release", "--features", &features];
    match tested(root, &build) {
        Outcome::Failed(what) => Outcome::Failed(what),
        _ if !features.contains("leveldb") => {
            Outcome::Skipped("`peers performance` alone: LevelDB is not installed".into())
        }
        passed => match performed(root, &build) {
            Outcome::Passed => passed,
            other => other,
        },
    }
}

/// Runs all comparisons of docs/performance.md, a few thousand operations each, with their tables.
fn performed(root: &Path, build: &[&str]) -> Outcome {
    let results = root.join("target/performance");
    let document = results.join("document.md");
    let template = "<!-- begin fits-1k --><!-- end fits-1k -->";
    // Results that are there would not be made again.
    let _ = fs::remove_dir_all(&results);
    let prepared = fs::create_dir_all(&results).and_then(|()| fs::write(&document, template));
    if let Err(error) = prepared {
        return Outcome::Failed(format!("{}: {error}", results.display()));
    }
    let mut command = cargo(&root.join("peers"));
    command
        .arg("run")
        .args(build)
        .args(["--", "performance", "--tiny"]);
    command.arg("--results").arg(&results);
    command.arg("--directory").arg(&results);
    command.arg("--document").arg(&document);
    match show(&mut command) {
        Outcome::Passed => {}
        other => return other,
    }
    match fs::read_to_string(document) {
        Ok(text) if is_measured(&text) => Outcome::Passed,
        other => Outcome::Failed(format!("peers performance made no table: {other:?}")),
    }
}

/// Runs its tests, every workload's kind, and the smallest experiments.
fn tested(root: &Path, build: &[&str]) -> Outcome {
    let test = [&["test"], build].concat();
    let compare = COMPARE.map(|arguments| [&["run"], build, arguments].concat());
    let commands: Vec<&[&str]> = std::iter::once(&test)
        .chain(&compare)
        .map(Vec::as_slice)
        .collect();
    match all(root, &commands) {
        Outcome::Passed => reproduced(root, build),
        other => other,
    }
}

/// Runs the smallest experiments, in target/.
fn reproduced(root: &Path, build: &[&str]) -> Outcome {
    match experiment(root, build, "plexdb") {
        Outcome::Passed => experiment(root, build, "wbl"),
        other => other,
    }
}

/// Runs one of them. The region of `wbl` is a mapped file; where the file system cannot hold one,
/// the experiment says so before it does anything, and is skipped.
fn experiment(root: &Path, build: &[&str], name: &str) -> Outcome {
    const CANNOT_MAP: &str = "put the region on";
    let directory = root.join("target/reproduce");
    if let Err(error) = fs::create_dir_all(&directory) {
        return Outcome::Failed(format!("{}: {error}", directory.display()));
    }
    let mut command = cargo(&root.join("peers"));
    command
        .arg("run")
        .args(build)
        .args(["--", "reproduce", name, "--tiny", "--directory"])
        .arg(&directory);
    println!("$ cargo run ... -- reproduce {name} --tiny");
    match capture(&mut command, EXPERIMENT_LIMIT) {
        Ok(ended) if ended.status.is_some_and(|status| status.success()) => Outcome::Passed,
        Ok(ended) if ended.output.contains(CANNOT_MAP) => Outcome::Skipped(format!(
            "`reproduce {name}` alone: no region can be mapped in target/"
        )),
        Ok(ended) => {
            println!("{}", ended.output);
            Outcome::Failed(format!("peers reproduce {name} --tiny"))
        }
        Err(error) => Outcome::Failed(format!("peers reproduce {name} --tiny: {error}")),
    }
}

/// Returns true if the row of C has a ratio to each of the four other stores.
fn is_measured(text: &str) -> bool {
    let mut rows = text.lines().filter_map(|line| line.strip_prefix("| C | "));
    let cells = rows.next().map(|row| row.split(" | ").skip(1).take(4));
    let is_number = |cell: &str| cell.parse::<f64>().is_ok();
    cells.is_some_and(|cells| cells.filter(|cell| is_number(cell)).count() == 4)
        && !text.contains("Not measured")
}

fn features(more: &str) -> String {
    let leveldb = if Path::new(LEVELDB_HEADER).exists() {
        ",leveldb"
    } else {
        println!("LevelDB is not installed (libleveldb-dev): the peers are built without it");
        ""
    };
    format!("{ALWAYS}{leveldb}{more}")
}

fn all(root: &Path, commands: &[&[&str]]) -> Outcome {
    for arguments in commands {
        let outcome = show(cargo(&root.join("peers")).args(*arguments));
        if !matches!(outcome, Outcome::Passed) {
            return outcome;
        }
    }
    Outcome::Passed
}
