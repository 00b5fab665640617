//! The comparison with other stores, at a scale that checks values and measures nothing.

use std::path::Path;

use crate::Outcome;
use crate::process::{cargo, show};

/// Stores that build wherever the rest does: LMDB is a little C, redb is Rust, like fjall.
const ALWAYS: &str = "lmdb,redb";
/// LevelDB is the system's; its package brings this header.
const LEVELDB_HEADER: &str = "/usr/include/leveldb/c.h";

/// All stores through a workload with reads, updates and scans.
const COMPARE: &[&str] = &["--", "compare", "ycsb", "a", "e", "--tiny"];

/// `peers/` is a workspace of its own: it is formatted, linted, tested and run on its own. Not with
/// `--locked`: a dependency that the engine gains belongs into this lock file too, and may just be
/// added.
pub fn run(root: &Path) -> Outcome {
    let features = features("");
    let build = ["--features", &features];
    all(
        root,
        &[
            &["fmt", "--check"],
            &[
                &["clippy", "--all-targets"],
                &build[..],
                &["--", "-D", "warnings"],
            ]
            .concat(),
            &[&["test"], &build[..]].concat(),
            &[&["run"], &build[..], &["--", "run", "--tiny"]].concat(),
            &[&["run"], &build[..], COMPARE].concat(),
        ],
    )
}

/// The same program with RocksDB, optimised as it is for measuring: the C++ build is kept for that.
pub fn with_rocksdb(root: &Path) -> Outcome {
    let features = features(",rocksdb");
    let build = ["--release", "--features", &features];
    all(
        root,
        &[
            &[&["test"], &build[..]].concat(),
            &[&["run"], &build[..], &["--", "run", "--tiny"]].concat(),
            &[&["run"], &build[..], COMPARE].concat(),
        ],
    )
}

pub fn without_rocksdb(_: &Path) -> Outcome {
    Outcome::Skipped("RocksDB builds for many minutes: `--with-rocksdb` compares with it".into())
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
