//! A damaged store made openable again.

use std::io::{self, IsTerminal};

use indicatif::ProgressBar;
use serde_json::{Value, json};
use terrace::{Error, Options};
use terrace_tools::repair::{
    DamagedTable, LeftFile, ManifestRepair, RepairOptions, RepairReport, repair_with,
};

use crate::arguments::Repair;
use crate::failure::Result;
use crate::output::{print, print_json};
use crate::report::{UNLISTED_TABLE, things};
use crate::store;
use crate::text::{json_path, shown};

pub fn run(arguments: &Repair) -> Result<()> {
    let takes_unlisted = arguments.take_unlisted;
    let decisions = RepairOptions {
        store: arguments.number,
    };
    let arguments = &arguments.maintenance;
    let path = &arguments.store.directory.path;
    let bar = match io::stderr().is_terminal() {
        true => ProgressBar::new(0),
        false => ProgressBar::hidden(),
    };
    let options = Options {
        take_unlisted: takes_unlisted,
        ..store::options_to_write(&arguments.store)?
    };
    let report = repair_with(path, options, decisions, |done, tables| {
        bar.set_length(tables as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let report = report?;
    match arguments.json {
        true => print_json(&as_json(&report)),
        false => print(as_text(&report)),
    }
}

fn as_text(report: &RepairReport) -> String {
    let mut lines = Vec::new();
    match (&report.manifest, &report.manifest_tail) {
        (_, Some(tail)) => lines.push(format!("{tail}; it is dropped")),
        (ManifestRepair::Kept, None) => lines.push("the manifest is whole".to_owned()),
        (ManifestRepair::Extended, None) => {
            lines.push("a new manifest is made, of all tables".to_owned());
        }
        (ManifestRepair::Rebuilt(why), None) => {
            let why = why.finding();
            lines.push(format!("a new manifest is made; the old one: {why}"));
        }
    }
    if report.is_resumed {
        lines.push("an earlier repair, which had been cut short, is finished".to_owned());
    }
    if let Some(damage) = &report.region_damage {
        let damage = damage.finding();
        lines.push(format!("the region directory is named anew: {damage}"));
    }
    let unlisted = report.unlisted_tables.iter();
    lines.extend(unlisted.map(|name| format!("{name}: {UNLISTED_TABLE}")));
    let taken = report.tables_taken.iter();
    lines.extend(taken.map(|name| format!("{name}: taken in; the file is kept as .taken")));
    lines.extend(report.damaged.iter().map(of_table));
    lines.extend(report.left.iter().map(of_left));
    if report.tables_unlisted > 0 {
        lines.push(format!(
            "what {} of another release held is not in the store any more",
            things(report.tables_unlisted as u64, "table")
        ));
    }
    if let Some(damage) = &report.arena_damage {
        lines.push(format!("damaged arenas: {}", damage.finding()));
    }
    if let Some((first, last)) = report.dropped {
        lines.push(format!(
            "writes {first} to {last} lie behind the damage and are not in the store; their files \
             are kept with .damaged behind their names"
        ));
    }
    lines.push(format!(
        "{} whole, {} written, {} taken from arenas",
        things(report.tables as u64, "table"),
        report.tables_written,
        things(report.writes_from_arenas, "write"),
    ));
    for name in &report.named {
        lines.push(format!(
            "a keyspace whose name is lost is called {name:?} now"
        ));
    }
    if !report.named.is_empty() {
        lines.push("`terrace keyspaces rename OLD NEW` gives a keyspace another name".to_owned());
    }
    if !report.is_changed() {
        lines.push("nothing is damaged; nothing was changed".to_owned());
    } else if report.may_resurrect() {
        lines.push(
            "keys that had been deleted may be back: what deleted them may have been in what is \
             lost"
                .to_owned(),
        );
    }
    lines.push(String::new());
    lines.join("\n")
}

fn of_table(table: &DamagedTable) -> String {
    let of = table
        .entries
        .map_or_else(String::new, |entries| format!(" of {entries}"));
    let kept = things(table.entries_kept, "version");
    let file = match &table.kept_as {
        Some(file) => format!("; the damaged file is {}", shown(file)),
        None => String::new(),
    };
    let found = table.error.finding();
    format!("damaged table: {found}; {kept}{of} read{file}")
}

fn of_left(left: &LeftFile) -> String {
    let kept = match &left.kept_as {
        Some(file) if left.is_newer() => {
            format!("it keeps its name and has a second one, {}", shown(file))
        }
        Some(file) => format!("it is kept as {}", shown(file)),
        None => "it keeps its name".to_owned(),
    };
    format!("not taken: {}; {kept}", left.error.finding())
}

fn as_json(report: &RepairReport) -> Value {
    let found = |error: &Error| error.finding().to_string();
    let table = |table: &DamagedTable| {
        let mut damaged = json!({
            "error": found(&table.error),
            "versions": table.entries,
            "versions_kept": table.entries_kept,
        });
        json_path(&mut damaged, "kept_as", table.kept_as.as_deref());
        damaged
    };
    let left = |left: &LeftFile| {
        let mut not_taken = json!({"error": found(&left.error)});
        json_path(&mut not_taken, "file", Some(&left.file));
        json_path(&mut not_taken, "kept_as", left.kept_as.as_deref());
        not_taken
    };
    let why = match &report.manifest {
        ManifestRepair::Kept | ManifestRepair::Extended => None,
        ManifestRepair::Rebuilt(why) => Some(found(why)),
    };
    json!({
        "changed": report.is_changed(),
        "deleted_keys_may_be_back": report.may_resurrect(),
        "manifest_damage": why,
        "manifest_tail": report.manifest_tail,
        "unlisted_tables": report.unlisted_tables,
        "tables_taken": report.tables_taken,
        "resumed": report.is_resumed,
        "region_damage": report.region_damage.as_ref().map(found),
        "tables": report.tables,
        "tables_written": report.tables_written,
        "damaged_tables": report.damaged.iter().map(table).collect::<Vec<_>>(),
        "arena_damage": report.arena_damage.as_ref().map(found),
        "writes_from_arenas": report.writes_from_arenas,
        "dropped": report.dropped,
        "left": report.left.iter().map(left).collect::<Vec<_>>(),
        "tables_unlisted": report.tables_unlisted,
        "keyspaces_named": report.named,
    })
}
