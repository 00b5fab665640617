use std::collections::{HashMap, HashSet};

use super::db_bench::Benchmark;
use super::ycsb::{Distribution, UpdateStyle};
use super::*;
use crate::keys::ABSENT;
use crate::operation::{Expect, Operation, OperationKind, Part};
use crate::store::Direction;

const SEED: u64 = 11;

fn options(records: u64, operations: u64, clients: u32) -> Options {
    Options {
        records: Some(records),
        operations: Some(operations),
        clients: Some(clients),
        ..Options::default()
    }
}

/// The operations of the clients, in turns; every insert is acknowledged.
fn run(phase: &Phase, dataset: &Dataset, seed: u64) -> Vec<Vec<Operation>> {
    let mut streams = phase.streams(dataset, seed);
    let mut operations = vec![Vec::new(); streams.len()];
    let mut live = true;
    while live {
        live = false;
        for (stream, operations) in streams.iter_mut().zip(&mut operations) {
            if let Some(operation) = stream.next() {
                stream.done(&operation);
                operations.push(operation);
                live = true;
            }
        }
    }
    operations
}

/// The last phase of a workload, and its clients' operations.
fn last(name: &str, options: &Options) -> (Workload, Phase, Vec<Operation>) {
    let workload = named(name, options).unwrap();
    let phase = workload.phases.last().unwrap().clone();
    let operations = run(&phase, &workload.dataset, SEED).concat();
    (workload, phase, operations)
}

fn shares(operations: &[Operation]) -> HashMap<OperationKind, f64> {
    let mut shares = HashMap::new();
    for operation in operations {
        *shares.entry(operation.kind()).or_insert(0.0) += 1.0 / operations.len() as f64;
    }
    shares
}

fn record_of(operation: &Operation) -> u64 {
    match operation {
        Operation::Insert { record }
        | Operation::Update { record, .. }
        | Operation::UpdateField { record, .. }
        | Operation::ReadModifyWrite { record, .. }
        | Operation::Read { record, .. }
        | Operation::Delete { record } => *record,
        Operation::Scan { start, .. } => start.unwrap(),
        Operation::Graph(request) => panic!("{request:?} is of no record"),
    }
}

#[test]
fn every_name_is_a_workload_that_travels_as_json() {
    for (name, about) in named::names() {
        let workload = named(name, &options(1000, 100, 2)).unwrap();
        assert!(!about.is_empty());
        assert!(workload.phases[0].starts_empty, "{name}");
        let json = serde_json::to_string(&workload).unwrap();
        assert_eq!(serde_json::from_str::<Workload>(&json).unwrap(), workload);
        let lines = workload.describe().lines().count();
        assert_eq!(lines, 1 + workload.phases.len());
    }
    assert_eq!(named("nothing", &Options::default()), None);
    assert_eq!(named("A,readrandom", &Options::default()), None);
}

#[test]
fn streams_follow_from_the_seed() {
    for (name, _) in named::names() {
        let workload = named(name, &options(500, 400, 3)).unwrap();
        for phase in &workload.phases {
            let first = run(phase, &workload.dataset, SEED);
            assert_eq!(first, run(phase, &workload.dataset, SEED), "{name}");
            let ordered = ["load", "G", "fillseq", "readseq", "readreverse", "kvbdev"];
            if !ordered.contains(&phase.name.as_str()) || name == "mixgraph" {
                assert_ne!(first, run(phase, &workload.dataset, SEED + 1), "{name}");
                assert_ne!(first[0], first[1], "{name}");
            }
        }
    }
}

/// A cache may have kept the records that the first one read.
#[test]
fn a_phase_that_comes_again_draws_anew() {
    let workload = named("C,A,C", &options(500, 400, 1)).unwrap();
    let names: Vec<&str> = workload.phases.iter().map(|phase| &*phase.name).collect();
    assert_eq!(names, ["load", "C", "A", "C (2)"]);
    let reads = [1, 3].map(|at| run(&workload.phases[at], &workload.dataset, SEED));
    assert_ne!(reads[0], reads[1]);
    let reloaded = named("H,H", &options(500, 400, 1)).unwrap();
    let names: Vec<&str> = reloaded.phases.iter().map(|phase| &*phase.name).collect();
    assert_eq!(names, ["load", "H", "load", "H (2)"]);
    assert_eq!(reloaded.phases[0], reloaded.phases[2]);
}

