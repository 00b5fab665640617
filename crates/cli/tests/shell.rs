//! Many commands on one open store, from a pipe.

mod support;

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use support::Shell;

#[test]
fn lines_of_a_pipe_share_one_open_store() {
    let shell = Shell::new();
    let lines = "put oslo Norway\n\
                 put 'san marino' \"San Marino\"   # a comment\n\
                 \n\
                 put --hex 00ff cafe --sync\n\
                 get 'san marino'\n\
                 get --json oslo\n\
                 count\n\
                 del --prefix o\n\
                 scan --keys-only --from s\n\
                 use rivers\n\
                 put rhine 1233\n\
                 count --json\n\
                 keyspaces\n\
                 use default\n\
                 sync\n\
                 flush\n\
                 scan --format json\n\
                 exit\n\
                 put never reached\n";
    let ran = shell.run_with(&["shell"], lines.as_bytes());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(
        ran.stdout,
        "San Marino\n\
         {\"key\":\"oslo\",\"value\":\"Norway\"}\n\
         3\n\
         san marino\n\
         {\n  \"keys\": 1\n}\n\
         default\n\
         rivers\n\
         {\"key_hex\":\"00ff\",\"value_hex\":\"cafe\"}\n\
         {\"key\":\"san marino\",\"value\":\"San Marino\"}\n"
    );
    assert_eq!(
        shell.out(&["get", "--keyspace", "rivers", "rhine"]),
        "1233\n"
    );
    assert_eq!(shell.run(&["get", "never"]).code, 1);
}

#[test]
fn a_line_that_fails_is_told_with_its_number_and_the_next_one_runs() {
    let shell = Shell::new();
    let lines = b"put a 1\nget b\nput --hex zz 00\nunknown\nput 'open\nget a\n";
    let ran = shell.run_with(&["shell"], lines);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "1\n"));
    for told in [
        "terrace: line 2: key not found\n",
        "terrace: line 3: \"zz\" is not hexadecimal",
        "terrace: line 4: unrecognized subcommand 'unknown'",
        "terrace: line 5: a quote is not closed",
        "terrace: 4 lines failed\n",
    ] {
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
    }
    let ran = shell.run_with(&["shell", "--bail"], b"get b\nput b 1\n");
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.ends_with("terrace: 1 line failed\n"));
    assert_eq!(shell.out(&["scan"]), "a\t1\n");
}

#[test]
fn bytes_that_are_no_text_and_a_missing_newline_are_taken_as_they_are() {
    let shell = Shell::new();
    let ran = shell.run_with(&["shell"], b"put \xff\xfe 'a\\b'\nput last \"\"");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(shell.out(&["scan", "--hex"]), "6c617374\t\nfffe\t615c62\n");
}

#[test]
fn every_command_of_the_shell_has_help() {
    let shell = Shell::new();
    let ran = shell.run_with(&["shell"], b"help\nget --help\n");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    for command in [
        "get",
        "put",
        "del",
        "scan",
        "count",
        "use",
        "keyspaces",
        "exit",
    ] {
        assert!(ran.stdout.contains(&format!("\n  {command} ")), "{command}");
    }
    assert!(ran.stdout.contains("Print key and value as a JSON object"));
}

#[test]
fn a_word_that_holds_the_name_of_a_command_is_none() {
    let shell = Shell::new();
    shell.out(&["put", "a", "1"]);
    let lines = b"del.old a\n/tmp/del a\n'' x del a\n.. x del a\n";
    let ran = shell.run_with(&["shell"], lines);
    assert_eq!(ran.code, 2);
    assert_eq!(
        ran.stderr.matches("there is no command").count(),
        4,
        "{}",
        ran.stderr
    );
    assert_eq!(shell.out(&["scan"]), "a\t1\n");
}

#[test]
fn a_blank_may_end_a_value_and_a_carriage_return_a_line() {
    let shell = Shell::new();
    let ran = shell.run_with(&["shell"], b"put a x\\ \r\nput b y\r\n");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(shell.out(&["scan"]), "a\tx \nb\ty\n");
}

#[test]
fn lines_behind_an_output_that_nobody_reads_are_run() {
    let shell = Shell::new();
    shell.out(&["put", "a", "1"]);
    let mut child = shell
        .command(&["shell"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut lines = child.stdin.take().unwrap();
    lines.write_all(b"get a\nget a\nput b 2\n").unwrap();
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(shell.out(&["get", "b"]), "2\n");
}

#[test]
fn a_failure_is_json_where_the_line_asks_for_it() {
    let shell = Shell::new();
    let ran = shell.run_with(&["shell"], b"put a 1\nget --json b\nget -- --json\n");
    let (first, rest) = ran.stderr.split_once('\n').unwrap();
    let told: serde_json::Value = serde_json::from_str(first).unwrap();
    assert_eq!((&told["line"], &told["exit_code"]), (&2.into(), &1.into()));
    assert!(
        rest.starts_with("terrace: line 3: key not found\n"),
        "{rest}"
    );
}

#[test]
fn others_look_on_while_a_shell_has_the_store() {
    let shell = Shell::new();
    let mut child = shell
        .command(&["shell"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = child.stdin.take().unwrap();
    lines.write_all(b"put a 1\n").unwrap();
    let began = Instant::now();
    while shell.run(&["stats", "--json"]).code != 0 {
        assert!(began.elapsed() < Duration::from_secs(60));
    }
    assert_eq!(shell.run(&["get", "a"]).code, 4, "it has one owner");
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
