//! Keyspaces listed, renamed and dropped from the shell.

mod support;

use std::fs;

use serde_json::json;
use support::Shell;
use terrace::{Db, Options};
use terrace_tools::inspect;

/// Returns a store whose keyspace `rivers` has one table, and `default` none.
fn with_rivers() -> Shell {
    let shell = Shell::new();
    shell.out(&["put", "--keyspace", "rivers", "rhine", "1233"]);
    shell.out(&["flush"]);
    shell
}

fn tables(shell: &Shell) -> usize {
    let files = fs::read_dir(shell.store()).unwrap();
    let names = files.map(|file| file.unwrap().file_name());
    names
        .filter(|name| name.to_string_lossy().ends_with(".table"))
        .count()
}

#[test]
fn a_list_has_the_name_tables_and_bytes_of_each_keyspace() {
    let shell = with_rivers();
    let listed = shell.json(&["keyspaces", "list", "--json"]);
    let rivers = &listed["keyspaces"][1];
    let bytes = rivers["bytes"].as_u64().unwrap();
    assert!(bytes > 0);
    let expected = json!({"keyspaces": [
        {"id": 1, "name": "default", "tables": 0, "bytes": 0},
        {"id": 2, "name": "rivers", "tables": 1, "bytes": bytes},
    ]});
    assert_eq!(listed, expected);
    let text = shell.out(&["keyspaces", "list"]);
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["tables", "bytes", "keyspace"]);
    assert_eq!(lines[1], ["0", "0", "B", "default"]);
    assert_eq!((lines[2][0], *lines[2].last().unwrap()), ("1", "rivers"));
}

#[test]
fn a_name_with_control_characters_stays_on_its_line() {
    let shell = with_rivers();
    let told = shell.out(&["keyspaces", "rename", "rivers", "a\n\u{1b}[2Jb"]);
    assert_eq!(told, "renamed rivers to a\\n\\x1b[2Jb\n");
    let text = shell.out(&["keyspaces", "list"]);
    assert!(text.ends_with("  a\\n\\x1b[2Jb\n"), "{text}");
    let listed = shell.json(&["keyspaces", "list", "--json"]);
    assert_eq!(listed["keyspaces"][1]["name"], "a\n\u{1b}[2Jb");
}

#[test]
fn a_renamed_keyspace_has_its_rows_under_the_new_name() {
    let shell = with_rivers();
    let told = shell.json(&["keyspaces", "rename", "rivers", "streams", "--json"]);
    assert_eq!(
        told,
        json!({"from": "rivers", "to": "streams", "by_owner": false})
    );
    let found = shell.out(&["get", "--keyspace", "streams", "rhine"]);
    assert_eq!(found, "1233\n");
    let ran = shell.run(&["get", "--keyspace", "rivers", "rhine"]);
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("hint: `terrace keyspaces list`"),
        "{}",
        ran.stderr
    );
}

#[test]
fn names_that_are_taken_or_missing_have_the_exit_codes_of_usage_and_of_no_keyspace() {
    let shell = with_rivers();
    for (code, arguments) in [
        (2, &["rename", "rivers", "default"][..]),
        (2, &["rename", "rivers", ""]),
        (2, &["rename", "default", "other"]),
        (2, &["drop", "default"]),
        (7, &["rename", "lakes", "seas"]),
        (7, &["drop", "lakes"]),
    ] {
        let ran = shell.run(&[&["keyspaces"], arguments].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (code, ""), "{arguments:?}");
    }
    let listed = shell.json(&["keyspaces", "list", "--json"]);
    assert_eq!(listed["keyspaces"].as_array().unwrap().len(), 2);
    let nowhere = Shell::new();
    for arguments in [
        &["list"][..],
        &["rename", "a", "b"],
        &["drop", "--if-exists", "a"],
    ] {
        let ran = nowhere.run(&[&["keyspaces"], arguments].concat());
        assert_eq!(ran.code, 7, "{arguments:?}: {}", ran.stderr);
        assert!(!nowhere.store().exists());
    }
}