#[test]
fn operations_are_as_many_as_the_phase_says() {
    for (name, _) in named::names() {
        let workload = named(name, &options(1900, 401, 3)).unwrap();
        for phase in &workload.phases {
            let mut operations = run(phase, &workload.dataset, SEED);
            // But for the writer beside the readers.
            operations.truncate(3);
            let count = operations.concat().len() as u64;
            assert_eq!(count, phase.operations, "{name}");
        }
    }
}

#[test]
fn loads_write_each_record_once() {
    let dataset = named("C", &options(1003, 1, 1)).unwrap().dataset;
    for order in [LoadOrder::Turns, LoadOrder::Parts, LoadOrder::Random] {
        for clients in [1, 2, 7] {
            let phase = Phase::load(&dataset, order, clients);
            let operations = run(&phase, &dataset, SEED).concat();
            let mut records: Vec<u64> = operations.iter().map(record_of).collect();
            records.sort_unstable();
            assert!(records.into_iter().eq(0..1003), "{order:?} by {clients}");
            assert_eq!(phase.newest(&dataset, SEED, 4), Some(0));
        }
    }
    let parts = run(&Phase::load(&dataset, LoadOrder::Parts, 2), &dataset, SEED);
    assert!(parts.iter().all(|part| part.is_sorted_by_key(record_of)));
}

#[test]
fn ycsb_mixes_have_their_shares() {
    use OperationKind::*;
    let expected: [(&str, &[(OperationKind, f64)]); 8] = [
        ("A", &[(Read, 0.5), (Update, 0.5)]),
        ("B", &[(Read, 0.95), (Update, 0.05)]),
        ("C", &[(Read, 1.0)]),
        ("D", &[(Read, 0.95), (Insert, 0.05)]),
        ("E", &[(Scan, 0.95), (Insert, 0.05)]),
        ("F", &[(Read, 0.5), (ReadModifyWrite, 0.5)]),
        ("F100", &[(ReadModifyWrite, 1.0)]),
        ("H", &[(Insert, 0.5), (Read, 0.5)]),
    ];
    for (name, expected) in expected {
        let (_, _, operations) = last(name, &options(1000, 40_000, 2));
        let shares = shares(&operations);
        assert_eq!(shares.len(), expected.len(), "{name}");
        for (kind, share) in expected {
            assert!((shares[kind] - share).abs() < 0.01, "{name} {shares:?}");
        }
    }
}

#[test]
fn ycsb_g_is_the_load() {
    let (workload, phase, operations) = last("g", &options(100, 5, 2));
    assert_eq!(workload.phases.len(), 1);
    assert!(phase.starts_empty && phase.name == "G");
    assert_eq!(operations.len(), 100);
}

#[test]
fn insert_workloads_of_ycsb_leave_the_next_one_a_load_of_its_own() {
    let workload = named("A, d,B,G,C", &options(100, 10, 1)).unwrap();
    let names: Vec<&str> = workload.phases.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["load", "A", "D", "load", "B", "G", "C"]);
}

#[test]
fn zipfian_reads_have_ycsbs_hottest_key() {
    let (_, _, operations) = last("C", &options(10_000, 100_000, 1));
    let hottest = crate::draw::fnv_64(0) % 10_000;
    let count = operations
        .iter()
        .filter(|o| record_of(o) == hottest)
        .count();
    assert!((3600..4000).contains(&count), "{count}");
    let (_, _, operations) = last("uniform", &options(10_000, 100_000, 1));
    let records: HashSet<u64> = operations.iter().map(record_of).collect();
    assert!(records.len() > 9_990);
}

