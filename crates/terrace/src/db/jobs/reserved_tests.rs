//! Reservations of merges that are under way at the same time.

use std::time::Duration;

use terrace_lsm::compaction::policy::{ChoiceKind, Input, Reason};
use terrace_lsm::levels::testing::{added, levels, sub_level_place, version};

use super::*;

/// Returns a merge of two tables of a hundred bytes in one slice. Deeper levels are older.
fn choice(level: u8, reason: Reason) -> Choice {
    let age = 90 - 10 * u64::from(level);
    let (old, young) = (sub_level_place(level, age), sub_level_place(level, age + 2));
    let tables = [(young, 1), (old, 2)];
    let listed = tables.map(|(place, number)| added(place, number, "a", "z"));
    let version = version(listed.to_vec());
    let inputs = levels(&version).tables();
    Choice {
        reason,
        kind: ChoiceKind::Merge,
        inputs: inputs
            .map(|(place, table)| Input::new(place, table))
            .collect(),
        output: old,
        predicted: None,
    }
}

fn slice() -> Slice {
    Slice {
        input_bytes: 200,
        ..Slice::ALL
    }
}

/// Returns the job, and whether it goes on with this number of free bytes.
fn begin(jobs: &Jobs, choice: Choice, free_bytes: u64) -> (u64, bool) {
    let space = Space::of(&choice, &[slice()], &[], 1);
    let next = jobs.next(|_| Ok(Some((KeyspaceId::DEFAULT, choice))));
    let Ok(Some(Work::Begin(begun))) = next else {
        panic!("nothing begun");
    };
    let reserved = jobs.reserve_space(begun.job, space, |needed| Ok(needed <= free_bytes));
    (begun.job, reserved.unwrap())
}

/// Returns the number of claims that a policy must not meet.
fn claims(jobs: &Jobs) -> usize {
    jobs.board.lock().claims(|_| true).len()
}

/// Tables that a deleted range hides may be among the inputs of a merge that waits.
#[test]
fn a_merge_that_waits_for_space_is_in_no_removals_way() {
    let jobs = Jobs::default();
    let (first, _) = begin(&jobs, choice(1, Reason::AskedFor), 399);
    let (second, goes_on) = begin(&jobs, choice(2, Reason::AskedFor), 399);
    assert!(!goes_on && jobs.is_under_way(first) && !jobs.is_under_way(second));
    assert_eq!(claims(&jobs), 2);
    let begun = jobs.begin_beside(|claims| {
        assert_eq!(claims.len(), 1, "of the first merge");
        Some((KeyspaceId::DEFAULT, choice(2, Reason::Hidden { tables: 2 })))
    });
    assert!(begun.is_some_and(|begun| jobs.is_under_way(begun.job)));
}

#[test]
fn a_merge_is_put_off_that_has_no_space_beside_another() {
    let jobs = Jobs::default();
    let (first, goes_on) = begin(&jobs, choice(1, Reason::AskedFor), 399);
    assert!(goes_on);
    let (second, goes_on) = begin(&jobs, choice(2, Reason::AskedFor), 399);
    assert!(!goes_on && !jobs.is_under_way(second));
    // Policies choose others instead of it, until one of them has given space back.
    assert_eq!(claims(&jobs), 2);
    assert_eq!(jobs.under_way().len(), 2);
    let (third, goes_on) = begin(&jobs, choice(3, Reason::AskedFor), 400);
    assert!(goes_on);
    jobs.remove(third);
    assert_eq!(claims(&jobs), 1);
    jobs.remove(first);
    assert!(begin(&jobs, choice(2, Reason::AskedFor), 399).1);
}

/// A merge waited for the space of another one, whose keyspace was dropped, until some later merge ended.
#[test]
fn a_merge_of_a_dropped_keyspace_gives_its_space_back() {
    let jobs = Jobs::default();
    let (first, _) = begin(&jobs, choice(1, Reason::AskedFor), 399);
    begin(&jobs, choice(2, Reason::AskedFor), 399);
    assert_eq!(claims(&jobs), 2);
    jobs.divided(first, vec![slice()], Arc::default());
    let rounds = jobs.board.lock().rounds;
    jobs.forget(KeyspaceId::DEFAULT, |_| panic!("nothing is built"));
    assert_eq!(claims(&jobs), 0);
    assert!(jobs.board.lock().rounds > rounds, "callers look again");
}

