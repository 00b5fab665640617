//! A node after a crash, or after the loss of its index.

use std::path::Path;
use std::time::Instant;

use serde_json::Value;
use terrace_node::block::BLOCK_BYTES;
use terrace_node::device::{Access, Device};
use terrace_node::engine::{Node, ScanReport, scan};

use super::report::{as_json, as_text};
use crate::arguments::NodeRecover;
use crate::failure::Result;
use crate::node;
use crate::output::{print, print_json};
use crate::progress::Steps;
use crate::report::{count, things};
use crate::text::shown;

pub fn run(arguments: &NodeRecover) -> Result<()> {
    let path = &arguments.report.path;
    let began = Instant::now();
    let (mut device, superblock) = node::open(path, Access::Write)?;
    let scanned = match arguments.scan {
        true => Some(rebuild(path, &mut *device)?),
        false => None,
    };
    let opened = Node::open(&mut *device).map_err(|error| node::failure(path, error))?;
    let elapsed = began.elapsed();
    if arguments.report.json {
        let mut report = as_json(path, &superblock, Some(&opened));
        add(&mut report, scanned.as_ref(), elapsed.as_secs_f64());
        return print_json(&report);
    }
    let mut text = format!("recovered in {elapsed:.2?}\n");
    if let Some(scanned) = &scanned {
        text.push_str(&told(scanned));
    }
    text.push('\n');
    text.push_str(&as_text(path, &superblock, Some(&opened)));
    print(text)
}

fn rebuild(path: &Path, device: &mut dyn Device) -> Result<ScanReport> {
    let mut steps = Steps::of_bytes(format!("{}: scanned", shown(path)));
    let block = BLOCK_BYTES as u64;
    let scanned = scan(device, &mut |done, all| {
        steps.reach(done * block, Some(all * block));
    });
    steps.finish();
    scanned.map_err(|error| node::failure(path, error))
}

fn told(scanned: &ScanReport) -> String {
    format!(
        "the index is rebuilt from the values: {}; older values left out: {}; damaged: {}\n{}\
         keys that had been deleted may be back: a delete leaves no trace in the values\n",
        things(scanned.keys, "key"),
        count(scanned.older),
        count(scanned.damaged),
        left_out(scanned),
    )
}

/// Returns a line about values for which there was no room, if there are some.
fn left_out(scanned: &ScanReport) -> String {
    match scanned.left_out {
        0 => String::new(),
        values => format!(
            "the index had no room for {}, the oldest ones: a namespace with more keys has it\n",
            things(values, "value")
        ),
    }
}

fn add(report: &mut Value, scanned: Option<&ScanReport>, elapsed_s: f64) {
    let Some(fields) = report.as_object_mut() else {
        return;
    };
    fields.insert("elapsed_s".to_owned(), elapsed_s.into());
    fields.insert("scanned".to_owned(), scanned.is_some().into());
    fields.insert(
        "deleted_keys_may_be_back".to_owned(),
        scanned.is_some().into(),
    );
    if let Some(scanned) = scanned {
        fields.insert("keys_found".to_owned(), scanned.keys.into());
        fields.insert("older_values".to_owned(), scanned.older.into());
        fields.insert("damaged_values".to_owned(), scanned.damaged.into());
        fields.insert("values_without_room".to_owned(), scanned.left_out.into());
    }
}
