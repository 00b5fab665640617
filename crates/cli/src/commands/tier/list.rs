//! The tiers of a store.

use serde_json::json;
use terrace::TierStatistics;

use super::aligned;
use crate::arguments::Report;
use crate::failure::Result;
use crate::output::{print, print_json};
use crate::report::{bytes, count};
use crate::store;
use crate::text::{escape, shown};

pub fn run(arguments: &Report) -> Result<()> {
    let tiers = store::tiers(&arguments.store)?;
    match arguments.json {
        true => print_json(&json!({"tiers": tiers})),
        false => print(as_text(&tiers)),
    }
}

fn as_text(tiers: &[TierStatistics]) -> String {
    let heads = [
        "number",
        "name",
        "state",
        "capacity",
        "reserve",
        "used",
        "room",
        "tables",
        "directory",
    ];
    let rows = tiers.iter().map(|tier| {
        let used_bytes = tier.files_bytes.saturating_add(tier.reserved_bytes);
        vec![
            tier.number.to_string(),
            escape(tier.name.as_bytes()),
            escape(tier.state.as_bytes()),
            tier.capacity_bytes.map_or("-".to_owned(), bytes),
            bytes(tier.reserve_bytes),
            bytes(used_bytes),
            bytes(tier.room_bytes),
            count(tier.tables),
            shown(&tier.path),
        ]
    });
    let rows: Vec<_> = [heads.map(str::to_owned).to_vec()]
        .into_iter()
        .chain(rows)
        .collect();
    let mut text = aligned(&rows, &[1, 2, 8]);
    let caches = caches(tiers);
    if caches.len() > 1 {
        text.push_str(&format!("\n{}", aligned(&caches, &[0, 1])));
    }
    let levels = levels(tiers);
    if levels.len() > 1 {
        text.push_str(&format!("\n{}", aligned(&levels, &[0])));
    }
    text
}

/// Returns the caches for blocks of slower tiers, a row for each tier that has one.
fn caches(tiers: &[TierStatistics]) -> Vec<Vec<String>> {
    let heads = [
        "cache", "state", "size", "used", "blocks", "memory", "hits", "misses", "admitted",
        "refused", "evicted", "damaged", "failures",
    ];
    let rows = tiers.iter().filter_map(|tier| {
        let cache = tier.cache.as_ref()?;
        let state = if cache.is_on { "on" } else { "off" };
        Some(vec![
            escape(tier.name.as_bytes()),
            state.to_owned(),
            bytes(cache.capacity_bytes),
            bytes(cache.block_bytes),
            count(cache.blocks),
            bytes(cache.memory_bytes),
            count(cache.hits),
            count(cache.misses),
            count(cache.admitted),
            count(cache.rejected),
            count(cache.evicted),
            count(cache.damaged),
            count(cache.failures),
        ])
    });
    let heads = heads.map(str::to_owned).to_vec();
    [heads].into_iter().chain(rows).collect()
}

/// Returns the bytes of tables in each level that has some, a row for each tier.
fn levels(tiers: &[TierStatistics]) -> Vec<Vec<String>> {
    let of_level = |tier: &TierStatistics, level: usize| {
        let bytes = tier.level_bytes.get(level);
        bytes.copied().unwrap_or(0)
    };
    let last = tiers.iter().map(|tier| tier.level_bytes.len()).max();
    let filled: Vec<usize> = (0..last.unwrap_or(0))
        .filter(|&level| tiers.iter().any(|tier| of_level(tier, level) > 0))
        .collect();
    if filled.is_empty() {
        return Vec::new();
    }
    let heads = filled.iter().map(|level| format!("level {level}"));
    let heads = [String::new()].into_iter().chain(heads).collect();
    let rows = tiers.iter().map(|tier| {
        let cells = filled.iter().map(|&level| match of_level(tier, level) {
            0 => "-".to_owned(),
            held => bytes(held),
        });
        let name = escape(tier.name.as_bytes());
        [name].into_iter().chain(cells).collect()
    });
    [heads].into_iter().chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_line_for_each_tier_and_the_levels_below() {
        let tier = |value| serde_json::from_value::<TierStatistics>(value).unwrap();
        let tiers = [
            tier(json!({
                "number": 1, "name": "nvme", "state": "open", "path": "/fast/store",
                "capacity_bytes": 1 << 20, "reserve_bytes": 1024, "files_bytes": 1000, "tables": 3,
                "reserved_bytes": 24, "room_bytes": 2048, "level_bytes": [600, 0, 400], "io": {},
                "cache": {
                    "is_on": true, "capacity_bytes": 4 << 20, "block_bytes": 3 << 20, "blocks": 700,
                    "memory_bytes": 40_000, "hits": 12_345, "misses": 32, "admitted": 33, "rejected": 34,
                    "kept": 35, "evicted": 36, "damaged": 0, "failures": 1,
                },
            })),
            tier(json!({
                "number": 2, "name": "disk", "state": "draining", "path": "/disk\u{1b}",
                "capacity_bytes": null, "reserve_bytes": 0, "files_bytes": 3 << 20, "tables": 1200,
                "reserved_bytes": 0, "room_bytes": 1u64 << 40, "level_bytes": [0, 0, 3 << 20], "io": {},
            })),
        ];
        let wanted = "\
number  name  state     capacity  reserve     used     room  tables  directory
     1  nvme  open       1.0 MiB  1.0 KiB  1.0 KiB  2.0 KiB       3  /fast/store
     2  disk  draining         -      0 B  3.0 MiB  1.0 TiB   1,200  /disk\\x1b

cache  state     size     used  blocks    memory    hits  misses  admitted  refused  evicted  damaged  failures
nvme   on     4.0 MiB  3.0 MiB     700  39.1 KiB  12,345      32        33       34       36        0         1

      level 0  level 2
nvme    600 B    400 B
disk        -  3.0 MiB
";
        assert_eq!(as_text(&tiers), wanted);
        let empty = tier(json!({
            "number": 1, "name": "store", "state": "open", "path": "/s", "capacity_bytes": null,
            "reserve_bytes": 0, "files_bytes": 0, "tables": 0, "reserved_bytes": 0, "room_bytes": 7,
            "level_bytes": [0, 0], "io": {},
        }));
        assert_eq!(as_text(&[empty]).lines().count(), 2);
    }
}
