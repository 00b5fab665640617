//! Many commands on one open store, from a pipe.

mod support;

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
        "terrace: line 5: a quote is not closed\n",
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
