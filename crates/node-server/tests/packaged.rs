//! The files that packages ship for the server.

use std::path::Path;

use terrace_node_server::Config;

const OPTIONS: &str = include_str!("../../../packaging/node.toml");

#[test]
fn the_packaged_options_are_legal_also_those_that_are_commented_out() {
    let config = Config::from_toml(OPTIONS).unwrap();
    assert_eq!(
        config.device.as_deref(),
        Some(Path::new("/var/lib/terrace/node.img"))
    );
    // Each comment that looks like an option is one: all of them together have another place.
    let is_option = |line: &&str| {
        let words = line.trim_start_matches("# ");
        words.starts_with("[[")
            || words
                .split_once(" = ")
                .is_some_and(|(name, _)| !name.contains(' '))
    };
    let lines = OPTIONS.lines().filter(is_option);
    let lines = lines.filter(|line| !line.starts_with("device"));
    let all: Vec<&str> = lines.map(|line| line.trim_start_matches("# ")).collect();
    // Options behind a table would be the table's.
    let (table, plain): (Vec<&str>, Vec<&str>) = all.iter().partition(|line| {
        line.starts_with("[[")
            || ["nsid", "max_value_bytes", "domain"]
                .iter()
                .any(|name| line.starts_with(name))
    });
    let shown = Config::from_toml(&[plain, table].concat().join("\n")).unwrap();
    assert_eq!(shown.namespaces.len(), 1);
    let mut defaults = Config::of_store("/var/lib/terrace/keys");
    defaults.namespaces = shown.namespaces.clone();
    defaults.secrets = Some("/etc/terrace/secrets".into());
    defaults.metrics = shown.metrics;
    assert_eq!(shown, defaults);
}
