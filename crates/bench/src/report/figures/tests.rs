//! Figures against values computed by hand.

use std::collections::BTreeMap;

use super::*;
use crate::outcome::{Latency, RunOutcome, Usage};

fn phase(operations: u64, seconds: f64) -> PhaseOutcome {
    PhaseOutcome {
        name: "A".into(),
        operations,
        clients: 1,
        acknowledged_s: seconds,
        ..PhaseOutcome::default()
    }
}

fn contest(runs: Vec<(&str, u32, Vec<PhaseOutcome>)>) -> Contest {
    let run = |(store, repeat, phases): (&str, u32, Vec<PhaseOutcome>)| RunOutcome {
        store: store.into(),
        repeat,
        phases,
        ..RunOutcome::default()
    };
    Contest {
        runs: runs.into_iter().map(run).collect(),
        ..Contest::default()
    }
}

/// The only phase of a contest with one run a contestant.
fn only(phases: Vec<(&str, PhaseOutcome)>) -> PhaseFigures {
    let runs = phases
        .into_iter()
        .map(|(store, phase)| (store, 0, vec![phase]));
    figures(&contest(runs.collect())).phases.remove(0)
}

fn median(phase: &PhaseFigures, identifier: &str, contestant: usize) -> Option<f64> {
    let cell = phase.figure(identifier)?.cells[contestant].as_ref()?;
    Some(cell.median)
}

#[test]
fn the_median_is_of_the_repeats_and_the_spread_is_shown() {
    let runs = [(0, 4.0), (1, 1.0), (2, 2.0)];
    let runs = runs.map(|(repeat, seconds)| ("terrace", repeat, vec![phase(1000, seconds)]));
    let figures = figures(&contest(runs.into()));
    let cell = figures.phases[0].figure("acknowledged").unwrap().cells[0]
        .clone()
        .unwrap();
    assert_eq!((cell.median, cell.least, cell.most), (500.0, 250.0, 1000.0));
    assert_eq!((cell.repeats, cell.range.as_str()), (3, "0.25..1.00k"));
    assert_eq!(figures.phases[0].median_repeat, [Some(2)]);
}

#[test]
fn the_median_of_two_is_their_mean() {
    let runs = [(0, 1.0), (1, 2.0)];
    let runs = runs.map(|(repeat, seconds)| ("terrace", repeat, vec![phase(1000, seconds)]));
    let figures = figures(&contest(runs.into()));
    assert_eq!(median(&figures.phases[0], "acknowledged", 0), Some(750.0));
    assert_eq!(figures.phases[0].median_repeat, [Some(1)]);
}

#[test]
fn each_figure_follows_its_definition() {
    let mut full = phase(2_000_000, 10.0);
    full.settled_s = Some(16.0);
    full.longest_gap_ms = 12.5;
    full.user_written_bytes = 400_000_000;
    full.user_read_bytes = 100_000_000;
    full.found = 50_000;
    full.space_bytes = 330;
    full.live_bytes = 300;
    full.usage = Usage {
        user_s: 5.0,
        system_s: 1.0,
        write_bytes: 2_000_000_000,
        cancelled_write_bytes: 400_000_000,
        read_bytes: 250_000_000,
        device_write_bytes: Some(1_000_000_000),
        device_read_bytes: None,
        device_reads: Some(60_000),
        peak_resident_bytes: 7,
        peak_cgroup_bytes: Some(9),
        stolen_s: Some(0.25),
    };
    let latency = Latency {
        count: 3,
        p50_us: 1.0,
        p99_us: 2.0,
        p999_us: 3.0,
        max_us: 4.0,
        ..Latency::default()
    };
    full.latencies = BTreeMap::from([(OperationKind::Read, latency)]);
    let phase = only(vec![("terrace", full)]);
    let expected = [
        ("acknowledged", 200_000.0),
        ("settled", 125_000.0),
        ("megabytes", 50.0),
        ("read.p50", 1.0),
        ("read.p99", 2.0),
        ("read.p99.9", 3.0),
        ("read.max", 4.0),
        ("longest_gap", 12_500.0),
        ("processor", 3.0),
        ("write_amplification", 4.0),
        ("device_write_amplification", 2.5),
        ("device_reads", 1.2),
        ("read_amplification", 2.5),
        ("space_amplification", 1.1),
        ("resident", 7.0),
        ("cgroup", 9.0),
        ("stolen", 250_000.0),
    ];
    let names: Vec<&str> = phase
        .figures
        .iter()
        .map(|figure| &*figure.identifier)
        .collect();
    assert_eq!(names, expected.map(|(name, _)| name));
    for (identifier, value) in expected {
        assert_eq!(median(&phase, identifier, 0), Some(value), "{identifier}");
    }
}

