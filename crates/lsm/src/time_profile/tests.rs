//! Watching alone; `tests/time_profile` of the crate `terrace` watches stores.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);

/// Makes a check until it holds, ten times at most: others that take the processor away stretch a time.
/// A fault of the profile is there in every turn.
fn in_a_quiet_turn(check: impl Fn() + std::panic::RefUnwindSafe) {
    let holds = || std::panic::catch_unwind(&check).is_ok();
    if !(0..9).any(|_| holds()) {
        check();
    }
}

fn assert_about(time: Duration, milliseconds: u64) {
    let wanted = Duration::from_millis(milliseconds);
    // Sleeps last longer than they should, never shorter.
    let most = wanted + wanted / 2 + 20 * MILLISECOND;
    assert!(
        (wanted - MILLISECOND..most).contains(&time),
        "{time:?} for {wanted:?}"
    );
}

#[test]
fn stages_exclude_one_another_and_add_up() {
    in_a_quiet_turn(|| {
        let profiler = Arc::new(TimeProfiler::default());
        let began = Instant::now();
        {
            let _watched = profiler.watch(Path::Flush, Stage::Queue);
            sleep(10 * MILLISECOND);
            {
                let _outer = stage(Stage::Index);
                sleep(20 * MILLISECOND);
                {
                    let _inner = stage(Stage::ReadCall);
                    sleep(40 * MILLISECOND);
                }
                sleep(20 * MILLISECOND);
            }
            enter_stage(Stage::Insert);
            sleep(30 * MILLISECOND);
        }
        let took = began.elapsed();
        sleep(10 * MILLISECOND);
        let profile = profiler.profile();
        let flush = profile.path("flush").unwrap();
        assert_eq!((flush.operations, flush.watched, flush.one_in), (1, 1, 1));
        let names: Vec<_> = flush.stages.iter().map(|s| s.stage.as_str()).collect();
        assert_eq!(
            names,
            [
                "commit queue",
                "index insert",
                "table index",
                "system call: read"
            ]
        );
        for (name, milliseconds) in names.iter().zip([10, 30, 40, 40]) {
            assert_about(flush.time_of(name), milliseconds);
        }
        assert!(flush.time <= took && took - flush.time < MILLISECOND);
        let shares: f64 = flush.stages.iter().map(|stage| stage.share).sum();
        assert!((shares - 1.0).abs() < 1e-9);
    });
}

#[test]
fn what_is_watched_stands_for_what_is_not() {
    in_a_quiet_turn(|| {
        let profiler = Arc::new(TimeProfiler::default());
        {
            let _watched = profiler.watch(Path::Get, Stage::MemTables);
            sleep(10 * MILLISECOND);
        }
        let profile = profiler.profile();
        let get = profile.path("get").unwrap();
        assert_eq!((get.watched, get.operations), (1, 224));
        assert!(get.time >= 224 * 9 * MILLISECOND);
    });
}

#[test]
fn an_exact_stage_is_timed_each_time_and_counts_once() {
    in_a_quiet_turn(|| {
        let profiler = Arc::new(TimeProfiler::default());
        {
            let _sleep = profiler.exact(Path::Write, Stage::HeldBack);
            sleep(10 * MILLISECOND);
        }
        {
            let _watched = profiler.watch(Path::Write, Stage::Admission);
            let _sleep = profiler.exact(Path::Write, Stage::HeldBack);
            // Everything inside it is part of it.
            let _call = stage(Stage::SyncCall);
            sleep(10 * MILLISECOND);
        }
        let profile = profiler.profile();
        let write = profile.path("write").unwrap();
        assert_about(write.time_of("held back"), 20);
        assert_eq!(write.time_of("system call: sync"), Duration::ZERO);
        assert!(write.time_of("checks and room") < 10 * MILLISECOND);
    });
}

