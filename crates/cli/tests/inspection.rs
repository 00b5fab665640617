//! Reports of a store that another process has open.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use support::Shell;
use terrace::{Db, Options};
use terrace_tools::inspect;

fn owner(shell: &Shell) -> Db {
    let options = Options {
        arena_bytes: 1 << 20,
        // A few deletions are much of a few rows, and only requested merges are to run.
        tombstone_percent: 0,
        ..Options::default()
    };
    let db = inspect::open(shell.store(), options).unwrap();
    db.put(b"oslo", b"Norway").unwrap();
    db.flush().unwrap();
    db.put(b"rome", b"Italy").unwrap();
    db
}

#[test]
fn the_owner_is_asked_where_a_store_is_open() {
    let shell = Shell::new();
    let db = owner(&shell);
    let statistics = shell.json(&["stats", "--json"]);
    assert_eq!(statistics["sequences"]["visible"], 2);
    assert_eq!(statistics["sequences"]["flushed"], 1);
    let text = shell.out(&["stats"]);
    assert!(
        text.contains("Since the opening\n  keys and values written"),
        "{text}"
    );
    assert!(text.contains("flush                    p50 "), "{text}");
    let metrics = shell.out(&["stats", "--prometheus"]);
    assert!(metrics.contains("\nterrace_flushes_total 1\n"), "{metrics}");
    let levels = shell.out(&["levels"]);
    assert!(levels.contains("1 version in 1 table"), "{levels}");
    let events = shell.out(&["events"]);
    assert!(events.contains("flush of 1 arena ended"), "{events}");
    // A command that needs the store itself fails, and names the socket for others.
    let ran = shell.run(&["get", "oslo"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("store/inspect, as `terrace stats`"),
        "{}",
        ran.stderr
    );
    db.close().unwrap();
    assert_eq!(shell.json(&["stats", "--json"])["sequences"]["visible"], 2);
}

#[test]
fn the_owner_flushes_compacts_and_copies_where_a_store_is_open() {
    let shell = Shell::new();
    let db = owner(&shell);
    let told = shell.out(&["flush"]);
    assert!(
        told.starts_with("flushed by the store's owner in ") && told.contains(": 2 tables with"),
        "{told}"
    );
    assert_eq!(db.statistics().sequences.flushed, 2);
    let told = shell.json(&["compact", "--json"]);
    assert_eq!((&told["merges"], &told["tables"]), (&0.into(), &2.into()));
    db.delete(b"oslo").unwrap();
    let told = shell.json(&["compact", "--prefix", "os", "--json"]);
    assert_eq!(
        (&told["by_owner"], &told["merges"]),
        (&true.into(), &1.into())
    );
    assert_eq!(told["tables"], 1, "{told}");
    db.delete(b"bern").unwrap();
    let told = shell.json(&["compact", "--all", "--json"]);
    assert_eq!((&told["merges"], &told["tables"]), (&1.into(), &1.into()));
    let history = shell.out(&["levels", "--history"]);
    let lines: Vec<_> = history.lines().collect();
    assert_eq!(lines.len(), 3, "{history}");
    assert!(
        lines[0].ends_with(" predicted    dropped  why"),
        "{history}"
    );
    assert!(lines[1].starts_with("    1 "), "{history}");
    for (line, dropped) in lines[1..].iter().zip([2, 1]) {
        let end = format!("          -          {dropped}  it was asked for");
        assert!(line.ends_with(&end), "{line}");
    }
    let history = shell.json(&["levels", "--history", "--json"]);
    let dropped = |past: &serde_json::Value| past["dropped"].as_u64().unwrap();
    assert_eq!(
        history.as_array().unwrap().iter().map(dropped).sum::<u64>(),
        3
    );
    let text = shell.out(&["stats"]);
    assert!(
        text.contains("dropped by merges        3 of 4 entries, 0 setbacks\n"),
        "{text}"
    );

    // A path is the command's, wherever the owner runs.
    let copy = shell.path("copy");
    let checkpoint = || {
        let mut command = shell.command(&["checkpoint", "copy"]);
        let ran = command.current_dir(copy.parent().unwrap()).output();
        ran.unwrap()
    };
    let ran = checkpoint();
    let told = String::from_utf8(ran.stdout).unwrap();
    assert!(
        told.starts_with("copied by the store's owner in "),
        "{told}"
    );
    assert_eq!(checkpoint().status.code(), Some(2));
    let copied = shell.out(&["scan", "-d", copy.to_str().unwrap()]);
    assert_eq!(copied, "rome\tItaly\n");
    let ran = shell.run(&["compact", "--keyspace", "lakes"]);
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    db.close().unwrap();
    assert!(shell.out(&["flush"]).starts_with("flushed in "));
}

#[test]
fn maintenance_that_no_owner_answers_finds_the_store_busy() {
    let shell = Shell::with_tables();
    let owner = Db::open(shell.store(), Options::default()).unwrap();
    let maintain = |expected: &str| {
        for command in [
            &["flush"][..],
            &["compact", "--all"],
            &["checkpoint", "copy"],
        ] {
            let ran = shell.run(command);
            assert_eq!(ran.code, 4, "{}", ran.stderr);
            assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        }
    };
    maintain("is open elsewhere");
    drop(std::os::unix::net::UnixListener::bind(shell.store().join("inspect")).unwrap());
    maintain("nobody answers");
    owner.close().unwrap();
}

#[test]
fn events_and_statistics_are_followed_until_the_store_is_closed() {
    let shell = Shell::new();
    let db = owner(&shell);
    let follow = |arguments: &[&str]| {
        let mut child = shell.command(arguments).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines.map(Result::unwrap))
    };
    let (mut events, mut told) = follow(&["events", "--follow", "--json"]);
    let (mut stats, mut shown) = follow(&["stats", "--follow", "--interval", "0.1"]);
    assert!(told.next().unwrap().contains("\"kind\":\"flush_begun\""));
    assert!(shown.next().unwrap().starts_with("0 writes/s"));
    db.flush().unwrap();
    let flushes = told
        .by_ref()
        .filter(|line| line.contains("\"kind\":\"flush_ended\""));
    assert_eq!(flushes.take(2).count(), 2);
    assert!(
        shown
            .next()
            .unwrap()
            .contains("writes 2; 0 arenas sealed; 2 sub-levels in level 0")
    );
    db.close().unwrap();
    assert!(events.wait().unwrap().success());
    assert!(stats.wait().unwrap().success());
}

