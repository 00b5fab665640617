//! A picture of the levels.

use std::time::SystemTime;

use terrace::{KeyspaceReport, LevelDuplicates, LevelsReport, SubLevelReport, TableReport};

use crate::arguments::Levels;
use crate::commands::history::table;
use crate::commands::{as_json, print};
use crate::failure::Result;
use crate::report::{bytes, levels, things};
use crate::store;
use crate::text::brief;

/// Characters for the whole range of keys.
const WIDTH: usize = 40;

pub fn run(arguments: &Levels) -> Result<()> {
    let report = store::levels(&arguments.report.store)?;
    match (arguments.history, arguments.report.json) {
        (false, false) => print(picture(&report)),
        (false, true) => print(as_json(&report)?),
        (true, false) => print(table(&report.compactions, SystemTime::now())),
        (true, true) => print(as_json(&report.compactions)?),
    }
}

/// One line a sub-level, youngest first, with a bar over the keys that its tables cover; one for each level
/// with what is estimated of it; and what is still to be done.
pub fn picture(report: &LevelsReport) -> String {
    let mut text = String::new();
    for keyspace in &report.keyspaces {
        let axis = Axis::of(keyspace.levels.iter().flatten().flat_map(|sub| &sub.tables));
        let Some((first, last)) = axis.ends() else {
            text.push_str(&format!("keyspace {}: no tables\n", keyspace.name));
            continue;
        };
        text.push_str(&format!(
            "keyspace {}: keys from {} to {}\n",
            keyspace.name,
            brief(first, 24),
            brief(last, 24)
        ));
        for (level, sub_levels) in keyspace.levels.iter().enumerate() {
            for (position, sub_level) in sub_levels.iter().enumerate() {
                let name = if position == 0 {
                    format!("level {level}")
                } else {
                    String::new()
                };
                text.push_str(&line(&name, sub_level, &axis));
            }
            let duplicates = keyspace.duplicates.get(level);
            if let Some(duplicates) = duplicates.filter(|_| !sub_levels.is_empty()) {
                text.push_str(&content(duplicates));
            }
        }
        text.push_str(&to_do(keyspace));
    }
    if report.tables_to_delete > 0 {
        let tables = things(report.tables_to_delete, "table");
        text.push_str(&format!("files still to delete: {tables}\n"));
    }
    text
}

fn content(duplicates: &LevelDuplicates) -> String {
    let rate = match duplicates.rate() {
        Some(rate) => format!("about {rate:.2} versions a key"),
        None => "versions a key: not known".to_owned(),
    };
    let tombstones = match duplicates.tombstones {
        0 => String::new(),
        tombstones => format!(", {}", things(tombstones, "tombstone")),
    };
    format!("{:18}{rate}{tombstones}\n", "")
}

fn to_do(keyspace: &KeyspaceReport) -> String {
    let mut text = match keyspace.debt_bytes {
        0 => String::new(),
        debt => format!("merges still to write: about {}\n", bytes(debt)),
    };
    for merge in &keyspace.merges {
        text.push_str(&format!(
            "merge {}: {} of {}, {} of {}, because {}\n",
            merge.job,
            merge.installed_slices,
            things(merge.slices, "slice"),
            bytes(merge.input_bytes),
            levels(&merge.input_levels, merge.output_level),
            merge.reason,
        ));
    }
    text
}

fn line(name: &str, sub_level: &SubLevelReport, axis: &Axis<'_>) -> String {
    let tables = &sub_level.tables;
    let size = tables.iter().map(|table| table.size_bytes).sum();
    let versions = tables.iter().map(|table| table.entries).sum();
    let deleted = match tables.iter().map(|table| table.range_tombstones).sum() {
        0 => String::new(),
        ranges => format!(" and {}", things(ranges, "deleted range")),
    };
    let age = match sub_level.oldest_flush {
        Some(flush) => format!("age {flush}"),
        None => "base".to_owned(),
    };
    format!(
        "{name:<8}{age:>9} ▕{}▏{:>10}  {}{deleted} in {}\n",
        axis.bar(tables),
        bytes(size),
        things(versions, "version"),
        things(tables.len() as u64, "table"),
    )
}

/// The keys at which tables begin and end, evenly spaced: a scale on which every table is seen,
/// however its keys look.
struct Axis<'a> {
    keys: Vec<&'a [u8]>,
}

impl<'a> Axis<'a> {
    fn of(tables: impl Iterator<Item = &'a TableReport>) -> Self {
        let mut keys: Vec<&[u8]> = tables
            .flat_map(|table| [table.smallest.as_slice(), &table.largest])
            .collect();
        keys.sort_unstable();
        keys.dedup();
        Axis { keys }
    }

    fn ends(&self) -> Option<(&'a [u8], &'a [u8])> {
        Some((self.keys.first()?, self.keys.last()?))
    }

    fn column(&self, key: &[u8]) -> usize {
        let steps = self.keys.len().saturating_sub(1).max(1);
        self.keys.partition_point(|known| *known < key) * (WIDTH - 1) / steps
    }

    /// Tables next to each other alternate in shade.
    fn bar(&self, tables: &[TableReport]) -> String {
        let mut cells = [' '; WIDTH];
        for (position, table) in tables.iter().enumerate() {
            let shade = if position % 2 == 0 { '█' } else { '▓' };
            let span = self.column(&table.smallest)..=self.column(&table.largest);
            for cell in cells.get_mut(span).unwrap_or_default() {
                *cell = shade;
            }
        }
        cells.iter().collect()
    }
}
