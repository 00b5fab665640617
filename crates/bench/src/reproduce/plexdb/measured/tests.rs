use super::*;
use crate::outcome::Usage;

fn sample(at_s: f64, operations: u64, table_space_bytes: u64) -> Sample {
    Sample {
        at_s,
        operations,
        table_space_bytes,
        // All of it but for a log.
        space_bytes: table_space_bytes + 1_000_000,
        ..Sample::default()
    }
}

/// 1000 B came in, of which 100 B are distinct.
fn load() -> PhaseOutcome {
    PhaseOutcome {
        name: "updates".into(),
        operations: 100,
        acknowledged_s: 4.0,
        settled_s: Some(5.0),
        user_written_bytes: 1000,
        table_space_bytes: 110,
        peak_table_space_bytes: 400,
        acknowledged_table_bytes_written: Some(5000),
        table_bytes_written: Some(6000),
        usage: Usage {
            write_bytes: 7500,
            cancelled_write_bytes: 500,
            ..Usage::default()
        },
        timeline: vec![
            sample(0.0, 0, 0),
            sample(1.0, 49, 900),
            sample(2.0, 50, 200),
            sample(3.0, 90, 300),
            // To settled, and no part of the load.
            sample(4.5, 100, 5000),
        ],
        ..PhaseOutcome::default()
    }
}

fn reads(device_reads: Option<u64>, read_bytes: u64) -> PhaseOutcome {
    PhaseOutcome {
        name: ABSENT.into(),
        operations: 1000,
        acknowledged_s: 0.5,
        usage: Usage {
            read_bytes,
            device_reads,
            ..Usage::default()
        },
        ..PhaseOutcome::default()
    }
}

fn contest(runs: Vec<Vec<PhaseOutcome>>) -> Contest {
    let run = |phases| RunOutcome {
        store: "point".into(),
        phases,
        ..RunOutcome::default()
    };
    Contest {
        runs: runs.into_iter().map(run).collect(),
        ..Contest::default()
    }
}

fn only(runs: Vec<Vec<PhaseOutcome>>) -> Measured {
    let mut all = measured(&contest(runs), 100);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn space_is_that_of_tables_in_the_second_half_at_most_and_at_last() {
    let point = only(vec![vec![load()]]);
    assert_eq!(point.space.mean.median, 2.5);
    assert_eq!(point.space.peak.median, 4.0);
    assert_eq!(point.space.settled.median, 1.1);
}

#[test]
fn what_is_written_is_told_with_and_without_logs_and_debts() {
    let written = only(vec![vec![load()]]).written;
    assert_eq!(written.load_tables.unwrap().median, 5.0);
    assert_eq!(written.settled_tables.unwrap().median, 6.0);
    assert_eq!(written.settled_process.median, 7.0);
    assert_eq!(written.usual().median, 6.0);
    let silent = PhaseOutcome {
        table_bytes_written: None,
        ..load()
    };
    let written = only(vec![vec![silent]]).written;
    assert_eq!(
        (written.settled_tables, written.usual().median),
        (None, 7.0)
    );
}

#[test]
fn a_load_of_two_phases_is_one() {
    let second = PhaseOutcome {
        operations: 300,
        table_space_bytes: 120,
        peak_table_space_bytes: 300,
        timeline: vec![
            sample(1.0, 99, 900),
            sample(2.0, 100, 250),
            sample(3.0, 299, 350),
        ],
        ..load()
    };
    let point = only(vec![vec![load(), second]]);
    assert_eq!(point.space.mean.median, 3.0);
    assert_eq!(
        (point.space.peak.median, point.space.settled.median),
        (4.0, 1.2)
    );
    assert_eq!(point.writes_per_second.median, 50.0);
    assert_eq!(point.settled_writes_per_second.median, 40.0);
    assert_eq!(point.written.settled_tables.unwrap().median, 6.0);
    assert_eq!(point.reads, None);
}

/// Neither other programs' reads nor that a block spans two pages can make it look better than it is.
#[test]
fn the_share_of_lookups_that_ask_the_device_is_bounded_from_above() {
    let share = |device_reads, read_bytes| {
        let point = only(vec![vec![load(), reads(device_reads, read_bytes)]]);
        point.absent.unwrap().device_share.median
    };
    assert_eq!(share(Some(9), 2 * 9 * 4096), 0.009);
    assert_eq!(share(Some(700), 9 * 4096), 0.009);
    assert_eq!(share(None, 18 * 4096), 0.018);
    assert_eq!(share(Some(5000), 9_000_000), 1.0);
    let absent = only(vec![vec![load(), reads(Some(20), 81920)]])
        .absent
        .unwrap();
    assert_eq!(absent.per_second.median, 2000.0);
    assert_eq!(absent.device_reads.unwrap().median, 0.02);
    assert_eq!(absent.device_bytes.median, 81.92);
}

#[test]
fn of_repeats_the_median_counts_and_the_ends_are_kept() {
    let with_peak = |bytes| {
        vec![PhaseOutcome {
            peak_table_space_bytes: bytes,
            ..load()
        }]
    };
    let point = only([300, 200, 700].map(with_peak).into());
    let expected = Figure {
        median: 3.0,
        least: 2.0,
        most: 7.0,
    };
    assert_eq!(point.space.peak, expected);
}
