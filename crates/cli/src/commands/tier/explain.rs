//! Explains the tier of each table.

use serde_json::{Value, json};
use terrace::PlacedTable;
use terrace_tools::inspect::tiers::KeyspacePlacement;

use super::aligned;
use crate::arguments::TierExplain;
use crate::failure::Result;
use crate::output::{print, print_json};
use crate::report::bytes;
use crate::store;
use crate::text::escape;

pub fn run(arguments: &TierExplain) -> Result<()> {
    let maintenance = &arguments.maintenance;
    let placed = store::placed_tables(&maintenance.store, arguments.keyspace.as_deref())?;
    match maintenance.json {
        true => print_json(&as_json(&placed)),
        false => print(as_text(&placed)),
    }
}

fn as_json(placed: &[KeyspacePlacement]) -> Value {
    let keyspaces = placed
        .iter()
        .map(|placed| json!({"name": placed.keyspace, "tables": placed.tables}));
    json!({"keyspaces": keyspaces.collect::<Vec<_>>()})
}

fn as_text(placed: &[KeyspacePlacement]) -> String {
    let mut text = String::new();
    for KeyspacePlacement {
        keyspace, tables, ..
    } in placed
    {
        let name = escape(keyspace.as_bytes());
        if tables.is_empty() {
            text.push_str(&format!("keyspace {name}: no tables\n"));
            continue;
        }
        text.push_str(&format!("keyspace {name}\n"));
        let heads = ["level", "table", "size", "tier", "reason"].map(str::to_owned);
        let rows = tables.iter().map(row);
        let rows: Vec<_> = [heads.to_vec()].into_iter().chain(rows).collect();
        text.push_str(&aligned(&rows, &[3, 4]));
    }
    text
}

fn row(table: &PlacedTable) -> Vec<String> {
    vec![
        table.level.to_string(),
        table.number.to_string(),
        bytes(table.size_bytes),
        escape(table.tier.as_bytes()),
        escape(table.reason.as_bytes()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_its_level_tier_and_reason() {
        let placed: Vec<KeyspacePlacement> = serde_json::from_value(json!([
            {"keyspace": "default", "tables": [
                {"number": 12, "level": 0, "size_bytes": 1024, "tier": "nvme",
                    "wanted": ["nvme", "disk"], "reason": "level 0 has the tier nvme"},
                {"number": 7, "level": 2, "size_bytes": 3 << 20, "tier": "disk",
                    "wanted": ["disk", "nvme"], "reason": "level 2 has the tier disk"},
            ]},
            {"keyspace": "a\nb", "tables": []},
        ]))
        .unwrap();
        let wanted = "\
keyspace default
level  table     size  tier  reason
    0     12  1.0 KiB  nvme  level 0 has the tier nvme
    2      7  3.0 MiB  disk  level 2 has the tier disk
keyspace a\\nb: no tables
";
        assert_eq!(as_text(&placed), wanted);
        let json = as_json(&placed);
        assert_eq!(json["keyspaces"][0]["tables"][1]["wanted"][0], "disk");
    }
}
