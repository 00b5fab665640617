//! How fast the points take writes, and answer reads once they have settled.

use super::amplification::{or_dash, text};
use super::contests::SCAN_ROWS;
use super::measured::{Figure, Lookups, Measured};
use crate::report::numbers::digits;
use crate::reproduce::report::{Bar, Chart, Section, Table, Whose};

/// Shows the throughput of the paper's load and of reads after it.
pub fn section(points: &[Measured]) -> Section {
    Section {
        figure: "20 GB, 9 updates a key".into(),
        title: "throughput of writes and reads".into(),
        notes: vec![
            "The paper shows throughput in figures without numbers; of its LSM-trie, which writes \
             fastest, it says that it has no log. All stores here have one."
                .into(),
            "Reads follow when the store has settled: records that are there, all alike, and keys that \
             are not, each right behind one that is. What the device is asked is counted by its own \
             requests, of whomever they are, and by the bytes that the process fetched; the share of \
             lookups that ask it is at most the lesser of the requests and of these bytes in pages of \
             4 KiB. LevelDB and fjall have all data in the page cache."
                .into(),
            format!("A scan is of {SCAN_ROWS} rows in order, from any record."),
        ],
        tables: vec![
            writes(points),
            reads("Reads of records that are there", points, |point| point.reads),
            reads("Reads of keys that are not", points, |point| point.absent),
            reads("Scans", points, |point| point.scans),
        ],
        charts: vec![
            chart("Writes, to settled", points, |point| {
                Some(point.settled_writes_per_second)
            }),
            chart("Reads of records that are there", points, |point| {
                Some(point.reads?.per_second)
            }),
            chart("Scans", points, |point| Some(point.scans?.per_second)),
        ],
        ..Section::default()
    }
}

/// Returns thousands, with as many digits as they need.
fn thousands(figure: Figure) -> String {
    text(Figure {
        median: figure.median / 1e3,
        least: figure.least / 1e3,
        most: figure.most / 1e3,
    })
}

fn writes(points: &[Measured]) -> Table {
    let mut table = Table::new("Writes", &["store", "k/s, acknowledged", "k/s, settled"]);
    table.rows.extend(points.iter().map(|point| {
        vec![
            point.name.clone(),
            thousands(point.writes_per_second),
            thousands(point.settled_writes_per_second),
        ]
    }));
    table
}

fn reads(title: &str, points: &[Measured], of: fn(&Measured) -> Option<Lookups>) -> Table {
    let mut table = Table::new(
        title,
        &[
            "store",
            "k/s",
            "requests to the device each",
            "KiB fetched each",
            "ask it, at most %",
        ],
    );
    for point in points {
        let Some(lookups) = of(point) else { continue };
        table.rows.push(vec![
            point.name.clone(),
            thousands(lookups.per_second),
            or_dash(lookups.device_reads.map(text)),
            digits(lookups.device_bytes.median / 1024.0),
            digits(lookups.device_share.median * 100.0),
        ]);
    }
    table
}

fn chart(title: &str, points: &[Measured], read: fn(&Measured) -> Option<Figure>) -> Chart {
    let bar = |point: &Measured| {
        Some(Bar {
            label: point.name.clone(),
            whose: Whose::Ours,
            value: read(point)?.median / 1e3,
        })
    };
    Chart {
        title: title.into(),
        unit: "thousands a second".into(),
        bars: points.iter().filter_map(bar).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::plexdb::claims::tests::{measured, point};

    #[test]
    fn every_point_has_a_row_and_one_without_reads_has_none_of_them() {
        let mut points = measured();
        points.push(Measured {
            reads: None,
            absent: None,
            scans: None,
            ..point("terrace-lazy", 2.0, 4.0)
        });
        let section = section(&points);
        let rows = section.tables.iter().map(|table| table.rows.len());
        let all = points.len();
        assert_eq!(rows.collect::<Vec<_>>(), [all, all - 1, all - 1, all - 1]);
        for table in &section.tables {
            assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
        }
        // 100,000 writes a second; 0.5 % of lookups ask the device.
        assert_eq!(section.tables[0].rows[0][1], "100");
        assert_eq!(section.tables[2].rows[0][4], "0.50");
    }
}