#[test]
fn updates_write_one_field_or_the_value() {
    let field = options(100, 1000, 1);
    let (_, phase, operations) = last("A", &field);
    let mut fields = HashSet::new();
    for operation in &operations {
        match operation {
            Operation::UpdateField { field, .. } => fields.insert(*field),
            other => matches!(other, Operation::Read { .. }),
        };
    }
    assert_eq!(fields.len(), 10);
    assert!(phase.describe().contains("updates of one field"));
    let value = Options {
        update: UpdateStyle::Value,
        ..field
    };
    let (_, phase, operations) = last("A", &value);
    let whole = |o: &Operation| matches!(o, Operation::Update { .. } | Operation::Read { .. });
    assert!(operations.iter().all(whole));
    assert!(phase.describe().contains("updates of the whole value"));
    let (_, _, operations) = last("F100", &value);
    let whole = |o: &Operation| matches!(o, Operation::ReadModifyWrite { field: None, .. });
    assert!(operations.iter().all(whole));
}

#[test]
fn versions_of_a_phase_are_unlike() {
    let (_, _, operations) = last("F100", &options(100, 3000, 3));
    let versions: HashSet<u32> = operations
        .iter()
        .map(|operation| match operation {
            Operation::ReadModifyWrite { version, .. } => *version,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(versions.len(), 3000);
    assert!(!versions.contains(&0));
}

#[test]
fn inserted_records_are_read_only_once_acknowledged() {
    let inserted = Inserted::new(10);
    let numbers = [inserted.reserve(), inserted.reserve(), inserted.reserve()];
    assert_eq!(numbers, [10, 11, 12]);
    inserted.acknowledged(11);
    assert_eq!(inserted.readable(), 10);
    inserted.acknowledged(10);
    assert_eq!(inserted.readable(), 12);
    inserted.acknowledged(12);
    assert_eq!(inserted.readable(), 13);

    for name in ["D", "E", "H"] {
        let workload = named(name, &options(50, 2000, 3)).unwrap();
        let mut streams = workload.phases[1].streams(&workload.dataset, SEED);
        let (mut present, mut next) = (50, 50);
        for round in 0..600 {
            let stream = &mut streams[round % 3];
            let operation = stream.next().unwrap();
            if let Operation::Insert { record } = operation {
                assert_eq!(record, next);
                next += 1;
                // Some acknowledgements never come: later records must not be read.
                if round < 300 {
                    stream.done(&operation);
                    present = next;
                }
            } else {
                assert!(record_of(&operation) < present, "{name}");
            }
        }
        assert!(present > 50 && next > present);
    }
}

#[test]
fn d_reads_what_is_new() {
    let (_, _, operations) = last("D", &options(1000, 20_000, 1));
    let reads = operations
        .iter()
        .filter(|o| o.kind() == OperationKind::Read);
    let new = reads.clone().filter(|o| record_of(o) >= 1000).count();
    assert!(new * 2 > reads.count());
}

#[test]
fn e_scans_one_to_a_hundred_rows() {
    let (_, _, operations) = last("E", &options(1000, 20_000, 1));
    let rows: HashSet<u64> = operations
        .iter()
        .filter_map(|operation| match operation {
            Operation::Scan { rows, .. } => Some(*rows),
            _ => None,
        })
        .collect();
    assert!((1..=100).all(|length| rows.contains(&length)) && rows.len() == 100);
}

#[test]
fn clustered_heat_is_heat_of_keys() {
    let clustered = Options {
        distribution: Some(Distribution::Clustered { ranges: 10 }),
        ..options(1000, 20_000, 1)
    };
    let (workload, phase, operations) = last("C", &clustered);
    assert!(workload.dataset.key_form.in_record_order());
    let mut ranges = [0; 10];
    for operation in &operations {
        ranges[record_of(operation) as usize / 100] += 1;
    }
    // 1/zeta(10) is 34 %.
    assert!(
        (6500..7200).contains(ranges.iter().max().unwrap()),
        "{ranges:?}"
    );
    assert!(phase.describe().contains("10 contiguous ranges"));
}

#[test]
fn db_bench_knows_which_records_may_be_missing() {
    let names = "fillrandom,readrandom,fillseq,readrandom,deleterandom,readrandom,overwrite";
    let workload = named(names, &options(100, 50, 1)).unwrap();
    let sparse: Vec<bool> = workload.phases.iter().map(|phase| phase.sparse).collect();
    assert_eq!(sparse, [false, true, false, false, false, true, true]);
    let expect = |phase: usize| {
        let operations = run(&workload.phases[phase], &workload.dataset, SEED).concat();
        match operations[0] {
            Operation::Read { expect, .. } => expect,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(expect(1), Expect::Either);
    assert_eq!(expect(3), Expect::Found);
    assert_eq!(expect(5), Expect::Either);
}

#[test]
fn db_bench_fills_first_where_nothing_does() {
    let workload = named("readseq,readreverse", &options(100, 50, 2)).unwrap();
    let names: Vec<&str> = workload.phases.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["fillseq", "readseq", "readreverse"]);
    for (phase, direction) in [(1, Direction::Forward), (2, Direction::Backward)] {
        let whole = Operation::Scan {
            start: None,
            rows: 100,
            direction,
        };
        let operations = run(&workload.phases[phase], &workload.dataset, SEED);
        assert_eq!(operations, [[whole], [whole]]);
    }
}

#[test]
fn fillseq_shares_records_or_repeats_them() {
    let (_, phase, operations) = last("fillseq", &options(100, 1, 3));
    assert_eq!((phase.operations, operations.len()), (100, 100));
    let (_, phase, operations) = last("kvbdev", &options(100, 1, 3));
    assert_eq!((phase.operations, operations.len()), (300, 300));
    assert!(
        operations
            .iter()
            .map(record_of)
            .eq((0..300).map(|i| i % 100))
    );
    let full = named("kvbdev", &Options::default()).unwrap();
    assert_eq!(
        (full.phases[0].clients, full.dataset.records),
        (15, 1_000_000)
    );
}

#[test]
fn fillrandom_leaves_records_out_and_fillsync_is_short_and_safe() {
    let (_, _, operations) = last("fillrandom", &options(10_000, 1, 2));
    let records: HashSet<u64> = operations.iter().map(record_of).collect();
    assert!((6_200..6_450).contains(&records.len()), "{}", records.len());
    let (_, phase, operations) = last("fillsync", &options(10_000, 1, 2));
    assert!(phase.needs_power_cut_safety && operations.len() == 10);
}

#[test]
fn missing_keys_are_among_the_present_ones() {
    let (_, _, operations) = last("readmissing", &options(100, 50, 1));
    for operation in operations {
        let Operation::Read { record, expect } = operation else {
            panic!("{operation:?}");
        };
        assert_eq!(expect, Expect::Missing);
        assert!(record & ABSENT != 0 && record & !ABSENT < 100);
    }
}

#[test]
fn the_writer_beside_readers_ends_with_them() {
    let workload = named("readwhilewriting", &options(100, 50, 2)).unwrap();
    let mut streams = workload.phases[1].streams(&workload.dataset, SEED);
    let mut writer = streams.pop().unwrap();
    assert_eq!(streams.len(), 2);
    for reader in &mut streams {
        assert_eq!(writer.next().unwrap().kind(), OperationKind::Update);
        while let Some(operation) = reader.next() {
            assert_eq!(operation.kind(), OperationKind::Read);
        }
        assert_eq!(reader.next(), None);
    }
    assert_eq!(writer.next(), None);

    // A reader that is given up counts as done.
    let mut streams = workload.phases[1].streams(&workload.dataset, SEED);
    let mut writer = streams.pop().unwrap();
    assert!(writer.next().is_some() && writer.part() == Part::Beside { rate: None });
    drop(streams);
    assert_eq!(writer.next(), None);

    let paced = Phase {
        kind: PhaseKind::DbBench(Benchmark::ReadWhileWriting {
            writes_per_second: Some(500.0),
        }),
        ..workload.phases[1].clone()
    };
    let rates = paced.streams(&workload.dataset, SEED);
    let parts: Vec<Part> = rates.iter().map(|stream| stream.part()).collect();
    let beside = Part::Beside { rate: Some(500.0) };
    assert_eq!(parts, [Part::Measured, Part::Measured, beside]);
}

#[test]
fn plexdb_writes_each_version_of_each_record_once() {
    for records in [1, 5, 19, 190, 1000] {
        for clients in [1, 2, 5] {
            let (workload, phase, operations) = last("updates", &options(records, 1, clients));
            let mut writes = HashMap::<u64, Vec<u32>>::new();
            for operation in &operations {
                let Operation::Update { record, version } = operation else {
                    panic!("{operation:?}");
                };
                writes.entry(*record).or_default().push(*version);
            }
            assert_eq!(writes.len() as u64, workload.dataset.records);
            assert!(workload.dataset.records.abs_diff(records) < 19);
            assert_eq!(operations.len() as u64, phase.operations);
            for (record, versions) in writes {
                let newest = phase.newest(&workload.dataset, SEED, record);
                assert_eq!(newest, versions.last().copied());
                let mut versions = versions;
                versions.sort_unstable();
                assert!(versions.len() <= 19);
                assert!(versions.iter().copied().eq(0..versions.len() as u32));
            }
        }
    }
}

#[test]
fn plexdb_updates_are_uniform_and_in_no_order() {
    let (_, phase, operations) = last("updates", &options(19_000, 1, 1));
    assert_eq!(operations.len() as u64, phase.operations);
    let mut counts = HashMap::<u64, usize>::new();
    for operation in &operations {
        *counts.entry(record_of(operation)).or_default() += 1;
    }
    for writes in 1..=19 {
        assert_eq!(
            counts.values().filter(|count| **count == writes).count(),
            1000
        );
    }
    let rising = operations
        .windows(2)
        .filter(|pair| record_of(&pair[0]) < record_of(&pair[1]))
        .count();
    assert!(rising.abs_diff(operations.len() / 2) < operations.len() / 100);
}

#[test]
fn plexdb_volumes_are_those_of_its_runs() {
    for (name, bytes) in [("updates", 20e9), ("updates-large", 100e9)] {
        let scaled = Options {
            scale: Some(1.0),
            ..Options::default()
        };
        let workload = named(name, &scaled).unwrap();
        let written = workload.phases[0].operations as f64 * 210.0;
        assert!((written / bytes - 1.0).abs() < 1e-4, "{written}");
    }
    let (_, _, operations) = last("updates-large", &options(41 * 3, 1, 2));
    assert_eq!(operations.len(), 41 * 3 * 21);
}

#[test]
fn mixgraph_has_its_shares_and_lengths() {
    let (workload, _, operations) = last("mixgraph", &options(30_000, 100_000, 2));
    let shares = shares(&operations);
    for (kind, share) in [
        (OperationKind::Read, 0.85),
        (OperationKind::Update, 0.14),
        (OperationKind::Scan, 0.01),
    ] {
        assert!((shares[&kind] - share).abs() < 0.005, "{shares:?}");
    }
    let mut rows = Vec::new();
    for operation in &operations {
        assert!(record_of(operation) < workload.dataset.records);
        if let Operation::Scan { rows: length, .. } = operation {
            rows.push(*length);
        }
    }
    rows.sort_unstable();
    let median = rows[rows.len() / 2];
    assert!(
        (20..36).contains(&median) && rows.last() < Some(&10_000),
        "{median}"
    );
    let full = named("mixgraph", &Options::default()).unwrap();
    assert_eq!(
        (full.dataset.records, full.phases[1].operations),
        (5_000_000, 1_000_000)
    );
    assert_eq!(full.dataset.key_form.bytes(), 48);
}

#[test]
fn descriptions_say_what_was_run() {
    let workload = named("A", &options(1000, 500, 4)).unwrap();
    assert_eq!(
        workload.describe(),
        "A: 1000 records, hashed keys of 23 B, values of 10 fields of 100 B, incompressible\n\
         load: 1000 operations by 4 clients, each record once, in the order of record numbers, \
         clients in turns\n\
         A: 500 operations by 4 clients, 50 % reads, 50 % updates of one field, zipfian"
    );
    assert_eq!(workload.dataset.expected_bytes(), 1_023_000);
}
