//! The comparison with other stores, at a scale that checks values and measures nothing.

use std::path::Path;

use crate::Outcome;
use crate::process::{cargo, show};

/// `peers/` is a workspace of its own: it is formatted, linted, tested and run on its own. Not with
/// `--locked`: a dependency that the engine gains belongs into this lock file too, and may just be
/// added.
pub fn run(root: &Path) -> Outcome {
    all(
        root,
        &[
            &["fmt", "--check"],
            &["clippy", "--all-targets", "--", "-D", "warnings"],
            &["test"],
            &["run", "--", "run", "--tiny"],
        ],
    )
}

/// The same program with RocksDB, optimised as it is for measuring: the C++ build is kept for that.
pub fn with_rocksdb(root: &Path) -> Outcome {
    let build = ["--release", "--features", "rocksdb"];
    let run = ["--", "run", "--tiny"];
    all(root, &[&[&["run"], &build[..], &run].concat()])
}

pub fn without_rocksdb(_: &Path) -> Outcome {
    Outcome::Skipped("RocksDB builds for many minutes: `--with-rocksdb` compares with it".into())
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
