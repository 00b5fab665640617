//! Every checksum and every rule of a store.

use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use indicatif::ProgressBar;
use serde_json::{Value, json};
use terrace_tools::inspect::{VerifyReport, verify};

use crate::arguments::Report;
use crate::failure::{Failure, Result};
use crate::output::{print, print_json};
use crate::report::{UNLISTED_TABLE, bytes, things};
use crate::store;
use crate::text::{escape, json_path, shown};

pub fn run(arguments: &Report) -> Result<()> {
    let path = &arguments.store.directory.path;
    let bar = match io::stderr().is_terminal() {
        true => ProgressBar::new(0),
        false => ProgressBar::hidden(),
    };
    let options = store::options_to_read(&arguments.store);
    let report = verify(path, options, |done, tables| {
        bar.set_length(tables as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let report = report?;
    match arguments.json {
        true => print_json(&as_json(&report))?,
        false => print(as_text(&report))?,
    }
    match report.problems.len() {
        0 => Ok(()),
        count => Err(Failure::Damaged(format!(
            "{} in {}",
            things(count as u64, "problem"),
            shown(path)
        ))),
    }
}

fn as_text(report: &VerifyReport) -> String {
    let mut text = format!(
        "checked {}: {}, {}, {}\n",
        things(report.tables as u64, "table"),
        bytes(report.bytes),
        things(report.blocks, "block"),
        things(report.entries, "version"),
    );
    let recovery = &report.recovery;
    text.push_str(&format!(
        "checked {}: {} in {} not yet in tables\n",
        things(recovery.arenas as u64, "arena"),
        things(recovery.writes, "write"),
        things(recovery.frames as u64, "frame"),
    ));
    if let Some((first, last)) = recovery.dropped {
        text.push_str(&format!(
            "a torn tail, writes {first} to {last}, is dropped; they were never promised\n"
        ));
    }
    if let Some(tail) = &recovery.manifest_tail {
        text.push_str(&format!("{tail}; it is dropped\n"));
    }
    for name in &recovery.unlisted_tables {
        text.push_str(&format!("{name}: {UNLISTED_TABLE}\n"));
    }
    if let Some(loss) = recovery.region_loss {
        text.push_str(&format!("the region is lost, and accepted: {loss}\n"));
    }
    for file in &recovery.foreign_files {
        text.push_str(&format!(
            "not this store's, left alone: {}; move it away, or run repair\n",
            shown(file)
        ));
    }
    for problem in &report.problems {
        text.push_str(&format!(
            "PROBLEM {}: {}\n",
            named(&problem.file),
            problem.error
        ));
    }
    if report.problems.is_empty() {
        text.push_str("sound: every checksum and every age rule holds\n");
    }
    text
}

/// Returns the file's name, which leads for the eye; the errors name the whole path.
fn named(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str());
    escape(name.as_bytes())
}

fn as_json(report: &VerifyReport) -> Value {
    let problems: Vec<Value> = report
        .problems
        .iter()
        .map(|problem| {
            let mut found = json!({"error": problem.error.to_string()});
            json_path(&mut found, "file", Some(&problem.file));
            found
        })
        .collect();
    let mut recovery = serde_json::to_value(&report.recovery).unwrap_or_default();
    let mut verified = json!({
        "sound": problems.is_empty(),
        "tables": report.tables,
        "blocks": report.blocks,
        "versions": report.entries,
        "bytes": report.bytes,
        "arenas": report.recovery.arenas,
        "frames": report.recovery.frames,
        "writes_in_arenas": report.recovery.writes,
        "dropped": report.recovery.dropped,
        "manifest_tail": report.recovery.manifest_tail,
        "unlisted_tables": report.recovery.unlisted_tables,
        "problems": problems,
    });
    // These names know paths that are not UTF-8.
    for name in ["foreign_files", "foreign_files_hex"] {
        let files = recovery.get_mut(name).map(Value::take);
        if let (Some(files), Some(verified)) = (files, verified.as_object_mut()) {
            verified.insert(name.to_owned(), files);
        }
    }
    verified
}
