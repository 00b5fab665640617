//! Measurements that the paper lacks: reads, overwrites, small values, other numbers of clients.

use super::contests::{CLIENTS, FILL, OVERWRITES, READS, SMALL, by_clients};
use super::fill::label;
use super::measured::{Measured, find, text};
use super::paper;
use super::systems::System;
use crate::reproduce::report::{Plot, Point, Section, Table, Whose};

/// Returns the section of reads, overwrites and small values.
pub fn section(all: &[Measured], systems: &[System]) -> Section {
    let phases = [
        (READS.to_string(), "Reads of random pairs, 32 KiB"),
        (
            OVERWRITES.to_string(),
            "Random pairs written again, 32 KiB, durable",
        ),
        (format!("{FILL}{SMALL}"), "Fillsequential of 100 B, durable"),
        (format!("{READS}{SMALL}"), "Reads of random pairs, 100 B"),
    ];
    let tables = phases
        .iter()
        .map(|(phase, title)| table(all, systems, phase, title));
    Section {
        figure: "Not in the paper".into(),
        title: "reads, overwrites and small values".into(),
        notes: vec![
            "Every value that is read is compared to the byte. A read of the node is one of its device; an \
             LSM has memory for reads, and answers from its write buffers what it has not flushed. The node \
             packs small values into segments, so that one flush serves the stores that wait for it."
                .into(),
        ],
        tables: tables.collect(),
        ..Section::default()
    }
}

fn table(all: &[Measured], systems: &[System], phase: &str, title: &str) -> Table {
    let mut table = Table::new(
        title,
        &[
            "system",
            "op/s",
            "mean us",
            "p99 us",
            "p99.9 us",
            "CPU us each",
        ],
    );
    for one in systems
        .iter()
        .filter_map(|system| find(all, system.name, phase))
    {
        table.rows.push(vec![
            label(&one.system),
            text(one.per_second),
            text(one.mean_us),
            text(one.p99_us),
            text(one.p999_us),
            text(one.processor_us),
        ]);
    }
    table
}

/// Returns the section of numbers of clients.
pub fn clients_section(all: &[Measured], systems: &[System]) -> Section {
    let names = [
        (
            OVERWRITES,
            "Durable writes of random pairs, op/s by clients",
        ),
        (READS, "Reads of random pairs, op/s by clients"),
    ];
    Section {
        figure: "Not in the paper".into(),
        title: "1 to 15 clients".into(),
        notes: vec![
            "Each client has one operation at a time. Writes are of random pairs that are there, 32 KiB."
                .into(),
        ],
        tables: names
            .map(|(name, title)| clients_table(all, systems, name, title))
            .into(),
        plots: names
            .map(|(name, title)| clients_plot(all, systems, name, title))
            .into(),
        ..Section::default()
    }
}

fn numbers() -> impl Iterator<Item = u32> {
    CLIENTS.into_iter().chain([paper::CLIENTS])
}

fn clients_table(all: &[Measured], systems: &[System], name: &str, title: &str) -> Table {
    let mut table = Table::new(title, &["system"]);
    table
        .header
        .extend(numbers().map(|clients| clients.to_string()));
    for system in systems {
        let rates = numbers().map(|clients| {
            let found = find(all, system.name, &by_clients(name, clients));
            found.map_or("-".into(), |one| text(one.per_second))
        });
        let row = std::iter::once(label(system.name)).chain(rates);
        table.rows.push(row.collect());
    }
    table
}

fn clients_plot(all: &[Measured], systems: &[System], name: &str, title: &str) -> Plot {
    let mut points = Vec::new();
    for system in systems {
        points.extend(numbers().filter_map(|clients| {
            let found = find(all, system.name, &by_clients(name, clients))?;
            Some(Point {
                label: match clients {
                    paper::CLIENTS => label(system.name),
                    _ => String::new(),
                },
                whose: Whose::Ours,
                across: f64::from(clients),
                up: found.per_second.median,
                curve: Some(system.name.into()),
            })
        }));
    }
    Plot {
        title: title.into(),
        across: "clients".into(),
        up: "op/s".into(),
        points,
        ..Plot::default()
    }
}