#[test]
fn an_operation_inside_another_is_its_own() {
    in_a_quiet_turn(|| {
        let profiler = || Arc::new(TimeProfiler::default());
        let (outer, inner) = (profiler(), profiler());
        {
            let _outer = outer.watch(Path::Flush, Stage::Merging);
            sleep(10 * MILLISECOND);
            let _exact = outer.exact(Path::Write, Stage::HeldBack);
            {
                let _inner = inner.watch(Path::Merge, Stage::Install);
                sleep(20 * MILLISECOND);
            }
            sleep(10 * MILLISECOND);
            drop(_exact);
            {
                let _inner = inner.watch_more(Path::Merge, Stage::Install);
                sleep(20 * MILLISECOND);
            }
            enter_stage(Stage::Sort);
            sleep(10 * MILLISECOND);
        }
        let (outer, inner) = (outer.profile(), inner.profile());
        assert_about(outer.path("flush").unwrap().time, 20);
        assert_about(
            outer.path("flush").unwrap().time_of("sorting the index"),
            10,
        );
        // The wait is the writer's, with all work in it.
        assert_about(outer.path("write").unwrap().time, 30);
        let merge = inner.path("merge").unwrap();
        assert_eq!(merge.operations, 1);
        assert_about(merge.time, 40);
    });
}

#[test]
fn nothing_is_noted_beside_an_operation() {
    in_a_quiet_turn(|| {
        let profiler = Arc::new(TimeProfiler::default());
        let stages = || {
            enter_stage(Stage::Index);
            let _call = stage(Stage::ReadCall);
            let _block = leaf(Stage::Checksum);
            sleep(5 * MILLISECOND);
        };
        stages();
        let fails = || -> Result<(), ()> {
            let _watched = profiler.watch(Path::Flush, Stage::Merging);
            let _call = stage(Stage::WriteCall);
            let _block = leaf(Stage::Checksum);
            Err(())
        };
        fails().unwrap_err();
        let panics = std::panic::AssertUnwindSafe(|| {
            let _watched = profiler.watch(Path::Flush, Stage::Merging);
            let _call = stage(Stage::WriteCall);
            std::panic::resume_unwind(Box::new(()));
        });
        std::panic::catch_unwind(panics).unwrap_err();
        stages();
        let profile = profiler.profile();
        let flush = profile.path("flush").unwrap();
        assert_eq!(flush.operations, 2);
        assert!(flush.time < 5 * MILLISECOND, "{:?}", flush.time);
    });
}

#[test]
fn blocks_that_are_timed_stand_for_those_that_are_not() {
    in_a_quiet_turn(|| {
        let profiler = Arc::new(TimeProfiler::default());
        {
            let _watched = profiler.watch(Path::Merge, Stage::Merging);
            for _ in 0..64 {
                sleep(MILLISECOND / 2);
                let _block = leaf(Stage::Checksum);
                sleep(MILLISECOND / 2);
            }
        }
        let profile = profiler.profile();
        let merge = profile.path("merge").unwrap();
        let share = merge.time_of("block checksum").as_secs_f64() / merge.time.as_secs_f64();
        assert!((0.35..0.65).contains(&share), "{share}");
        assert!(merge.time >= 64 * MILLISECOND);
    });
}

#[test]
fn threads_are_watched_side_by_side() {
    in_a_quiet_turn(|| {
        let profiler = Arc::new(TimeProfiler::default());
        std::thread::scope(|scope| {
            for number in 0..4 {
                let profiler = &profiler;
                scope.spawn(move || {
                    let _watched = profiler.watch(Path::Flush, Stage::Merging);
                    let _call = stage(if number % 2 == 0 {
                        Stage::ReadCall
                    } else {
                        Stage::WriteCall
                    });
                    sleep(20 * MILLISECOND);
                });
            }
        });
        let profile = profiler.profile();
        let flush = profile.path("flush").unwrap();
        assert_eq!(flush.operations, 4);
        for name in ["system call: read", "system call: write"] {
            assert_about(flush.time_of(name), 40);
        }
    });
}

/// The clock's own time is taken off: a stage without work takes next to nothing. The least of some
/// turns counts: a process that takes the processor away in the middle of one only adds to it.
#[test]
fn an_empty_stage_is_short() {
    let turn = || {
        let profiler = Arc::new(TimeProfiler::default());
        for _ in 0..1000 {
            let _watched = profiler.watch(Path::Flush, Stage::Queue);
            enter_stage(Stage::Insert);
            enter_stage(Stage::Forward);
        }
        let profile = profiler.profile();
        profile.path("flush").unwrap().time_of("index insert")
    };
    let least = (0..20).map(|_| turn()).min().unwrap();
    assert!(least < Duration::from_micros(30), "{least:?} for 1,000");
}
