//! Names, keys and texts out of files cannot steer the terminal, in any command.

mod support;

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use support::{Shell, damage};
use terrace::{Db, KeyspaceOptions};

/// Colours, the bell, the direction of the text, an introducer of commands in one byte, and a line
/// that pretends to be one of the program's.
const ODD: &str = "a\x1b[31m\x07\u{202e}\u{9b}31m\x7f\u{2066}\nFORGED\rb";

/// Checks that nothing in a text steers a terminal, and that no line of it is forged.
#[track_caller]
fn assert_readable(arguments: &[&str], text: &str) {
    let steers =
        |c: &char| c.is_control() && !"\n\t".contains(*c) || "\u{202e}\u{2066}".contains(*c);
    let found = text.chars().find(steers);
    assert_eq!(found, None, "{arguments:?} printed {text:?}");
    let forged = text.lines().find(|line| line.starts_with("FORGED"));
    assert_eq!(forged, None, "{arguments:?} printed {text:?}");
}

/// Runs a command and checks both outputs. Returns its exit code.
#[track_caller]
fn check(shell: &Shell, arguments: &[&str]) -> i32 {
    let ran = shell.run(arguments);
    assert_readable(arguments, &ran.stdout);
    assert_readable(arguments, &ran.stderr);
    assert_ne!(ran.code, 101, "{arguments:?}: {}", ran.stderr);
    ran.code
}

/// Returns a store with odd names in it, in a directory with an odd name.
fn odd_store() -> (Shell, String) {
    let shell = Shell::new();
    let path = shell.path(ODD);
    let db = Db::open(&path, Shell::options()).unwrap();
    db.put(ODD.as_bytes(), ODD.as_bytes()).unwrap();
    db.put(b"plain", b"\xff\x1b").unwrap();
    let keyspace = db.create_keyspace(ODD, KeyspaceOptions::default()).unwrap();
    keyspace.put(ODD.as_bytes(), b"value").unwrap();
    db.flush().unwrap();
    db.delete_range(b"x\x1b[0m", b"y\x1b[0m").unwrap();
    db.close().unwrap();
    (shell, path.to_str().unwrap().to_owned())
}

#[test]
fn what_a_store_holds_is_shown_escaped() {
    let (shell, store) = odd_store();
    let file = shell.path(&format!("{ODD}.toml"));
    let file = file.to_str().unwrap();
    for arguments in [
        &["scan"][..],
        &["scan", "--keyspace", ODD],
        &["scan", "--format", "json"],
        &["get", ODD, "--json"],
        &["get", ODD, "--hex"],
        &["stats"],
        &["stats", "--json"],
        &["stats", "--prometheus"],
        &["levels"],
        &["levels", "--json"],
        &["levels", "--history"],
        &["tier", "list"],
        &["tier", "list", "--json"],
        &["tier", "explain"],
        &["tier", "explain", "--keyspace", ODD, "--json"],
        &["explain", "compaction"],
        &["explain", "compaction", "--json"],
        &["explain", "compaction", "--keyspace", ODD],
        &[
            "explain",
            "compaction",
            "--write-description",
            file,
            "--keyspace",
            ODD,
        ],
        &["verify"],
        &["verify", "--json"],
        &["export", "-"],
        &["compact", "--all", "--keyspace", ODD],
        &["compact", "--all", "--json"],
        &["flush"],
        &["repair"],
    ] {
        let code = check(&shell, &[arguments, &["-d", &store]].concat());
        assert_eq!(
            code,
            i32::from(arguments[1..].contains(&"--hex")) * 2,
            "{arguments:?}"
        );
    }
    let described = ["explain", "compaction", "--description", file];
    assert_eq!(check(&shell, &described), 0);
}

