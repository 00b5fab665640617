//! Real persistent memory and SIGKILL.
//!
//! `TERRACE_DAX_DIRECTORY` names a directory on a file system mounted with DAX, and
//! `TERRACE_PLAIN_DIRECTORY` one on a file system without it; `cargo xtask guest` boots a machine
//! that has both. Without the variables there is nothing to test, and the tests say so.
//!
//! A child (this binary again, running [`child`]) writes rows and tells of each through a pipe only
//! after it was acknowledged; the parent kills it in the midst of that. `TERRACE_DAX_KILLS` sets the
//! number of kills (8 by default).

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use terrace::{Db, Durability, Error, IterOptions, KeyspaceOptions, Options, PersistMethod};

const CHILD: &str = "TERRACE_DAX_CHILD_DIRECTORY";

/// Returns options with small arenas, so that kills meet flushes and recycled arenas, too.
fn options() -> Options {
    Options {
        persist_method: PersistMethod::Dax,
        durability: Some(Durability::PowerSafe),
        arena_bytes: 64 << 10,
        default_keyspace: KeyspaceOptions {
            table_bytes: 64 << 10,
            level1_bytes: 256 << 10,
            ..KeyspaceOptions::default()
        },
        ..Options::default()
    }
}

/// Returns a directory that the environment names; says so if it does not.
fn directory(variable: &str) -> Option<PathBuf> {
    let directory = std::env::var_os(variable).map(PathBuf::from);
    if directory.is_none() {
        println!("not tested: {variable} is not set (cargo xtask guest sets it)");
    }
    directory
}

fn key(number: u64) -> Vec<u8> {
    format!("row/{number:08}").into_bytes()
}

/// Returns a value of a few bytes to more than a page.
fn value(number: u64) -> Vec<u8> {
    let length = if number.is_multiple_of(50) {
        5000
    } else {
        number % 300
    };
    (0..length).map(|at| (number * 31 + at) as u8).collect()
}

/// Asserts that the store holds the rows from 0 on, whole and without a gap. Returns their number.
fn rows(db: &Db) -> u64 {
    let entries = db.iter(IterOptions::default()).unwrap().entries();
    let mut count = 0;
    for entry in entries {
        let entry = entry.unwrap();
        assert!(entry == (key(count), value(count)), "row {count}");
        count += 1;
    }
    count
}

#[test]
#[ignore = "the child process of the other tests"]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let db = Db::open(&path, options()).unwrap();
    let mut stdout = std::io::stdout().lock();
    for number in rows(&db).. {
        db.put(key(number), value(number)).unwrap();
        writeln!(stdout, "acknowledged {number}").unwrap();
    }
}

/// Has a child write and kills it after it has reported `count` rows. Returns the number of rows
/// that it reported in all, those from before included.
fn write_and_kill(path: &Path, count: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut last = None;
    let mut told = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        // The harness writes lines of its own; the pipe may end in half of one.
        let Some((_, number)) = line.split_once("acknowledged ") else {
            continue;
        };
        if let Ok(number) = number.parse::<u64>() {
            last = last.max(Some(number));
            told += 1;
        }
        if told == count {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(told >= count, "the child told of {told} rows only");
    last.map_or(0, |last| last + 1)
}

#[test]
fn acknowledged_rows_in_persistent_memory_survive_sigkill() {
    let Some(directory) = directory("TERRACE_DAX_DIRECTORY") else {
        return;
    };
    let path = directory.join("store");
    let kills = std::env::var("TERRACE_DAX_KILLS").map_or(8, |text| text.parse().unwrap());
    let (mut from_arenas, mut flushed) = (0, 0);
    for kill in 0..kills {
        let acknowledged = write_and_kill(&path, 100 + 150 * kill);
        let db = Db::open(&path, options()).unwrap();
        let statistics = db.statistics();
        assert_eq!(statistics.method, "dax");
        assert_eq!(statistics.durability, Durability::PowerSafe);
        assert!(!statistics.recovery.clean_close);
        from_arenas += statistics.recovery.writes;
        flushed = statistics.sequences.flushed;
        let found = rows(&db);
        println!(
            "kill {kill}: {acknowledged} rows acknowledged, {found} found, {} from arenas",
            statistics.recovery.writes
        );
        // One may have been under way.
        assert!((acknowledged..=acknowledged + 1).contains(&found));
        db.close().unwrap();
    }
    assert!(from_arenas > 0 && flushed > 0);
    let report = terrace_tools::inspect::verify(&path, options(), |_, _| {}).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
}

/// A region of its own on persistent memory, the tables elsewhere.
#[test]
fn a_region_directory_may_be_the_only_part_on_persistent_memory() {
    let directories = [
        directory("TERRACE_DAX_DIRECTORY"),
        directory("TERRACE_PLAIN_DIRECTORY"),
    ];
    let [Some(fast), Some(plain)] = directories else {
        return;
    };
    let options = Options {
        region_dir: Some(fast.join("region")),
        ..options()
    };
    let path = plain.join("with-region");
    for round in 0..3 {
        let db = Db::open(&path, options.clone()).unwrap();
        assert_eq!(db.statistics().method, "dax");
        assert_eq!(rows(&db), round * 500);
        for number in round * 500..(round + 1) * 500 {
            db.put(key(number), value(number)).unwrap();
        }
        db.close().unwrap();
    }
}

#[test]
fn a_file_system_without_dax_is_refused_with_advice() {
    let Some(directory) = directory("TERRACE_PLAIN_DIRECTORY") else {
        return;
    };
    let error = Db::open(directory.join("store"), options()).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    let text = error.to_string();
    for word in ["dax", "MAP_SYNC", "-o dax", "written"] {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
}