#[test]
fn alone_or_of_level_0_it_goes_on_slice_by_slice() {
    let jobs = Jobs::default();
    let (alone, goes_on) = begin(&jobs, choice(1, Reason::AskedFor), 199);
    assert!(goes_on);
    // Space that is not reserved blocks no other merge.
    let (beside, goes_on) = begin(&jobs, choice(2, Reason::AskedFor), 200);
    assert!(goes_on);
    assert_eq!(jobs.board.lock().reserved_beside(alone), 200);
    let level0 = choice(0, Reason::Level0SubLevels(2));
    assert!(begin(&jobs, level0, 10).1);
    assert_eq!(jobs.board.lock().reserved_beside(beside), 0);
    // A job with room for one slice builds the next one when that is installed.
    jobs.remove(beside);
    jobs.divided(alone, vec![slice(), slice()], Arc::default());
    let next = || jobs.next(|_| Ok(None)).unwrap();
    assert!(matches!(next(), Some(Work::Build(_))));
    assert!(next().is_none());
    if let Some(job) = jobs.board.lock().job(alone) {
        job.installed = 1;
    }
    assert!(matches!(next(), Some(Work::Build(_))));
}

#[test]
fn what_is_installed_needs_nothing_any_more() {
    let jobs = Jobs::default();
    let (job, _) = begin(&jobs, choice(1, Reason::AskedFor), 1000);
    let to = |key: &str| Some(key.as_bytes().to_vec());
    let slices = vec![
        Slice {
            to: to("m"),
            ..slice()
        },
        Slice {
            from: to("m"),
            ..slice()
        },
    ];
    let space = Space::of(&choice(1, Reason::AskedFor), &slices, &[], 1);
    assert!(jobs.reserve_space(job, space, |_| Ok(true)).unwrap());
    jobs.divided(job, slices, Arc::default());
    assert_eq!(jobs.board.lock().reserved_beside(0), 400);
    if let Some(job) = jobs.board.lock().job(job) {
        job.installed = 1;
    }
    assert_eq!(jobs.board.lock().reserved_beside(0), 200);
}

#[test]
fn removals_and_moves_begin_beside_slices_that_wait() {
    let jobs = Jobs::default();
    let (merge, _) = begin(&jobs, choice(1, Reason::AskedFor), 1000);
    jobs.divided(merge, vec![slice(), slice()], Arc::default());
    let choices = |kind| {
        jobs.next(|_| {
            let chosen = choice(2, Reason::Hidden { tables: 2 });
            Ok(Some((KeyspaceId::DEFAULT, Choice { kind, ..chosen })))
        })
    };
    for (kind, begins) in [
        (ChoiceKind::Merge, false),
        (ChoiceKind::Move, true),
        (ChoiceKind::Removal, true),
    ] {
        let next = choices(kind);
        assert_eq!(matches!(next, Ok(Some(Work::Begin(_)))), begins, "{kind:?}");
        assert_eq!(
            matches!(next, Ok(Some(Work::Build(_)))),
            !begins,
            "{kind:?}"
        );
        if let Ok(Some(Work::Begin(begun))) = next {
            jobs.remove(begun.job);
        }
    }
}

/// Its space is there when its files are gone. A merge takes longer, and may fail for want of space.
#[test]
fn a_removal_under_way_is_waited_for_and_no_merge_is() {
    let jobs = Jobs::default();
    begin(&jobs, choice(1, Reason::AskedFor), 1000);
    assert!(!jobs.wait_for_removals(|| false), "a merge alone");
    let removal = Choice {
        kind: ChoiceKind::Removal,
        ..choice(2, Reason::Hidden { tables: 2 })
    };
    let begun = jobs.begin_beside(|_| Some((KeyspaceId::DEFAULT, removal)));
    let job = begun.unwrap().job;
    assert!(!jobs.wait_for_removals(|| true), "a poisoned store");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| jobs.wait_for_removals(|| false) && !jobs.is_under_way(job));
        std::thread::sleep(Duration::from_millis(20));
        jobs.remove(job);
        assert!(waiter.join().unwrap(), "it ended before the removal");
    });
}

#[test]
fn a_choice_sees_the_claims_of_the_jobs_under_way() {
    let jobs = Jobs::default();
    let first = choice(1, Reason::AskedFor);
    begin(&jobs, first.clone(), 400);
    let next = jobs.next(|claims| {
        let claim = Claim::of(&first).unwrap();
        let is_free = claims
            .iter()
            .all(|(_, other)| !other.conflicts_with(&claim));
        Ok(is_free.then_some((KeyspaceId::DEFAULT, first)))
    });
    assert!(next.unwrap().is_none());
}
