//! Every value of a node against its checksum.

use serde_json::{Map, Value, json};
use terrace_node::device::Access;
use terrace_node::engine::{Damage, VerifyReport, verify};
use terrace_node::format::superblock::Superblock;

use crate::arguments::NodeReport;
use crate::failure::{Result, exit};
use crate::node;
use crate::output::{print, print_json};
use crate::progress::Steps;
use crate::report::{bytes, things};
use crate::text::{escape, json_field, shown};

pub fn run(arguments: &NodeReport) -> Result<()> {
    let path = &arguments.path;
    let (mut device, superblock) = node::open(path, Access::ReadAlone)?;
    let mut steps = Steps::of_things(format!("{}: checked", shown(path)), "value");
    let report = verify(&mut *device, &mut |values| steps.reach(values, None));
    steps.finish();
    let report = report.map_err(|error| node::failure(path, error))?;
    match arguments.json {
        true => print_json(&as_json(&report, &superblock))?,
        false => print(as_text(&report, &superblock))?,
    }
    match report.damaged.len() {
        0 => Ok(()),
        count => Err(node::failed(
            format!(
                "{} on {}",
                things(count as u64, "damaged value"),
                shown(path)
            ),
            exit::CORRUPTION,
            Some(
                "copy the device before anything else; then store these keys again or delete them",
            ),
        )),
    }
}

fn as_text(report: &VerifyReport, superblock: &Superblock) -> String {
    let mut text = format!(
        "checked {}: {}\n",
        things(report.values, "value"),
        bytes(report.value_bytes)
    );
    for damage in &report.damaged {
        text.push_str(&format!(
            "DAMAGED namespace {} ({}), key {}, at byte {}: {}\n",
            damage.nsid,
            escape(name_of(damage, superblock).as_bytes()),
            escape(damage.key.as_bytes()),
            damage.offset,
            damage.what
        ));
    }
    for (nsid, key) in &report.skipped {
        text.push_str(&format!(
            "not taken: a change that a crash cut short, namespace {nsid}, key {}\n",
            escape(key.as_bytes())
        ));
    }
    if report.damaged.is_empty() {
        text.push_str("sound: every value matches its checksum\n");
    }
    text
}

fn name_of<'a>(damage: &Damage, superblock: &'a Superblock) -> &'a str {
    let mut namespaces = superblock.namespaces.iter();
    let found = namespaces.find(|namespace| namespace.nsid == damage.nsid);
    found.map_or("", |namespace| &namespace.name)
}

fn as_json(report: &VerifyReport, superblock: &Superblock) -> Value {
    let damaged: Vec<Value> = report
        .damaged
        .iter()
        .map(|damage| {
            let mut object = Map::new();
            object.insert("nsid".to_owned(), damage.nsid.into());
            let name = name_of(damage, superblock);
            object.insert("namespace".to_owned(), name.into());
            json_field(&mut object, "key", damage.key.as_bytes());
            object.insert("offset".to_owned(), damage.offset.into());
            object.insert("what".to_owned(), damage.what.as_str().into());
            Value::Object(object)
        })
        .collect();
    let skipped = report.skipped.iter().map(|(nsid, key)| {
        let mut object = Map::new();
        object.insert("nsid".to_owned(), (*nsid).into());
        json_field(&mut object, "key", key.as_bytes());
        Value::Object(object)
    });
    json!({
        "skipped": skipped.collect::<Vec<_>>(),
        "sound": damaged.is_empty(),
        "values": report.values,
        "value_bytes": report.value_bytes,
        "damaged": damaged,
    })
}
