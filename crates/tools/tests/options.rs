//! The options for people, beside docs/options.md and the reader of TOML.

use std::path::Path;

use terrace::Options;
use terrace_tools::options;

#[test]
fn the_page_is_made_from_the_tables() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/options.md");
    let made = options::reference().unwrap();
    if std::env::var_os("TERRACE_BLESS").is_some() {
        std::fs::write(&page, &made).unwrap();
    }
    assert_eq!(made, std::fs::read_to_string(&page).unwrap());
}

#[test]
fn the_text_holds_the_defaults_and_with_every_example_it_sets_every_option() {
    let text = options::toml().unwrap();
    let read = Options::from_toml(&text).unwrap();
    assert_eq!(format!("{read:?}"), format!("{:?}", Options::default()));

    let is_example = |line: &str| line.starts_with("# ") && line.contains(" = ");
    let all = text.lines().map(|line| match is_example(line) {
        true => format!("{}\n", line.trim_start_matches("# ")),
        false => format!("{line}\n"),
    });
    let all = Options::from_toml(&all.collect::<String>()).unwrap();
    let written = all.to_toml().unwrap();
    for option in options::of_store().unwrap() {
        let own = option.name.rsplit('.').next().unwrap();
        assert!(written.contains(&format!("{own} = ")), "{}", option.name);
    }
}

#[test]
fn a_line_of_the_text_has_at_most_a_hundred_and_twenty_letters() {
    for line in options::toml().unwrap().lines() {
        assert!(line.len() <= 120, "{line}");
    }
}

#[test]
fn an_option_is_found_with_and_without_its_group() {
    let found = options::find("read_buffer.share_percent").unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(
        options::find("share_percent").unwrap()[0].name,
        found[0].name
    );
    let owners: Vec<_> = options::find("block_bytes").unwrap();
    let owners: Vec<_> = owners.iter().map(|option| option.of.to_string()).collect();
    assert_eq!(owners, ["store", "keyspace"]);
    assert!(options::find("block").unwrap().is_empty());
}

#[test]
fn an_option_is_shown_in_lines() {
    let shown = options::find("background_bytes_per_second").unwrap()[0].to_string();
    assert_eq!(
        shown,
        "background_bytes_per_second (option of a store)\n  \
         Rate at which flushes and compactions write together, while they owe little\n  \
         values   bytes a second, from 64 KiB\n  \
         default  not set: no limit\n  \
         example  background_bytes_per_second = 104857600\n  \
         applies  at open: the next opening takes the new value\n"
    );
}
