//! What is reserved for merges that are under way at the same time.

use super::*;
use crate::compaction::policy::{ChoiceKind, Reason};
use crate::levels::testing::{added, levels, sub_level_place, version};

/// A merge of two tables of a hundred bytes in one slice.
fn choice(level: u8, reason: Reason) -> Choice {
    let (old, young) = (sub_level_place(level, 3), sub_level_place(level, 5));
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

/// The job, and how reserving its space ended when so many bytes are free.
fn begin(jobs: &Jobs, choice: Choice, free_bytes: u64) -> (u64, std::result::Result<(), u64>) {
    let space = Space::of(&choice, &[slice()]);
    let next = jobs.next(|_| Ok(Some((KeyspaceId::DEFAULT, choice))));
    let Ok(Some(Work::Begin(begun))) = next else {
        panic!("nothing begun");
    };
    let reserved = jobs.reserve_space(begun.job, space, |needed| Ok(needed <= free_bytes));
    (begun.job, reserved.unwrap())
}

#[test]
fn a_merge_is_not_begun_in_the_space_of_another() {
    let jobs = Jobs::default();
    let (first, reserved) = begin(&jobs, choice(1, Reason::AskedFor), 399);
    assert_eq!(reserved, Ok(()));
    let (second, reserved) = begin(&jobs, choice(2, Reason::AskedFor), 399);
    assert_eq!(reserved, Err(400));
    jobs.remove(second);
    let (third, reserved) = begin(&jobs, choice(2, Reason::AskedFor), 400);
    assert_eq!(reserved, Ok(()));
    jobs.remove(third);
    jobs.remove(first);
    assert_eq!(begin(&jobs, choice(2, Reason::AskedFor), 399).1, Ok(()));
}

#[test]
fn alone_or_of_level_0_it_goes_on_slice_by_slice() {
    let jobs = Jobs::default();
    let (alone, reserved) = begin(&jobs, choice(1, Reason::AskedFor), 199);
    assert_eq!(reserved, Ok(()));
    // What is not reserved stands in nobody's way.
    let (beside, reserved) = begin(&jobs, choice(2, Reason::AskedFor), 200);
    assert_eq!(reserved, Ok(()));
    assert_eq!(jobs.board.lock().reserved_beside(alone), 200);
    let level0 = choice(1, Reason::Level0SubLevels(2));
    assert_eq!(begin(&jobs, level0, 10).1, Ok(()));
    assert_eq!(jobs.board.lock().reserved_beside(beside), 0);
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
    let space = Space::of(&choice(1, Reason::AskedFor), &slices);
    jobs.reserve_space(job, space, |_| Ok(true))
        .unwrap()
        .unwrap();
    jobs.divided(job, slices, Arc::default());
    assert_eq!(jobs.board.lock().reserved_beside(0), 400);
    if let Some(job) = jobs.board.lock().job(job) {
        job.installed = 1;
    }
    assert_eq!(jobs.board.lock().reserved_beside(0), 200);
}
