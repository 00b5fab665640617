//! Options of a store out of a file.

mod support;

use support::Shell;
use terrace::Options;

#[test]
fn the_defaults_are_printed_as_they_are_read() {
    let text = Shell::new().out(&["options"]);
    let read = Options::from_toml(&text).unwrap();
    assert_eq!(format!("{read:?}"), format!("{:?}", Options::default()));
}

/// The file that is printed makes the store that the bound alone would make.
#[test]
fn sizes_that_follow_from_a_bound_are_printed_as_they_are_read() {
    let shell = Shell::new();
    let text = shell.out(&["options", "--memory", "512MiB"]);
    let bounded = Options {
        memory_bytes: Some(512 << 20),
        ..Options::default()
    };
    let resolved = bounded.resolved().unwrap();
    let read = Options::from_toml(&text).unwrap();
    assert_eq!(format!("{read:?}"), format!("{resolved:?}"));
    let again = read.resolved().unwrap();
    assert_eq!(format!("{again:?}"), format!("{resolved:?}"));

    let ran = shell.run(&["options", "--memory", "1MiB"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("memory_bytes is 1048576"),
        "{}",
        ran.stderr
    );
    let ran = shell.run(&["options", "--memory", "512MB"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("512MiB"), "{}", ran.stderr);
}

#[test]
fn one_option_is_shown_with_its_values_and_the_moment_of_a_change() {
    let shell = Shell::new();
    let shown = shell.out(&["options", "table_bytes"]);
    assert_eq!(
        shown,
        "default_keyspace.table_bytes (option of a store)\n  \
         Size of a table that a compaction writes\n  \
         values   bytes, from 1 KiB to 1 TiB\n  \
         default  67108864 (64 MiB)\n  \
         applies  next table: tables written after the next opening have the new value, older \
         tables keep theirs\n\n\
         table_bytes (option of a keyspace)\n  \
         Size of a table that a compaction writes\n  \
         values   bytes, from 1 KiB to 1 TiB\n  \
         default  67108864 (64 MiB)\n  \
         applies  next table: tables written from then on have the new value, older tables keep \
         theirs\n"
    );
    assert_eq!(
        shell.out(&["options", "share_percent"]),
        shell.out(&["options", "read_buffer.share_percent"])
    );
}

#[test]
fn options_are_json_with_those_of_keyspaces() {
    let shell = Shell::new();
    let all = shell.json(&["options", "--json"]);
    let all = all["options"].as_array().unwrap();
    let moments = |of: &str, name: &str| -> Vec<String> {
        let named = all
            .iter()
            .filter(|option| option["of"] == of && option["name"] == name);
        named
            .map(|option| option["applies"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        moments("store", "default_keyspace.level_ratio"),
        ["at open"]
    );
    assert_eq!(moments("keyspace", "level_ratio"), ["live"]);
    assert_eq!(
        moments("store", "default_keyspace.block_bytes"),
        ["next table"]
    );
    let one = shell.json(&["options", "max_arenas", "--json"]);
    assert_eq!(one["options"][0]["default"], 3);
    assert_eq!(one["options"].as_array().unwrap().len(), 1);
}

#[test]
fn an_unknown_option_is_wrong_usage_and_near_ones_are_named() {
    let shell = Shell::new();
    let ran = shell.run(&["options", "arena_size"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert_eq!(
        ran.stderr,
        "terrace: there is no option \"arena_size\"; near names are arena_bytes, \
         max_arenas; `terrace options` lists all\n"
    );
    let ran = shell.run(&["options", "xyzzy"]);
    assert_eq!(
        ran.stderr,
        "terrace: there is no option \"xyzzy\"; `terrace options` lists all\n"
    );
}

#[test]
fn a_file_of_options_is_used_by_commands_that_write() {
    let shell = Shell::new();
    let file = shell.file("store.toml", "durability = \"PowerSafe\"\nmax_arenas = 2\n");
    shell.out(&["put", "k", "v", "--options", &file]);
    let statistics = shell.out(&["stats", "--json"]);
    assert!(
        statistics.contains("\"durability\": \"PowerSafe\""),
        "{statistics}"
    );
}

#[test]
fn a_wrong_file_of_options_is_wrong_usage_and_makes_no_store() {
    let shell = Shell::new();
    for (text, what) in [("max_arenas = 1", "from 2 to 64"), ("speed = 9", "speed")] {
        let file = shell.file("store.toml", text);
        let ran = shell.run(&["put", "k", "v", "--options", &file]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(
            ran.stderr.contains("store.toml") && ran.stderr.contains(what),
            "{}",
            ran.stderr
        );
        assert!(!shell.store().exists());
    }
    let ran = shell.run(&["put", "k", "v", "--options", "missing.toml"]);
    assert_eq!(ran.code, 6, "{}", ran.stderr);
}
