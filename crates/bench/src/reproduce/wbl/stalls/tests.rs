use super::*;

#[test]
fn stalls_are_gone_where_little_is_left_of_them() {
    assert_eq!(verdict(0.0, 0.0), Verdict::CannotBeTold);
    assert_eq!(verdict(50.0, 0.0), Verdict::Holds);
    assert_eq!(verdict(50.0, 20.0), Verdict::DoesNotHold);
}

fn found(stalled_ms: &[(u32, u32, f64)]) -> Stalls {
    let runs = stalled_ms.iter().map(|(repeat, waiting, stalled_ms)| Run {
        repeat: *repeat,
        load: Load::Burst,
        waiting: *waiting,
        rate: 0.0,
        stalled_ms: *stalled_ms,
        longest_ms: 0.0,
        p999_us: 0.0,
        max_us: 0.0,
    });
    Stalls {
        memtable_bytes: 1 << 20,
        runs: runs.collect(),
    }
}

#[test]
fn a_verdict_is_that_of_all_repeats() {
    let first = [(0, 2, 50.0), (0, 8, 0.0)];
    let alike = [first, [(1, 2, 30.0), (1, 8, 1.0)]].concat();
    let other = [first, [(1, 2, 30.0), (1, 8, 20.0)]].concat();
    let idle = [(0, 2, 0.0), (0, 8, 0.0)];
    for (runs, verdict, because) in [
        (&alike[..], Verdict::Holds, "Each of 2 repeats"),
        (&other, Verdict::CannotBeTold, "do not agree"),
        (&first, Verdict::CannotBeTold, "one repeat"),
        (&idle, Verdict::CannotBeTold, "Flushes kept up"),
    ] {
        let claims = claims(&found(runs));
        assert_eq!(claims[0].verdict, verdict, "{}", claims[0].because);
        assert!(claims[0].because.contains(because), "{}", claims[0].because);
    }
    let claims = claims(&found(&alike));
    assert_eq!(
        claims[0].ours,
        "40.0 ms [30.0..50.0] with 2 waiting, 0.5 ms [0.0..1.0] with 8"
    );
}

#[test]
fn one_repeat_has_no_interval() {
    let one = found(&[(0, 2, 50.0), (0, 8, 0.5)]);
    assert_eq!(
        claims(&one)[0].ours,
        "50.0 ms with 2 waiting, 0.5 ms with 8"
    );
    assert_eq!(section(&one, false).tables[0].rows[0][4], "-");
}

#[test]
fn a_burst_fits_into_eight_and_not_into_two() {
    assert!(Load::Burst.memtables() > 3 && Load::Burst.memtables() <= 8);
    assert!(Load::Sustained.memtables() > 33);
}
