use clap::Parser;

use super::*;
use crate::arguments::{Arguments, Command};

const TINY: fn(Measure) -> Sizes = |measure| Sizes {
    records: 20,
    clients: if measure == Measure::Contended { 4 } else { 1 },
};

fn asked(directory: &std::path::Path, more: &[&str]) -> Transactions {
    let typed = ["peers", "transactions", "--seconds", "0.02", "--directory"];
    let directory = directory.to_str().unwrap();
    let typed = typed.iter().chain([&directory]).chain(more);
    match Arguments::try_parse_from(typed).map(|typed| typed.command) {
        Ok(Command::Transactions(asked)) => asked,
        _ => panic!("not understood: {more:?}"),
    }
}

#[test]
fn every_store_has_all_figures_and_loses_no_step() {
    let directory = tempfile::tempdir().unwrap();
    let asked = asked(directory.path(), &["--repeats", "2"]);
    let contestants = contestants(&asked.names).unwrap();
    let runs = measure(&contestants, &asked, TINY).unwrap();
    assert_eq!(runs.len(), 2 * 3 * contestants.len());
    assert!(runs.iter().all(|run| run.counted.per_second > 0.0));
    // The second repeat begins with the second store.
    let begins = [runs[0].store, runs[runs.len() / 2].store];
    assert_eq!(begins, [contestants[0].name, contestants[1].name]);
    let table = shown::table(&runs, &asked);
    for contestant in &contestants {
        assert!(
            table.contains(&format!("\n{} ", contestant.name)),
            "{table}"
        );
    }
    let json: serde_json::Value =
        serde_json::from_str(&shown::json(&runs, &asked).unwrap()).unwrap();
    assert_eq!(json["runs"].as_array().unwrap().len(), runs.len());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn stores_without_transactions_and_no_time_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let error = |asked: &Transactions| {
        let contestants = contestants(&asked.names).unwrap();
        let error = measure(&contestants, asked, TINY).err().unwrap();
        error.to_string()
    };
    let nothing = error(&asked(directory.path(), &["--stores", "nothing"]));
    assert!(nothing.contains("nothing: "), "{nothing}");
    let mut no_time = asked(directory.path(), &[]);
    no_time.seconds = 0.0;
    assert!(error(&no_time).contains("--seconds"));
    assert!(contestants(&["no-such".into()]).is_err());
}
