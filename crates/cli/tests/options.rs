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