#[test]
fn what_cannot_be_had_is_none_and_not_zero() {
    let mut bare = phase(0, 0.0);
    bare.latencies = BTreeMap::from([(OperationKind::Read, Latency::default())]);
    assert!(only(vec![("terrace", bare)]).figures.is_empty());

    let mut known = phase(10, 1.0);
    known.usage.device_write_bytes = Some(100);
    known.user_written_bytes = 10;
    let both = only(vec![("terrace", phase(10, 1.0)), ("other", known)]);
    assert_eq!(median(&both, "device_write_amplification", 0), None);
    assert_eq!(median(&both, "device_write_amplification", 1), Some(10.0));
    let figure = both.figure("device_write_amplification").unwrap();
    assert_eq!((figure.best, figure.advantage), (Some(1), None));
}

#[test]
fn more_cancelled_than_written_is_nothing_written() {
    let mut odd = phase(10, 1.0);
    odd.user_written_bytes = 10;
    odd.usage.cancelled_write_bytes = 50;
    let phase = only(vec![("terrace", odd)]);
    assert_eq!(median(&phase, "write_amplification", 0), Some(0.0));
}

#[test]
fn an_advantage_is_above_one_whichever_way_is_better() {
    let mut first = phase(100, 1.0);
    let mut second = phase(100, 2.0);
    first.longest_gap_ms = 1.0;
    second.longest_gap_ms = 4.0;
    let slow = phase(100, 10.0);
    let phase = only(vec![("terrace", first), ("near", second), ("far", slow)]);
    let figure = |name| phase.figure(name).unwrap();
    assert_eq!(figure("acknowledged").advantage, Some(2.0));
    assert_eq!(figure("acknowledged").best, Some(0));
    // The third has no gap at all: it is best, and there is no factor to 0.
    assert_eq!(figure("longest_gap").best, Some(2));
    assert_eq!(figure("longest_gap").advantage, None);
}

/// As shown, both are 0.000.
#[test]
fn three_in_a_million_are_not_better_than_four() {
    let reading = |device_reads: u64| PhaseOutcome {
        found: 1_000_000,
        usage: Usage {
            device_reads: Some(device_reads),
            ..Usage::default()
        },
        ..phase(1_000_000, 1.0)
    };
    let ranked = |first: u64, second: u64| {
        let both = only(vec![
            ("terrace", reading(first)),
            ("other", reading(second)),
        ]);
        let figure = both.figure("device_reads").unwrap();
        (figure.best, figure.advantage)
    };
    assert_eq!(ranked(3, 4), (None, None));
    assert_eq!(ranked(3, 4000), (Some(0), None));
    assert_eq!(ranked(4096, 8192), (Some(0), Some(2.0)));
}

#[test]
fn phases_of_one_name_are_told_apart_and_may_be_missing() {
    let runs = vec![
        ("terrace", 0, vec![phase(10, 1.0), phase(20, 1.0)]),
        ("other", 0, vec![phase(30, 1.0)]),
    ];
    let figures = figures(&contest(runs));
    assert_eq!(figures.phases.len(), 2);
    assert_eq!(figures.phases[1].title(), "A (2)");
    assert_eq!(median(&figures.phases[0], "acknowledged", 1), Some(30.0));
    assert_eq!(median(&figures.phases[1], "acknowledged", 0), Some(20.0));
    assert_eq!(median(&figures.phases[1], "acknowledged", 1), None);
    assert_eq!(figures.phases[1].median_repeat, [Some(0), None]);
}

