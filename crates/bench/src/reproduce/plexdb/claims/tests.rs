use super::*;
use crate::reproduce::plexdb::measured::{Figure, Lookups, Space, Written};

fn figure(median: f64) -> Figure {
    Figure {
        median,
        least: median,
        most: median,
    }
}

/// A point with these amplifications, and reads of which one in 200 asks the device.
pub fn point(name: &str, space: f64, written: f64) -> Measured {
    let lookups = Lookups {
        per_second: figure(50_000.0),
        device_bytes: figure(20.0),
        device_reads: Some(figure(0.006)),
        device_share: figure(0.005),
    };
    Measured {
        name: name.into(),
        space: Space {
            mean: figure(space),
            peak: figure(space),
            settled: figure(space),
        },
        written: Written {
            load_tables: Some(figure(written)),
            settled_tables: Some(figure(written)),
            settled_process: figure(written + 1.0),
        },
        writes_per_second: figure(100_000.0),
        settled_writes_per_second: figure(90_000.0),
        reads: Some(lookups),
        absent: Some(lookups),
        scans: Some(lookups),
    }
}

/// As the paper has it.
pub fn measured() -> Vec<Measured> {
    vec![
        point(LEVELED, 1.15, 9.0),
        point(TIERED, 6.0, 3.0),
        point("terrace-dedup-1.2", 1.25, 7.0),
        point("terrace-dedup-1.4", 1.4, 5.0),
        point("terrace-dedup-1.6", 1.7, 4.0),
        point("terrace-dedup-1.8", 2.0, 3.1),
        point(LEVELDB, 1.2, 10.0),
    ]
}

fn verdict(points: &[Measured], claim: &str) -> Option<Verdict> {
    let claims = claims(points);
    let found = claims.iter().filter(|found| found.claim.contains(claim));
    let verdicts: Vec<Verdict> = found.map(|found| found.verdict).collect();
    assert!(verdicts.len() < 2, "{claim} is said twice");
    verdicts.first().copied()
}

const CLAIMS: [&str; 10] = [
    "LevelDB takes 1.2 times",
    "LevelDB writes each byte",
    "At 1.2 PlexDB takes",
    "At 1.2 PlexDB writes",
    "the less is written",
    "the more space",
    "Above 1.6",
    "At 1.8",
    "random reads",
    "absent keys",
];

#[test]
fn what_is_as_published_holds() {
    let points = measured();
    for claim in CLAIMS {
        assert_eq!(verdict(&points, claim), Some(Verdict::Holds), "{claim}");
    }
    assert_eq!(claims(&points).len(), CLAIMS.len());
}

/// Each change makes one claim fail, and no other.
#[test]
fn each_claim_can_fail() {
    type Change = fn(&mut Vec<Measured>);
    let changes: [(&str, Change); 9] = [
        ("LevelDB takes 1.2 times", |points| {
            points[6].space.mean = figure(1.4)
        }),
        ("LevelDB writes each byte", |points| {
            points[6].written.settled_tables = Some(figure(12.0));
        }),
        ("At 1.2 PlexDB takes", |points| {
            points[2].space.mean = figure(1.38)
        }),
        ("At 1.2 PlexDB writes", |points| {
            points[2].written.settled_tables = Some(figure(10.5));
        }),
        ("the less is written", |points| {
            points[3].written.settled_tables = Some(figure(3.5));
        }),
        ("the more space", |points| {
            points[3].space.mean = figure(1.9)
        }),
        ("Above 1.6", |points| {
            points[1].written.settled_tables = Some(figure(2.0));
        }),
        ("At 1.8", |points| points[5].space.mean = figure(2.3)),
        ("absent keys", |points| {
            let absent = points[4].absent.as_mut();
            absent.unwrap().device_share = figure(0.02);
        }),
    ];
    for (failing, change) in changes {
        let mut points = measured();
        change(&mut points);
        for claim in CLAIMS {
            let fails = verdict(&points, claim) == Some(Verdict::DoesNotHold);
            assert_eq!(fails, claim == failing, "{claim}, changed {failing}");
        }
    }
    let mut slower = measured();
    slower[2].reads.as_mut().unwrap().per_second = figure(44_000.0);
    assert_eq!(verdict(&slower, "random reads"), Some(Verdict::DoesNotHold));
}

#[test]
fn the_same_engine_stands_for_a_baseline_that_is_not_there() {
    let mut points = measured();
    points.pop();
    let claims = claims(&points);
    let first = &claims[0];
    assert_eq!(first.ours, "terrace-leveled 1.15");
    assert!(first.because.contains("stands for LevelDB"), "{first:?}");
    // With it, all three have a number.
    let third = &super::claims(&measured())[2];
    assert_eq!(
        third.ours,
        "terrace-dedup-1.2 1.25, leveldb 1.20, terrace-leveled 1.15"
    );
}

#[test]
fn of_points_that_were_not_asked_for_nothing_is_claimed() {
    assert!(claims(&[]).is_empty());
    let only = claims(&[point("terrace-dedup-1.4", 1.4, 5.0)]);
    assert_eq!(only.len(), 1, "{only:?}");
}
