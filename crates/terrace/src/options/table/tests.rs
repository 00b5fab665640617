//! The table beside the options that serde reads and writes.

use std::collections::BTreeSet;

use terrace_lsm::option_table::DefaultValue;
use toml::{Table, Value};

use super::*;
use crate::{Background, Db, KeyspaceOptions};

/// Returns the entries of a store, those of groups included.
fn entries() -> impl Iterator<Item = &'static OptionEntry> {
    STORE.iter().chain(READ_BUFFER).chain(DEFAULT_KEYSPACE)
}

/// Returns the TOML of all values that are there instead of a default.
fn examples() -> String {
    let lines = entries().filter_map(|entry| match entry.default {
        DefaultValue::Unset { example, .. } => Some(format!("{} = {example}\n", entry.name)),
        _ => None,
    });
    lines.collect()
}

/// Adds the names of all values in a TOML table, with the names of groups before a dot.
fn add_names(group: &str, table: &Table, names: &mut Vec<String>) {
    for (name, value) in table {
        match value {
            Value::Table(inner) => add_names(&format!("{group}{name}."), inner, names),
            _ => names.push(format!("{group}{name}")),
        }
    }
}

/// Returns the refusal of one value.
fn refusal(name: &str, value: impl std::fmt::Display) -> String {
    let text = format!("{name} = {value}");
    match Options::from_toml(&text) {
        Ok(_) => panic!("{text} is accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_option_in_toml_has_one_entry_and_every_entry_is_an_option() {
    let all = Options::from_toml(&examples()).unwrap();
    let mut written = Vec::new();
    add_names("", &all.to_toml().unwrap().parse().unwrap(), &mut written);
    written.sort();
    let mut listed: Vec<_> = entries().map(|entry| entry.name.to_owned()).collect();
    listed.sort();
    assert_eq!(listed, written);
}

#[test]
fn options_that_are_not_set_by_default_are_those_without_a_default() {
    let mut written = Vec::new();
    let text = Options::default().to_toml().unwrap();
    add_names("", &text.parse().unwrap(), &mut written);
    for entry in entries() {
        let is_unset = matches!(entry.default, DefaultValue::Unset { .. });
        let has_line = written.iter().any(|name| name == entry.name);
        assert_eq!(is_unset, !has_line, "{}", entry.name);
    }
}

#[test]
fn accepted_names_are_all_names_that_there_are() {
    for entry in entries() {
        let (names, value) = match entry.values {
            Values::Name(names) => (names, "\"?\""),
            Values::Names(names) => (names, "[\"?\"]"),
            _ => continue,
        };
        let refusal = refusal(entry.name, value);
        let (_, offered) = refusal.rsplit_once("expected").unwrap();
        let offered: BTreeSet<_> = offered.split('`').skip(1).step_by(2).collect();
        assert_eq!(offered, names.iter().copied().collect(), "{refusal}");
    }
}

#[test]
fn numbers_out_of_the_ranges_are_refused_by_name() {
    for entry in entries() {
        let outside: Vec<String> = match entry.values {
            Values::Whole { min, max, step, .. } => {
                let within = |number: &u64| i64::try_from(*number).is_ok();
                let outside = [min.checked_sub(step), max.checked_add(step)];
                let outside = outside.into_iter().flatten().filter(within);
                outside.map(|number| number.to_string()).collect()
            }
            Values::Decimal { min, max } => {
                vec![(min / 2.0).to_string(), format!("{:?}", max * 2.0)]
            }
            Values::Other(words) if words.starts_with("seconds") => vec!["-1.0".into()],
            _ => vec!["[[1]]".into()],
        };
        assert!(!outside.is_empty(), "{}", entry.name);
        for value in outside {
            let refusal = refusal(entry.name, &value);
            assert!(refusal.contains(entry.name), "{value}: {refusal}");
        }
    }
}

#[test]
fn a_description_is_one_line_of_its_own() {
    let mut seen = BTreeSet::new();
    for entry in entries() {
        let line = entry.description;
        assert!(line.len() <= 100 && !line.ends_with('.'), "{line}");
        assert!(line.starts_with(char::is_uppercase), "{line}");
        assert!(seen.insert(line), "{line}");
    }
}

/// Returns each table of a keyspace, with its level and entries.
fn tables(db: &Db) -> Vec<(usize, u64)> {
    let mut tables = Vec::new();
    for (level, sub_levels) in db.levels().keyspaces[1].levels.iter().enumerate() {
        for table in sub_levels.iter().flat_map(|sub_level| &sub_level.tables) {
            tables.push((level, table.entries));
        }
    }
    tables
}

#[test]
fn options_of_a_keyspace_that_are_live_steer_the_next_choice_of_the_policy() {
    let options = Options {
        background: Background::Inline,
        ..Options::in_memory()
    };
    let db = Db::open("/store", options).unwrap();
    let keyspace = db.create_keyspace("words", KeyspaceOptions::default());
    let keyspace = keyspace.unwrap();
    for number in 0..2000u32 {
        keyspace.put(number.to_be_bytes(), [7; 100]).unwrap();
    }
    keyspace.compact_range(..).unwrap();
    let before = tables(&db);
    let small = KeyspaceOptions {
        level1_bytes: 16 << 10,
        level_ratio: 2,
        ..KeyspaceOptions::default()
    };
    keyspace.set_options(small.clone()).unwrap();
    db.compact().unwrap();
    let after = tables(&db);
    assert!(after[0].0 > before[0].0, "{before:?} {after:?}");

    let table_bytes = 8 << 10;
    let options = KeyspaceOptions {
        table_bytes,
        ..small
    };
    keyspace.set_options(options).unwrap();
    db.compact().unwrap();
    assert_eq!(tables(&db), after, "older tables keep their size");
    keyspace.put(0u32.to_be_bytes(), b"new").unwrap();
    keyspace.put(1999u32.to_be_bytes(), b"new").unwrap();
    keyspace.compact_range(..).unwrap();
    assert!(
        tables(&db).len() > after.len(),
        "new tables have the new one"
    );
}
