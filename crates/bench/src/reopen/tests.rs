use std::fs;

use clap::{Parser, Subcommand};

use super::*;
use crate::arguments::Bench;
use crate::outcome::{Failure, Machine};
use crate::stores::terrace::CONTESTANTS;
use crate::stores::{self, NOTHING};

#[derive(Parser)]
struct Typed {
    #[command(subcommand)]
    bench: Bench,
}

fn typed(line: &str) -> Reopen {
    let words = ["bench"].into_iter().chain(line.split_whitespace());
    match Typed::try_parse_from(words).map(|typed| typed.bench) {
        Ok(Bench::Reopen(asked)) => asked,
        other => panic!("{line}: {:?}", other.err()),
    }
}

fn program() -> Program {
    let mut contestants = CONTESTANTS.to_vec();
    contestants.push(NOTHING);
    Program {
        contestants,
        default_contestants: vec!["terrace"],
        child_arguments: vec![],
    }
}

/// A directory whose store was filled and closed: the difference from a kill is the store's
/// concern.
fn filled(rows: &Rows) -> tempfile::TempDir {
    let directory = tempfile::tempdir_in(".").unwrap();
    let opened = (CONTESTANTS[0].open)(directory.path(), &rows.settings).unwrap();
    let filled = process::fill(opened.store.as_ref(), rows, &|_| {}).unwrap();
    assert!(filled.acknowledged_s > 0.0);
    opened.store.close().unwrap();
    directory
}

fn reopened(contestant: &Contestant, rows: &Rows, directory: &tempfile::TempDir) -> String {
    match reopen(contestant, rows, directory.path(), &|_| {}) {
        Ok(_) => "whole".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_whole_store_has_times_and_lost_nothing() {
    let rows = rows(&typed("reopen --tiny"));
    let directory = filled(&rows);
    let found = reopen(&CONTESTANTS[0], &rows, directory.path(), &|_| {}).unwrap();
    assert!(found.open_us > 0.0 && found.first_get_us > 0.0, "{found:?}");
    assert_eq!(found.lost, 0);
    assert!(found.durability.contains("CrashSafe"), "{found:?}");
    assert!(!found.settings.is_empty());
}

#[test]
fn a_store_that_lost_records_or_mixed_them_up_has_no_figures() {
    let rows = rows(&typed("reopen --tiny --records 100"));
    let directory = filled(&rows);
    let mut more = rows.clone();
    more.dataset.records = 103;
    assert!(
        reopened(&CONTESTANTS[0], &more, &directory)
            .starts_with("of 103 acknowledged records 3 are lost, the first of them record 100;")
    );
    let other_values = Rows { seed: 7, ..rows };
    let mixed = reopened(&CONTESTANTS[0], &other_values, &directory);
    assert!(mixed.starts_with("key user"), "{mixed}");
    assert!(
        reopened(&stores::NOTHING, &other_values, &directory)
            .starts_with("of 100 acknowledged records 100 are lost")
    );
}

#[test]
fn three_fifths_of_the_buffers_are_filled_unless_records_are_given() {
    for (line, records) in [
        ("reopen", 118_080),
        ("reopen --value-bytes 100 --write-buffers 2", 654_720),
        ("reopen --tiny", 1845),
        ("reopen --tiny --records 100000", 3000),
        ("reopen --records 5", 5),
    ] {
        assert_eq!(rows(&typed(line)).dataset.records, records, "{line}");
    }
    let told = rows(&typed("reopen")).settings;
    assert!(told.cache_bytes > told.expected_data_bytes && told.expected_data_bytes > 100 << 20);
}

#[test]
fn what_makes_no_sense_is_refused_in_words() {
    for (line, expected) in [
        ("reopen --records 0", "at least one record"),
        ("reopen --value-bytes 0", "at least one record"),
        ("reopen --stores rocksdb", "there is no store rocksdb here"),
        ("reopen --set lmdb.x=1", "does not take part"),
    ] {
        let error = setup(&program(), &typed(line)).err().unwrap().to_string();
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn examples_of_the_help_are_understood() {
    let mut command = Bench::augment_subcommands(clap::Command::new("bench"));
    let help = command.find_subcommand_mut("reopen").unwrap();
    let help = help.render_long_help().to_string();
    let examples = help
        .lines()
        .filter_map(|line| line.trim().strip_prefix("terrace bench "));
    let mut count = 0;
    for example in examples {
        setup(&program(), &typed(example.split(" | ").next().unwrap())).unwrap();
        count += 1;
    }
    assert!(count >= 3);
    assert!(help.contains("--set") && !help.contains("--html") && !help.contains("--rate"));
}

fn run_of(store: &str, repeat: u32, open_us: f64) -> ReopenRun {
    ReopenRun {
        store: store.into(),
        repeat,
        durability: "process crash".into(),
        settings: vec![("version".into(), "1".into())],
        records: 118_054,
        lost: 0,
        filled_s: 0.5,
        open_us,
        first_get_us: 20.0,
        open_read_bytes: 0,
        space_bytes: 128_000_000,
    }
}

#[test]
fn the_table_has_medians_and_how_the_first_stands_to_the_others() {
    let report = ReopenReport {
        command: "terrace bench reopen".into(),
        title: "reopen: many records".into(),
        conditions: vec![("data".into(), "115 MiB".into())],
        machine: Machine::default(),
        runs: vec![
            run_of("a", 0, 100_000.0),
            run_of("b", 0, 300_000.0),
            run_of("a", 1, 200_000.0),
            run_of("b", 1, 300_000.0),
        ],
        failures: vec![Failure {
            store: "c".into(),
            repeat: 0,
            label: String::new(),
            error: "of 2 acknowledged records 1 are lost".into(),
        }],
    };
    let shown = table::table(&report);
    let row = |name: &str| {
        let line = shown.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("{name} is missing:\n{shown}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        row("open, ms"),
        "open, ms *150 [100..200] 300 [300..300] 2.00x"
    );
    assert_eq!(
        row("first get"),
        "first get, us 20.0 [20.0..20.0] 20.0 [20.0..20.0] 1.00x"
    );
    assert_eq!(row("records lost"), "records lost 0 [0..0] 0 [0..0] -");
    assert!(shown.contains("118 054 records") && shown.contains("Settings of b"));
    assert_eq!(
        shown.lines().nth(1),
        Some("FAILED: c, repeat 1: of 2 acknowledged records 1 are lost; it has no more figures")
    );
    // The cost of the harness was not measured.
    assert!(!shown.contains("harness"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 110));

    let read: ReopenReport =
        serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(table::table(&read), shown);
}

#[test]
fn a_fill_that_fails_says_so_and_kills_nothing() {
    let rows = rows(&typed("reopen --tiny"));
    let directory = tempfile::tempdir_in(".").unwrap();
    let file = directory.path().join("in the way");
    fs::write(&file, "").unwrap();
    let told = fill_and_die(&CONTESTANTS[0], &rows, &file, &|_| {}, |_| {
        panic!("nothing was filled")
    });
    assert!(told.is_err());
}
