//! Imports that were cut short and go on.

mod support;

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use support::Shell;

const ROWS: usize = 30_000;
const BATCH_ROWS: usize = 10;

fn row(number: usize) -> String {
    format!("{{\"k\":\"{number:08}\",\"v\":\"value {number}\"}}\n")
}

fn input() -> String {
    (0..ROWS).map(row).collect()
}

fn arguments(file: &str) -> [&str; 11] {
    [
        "import",
        file,
        "--format",
        "jsonl",
        "--key",
        "k",
        "--value",
        "v",
        "--resume",
        "--batch-rows",
        "10",
    ]
}

/// Returns the last number of a write: each row has one, and each batch one for its position.
fn writes(shell: &Shell) -> Option<usize> {
    let ran = shell.run(&["stats", "--json"]);
    let shown: Value = serde_json::from_str(&ran.stdout).ok()?;
    Some(shown["sequences"]["visible"].as_u64()? as usize)
}

#[test]
fn an_import_that_was_killed_goes_on_without_loss_and_without_a_row_twice() {
    let shell = Shell::new();
    let mut import = shell
        .command(&arguments("-"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = import.stdin.take().unwrap();
    pipe.write_all(&input().as_bytes()[..ROWS * 10]).unwrap();
    // It waits for more now, in the middle of the input, with batches written.
    let written = (0..1000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        writes(&shell).filter(|&writes| writes > 1000)
    });
    assert!(written.is_some());
    import.kill().unwrap();
    import.wait().unwrap();

    // Killed, and again while it goes on, at any row.
    let file = shell.file("rows.jsonl", input());
    let mut second = shell.command(&arguments("-"));
    let mut second = second
        .stdin(Stdio::from(std::fs::File::open(&file).unwrap()))
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let _ = second.kill();
    second.wait().unwrap();

    let ran = shell.run_with(
        &[&arguments("-")[..], &["--json"]].concat(),
        input().as_bytes(),
    );
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    let (rows, passed) = (&told["rows"], &told["passed_rows"]);
    assert!(passed.as_u64() >= Some(1000), "{told}");
    assert_eq!(
        rows.as_u64().unwrap() + passed.as_u64().unwrap(),
        ROWS as u64
    );
    assert_eq!(writes(&shell).unwrap(), ROWS + ROWS / BATCH_ROWS);
    let entries = shell.out(&["scan"]);
    let expected = |number| format!("{number:08}\tvalue {number}");
    assert!(entries.lines().eq((0..ROWS).map(expected)));
}

#[test]
fn an_import_that_had_ended_takes_what_was_appended() {
    let shell = Shell::new();
    let first: String = (0..25).map(row).collect();
    let file = shell.file("rows.jsonl", &first);
    let told = shell.out(&arguments(&file));
    assert!(told.starts_with("25 rows ("), "{told}");
    assert!(!told.contains("before"), "{told}");
    let told = shell.out(&arguments(&file));
    assert!(
        told.starts_with("0 rows (") && told.contains("; 25 rows imported before"),
        "{told}"
    );
    shell.file("rows.jsonl", first + &row(25));
    let told = shell.out(&arguments(&file));
    assert!(
        told.starts_with("1 row (") && told.contains("; 25 rows imported before"),
        "{told}"
    );
    assert_eq!(shell.out(&["scan"]).lines().count(), 26);
    // Without the flag all rows are written again.
    let all = arguments(&file);
    let told = shell.out(&[&all[..8], &all[9..]].concat());
    assert!(told.starts_with("26 rows ("), "{told}");
}

#[test]
fn another_input_of_that_name_is_refused_and_changes_nothing() {
    let shell = Shell::new();
    let rows = |numbers: std::ops::Range<usize>| numbers.map(row).collect::<String>();
    let file = shell.file("rows.jsonl", rows(0..25));
    shell.out(&arguments(&file));
    for (other, how) in [
        (rows(1..40), "contents differ"),
        (rows(0..24), "ends before them"),
    ] {
        shell.file("rows.jsonl", other);
        let ran = shell.run(&arguments(&file));
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(
            ran.stderr.contains("25 rows") && ran.stderr.contains(how),
            "{}",
            ran.stderr
        );
    }
    assert_eq!(shell.out(&["scan"]).lines().count(), 25);
}

#[test]
fn a_bad_row_can_be_corrected_and_the_import_goes_on_there() {
    let shell = Shell::new();
    let lines = |bad: &str| format!("{}{bad}\n{}", row(0), row(2));
    let file = shell.file("rows.jsonl", lines("nonsense"));
    let ran = shell.run(&arguments(&file));
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("line 2"), "{}", ran.stderr);
    shell.file("rows.jsonl", lines(row(1).trim_end()));
    let told = shell.out(&arguments(&file));
    assert!(
        told.starts_with("2 rows (") && told.contains("; 1 row imported before"),
        "{told}"
    );
    assert_eq!(shell.out(&["scan"]).lines().count(), 3);
}

