use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{CommandFactory, Parser};
use terrace_bench::arguments::Bench;

use super::*;
use crate::arguments::Arguments;

#[derive(Parser)]
struct Typed {
    #[command(subcommand)]
    bench: Bench,
}

#[test]
fn every_measurement_has_a_name_of_its_own_and_is_understood() {
    let all = wanted(&[]).unwrap();
    let names: BTreeSet<_> = all.iter().map(|one| one.name).collect();
    assert_eq!(names.len(), all.len());
    let stores = ["terrace", "rocksdb", "leveldb", "fjall", "lmdb"];
    for one in all {
        let words = one.arguments.split_ascii_whitespace();
        let typed = Typed::try_parse_from(["compare"].into_iter().chain(words));
        let typed = typed.unwrap_or_else(|error| panic!("{}: {error}", one.name));
        let named = &typed.bench.common().unwrap().stores.names;
        assert_eq!(named.first().map(String::as_str), Some("terrace"));
        assert!(
            named.iter().all(|name| stores.contains(&name.as_str())),
            "{}",
            one.name
        );
    }
    let markers: BTreeSet<_> = SECTIONS.iter().map(|section| section.marker).collect();
    assert_eq!(markers.len(), SECTIONS.len());
    assert!(!markers.contains("written"));
}

#[test]
fn the_help_names_every_measurement() {
    let mut command = Arguments::command();
    let command = command.find_subcommand_mut("performance").unwrap();
    let help = command.render_long_help().to_string();
    let words: BTreeSet<_> = help.split([' ', ',', '.', '\n']).collect();
    for one in wanted(&[]).unwrap() {
        assert!(words.contains(one.name), "{}", one.name);
    }
}

#[test]
fn what_is_not_there_cannot_be_asked_for() {
    let error = wanted(&["durable".into(), "fits-2k".into()]).err().unwrap();
    assert!(
        error
            .to_string()
            .contains("there is no fits-2k; there are fits-1k,")
    );
    let one = wanted(&["durable".into()]).unwrap();
    assert_eq!(
        one.iter().map(|one| one.name).collect::<Vec<_>>(),
        ["durable"]
    );
}

/// In place of this program: see there.
const PROGRAM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/src/performance/tests/stand.sh"
);

/// A directory for results, stores and a document.
struct Stand {
    directory: tempfile::TempDir,
}

impl Stand {
    fn new() -> Self {
        let stand = Stand {
            directory: tempfile::tempdir().unwrap(),
        };
        let document = "<!-- begin durable -->old<!-- end durable -->";
        fs::write(stand.path("document"), document).unwrap();
        stand
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn asked(&self) -> Performance {
        Performance {
            results: self.path("results"),
            directory: self.directory.path().into(),
            only: vec!["durable".into(), "fits-1k-h".into()],
            document: Some(self.path("document")),
            tables_only: false,
            tiny: false,
        }
    }

    fn run(&self, asked: &Performance) -> std::result::Result<(), String> {
        run_with(Path::new(PROGRAM), asked).map_err(|error| error.to_string())
    }

    /// How often it was called since this was asked last.
    fn calls(&self) -> usize {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let _ = fs::remove_file(self.path("calls"));
        calls.lines().count()
    }

    fn document(&self) -> String {
        fs::read_to_string(self.path("document")).unwrap()
    }
}

#[test]
fn what_is_there_is_not_measured_again() {
    let stand = Stand::new();
    stand.run(&stand.asked()).unwrap();
    assert_eq!(stand.calls(), 2);
    assert!(
        stand.document().contains("| terrace, op/s |"),
        "{}",
        stand.document()
    );
    fs::remove_file(stand.path("results/durable.json")).unwrap();
    stand.run(&stand.asked()).unwrap();
    assert_eq!(stand.calls(), 1);
    let tables_only = Performance {
        tables_only: true,
        ..stand.asked()
    };
    stand.run(&tables_only).unwrap();
    assert_eq!(stand.calls(), 0);
}

#[test]
fn a_store_that_fails_leaves_the_results_of_the_others() {
    let stand = Stand::new();
    fs::write(stand.path("failing"), "").unwrap();
    let error = stand.run(&stand.asked()).unwrap_err();
    assert_eq!(stand.calls(), 2);
    assert!(
        error.contains("fits-1k-h: FAILED: rocksdb, repeat 1: lost a row"),
        "{error}"
    );
    assert!(error.contains("durable: FAILED"), "{error}");
    assert!(
        stand.document().contains("FAILED: rocksdb"),
        "{}",
        stand.document()
    );
}

#[test]
fn a_comparison_that_fails_leaves_the_others_alone() {
    let stand = Stand::new();
    fs::write(stand.path("garbled"), "").unwrap();
    let error = stand.run(&stand.asked()).unwrap_err();
    assert_eq!(
        (stand.calls(), error.as_str()),
        (2, "fits-1k-h: not measured\ndurable: not measured")
    );
    assert!(stand.document().contains("old"), "{}", stand.document());
}

#[test]
fn results_of_something_else_are_refused() {
    let stand = Stand::new();
    stand.run(&stand.asked()).unwrap();
    let tiny = Performance {
        tiny: true,
        ..stand.asked()
    };
    let error = stand.run(&tiny).unwrap_err();
    assert!(
        error.contains("fits-1k-h.json: it is of `peers compare ycsb h"),
        "{error}"
    );

    let error = run_with(Path::new("/bin/sh"), &stand.asked()).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("of another build of this program"),
        "{error}"
    );
}

#[test]
fn a_document_without_places_is_refused_before_anything_is_measured() {
    let stand = Stand::new();
    fs::write(stand.path("document"), "prose").unwrap();
    let error = stand.run(&stand.asked()).unwrap_err();
    assert!(
        error.contains("document: has no place for a table"),
        "{error}"
    );
    assert_eq!(stand.calls(), 0);
}
