//! Traffic of levels and devices as tables: the cost of a request there, over all repeats.

use super::experiment::Experiment;
use super::measured::of_case;
use super::run::{DeviceTraffic, LevelTraffic, Run};
use super::setting::Memory;
use crate::report::numbers::digits;
use crate::reproduce::report::Table;

/// Returns the traffic of each level.
pub fn levels(experiment: &Experiment, runs: &[Run], memory: Memory) -> Table {
    let mut table = table("Levels", memory);
    for case in &experiment.cases {
        let runs: Vec<&Run> = of_case(runs, &case.name, memory).collect();
        let deepest = runs.iter().map(|run| run.levels.len()).max().unwrap_or(0);
        for number in 0..deepest {
            let levels = runs.iter().filter_map(|run| run.levels.get(number));
            let levels: Vec<LevelTraffic> = levels.copied().collect();
            row(
                &mut table,
                &case.name,
                &format!("L{number}"),
                &runs,
                &levels,
            );
        }
    }
    table
}

/// Returns the traffic of each device.
pub fn devices(experiment: &Experiment, runs: &[Run], memory: Memory) -> Table {
    let mut table = table("Devices", memory);
    for case in &experiment.cases {
        let runs: Vec<&Run> = of_case(runs, &case.name, memory).collect();
        let all = || runs.iter().flat_map(|run| &run.devices);
        let mut names: Vec<&str> = Vec::new();
        for device in all() {
            if !names.contains(&device.name.as_str()) {
                names.push(&device.name);
            }
        }
        for name in names {
            let own = all().filter(|device| device.name == name);
            let own: Vec<LevelTraffic> = own.map(DeviceTraffic::as_level).collect();
            row(&mut table, &case.name, name, &runs, &own);
        }
    }
    table
}

fn table(what: &str, memory: Memory) -> Table {
    Table::new(
        &format!("{what}, {}: bytes a request [emulated]", memory.name()),
        &[
            "",
            "",
            "MiB stored",
            "device reads a request",
            "read",
            "flushed",
            "compaction reads",
            "compaction writes",
        ],
    )
}

fn row(table: &mut Table, case: &str, name: &str, runs: &[&Run], traffic: &[LevelTraffic]) {
    let requests: u64 = runs.iter().map(|run| run.requests).sum();
    let sum = |read: fn(&LevelTraffic) -> u64| traffic.iter().map(read).sum::<u64>() as f64;
    let a_request = |read: fn(&LevelTraffic) -> u64| digits(sum(read) / requests.max(1) as f64);
    let stored = sum(|one| one.stored_bytes) / runs.len().max(1) as f64;
    table.rows.push(vec![
        case.into(),
        name.into(),
        digits(stored / f64::from(1 << 20)),
        a_request(|one| one.reads),
        a_request(|one| one.read_bytes),
        a_request(|one| one.flushed_bytes),
        a_request(|one| one.compaction_read_bytes),
        a_request(|one| one.compaction_written_bytes),
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::tiers::measured::tests::run;

    #[test]
    fn traffic_is_that_of_a_request_over_all_repeats() {
        let repeat = |repeat, reads| {
            let level = LevelTraffic {
                stored_bytes: 3 << 20,
                reads,
                flushed_bytes: 1_000,
                ..LevelTraffic::default()
            };
            Run {
                levels: vec![LevelTraffic::default(), level],
                devices: vec![DeviceTraffic {
                    name: "hdd".into(),
                    stored_bytes: 3 << 20,
                    reads,
                    ..DeviceTraffic::default()
                }],
                ..run("A", Memory::Fits, repeat, 1_000.0)
            }
        };
        let runs = [repeat(0, 300), repeat(1, 100)];
        let table = levels(&Experiment::placements(), &runs, Memory::Fits);
        assert_eq!(table.rows.len(), 2);
        assert_eq!(table.rows[1][..6], ["A", "L1", "3.00", "0.20", "0", "1.00"]);
        let table = devices(&Experiment::placements(), &runs, Memory::Fits);
        assert_eq!(table.rows[0][..4], ["A", "hdd", "3.00", "0.20"]);
        let none = levels(&Experiment::placements(), &runs, Memory::Bounded);
        assert!(none.rows.is_empty());
    }
}
