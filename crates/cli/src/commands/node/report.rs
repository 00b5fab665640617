//! A node and its namespaces, for people and for scripts.

use std::path::Path;

use serde_json::{Value, json};
use terrace_node::block::BLOCK_BYTES;
use terrace_node::engine::Node;
use terrace_node::format::namespace::{Description, Domain, Kind, WhenFull};
use terrace_node::format::superblock::{Superblock, VERSION};

use crate::report::{Sections, bytes, count, things};
use crate::text::{escape, json_path, shown, to_hex};

/// Superblocks at the ends of a device.
const SUPERBLOCKS: u64 = 2;

/// Returns the report in sections. `opened` counts the keys and bytes of the namespaces.
pub fn as_text(path: &Path, superblock: &Superblock, opened: Option<&Node>) -> String {
    let mut text = Sections::default();
    text.heading("Device");
    text.line("path", shown(path));
    text.line("size", bytes(device_bytes(superblock)));
    text.line("UUID", uuid(&superblock.uuid));
    text.line("format version", VERSION.to_string());
    let unassigned = unassigned_bytes(superblock);
    if unassigned > 0 {
        text.line("in no namespace", bytes(unassigned));
    }
    for namespace in &superblock.namespaces {
        let name = escape(namespace.name.as_bytes());
        text.heading(&format!("Namespace {}: {name}", namespace.nsid));
        describe(&mut text, namespace);
        if let Some(counted) = opened.and_then(|node| node.statistics(namespace.nsid)) {
            let free = block_bytes(counted.free_blocks);
            text.line(
                "holds",
                format!(
                    "{}, {} of values",
                    things(counted.keys, "key"),
                    bytes(counted.value_bytes)
                ),
            );
            text.line("free", bytes(free));
            text.line("memory of the index", bytes(counted.index_bytes));
        }
    }
    text.into_text()
}

fn describe(text: &mut Sections, namespace: &Description) {
    text.line("UUID", uuid(&namespace.uuid));
    text.line("NGUID", to_hex(&namespace.nguid));
    text.line("capacity", bytes(namespace.data.bytes()));
    text.line("a store survives", survives(namespace.domain));
    if namespace.kind == Kind::Blocks {
        text.line("kind", "blocks");
        return;
    }
    text.line("when full", when_full(namespace.when_full).1);
    text.line("keys at most", count(namespace.max_keys));
    text.line("largest value", bytes(namespace.max_value_bytes.into()));
}

/// Returns the same as data.
pub fn as_json(path: &Path, superblock: &Superblock, opened: Option<&Node>) -> Value {
    let namespaces: Vec<Value> = superblock
        .namespaces
        .iter()
        .map(|namespace| json_of(namespace, opened))
        .collect();
    let mut report = json!({
        "uuid": uuid(&superblock.uuid),
        "format_version": VERSION,
        "device_bytes": device_bytes(superblock),
        "unassigned_bytes": unassigned_bytes(superblock),
        "namespaces": namespaces,
    });
    json_path(&mut report, "path", Some(path));
    report
}

fn json_of(namespace: &Description, opened: Option<&Node>) -> Value {
    let mut value = json!({
        "nsid": namespace.nsid,
        "name": namespace.name,
        "kind": match namespace.kind { Kind::Keys => "keys", Kind::Blocks => "blocks" },
        "domain": match namespace.domain {
            Domain::PowerSafe => "power-safe",
            Domain::CrashSafe => "crash-safe",
        },
        "when_full": when_full(namespace.when_full).0,
        "uuid": uuid(&namespace.uuid),
        "nguid": to_hex(&namespace.nguid),
        "bytes": namespace.whole.bytes(),
        "capacity_bytes": namespace.data.bytes(),
        "journal_bytes": namespace.journal.bytes(),
        "max_keys": namespace.max_keys,
        "max_value_bytes": namespace.max_value_bytes,
    });
    let counted = opened.and_then(|node| node.statistics(namespace.nsid));
    if let (Some(counted), Some(fields)) = (counted, value.as_object_mut()) {
        let numbers = [
            ("keys", counted.keys),
            ("value_bytes", counted.value_bytes),
            ("free_bytes", block_bytes(counted.free_blocks)),
            ("segments", counted.segments),
            ("live_segment_bytes", counted.live_segment_bytes),
            ("index_bytes", counted.index_bytes),
        ];
        fields.extend(numbers.map(|(name, number)| (name.to_owned(), number.into())));
    }
    value
}

fn survives(domain: Domain) -> &'static str {
    match domain {
        Domain::PowerSafe => "a power cut",
        Domain::CrashSafe => "the death of the process",
    }
}

/// Returns the name of the choice, and its effect.
fn when_full(choice: WhenFull) -> (&'static str, &'static str) {
    match choice {
        WhenFull::Refuse => ("refuse", "stores are refused"),
        WhenFull::Evict => ("evict", "keys that were not used for long make room"),
    }
}

fn block_bytes(blocks: u64) -> u64 {
    blocks.saturating_mul(BLOCK_BYTES as u64)
}

pub fn device_bytes(superblock: &Superblock) -> u64 {
    block_bytes(superblock.device_blocks)
}

fn unassigned_bytes(superblock: &Superblock) -> u64 {
    let namespaces = superblock.namespaces.iter();
    let assigned: u64 = namespaces.map(|namespace| namespace.whole.blocks).sum();
    let between = superblock.device_blocks.saturating_sub(SUPERBLOCKS);
    block_bytes(between.saturating_sub(assigned))
}

/// Returns a UUID in its usual form.
fn uuid(bytes: &[u8; 16]) -> String {
    let number = u128::from_be_bytes(*bytes);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        number >> 96,
        number >> 80 & 0xffff,
        number >> 64 & 0xffff,
        number >> 48 & 0xffff,
        number & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_five_groups() {
        let bytes = std::array::from_fn(|at| at as u8);
        assert_eq!(uuid(&bytes), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