#[test]
fn what_is_not_there_is_named_escaped() {
    let (shell, store) = odd_store();
    let other = format!("{ODD}2");
    let nowhere = shell.path(&other);
    let nowhere = nowhere.to_str().unwrap();
    for command in ["get", "scan", "del", "export", "compact", "explain"] {
        let rest: &[&str] = match command {
            "get" | "del" => &["get", "k"],
            "export" => &["export", "-"],
            "compact" => &["compact", "--all"],
            "explain" => &["explain", "compaction"],
            other => &[other],
        };
        let missing = [rest, &["-d", &store, "--keyspace", &other]].concat();
        assert_ne!(check(&shell, &missing), 0, "{missing:?}");
    }
    for arguments in [
        &["get", "k", "-d", nowhere][..],
        &["stats", "-d", nowhere],
        &["verify", "-d", nowhere],
        &["repair", "-d", nowhere],
        &["events", "-d", nowhere],
        &["checkpoint", &store, "-d", &store],
        &["dump", nowhere],
        &["import", nowhere, "--key", "k"],
        &["import", nowhere, "--key", "k", "--format", "csv"],
        &["export", "-d", &store, nowhere],
        &["export", "-d", &store, &store, "--format", "csv"],
        &["explain", "compaction", "--description", nowhere],
        &["simulate", "compaction", "--policies", ODD],
        &["simulate", "compaction", "--options", nowhere],
        &["tier", "probe", nowhere],
        &["tier", "list", "-d", nowhere],
        &["tier", "explain", "-d", &store, "--keyspace", &other],
        &["tier", "add", "-d", &store, ODD, nowhere],
        &["tier", "add", "-d", &store, "disk", &store],
        &["tier", "drain", "-d", &store, ODD],
        &["tier", "remove", "-d", &store, ODD],
        &["bench", "ycsb", ODD],
        &["bench", "ycsb", "c", "--stores", ODD],
        &["demo", "--directory", &store],
        &["node", "status", nowhere],
        &["node", "verify", &store],
        &["node", "init", nowhere],
        &["node", "serve", nowhere],
        &["node", "serve", "--config", nowhere],
        &["node", "status", "--server", ODD],
        &["kv", "get", "k", "--address", ODD],
        &["kv", "get", "k", "--device", nowhere],
        &["put", "--hex", ODD, "00"],
        &["get", "--from", ODD],
        &[ODD],
        &["scan", "--format", ODD],
        &["import", "x.csv", "--key", "k", "--delimiter", ODD],
    ] {
        assert_ne!(check(&shell, arguments), 0, "{arguments:?}");
    }
}

#[test]
fn what_a_file_of_rows_holds_is_shown_escaped() {
    let shell = Shell::new();
    let quoted = ODD.replace('\x1b', "\x1b\"\"");
    let csv = format!("{ODD}.csv");
    for (content, arguments) in [
        (format!("\"{quoted}\",x\n1,2\n"), &["--key", "k"][..]),
        (format!("\"{quoted}\",\"{quoted}\"\n1,2\n"), &["--key", "k"]),
        (format!("k,x\n\"{quoted}\"\n"), &["--key", "k"]),
        (
            format!("k,x\n\"{quoted}\"\n"),
            &["--key", "k", "--skip-bad"],
        ),
        (
            format!("k,v\n\"{quoted}\",00\n"),
            &["--key", "k", "--value", "v", "--hex"],
        ),
        (format!("k,\"{quoted}\"\n1,\u{fffd}\n"), &["--key", ODD]),
        (format!("k\n\"{quoted}\n"), &["--key", "k"]),
    ] {
        let file = shell.file(&csv, content);
        check(&shell, &[&["import", &file], arguments].concat());
    }
    let jsonl = format!("{ODD}.jsonl");
    let key = serde_json::to_string(ODD).unwrap();
    for content in [
        ODD.to_owned(),
        format!("{{{key}:1}}"),
        format!("{{\"k\":[{key}]}}"),
        format!("{{\"k\":1,{key}"),
        "{\"k\": \u{202e}}".to_owned(),
    ] {
        let file = shell.file(&jsonl, content);
        for column in ["k", ODD] {
            check(&shell, &["import", &file, "--key", column]);
            check(
                &shell,
                &[
                    "import",
                    &file,
                    "--key",
                    column,
                    "--value",
                    ODD,
                    "--skip-bad",
                ],
            );
        }
    }
    let export = shell.file(&csv, format!("key,{ODD}\n"));
    shell.out(&["put", "k", "v"]);
    assert_eq!(check(&shell, &["export", &export, "--resume"]), 2);
    shell.out(&["put", &format!("{ODD}\t"), "v"]);
    assert_eq!(check(&shell, &["export", "-", "--format", "tsv"]), 6);
}

