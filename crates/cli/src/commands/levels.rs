//! A picture of the levels.

use terrace::{LevelsReport, SubLevelReport, TableReport};

use crate::arguments::Report;
use crate::commands::{as_json, print};
use crate::failure::Result;
use crate::report::{bytes, things};
use crate::store;
use crate::text::brief;

/// Characters for the whole range of keys.
const WIDTH: usize = 48;

pub fn run(arguments: &Report) -> Result<()> {
    let report = store::levels(&arguments.store)?;
    if arguments.json {
        return print(as_json(&report)?);
    }
    print(picture(&report))
}

/// One line a sub-level, youngest first, with a bar over the keys that its tables cover.
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
        }
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
    format!(
        "{name:<8}▕{}▏{:>10}  {}{deleted} in {}\n",
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
