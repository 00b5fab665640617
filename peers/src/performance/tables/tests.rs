use terrace_bench::operation::OperationKind;
use terrace_bench::outcome::{Failure, Latency, PhaseOutcome, Usage};

use super::*;

const SECTIONS: &[Section] = &[Section {
    marker: "fits",
    measurements: &[
        Measurement {
            name: "first",
            arguments: "ycsb c",
        },
        Measurement {
            name: "second",
            arguments: "ycsb e",
        },
        Measurement {
            name: "third",
            arguments: "ycsb h",
        },
    ],
}];

const PACED: &[Section] = &[Section {
    marker: "paced",
    measurements: &[Measurement {
        name: "pace",
        arguments: "ycsb c --paced 70 --memory bounded",
    }],
}];

fn phase(name: &str, seconds: f64, rate: Option<f64>) -> PhaseOutcome {
    let latency = Latency {
        count: 9,
        p50_us: 1.0,
        p99_us: 2.0,
        p999_us: 30.0 * seconds,
        ..Latency::default()
    };
    PhaseOutcome {
        name: name.into(),
        operations: 100_000,
        clients: 1,
        rate,
        acknowledged_s: seconds,
        settled_s: (name == "load").then_some(2.0 * seconds),
        latencies: BTreeMap::from([(OperationKind::Read, latency)]),
        longest_gap_ms: 4.0,
        user_written_bytes: 1000,
        found: 100_000,
        usage: Usage {
            user_s: 0.5,
            device_write_bytes: Some((3000.0 * seconds) as u64),
            device_reads: Some(50),
            ..Usage::default()
        },
        ..PhaseOutcome::default()
    }
}

fn contest(stores: &[(&str, f64)], rate: Option<f64>) -> Contest {
    let run = |repeat: u32, &(store, seconds): &(&str, f64)| RunOutcome {
        store: store.into(),
        repeat,
        phases: vec![
            phase("load", seconds, None),
            phase("C, bounded", seconds, rate),
        ],
        ..RunOutcome::default()
    };
    let runs = (0..3).flat_map(|repeat| stores.iter().map(move |store| run(repeat, store)));
    Contest {
        runs: runs.collect(),
        ..Contest::default()
    }
}

const BOTH: [(&str, f64); 2] = [("terrace", 1.0), ("rocksdb", 2.0)];
const THREE: [(&str, f64); 3] = [("terrace", 1.0), ("rocksdb", 4.0), ("fjall", 3.0)];

fn shown(
    sections: &'static [Section],
    contests: Vec<(&'static str, Contest)>,
) -> BTreeMap<String, Option<String>> {
    of(sections, &contests.into_iter().collect())
}

fn text<'a>(tables: &'a BTreeMap<String, Option<String>>, name: &str) -> &'a str {
    tables[name].as_deref().unwrap()
}

#[test]
fn the_short_table_sets_the_first_beside_each_other() {
    let held = vec![
        ("first", contest(&BOTH, None)),
        ("third", contest(&THREE, None)),
    ];
    let tables = shown(SECTIONS, held);
    let expected = "\
|  | terrace, op/s | x rocksdb | x fjall | p99.9, us | longest gap, ms | CPU, us | write amplification |
|---|---|---|---|---|---|---|---|
| load, settled | 50.0 k | 2.00 | - | read 30.0 / 60.0 | 4.00 / 4.00 | 5.00 / 5.00 | 3.00 / 6.00 |
| C | 100 k | 2.00 | - | read 30.0 / 60.0 | 4.00 / 4.00 | 5.00 / 5.00 | 3.00 / 6.00 |
| C | 100 k | 4.00 | 3.00 | read 30.0 / 120 | 4.00 / 4.00 | 5.00 / 5.00 | 3.00 / 12.0 |

Not measured yet: second.
";
    assert_eq!(text(&tables, "fits"), expected);
    let written = "|  | terrace | rocksdb |\n|---|---|---|\n| first | 3.00 | 6.00 |\n| third | 3.00 | 12.0 |\n";
    assert_eq!(text(&tables, "written"), written);
}

#[test]
fn all_figures_stand_behind_their_own_command() {
    let held = vec![
        ("first", contest(&BOTH, None)),
        ("third", contest(&THREE, None)),
    ];
    let tables = shown(SECTIONS, held);
    let (before, after) = text(&tables, "fits-all")
        .split_once("peers compare ycsb h")
        .unwrap();
    assert!(before.contains("peers compare ycsb c") && !before.contains("fjall"));
    assert!(
        after.contains("| C | terrace | rocksdb | fjall |"),
        "{after}"
    );
    assert!(
        after.contains("| read p50 | 1.00 us [1.00..1.00 us] |"),
        "{after}"
    );
    // One read of the device for two thousand lookups.
    assert!(!after.contains("device reads"), "{after}");
}

#[test]
fn who_takes_no_part_has_no_figures() {
    let only = [("leveldb", 2.0)];
    let tables = shown(SECTIONS, vec![("first", contest(&only, None))]);
    assert!(
        text(&tables, "fits").contains("| C | - | - | read - / - |"),
        "{tables:?}"
    );
}

#[test]
fn who_failed_is_named() {
    let mut failed = contest(&BOTH, None);
    failed.failures = vec![Failure {
        store: "fjall".into(),
        repeat: 1,
        label: ", bounded".into(),
        error: "lost a row".into(),
    }];
    let tables = shown(SECTIONS, vec![("first", failed)]);
    for name in ["fits", "fits-all"] {
        assert!(
            text(&tables, name).contains("FAILED: fjall, bounded, repeat 2: lost a row"),
            "{name}"
        );
    }
}

#[test]
fn who_did_not_keep_the_pace_is_in_brackets() {
    let tables = shown(PACED, vec![("pace", contest(&BOTH, Some(80_000.0)))]);
    let row = "| C, bounded: read | 80000 | terrace / (rocksdb) | 1.00 / 1.00 | 2.00 / 2.00 | 30.0 / 60.0 | 4.00 / 4.00 |";
    assert!(text(&tables, "paced").contains(row), "{tables:?}");
    assert!(!text(&tables, "paced").contains("load"));
    // Its phases in an open loop have no load of their own: no whole run.
    assert_eq!(tables["written"], None);
}

#[test]
fn nothing_is_said_of_what_was_not_measured() {
    let tables = shown(SECTIONS, Vec::new());
    assert!(
        tables.values().all(Option::is_none) && tables.len() == 3,
        "{tables:?}"
    );
}