#[test]
fn a_dropped_keyspace_is_gone_with_its_files() {
    let shell = with_rivers();
    assert_eq!(tables(&shell), 1);
    let told = shell.out(&["keyspaces", "drop", "rivers"]);
    assert!(told.starts_with("dropped rivers: 1 table with "), "{told}");
    assert_eq!(tables(&shell), 0);
    let told = shell.out(&["keyspaces", "drop", "--if-exists", "rivers"]);
    assert_eq!(told, "there is no keyspace rivers; nothing is dropped\n");
    let told = shell.json(&["keyspaces", "drop", "--if-exists", "rivers", "--json"]);
    assert_eq!(told["dropped"], false);
}

#[test]
fn an_import_goes_on_in_a_keyspace_with_another_name() {
    let shell = Shell::new();
    let file = shell.file("rivers.csv", "name,km\nrhine,1233\n");
    let import = |keyspace: &str| {
        shell.json(&[
            "import",
            &file,
            "--key",
            "name",
            "--keyspace",
            keyspace,
            "--resume",
            "--json",
        ])
    };
    assert_eq!(import("rivers")["rows"], 1);
    shell.out(&["keyspaces", "rename", "rivers", "streams"]);
    shell.file("rivers.csv", "name,km\nrhine,1233\nelbe,1094\n");
    let told = import("streams");
    assert_eq!(
        (&told["rows"], &told["passed_rows"]),
        (&json!(1), &json!(1))
    );
    let found = shell.out(&["scan", "--keyspace", "streams"]);
    assert_eq!(found.lines().count(), 2);
}

#[test]
fn the_owner_lists_renames_and_drops_where_a_store_is_open() {
    let shell = with_rivers();
    let db = inspect::open(shell.store(), Options::default()).unwrap();
    let rivers = db.keyspace("rivers").unwrap();
    let told = shell.out(&["keyspaces", "rename", "rivers", "streams"]);
    assert_eq!(told, "renamed rivers to streams by the store's owner\n");
    assert_eq!(rivers.name(), "streams");
    let listed = shell.json(&["keyspaces", "list", "--json"]);
    assert_eq!(listed["keyspaces"][1]["name"], "streams");
    assert_eq!(listed["keyspaces"][1]["tables"], 1);
    assert_eq!(shell.run(&["keyspaces", "drop", "rivers"]).code, 7);
    let told = shell.json(&["keyspaces", "drop", "streams", "--json"]);
    assert_eq!(
        (&told["by_owner"], &told["tables"]),
        (&json!(true), &json!(1))
    );
    assert_eq!(db.keyspaces().len(), 1);
    db.close().unwrap();
    let closed = Db::open(shell.store(), Options::default()).unwrap();
    for arguments in [&["list"][..], &["rename", "a", "b"], &["drop", "a"]] {
        let ran = shell.run(&[&["keyspaces"], arguments].concat());
        assert_eq!(ran.code, 4, "{arguments:?}: {}", ran.stderr);
    }
    closed.close().unwrap();
}

#[test]
fn repair_names_the_command_that_gives_a_lost_name_back() {
    let shell = with_rivers();
    for file in fs::read_dir(shell.store()).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name == "CURRENT" || name.starts_with("MANIFEST") {
            fs::remove_file(path).unwrap();
        }
    }
    let told = shell.out(&["repair"]);
    assert!(
        told.contains("a keyspace whose name is lost is called \"recovered-2\" now\n")
            && told
                .contains("\n`terrace keyspaces rename OLD NEW` gives a keyspace another name\n"),
        "{told}"
    );
    shell.out(&["keyspaces", "rename", "recovered-2", "rivers"]);
    let found = shell.out(&["get", "--keyspace", "rivers", "rhine"]);
    assert_eq!(found, "1233\n");
    assert!(!shell.out(&["repair"]).contains("keyspaces rename"));
}
