//! A picture of the levels.

mod axis;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use terrace::{
    KeyspaceReport, LevelDuplicates, LevelStatistics, LevelsReport, SubLevelReport, TableReport,
};

use self::axis::Axis;
use crate::arguments::Levels;
use crate::commands::history::table;
use crate::commands::tier::aligned;
use crate::failure::Result;
use crate::output::{print, print_json};
use crate::report::{bytes, count, levels, things};
use crate::store;
use crate::text::{brief, escape};

pub fn run(arguments: &Levels) -> Result<()> {
    let report = store::levels(&arguments.report.store)?;
    match (arguments.history, arguments.report.json) {
        (false, false) => print(picture(&report) + &traffic(&report)),
        (false, true) => print_json(&report),
        (true, false) => print(table(&report.compactions, SystemTime::now())),
        (true, true) => print_json(&report.compactions),
    }
}

/// Draws one line a sub-level, youngest first, with a bar over the keys that its tables cover, and with
/// their reads if there were some. A line for each level has its estimates. The work that is still to be done comes last.
pub fn picture(report: &LevelsReport) -> String {
    let mut text = String::new();
    for keyspace in &report.keyspaces {
        let name = escape(keyspace.name.as_bytes());
        let axis = Axis::of(keyspace.levels.iter().flatten().flat_map(|sub| &sub.tables));
        let Some((first, last)) = axis.ends() else {
            text.push_str(&format!("keyspace {name}: no tables\n"));
            continue;
        };
        text.push_str(&format!(
            "keyspace {name}: keys from {} to {}\n",
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

/// Returns the traffic of the levels that had some since the opening; nothing for a reader. A store of several
/// tiers has the times of reads, too.
fn traffic(report: &LevelsReport) -> String {
    let is_timed = report.totals.iter().any(|of| of.latencies.read.count > 0);
    let heads = [
        "",
        "reads",
        "mean",
        "p99",
        "bytes read",
        "flushed",
        "loaded",
        "compactions read",
        "and wrote",
        "migrated",
    ];
    let cells = |level: usize, of: &LevelStatistics| {
        let name = format!("level {level}");
        let sizes = [
            of.read_bytes,
            of.flushed_bytes,
            of.loaded_bytes,
            of.compaction_read_bytes,
            of.compaction_written_bytes,
            of.migrated_bytes,
        ];
        let has_traffic = of.reads > 0 || sizes.iter().any(|&size| size > 0);
        let [mean, p99] = match of.latencies.read.count {
            0 => ["-".to_owned(), "-".to_owned()],
            _ => [of.latencies.read.mean(), of.latencies.read.p99].map(microseconds),
        };
        let cells = [name, count(of.reads), mean, p99].into_iter();
        has_traffic.then(|| cells.chain(sizes.map(bytes)).collect())
    };
    let totals = report.totals.iter().enumerate();
    let rows: Vec<Vec<String>> = totals.filter_map(|(level, of)| cells(level, of)).collect();
    if rows.is_empty() {
        return String::new();
    }
    let heads = [heads.map(str::to_owned).to_vec()].into_iter();
    let mut rows: Vec<_> = heads.chain(rows).collect();
    if !is_timed {
        rows.iter_mut().for_each(|row| drop(row.drain(2..4)));
    }
    format!("\nsince the opening:\n{}", aligned(&rows, &[0]))
}

fn microseconds(time: Duration) -> String {
    format!("{:.0} us", time.as_secs_f64() * 1e6)
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
    let reads = match tables.iter().map(|table| table.reads).sum() {
        0 => String::new(),
        reads => format!(", {}", things(reads, "read")),
    };
    let age = match sub_level.oldest_flush {
        Some(flush) => format!("age {flush}"),
        None => "base".to_owned(),
    };
    format!(
        "{name:<8}{age:>9} ▕{}▏{:>10}  {}{deleted} in {}{}{reads}\n",
        axis.bar(tables),
        bytes(size),
        things(versions, "version"),
        things(tables.len() as u64, "table"),
        tiers(tables),
    )
}

/// Returns the tiers of a sub-level's tables, with numbers of tables if there are several; nothing in a
/// store that has one tier.
fn tiers(tables: &[TableReport]) -> String {
    let mut counts = BTreeMap::<&str, u64>::new();
    for tier in tables.iter().filter_map(|table| table.tier.as_deref()) {
        *counts.entry(tier).or_default() += 1;
    }
    let name = |tier: &str| escape(tier.as_bytes());
    let mut counts = counts.into_iter();
    match (counts.next(), counts.len()) {
        (None, _) => String::new(),
        (Some((only, _)), 0) => format!(", tier {}", name(only)),
        (first, _) => {
            let counted = first.into_iter().chain(counts);
            let counted = counted.map(|(tier, count)| format!("{} {count}", name(tier)));
            format!(", tiers {}", counted.collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sub_level_shows_the_reads_of_its_tables() {
        let table = |smallest: &str, reads: Option<u64>| {
            let mut table = json!({"number": 1, "size_bytes": 1024, "entries": 2, "tombstones": 0,
                "first_sequence": 1, "last_sequence": 2, "smallest": smallest, "largest": smallest,
                "narrowed": false});
            if let Some(reads) = reads {
                table["reads"] = reads.into();
            }
            table
        };
        let line_of = |tables: serde_json::Value| {
            let sub_level = json!({"number": 1, "age": 9, "oldest_flush": 4, "tables": tables});
            let sub_level: SubLevelReport = serde_json::from_value(sub_level).unwrap();
            line("level 0", &sub_level, &Axis::of(sub_level.tables.iter()))
        };
        let shown = line_of(json!([table("a", Some(1200)), table("b", Some(34))]));
        assert!(
            shown.ends_with("4 versions in 2 tables, 1,234 reads\n"),
            "{shown}"
        );
        // A report of an older release has no reads.
        let shown = line_of(json!([table("a", None)]));
        assert!(shown.ends_with("2 versions in 1 table\n"), "{shown}");
    }

    #[test]
    fn traffic_has_a_line_for_each_level_that_had_some() {
        let report = json!({"keyspaces": [], "totals": [
            {"sub_levels": 0, "tables": 0, "bytes": 0, "flushed_bytes": 4096},
            {"sub_levels": 1, "tables": 1, "bytes": 9},
            {"sub_levels": 1, "tables": 9, "bytes": 9, "reads": 1234, "read_bytes": 1 << 20,
             "compaction_read_bytes": 1, "compaction_written_bytes": 2, "migrated_bytes": 3},
        ]});
        let report: LevelsReport = serde_json::from_value(report).unwrap();
        let wanted = "
since the opening:
         reads  bytes read  flushed  loaded  compactions read  and wrote  migrated
level 0      0         0 B  4.0 KiB     0 B               0 B        0 B       0 B
level 2  1,234     1.0 MiB      0 B     0 B               1 B        2 B       3 B
";
        assert_eq!(traffic(&report), wanted);
        assert_eq!(traffic(&LevelsReport::default()), "");
    }

    #[test]
    fn a_store_of_several_tiers_shows_the_times_of_reads() {
        let report = json!({"keyspaces": [], "totals": [
            {"sub_levels": 0, "tables": 0, "bytes": 0, "flushed_bytes": 4096},
            {"sub_levels": 1, "tables": 9, "bytes": 9, "reads": 4, "read_bytes": 1 << 20,
             "latencies": {"read": {"count": 4, "sum_seconds": 0.0402, "p99_seconds": 0.0131}}},
        ]});
        let report: LevelsReport = serde_json::from_value(report).unwrap();
        let shown = traffic(&report);
        let rows: Vec<&str> = shown.lines().skip(2).collect();
        assert!(
            rows[0].starts_with("         reads      mean       p99  bytes read"),
            "{shown}"
        );
        assert!(
            rows[1].starts_with("level 0      0         -         -  "),
            "{shown}"
        );
        assert!(
            rows[2].starts_with("level 1      4  10050 us  13100 us  "),
            "{shown}"
        );
    }
}
