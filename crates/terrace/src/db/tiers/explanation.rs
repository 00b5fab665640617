//! The reason why a table lies where it lies.

use std::sync::Arc;

use terrace_lsm::compaction::placement::{
    NewTable, Surroundings, TableFacts, TierFacts, tiers_for,
};
use terrace_lsm::keyspace_options::Placement;

use crate::db::Store;
use crate::db::keyspaces::live;
use crate::{KeyspaceId, Result};

/// A table, and the reason for its tier.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PlacedTable {
    /// The table's number.
    pub number: u64,
    /// The level that it is in.
    pub level: u8,
    /// The bytes of its file.
    pub size_bytes: u64,
    /// Age of its youngest write, at least.
    #[cfg_attr(feature = "serde", serde(default))]
    pub age_seconds: u64,
    /// Reads from its file in a second, of late; 0 unless its keyspace is placed by reads.
    #[cfg_attr(feature = "serde", serde(default))]
    pub reads_per_second: f64,
    /// The name of the tier that its file lies in.
    pub tier: String,
    /// The names of the tiers that a new table of this level would ask for room, the first one first.
    pub wanted: Vec<String>,
    /// The reason, in words.
    pub reason: String,
}

impl Store {
    /// Returns the tables of a keyspace, each with the reason for its tier.
    pub(crate) fn placed_tables(&self, keyspace: KeyspaceId) -> Result<Vec<PlacedTable>> {
        let version = Arc::clone(&self.reads.view.load().version);
        let levels = live(&version, keyspace)?;
        let outlook = self.outlook();
        let surroundings = outlook.of_tables(self.form_of(levels));
        let name = |number: u8| self.files.space.name_of(number);
        let now_seconds = self.lifecycle.clock.unix_seconds();
        let moves = self.files.migrations.moves_of_late(now_seconds);
        let tables = levels.tables().map(|(place, table)| {
            let facts = TableFacts {
                has_moved: moves.contains_key(&table.number),
                ..outlook.facts(place, table)
            };
            let described = NewTable {
                level: facts.level,
                age_seconds: facts.age_seconds,
                reads_per_byte: Some(facts.reads_per_second / (facts.size_bytes as f64).max(1.0)),
            };
            let wanted = tiers_for(&surroundings, described);
            let wanted: Vec<String> = wanted.iter().map(|&number| name(number)).collect();
            let tier = name(table.tier);
            PlacedTable {
                number: table.number,
                level: place.level,
                size_bytes: table.size_bytes,
                age_seconds: facts.age_seconds,
                reads_per_second: facts.reads_per_second,
                reason: reason(&surroundings, &facts, &tier, &wanted),
                tier,
                wanted,
            }
        });
        Ok(tables.collect())
    }
}

fn reason(
    surroundings: &Surroundings<'_>,
    table: &TableFacts,
    tier: &str,
    wanted: &[String],
) -> String {
    let (level, tiers) = (table.level, surroundings.tiers);
    let first = wanted.first().map(String::as_str).unwrap_or_default();
    if !tiers
        .iter()
        .any(|known| known.number == table.tier && known.is_open)
    {
        return "its tier takes no new tables, and it goes elsewhere when there is room".to_owned();
    }
    let is_there = tier == first;
    if !is_there && table.has_moved && !surroundings.options.placement.is_by_reads() {
        return format!(
            "{first} would be asked first now; the table has moved within the hour, and stays"
        );
    }
    match surroundings.options.placement {
        Placement::Levels if surroundings.options.tier_of(usize::from(level)) == Some(first) => {
            match is_there {
                true => format!("level {level} has the tier {first}"),
                false => format!(
                    "level {level} has the tier {first}, which had no room, or got its name later"
                ),
            }
        }
        Placement::Age if is_there => format!(
            "{first} is for tables of its age, {} s; it is in level {level}",
            table.age_seconds
        ),
        Placement::Heat | Placement::Auto if is_there && table.reads_per_second > 0.0 => format!(
            "{first} is for tables with its reads, {:.1} a second; it is in level {level}",
            table.reads_per_second
        ),
        Placement::Auto if is_there && has_chosen(surroundings, level, first) => {
            format!("{first} serves level {level} best for its price, by the costs")
        }
        _ if is_there => format!("{first} is the fastest tier with room for level {level}"),
        _ if !has_room_for(tiers, first, table.size_bytes) => {
            format!("{first} would be asked first, and has no room for it")
        }
        _ => format!("{first} would be asked first now; the table was written, or moved, before"),
    }
}

/// Returns whether the costs chose a tier for a level.
fn has_chosen(surroundings: &Surroundings<'_>, level: u8, name: &str) -> bool {
    let chosen = surroundings.chosen;
    let of_level = chosen.get(usize::from(level)).or(chosen.last());
    of_level.is_some_and(|of_level| of_level == name)
}

fn has_room_for(tiers: &[TierFacts], name: &str, bytes: u64) -> bool {
    let mut tiers = tiers.iter();
    tiers.any(|tier| tier.name == name && tier.room_bytes >= bytes)
}
