//! Each exit code that `terrace --help` lists, and the words that come with it.

mod support;

use std::fs::File;

use support::{Shell, damage};

#[test]
fn code_2_wrong_usage() {
    let shell = Shell::new();
    assert_eq!(shell.run(&["get"]).code, 2);
    let ran = shell.run(&["put", "--hex", "xyz", "00"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("\"xyz\" is not hexadecimal"),
        "{}",
        ran.stderr
    );
    let key = "k".repeat(65_536);
    let ran = shell.run(&["put", &key, "v"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("65535"), "{}", ran.stderr);
    let no_directory = shell
        .command(&["get", "k"])
        .env_remove("TERRACE_STORE")
        .output()
        .unwrap();
    assert_eq!(no_directory.status.code(), Some(2));
}

#[test]
fn code_3_damage() {
    let shell = Shell::with_tables();
    // Within the first record: a mark behind it may be damaged without harm.
    damage(&shell.store_file(|name| name.starts_with("MANIFEST")), 60);
    let ran = shell.run(&["get", "oslo"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("MANIFEST"), "{}", ran.stderr);
}

#[test]
fn code_4_open_elsewhere() {
    let shell = Shell::with_tables();
    let owner = terrace::Db::open(shell.store(), terrace::Options::default()).unwrap();
    for arguments in [
        &["put", "k", "v"][..],
        &["get", "oslo"],
        &["stats"],
        &["stats", "--follow"],
        &["events"],
        &["events", "--follow"],
    ] {
        let ran = shell.run(arguments);
        assert_eq!(ran.code, 4, "{}", ran.stderr);
        assert!(
            ran.stderr.contains("close the other owner"),
            "{}",
            ran.stderr
        );
    }
    owner.close().unwrap();
    assert_eq!(shell.out(&["get", "oslo"]), "Norway\n");
}

#[test]
fn code_5_no_space() {
    let shell = Shell::with_tables();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ran = shell.command(&["scan"]).stdout(full).output().unwrap();
    assert_eq!(ran.status.code(), Some(5));
}

#[test]
fn code_6_input_that_cannot_be_read() {
    let shell = Shell::new();
    let ran = shell.run(&["import", "nowhere.csv", "--key", "id"]);
    assert_eq!(ran.code, 6);
    assert!(
        ran.stderr.starts_with("terrace: nowhere.csv: "),
        "{}",
        ran.stderr
    );
}

#[test]
fn code_7_no_store() {
    let shell = Shell::new();
    for command in [
        "get k",
        "del k",
        "scan",
        "stats",
        "stats --follow",
        "levels",
        "events",
        "events --follow",
        "verify",
        "repair",
    ] {
        let arguments: Vec<_> = command.split(' ').collect();
        let ran = shell.run(&arguments);
        assert_eq!(ran.code, 7, "{command}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("hint: check --store or TERRACE_STORE"),
            "{}",
            ran.stderr
        );
        assert!(!shell.store().exists(), "{command} made a store");
    }
    std::fs::create_dir(shell.store()).unwrap();
    for arguments in [&["events"][..], &["stats", "--follow"]] {
        let ran = shell.run(arguments);
        assert_eq!(ran.code, 7, "{arguments:?}: {}", ran.stderr);
    }
    assert_eq!(std::fs::read_dir(shell.store()).unwrap().count(), 0);
}

#[test]
fn every_command_shows_examples_and_the_codes_are_listed() {
    let shell = Shell::new();
    let help = shell.out(&["--help"]);
    for code in 0..=7 {
        assert!(help.contains(&format!("\n  {code}  ")), "{help}");
    }
    for command in [
        "put", "get", "del", "scan", "import", "stats", "levels", "verify", "repair", "dump",
        "node", "tier", "demo",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
        let help = shell.out(&[command, "--help"]);
        assert!(help.contains(&format!("Examples:\n  terrace {command}")) || command == "import");
        assert!(help.contains("Examples:\n"), "{help}");
    }
}