#[test]
fn a_keyspace_that_was_dropped_and_made_again_is_filled_from_the_first_row() {
    let shell = Shell::new();
    let file = shell.file("rows.jsonl", (0..25).map(row).collect::<String>());
    let import = [&arguments(&file)[..], &["--keyspace", "rivers"]].concat();
    shell.out(&import);
    let db = terrace::Db::open(shell.store(), terrace::Options::default()).unwrap();
    db.drop_keyspace("rivers").unwrap();
    db.close().unwrap();
    for (told, passed) in [("25 rows (", 0), ("0 rows (", 25)] {
        let said = shell.out(&import);
        let before = said.contains("; 25 rows imported before");
        assert!(said.starts_with(told) && before == (passed > 0), "{said}");
        let entries = shell.out(&["scan", "--keyspace", "rivers"]);
        assert_eq!(entries.lines().count(), 25);
    }
}

#[test]
fn an_import_without_the_flag_forgets_the_position() {
    let shell = Shell::new();
    let rows = |numbers: std::ops::Range<usize>| numbers.map(row).collect::<String>();
    let file = shell.file("rows.jsonl", rows(0..25));
    let all = arguments(&file);
    let anew = [&all[..8], &all[9..]].concat();
    shell.out(&all);
    // Another input is refused, imported without the flag as the message says, and then resumed
    // from its start. One without rows removes the position just as well.
    for (other, count) in [(rows(100..140), 40), (String::new(), 0), (rows(7..9), 2)] {
        shell.file("rows.jsonl", other);
        let ran = shell.run(&all);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains("without --resume"), "{}", ran.stderr);
        for (command, passed) in [(&anew[..], false), (&all, false), (&all, count > 0)] {
            let told = shell.out(command);
            assert_eq!(told.contains("imported before"), passed, "{told}");
        }
        // For the next one to differ from.
        shell.file("rows.jsonl", rows(200..225));
        shell.out(&anew);
        shell.out(&all);
    }
}

#[test]
fn a_pipe_without_a_path_cannot_be_resumed_and_no_store_is_made() {
    let shell = Shell::new();
    // Standard input is a pipe, as the shell gives for <(COMMAND).
    let all = arguments("/dev/fd/0");
    let ran = shell.run_with(&all, row(0).as_bytes());
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("as `-`"), "{}", ran.stderr);
    assert!(!shell.store().exists());
    let ran = shell.run_with(&[&all[..8], &all[9..]].concat(), row(0).as_bytes());
    assert!(ran.stdout.starts_with("1 row ("), "{}", ran.stderr);
}

/// Earlier builds kept positions under the name of the keyspace, which may be another one's number.
#[test]
fn a_position_of_an_earlier_build_belongs_to_no_import() {
    let shell = Shell::new();
    let file = shell.path("rows.jsonl");
    let rows = input();
    std::fs::write(&file, &rows[..row(0).len() * 3]).unwrap();
    let name = file.to_str().unwrap();
    assert_eq!(shell.run(&arguments(name)).code, 0);
    let positions = shell.out(&["scan", "--keyspace", "terrace.imports"]);
    let (key, position) = positions.trim_end().split_once('\t').unwrap();
    assert!(key.starts_with("\\x00"), "{key}");
    shell.out(&["put", "--keyspace", "other", "a", "b"]);
    for number in 0..8 {
        let old = format!("{number}:{name}");
        shell.out(&["put", "--keyspace", "terrace.imports", &old, position]);
    }
    let mut arguments = arguments(name).to_vec();
    arguments.extend(["--keyspace", "other"]);
    assert_eq!(shell.run(&arguments).code, 0);
    let rows = shell.out(&["scan", "--keyspace", "other"]);
    assert_eq!(rows.lines().count(), 4);
}