#[test]
fn the_sentence_says_who_leads_and_how_surely() {
    let says = |left: f64, right: f64| {
        only(vec![
            ("terrace", phase(1000, left)),
            ("other", phase(1000, right)),
        ])
        .summary
    };
    assert_eq!(
        says(1.0, 2.0),
        "terrace leads with 1.00k operations/s: 2.00 times other."
    );
    assert_eq!(
        says(1.0, 1.01),
        "terrace and other are level: 1.00k and 990 operations/s."
    );
    let alone = only(vec![("terrace", phase(1000, 1.0))]);
    assert_eq!(alone.summary, "terrace alone: 1.00k operations/s.");

    let repeats = [("terrace", 0, 1.0), ("terrace", 1, 2.0), ("other", 0, 1.8)];
    let runs = repeats.map(|(store, repeat, seconds)| (store, repeat, vec![phase(900, seconds)]));
    let figures = figures(&contest(runs.into()));
    assert_eq!(
        figures.phases[0].summary,
        "terrace leads with 675 operations/s: 1.35 times other, though their repeats overlap."
    );
}

/// A phase in an open loop, at 1,000 operations a second.
fn paced(p999_us: f64, seconds: f64) -> PhaseOutcome {
    let latency = Latency {
        count: 10,
        p999_us,
        // Says the opposite.
        p99_us: 1000.0 - p999_us,
        ..Latency::default()
    };
    PhaseOutcome {
        rate: Some(1000.0),
        latencies: BTreeMap::from([(OperationKind::Update, latency)]),
        ..phase(1000, seconds)
    }
}

#[test]
fn in_an_open_loop_the_tail_decides() {
    let phase = only(vec![
        ("terrace", paced(300.0, 1.0)),
        ("other", paced(100.0, 1.0)),
    ]);
    assert_eq!(
        phase.summary,
        "other leads with 100 us update p99.9: terrace takes 3.00 times as long."
    );
}

#[test]
fn who_does_not_keep_the_pace_leads_in_nothing() {
    let phase = only(vec![
        ("quick", paced(10.0, 1.02)),
        ("terrace", paced(300.0, 1.0)),
        ("other", paced(600.0, 1.005)),
    ]);
    assert_eq!(phase.pace_not_kept, [true, false, false]);
    assert_eq!(
        phase.summary,
        "terrace leads with 300 us update p99.9: other takes 2.00 times as long. \
         Pace not kept: quick."
    );
    let figure = phase.figure("update.p99.9").unwrap();
    assert_eq!((figure.best, figure.advantage), (Some(1), None));
    let late = only(vec![("a", paced(1.0, 2.0)), ("b", paced(2.0, 2.0))]);
    assert_eq!(late.summary, "Nobody leads. Pace not kept: a, b.");
}

#[test]
fn plots_of_an_open_loop_show_the_repeat_with_the_median_tail() {
    let runs = [(0, 700.0), (1, 100.0), (2, 300.0)];
    let runs = runs.map(|(repeat, tail)| ("terrace", repeat, vec![paced(tail, 1.0)]));
    let figures = figures(&contest(runs.into()));
    assert_eq!(figures.phases[0].median_repeat, [Some(2)]);
}

#[test]
fn processor_time_is_of_all_operations_those_beside_included() {
    let mut beside = phase(1000, 1.0);
    beside.operations_beside = 3000;
    beside.usage.user_s = 0.004;
    let phase = only(vec![("terrace", beside)]);
    assert_eq!(median(&phase, "processor", 0), Some(1.0));
    assert_eq!(median(&phase, "acknowledged", 0), Some(1000.0));
}

#[test]
fn settled_is_told_where_it_changes_who_leads() {
    let ends = |acknowledged: f64, settled: f64| PhaseOutcome {
        settled_s: Some(settled),
        ..phase(1000, acknowledged)
    };
    let phase = only(vec![("terrace", ends(1.0, 5.0)), ("other", ends(2.0, 2.5))]);
    assert!(
        phase
            .summary
            .ends_with(" Until nothing is left to merge, other leads with 400 operations/s.")
    );
}