#[test]
fn rates_are_over_the_time_that_passed_whatever_interval_was_asked_for() {
    const WRITES: u64 = 1_000_000_000;
    let shell = Shell::with_tables();
    let mut statistics = shell.json(&["stats", "--json"]);
    // An owner that answers when it pleases.
    let owner = std::os::unix::net::UnixListener::bind(shell.store().join("inspect")).unwrap();
    let follow = shell
        .command(&["stats", "--follow", "--interval", "86400"])
        .spawn()
        .unwrap();
    let (mut client, _) = owner.accept().unwrap();
    for writes in [0, WRITES] {
        statistics["sequences"]["visible"] = writes.into();
        let answer = serde_json::json!({"version": 1, "statistics": statistics});
        writeln!(client, "{answer}").unwrap();
    }
    drop(client);
    let output = follow.wait_with_output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let rates: Vec<u64> = shown
        .lines()
        .map(|line| line.split_once(" writes/s").unwrap().0)
        .map(|rate| rate.replace(',', "").parse().unwrap())
        .collect();
    // Over the interval it would be 11,574.
    assert!(
        matches!(rates[..], [0, rate] if rate > 1_000_000),
        "{shown}"
    );
}

#[test]
fn an_import_can_be_asked() {
    let shell = Shell::new();
    let mut import = shell
        .command(&[
            "import",
            "-",
            "--format",
            "jsonl",
            "--key",
            "k",
            "--batch-rows",
            "1",
        ])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = import.stdin.take().unwrap();
    // More than the command reads ahead, so that batches are written before the input ends.
    for row in 0..20_000 {
        writeln!(input, "{{\"k\":\"{row:010}\",\"v\":\"some value\"}}").unwrap();
    }
    let writes = (0..2000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        let ran = shell.run(&["stats", "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&ran.stdout).ok()?;
        shown["sequences"]["visible"]
            .as_u64()
            .filter(|&writes| writes > 1000)
    });
    assert!(writes.is_some());
    drop(input);
    assert!(import.wait_with_output().unwrap().status.success());
    assert!(!shell.store().join("inspect").exists());
}

#[test]
fn a_question_that_nobody_answers_is_an_error() {
    let shell = Shell::with_tables();
    let ran = shell.run(&["events"]);
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    assert!(ran.stderr.contains("nobody answers"), "{}", ran.stderr);
    let owner = Db::open(shell.store(), Options::default()).unwrap();
    // A crash left its socket; the present owner has none.
    drop(std::os::unix::net::UnixListener::bind(shell.store().join("inspect")).unwrap());
    let ran = shell.run(&["stats"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(ran.stderr.contains("nobody answers"), "{}", ran.stderr);
    owner.close().unwrap();
}
