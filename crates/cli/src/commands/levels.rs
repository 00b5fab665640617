//! A picture of the levels.

use serde_json::{Map, Value, json};
use terrace::{LevelsReport, SubLevelReport, TableReport};

use crate::arguments::Report;
use crate::commands::print;
use crate::failure::Result;
use crate::report::{bytes, things};
use crate::store;
use crate::text::{brief, json_field};

/// Characters for the whole range of keys.
const WIDTH: usize = 48;

pub fn run(arguments: &Report) -> Result<()> {
    let report = store::open_to_read(&arguments.store)?.levels();
    if arguments.json {
        return print(format!("{:#}\n", as_json(&report)));
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
    format!(
        "{name:<8}▕{}▏{:>10}  {} in {}\n",
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

fn as_json(report: &LevelsReport) -> Value {
    let keyspaces = report.keyspaces.iter().map(|keyspace| {
        let levels = keyspace.levels.iter().map(|sub_levels| {
            let sub_levels = sub_levels.iter().map(|sub_level| {
                json!({
                    "number": sub_level.number,
                    "age": sub_level.age,
                    "tables": sub_level.tables.iter().map(table).collect::<Vec<_>>(),
                })
            });
            json!({ "sub_levels": sub_levels.collect::<Vec<_>>() })
        });
        let levels: Vec<_> = levels.collect();
        json!({ "id": keyspace.id, "name": keyspace.name, "levels": levels })
    });
    json!({ "keyspaces": keyspaces.collect::<Vec<_>>() })
}

fn table(table: &TableReport) -> Value {
    let mut object = Map::new();
    for (name, number) in [
        ("number", table.number),
        ("size_bytes", table.size_bytes),
        ("entries", table.entries),
        ("tombstones", table.tombstones),
        ("first_sequence", table.sequences.0),
        ("last_sequence", table.sequences.1),
    ] {
        object.insert(name.to_string(), number.into());
    }
    json_field(&mut object, "smallest", &table.smallest);
    json_field(&mut object, "largest", &table.largest);
    object.insert("narrowed".to_string(), table.narrowed.into());
    Value::Object(object)
}