#[test]
fn what_a_file_of_options_holds_is_shown_escaped() {
    let shell = Shell::new();
    let basic = ODD.replace(['\n', '\r'], "");
    for content in [
        ODD.to_owned(),
        format!("\"{basic}\" = 1\n"),
        format!("durability = \"{basic}\"\n"),
        "durability = \"\\u001b\\u202e\\n\"\n".to_owned(),
    ] {
        let file = shell.file(&format!("{ODD}.toml"), content);
        let put = ["put", "k", "v", "--options", &file];
        assert_eq!(check(&shell, &put), 2);
        assert_eq!(
            check(&shell, &["simulate", "compaction", "--options", &file]),
            2
        );
        assert_eq!(
            check(&shell, &["explain", "compaction", "--description", &file]),
            2
        );
        assert_ne!(check(&shell, &["node", "serve", "--config", &file]), 0);
    }
}

#[test]
fn damage_is_shown_escaped() {
    let (shell, store) = odd_store();
    fs::write(shell.path(ODD).join(format!("{ODD}.table")), ODD).unwrap();
    let mut files: Vec<_> = fs::read_dir(&store)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for file in &files {
        let name = file.to_str().unwrap();
        check(&shell, &["dump", name]);
        check(&shell, &["dump", name, "--json"]);
    }
    let table = files
        .iter()
        .find(|file| file.to_str().unwrap().ends_with(".table"))
        .unwrap();
    let manifest = files
        .iter()
        .find(|file| file.to_str().unwrap().contains("MANIFEST"))
        .unwrap();
    damage(table, 20);
    for arguments in [
        &["verify"][..],
        &["verify", "--json"],
        &["scan"],
        &["get", ODD],
    ] {
        check(&shell, &[arguments, &["-d", &store]].concat());
    }
    damage(manifest, 60);
    for arguments in [
        &["verify"][..],
        &["get", ODD],
        &["stats"],
        &["repair"],
        &["repair", "--json"],
    ] {
        check(&shell, &[arguments, &["-d", &store]].concat());
    }
    check(&shell, &["dump", manifest.to_str().unwrap()]);
    check(&shell, &["dump", table.to_str().unwrap()]);
}

#[test]
fn a_terminal_gets_a_value_escaped_and_a_pipe_gets_it_as_it_is() {
    let shell = Shell::new();
    shell.out(&["put", "k", ODD]);
    assert_eq!(shell.out(&["get", "k"]), format!("{ODD}\n"));
    assert_eq!(shell.out(&["get", "k", "--raw"]), ODD);
    let on_terminal = |command: &str| {
        let line = format!("{} {command}", env!("CARGO_BIN_EXE_terrace"));
        let mut script = Command::new("script");
        script
            .args(["-qec", &line, "/dev/null"])
            .env("TERRACE_STORE", shell.store());
        let ran = script.stdin(Stdio::null()).output().ok()?;
        Some(String::from_utf8(ran.stdout).unwrap().replace("\r\n", "\n"))
    };
    let Some(shown) = on_terminal("get k") else {
        println!("SKIPPED: script is not installed");
        return;
    };
    let escaped = "a\\x1b[31m\\x07\\u{202e}\\xc2\\x9b31m\\x7f\\u{2066}\nFORGED\\rb\n";
    assert_eq!(shown, escaped);
    assert_eq!(on_terminal("get k --raw").unwrap(), ODD);
    assert_readable(&["scan"], &on_terminal("scan --format json").unwrap());
}

#[test]
fn the_shell_talks_at_a_terminal_and_goes_on_after_a_failure() {
    let shell = Shell::new();
    shell.out(&["put", "oslo", ODD]);
    let line = format!("{} shell", env!("CARGO_BIN_EXE_terrace"));
    let mut script = Command::new("script");
    script
        .args(["-qec", &line, "/dev/null"])
        .env("TERRACE_STORE", shell.store())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let Ok(mut started) = script.spawn() else {
        println!("SKIPPED: script is not installed");
        return;
    };
    let mut typed = started.stdin.take().unwrap();
    typed
        .write_all(b"get rome\rget oslo\ruse rivers\rexit\r")
        .unwrap();
    // Its end would end the shell, too.
    drop(typed);
    let ended = started.wait_with_output().unwrap();
    let shown = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success(), "{shown}");
    for told in [
        "default> ",
        "terrace: key not found",
        "a\\x1b[31m",
        "rivers> ",
    ] {
        assert!(shown.contains(told), "{told}: {shown:?}");
    }
}
