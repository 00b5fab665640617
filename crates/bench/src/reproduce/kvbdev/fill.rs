//! The paper's figures: fillsequential, its latencies and its throughput.

use super::contests::{FILL, UNSYNCED};
use super::measured::{Measured, find, text};
use super::paper::{self, Published};
use super::systems::{self, System};
use crate::report::numbers::digits;
use crate::reproduce::report::{Bar, Chart, Plot, Point, Section, Table, Whose};

/// Returns the section of the run in which each write is durable.
pub fn durable(all: &[Measured], systems: &[System]) -> Section {
    let mut section = section(all, systems, FILL);
    section.title = "fillsequential, each write durable".into();
    section.notes.insert(
        0,
        "Acknowledged is durable in all systems: the node answers a Store after a flush of its device, an \
         LSM after a sync of its log or arena. The paper names no durability."
            .into(),
    );
    section
}

/// Returns the section of the run without flushes.
pub fn unsynced(all: &[Measured], systems: &[System]) -> Section {
    let mut section = section(all, systems, &format!("{FILL}{UNSYNCED}"));
    section.title = "fillsequential, not synced, as the paper presumably ran it".into();
    section.notes.insert(
        0,
        "An acknowledged write survives the death of the process and no power cut: db_bench does not sync \
         unless told to."
            .into(),
    );
    section
}

fn section(all: &[Measured], systems: &[System], phase: &str) -> Section {
    let found: Vec<&Measured> = systems
        .iter()
        .filter_map(|system| find(all, system.name, phase))
        .collect();
    let gain = (paper::KVBDEV.mib_per_second / paper::ROCKSDB.mib_per_second - 1.0) * 100.0;
    let mut notes = vec![format!(
        "What the paper calls MB/s are MiB/s: 15 clients, each with one value of 32 KiB at a time. Its text \
         states a gain of {:.0} %; its numbers make {gain:.0} %.",
        paper::STATED_GAIN
    )];
    if !systems.contains(&systems::ROCKSDB) {
        notes.push("RocksDB is not in this program; `peers reproduce kvbdev` has it.".into());
    }
    Section {
        figure: "The paper's run".into(),
        notes,
        tables: vec![table(&found, phase)],
        charts: vec![
            chart(
                "Throughput",
                "MiB/s",
                &found,
                |one| one.mib_per_second.median,
                |published| published.mib_per_second,
            ),
            chart(
                "99th percentile",
                "us",
                &found,
                |one| one.p99_us.median,
                |published| published.p99_us,
            ),
        ],
        plots: vec![plot(&found, phase)],
        ..Section::default()
    }
}

fn published() -> [(&'static str, Published); 2] {
    [
        ("KVBDEV", paper::KVBDEV),
        ("RocksDB on remote blocks", paper::ROCKSDB),
    ]
}

fn table(found: &[&Measured], phase: &str) -> Table {
    let mut table = Table::new(
        &format!("{phase}: 15 clients, 32 KiB"),
        &[
            "system",
            "mean us",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "MiB/s",
            "settled, op/s",
            "CPU us each",
        ],
    );
    for (name, numbers) in published() {
        let dash = || "-".to_string();
        table.rows.push(vec![
            format!("published: {name}"),
            digits(numbers.mean_us),
            dash(),
            digits(numbers.p99_us),
            dash(),
            digits(numbers.mib_per_second),
            dash(),
            dash(),
        ]);
    }
    for one in found {
        let settled = one.settled_per_second.map_or("-".into(), text);
        table.rows.push(vec![
            label(&one.system),
            text(one.mean_us),
            text(one.p50_us),
            text(one.p99_us),
            text(one.p999_us),
            text(one.mib_per_second),
            settled,
            text(one.processor_us),
        ]);
    }
    table
}

/// Returns a system's name, marked where it has no network.
pub fn label(name: &str) -> String {
    match systems::named(name) {
        Some(system) if !system.has_network => format!("{name} (upper bound)"),
        _ => name.into(),
    }
}

fn chart(
    title: &str,
    unit: &str,
    found: &[&Measured],
    ours: fn(&Measured) -> f64,
    theirs: fn(Published) -> f64,
) -> Chart {
    let published = published().map(|(name, numbers)| Bar {
        label: name.into(),
        whose: Whose::Paper,
        value: theirs(numbers),
    });
    let here = found.iter().map(|one| Bar {
        label: label(&one.system),
        whose: Whose::Ours,
        value: ours(one),
    });
    Chart {
        title: title.into(),
        unit: unit.into(),
        bars: published.into_iter().chain(here).collect(),
    }
}

/// Plots the distribution of latencies. Only one point of each line has a name.
fn plot(found: &[&Measured], phase: &str) -> Plot {
    let mut points = Vec::new();
    for one in found {
        let half = one.cdf.iter().position(|(_, part)| *part >= 0.5);
        points.extend(one.cdf.iter().enumerate().map(|(index, (us, part))| Point {
            label: if Some(index) == half {
                label(&one.system)
            } else {
                String::new()
            },
            whose: Whose::Ours,
            across: *us,
            up: *part,
            curve: Some(one.system.clone()),
        }));
    }
    points.extend(published().map(|(name, numbers)| Point {
        label: format!("{name}, p99"),
        whose: Whose::Paper,
        across: numbers.p99_us,
        up: 0.99,
        curve: None,
    }));
    Plot {
        title: format!("Latency of {phase}"),
        across: "us".into(),
        up: "part of operations".into(),
        is_linear_up: true,
        points,
    }
}
