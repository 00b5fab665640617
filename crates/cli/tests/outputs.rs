//! Standard output and standard error that cannot be written, or that have no reader.

mod support;

use std::fs::File;
use std::process::{Command, Stdio};

use support::Shell;

const ROWS: &str = "id,name\n1,a\n2\n3,c\n4,d\n";

/// Returns a device on which every write fails for want of space.
fn full() -> Stdio {
    File::options()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

/// Returns a descriptor that cannot be written.
fn read_only() -> Stdio {
    File::open("/dev/null").unwrap().into()
}

/// Returns a pipe whose reader has gone.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Returns commands that write to standard error, each with its exit code.
fn telling(shell: &Shell) -> Vec<(Vec<String>, i32)> {
    let rows = shell.file("rows.csv", ROWS);
    let nowhere = shell.path("nowhere").to_str().unwrap().to_owned();
    let import = ["import", &rows, "--key", "id", "--skip-bad", "--events"];
    let commands: [(&[&str], i32); 8] = [
        (&import, 0),
        (&[&import[..], &["--json"]].concat(), 0),
        (&["import", &rows, "--key", "id"], 2),
        (&["get", "none"], 1),
        (&["get", "-d", &nowhere, "k"], 7),
        (&["get"], 2),
        (&["no-such-command"], 2),
        (
            &[
                "bench",
                "ycsb",
                "c",
                "--records",
                "10",
                "--operations",
                "10",
            ],
            0,
        ),
    ];
    let owned = |arguments: &[&str]| arguments.iter().map(|&a| a.to_owned()).collect();
    let commands = commands.into_iter();
    commands
        .map(|(arguments, code)| (owned(arguments), code))
        .collect()
}

#[test]
fn a_message_that_cannot_be_written_changes_no_exit_code() {
    for stderr in [full, read_only, unread] {
        let shell = Shell::new();
        for (arguments, code) in telling(&shell) {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let ran = shell.command(&arguments).stderr(stderr()).output().unwrap();
            assert_eq!(ran.status.code(), Some(code), "{arguments:?}: {ran:?}");
        }
        assert_eq!(shell.out(&["scan"]).lines().count(), 3, "an import stopped");
    }
}

#[test]
fn a_closed_standard_error_changes_no_exit_code() {
    let shell = Shell::new();
    for (arguments, code) in telling(&shell) {
        let mut closing = Command::new("sh");
        closing.args([
            "-c",
            "exec \"$@\" 2>&- >&-",
            "sh",
            env!("CARGO_BIN_EXE_terrace"),
        ]);
        let closing = closing.args(&arguments).env("TERRACE_STORE", shell.store());
        let status = closing.status().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

/// Commands with output, of a store with tables.
const PRINTING: [&[&str]; 20] = [
    &["get", "oslo"],
    &["get", "oslo", "--json"],
    &["scan"],
    &["scan", "--format", "json"],
    &["export", "-"],
    &["export", "-", "--format", "csv"],
    &["stats"],
    &["stats", "--prometheus"],
    &["levels"],
    &["levels", "--json"],
    &["explain", "compaction"],
    &["tier", "list"],
    &["tier", "explain", "--json"],
    &["verify"],
    &["options"],
    &["completions", "bash"],
    &[
        "simulate",
        "compaction",
        "--keys",
        "1e4",
        "--policies",
        "leveled",
    ],
    &["tier", "probe", "/tmp", "--size=1MiB", "--seconds=0.1"],
    &["--help"],
    &["--version"],
];

#[test]
fn output_that_cannot_be_written_is_a_failure_of_reading_or_writing() {
    let shell = Shell::with_tables();
    for arguments in PRINTING {
        for (stdout, code) in [(full(), 5), (read_only(), 6)] {
            let ran = shell.command(arguments).stdout(stdout).output().unwrap();
            let told = String::from_utf8(ran.stderr).unwrap();
            assert_eq!(ran.status.code(), Some(code), "{arguments:?}: {told}");
            let head = match arguments.contains(&"--json") {
                true => "{\"error\":\"standard output: ",
                false => "terrace: standard output: ",
            };
            assert!(told.starts_with(head), "{told}");
        }
        // Nothing to write to at all.
        let command = shell
            .command(arguments)
            .stdout(full())
            .stderr(full())
            .status();
        assert_eq!(command.unwrap().code(), Some(5), "{arguments:?}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let shell = Shell::with_tables();
    for arguments in PRINTING {
        let ran = shell.command(arguments).stdout(unread()).output().unwrap();
        let told = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(
            (ran.status.code(), told.as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
}
