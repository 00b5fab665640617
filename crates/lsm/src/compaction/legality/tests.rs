use proptest::prelude::*;

use super::*;
use crate::compaction::policy::Reason;
use crate::levels::testing::{
    added, flush_place, levels, moved, replace, sub_level_place, version,
};
use crate::levels::{Edit, TableAdded, Version};

/// Makes a choice of these tables, by number.
fn choice(version: &Version, kind: ChoiceKind, numbers: &[u64], output: Place) -> Choice {
    let input = |&number: &u64| {
        let (place, table) = levels(version).find(number).unwrap();
        Input {
            place,
            table: table.clone(),
        }
    };
    Choice {
        reason: Reason::Level0SubLevels(4),
        kind,
        inputs: numbers.iter().map(input).collect(),
        output,
        predicted: None,
    }
}

fn check(version: &Version, numbers: &[u64], output: Place) -> Result<(), String> {
    let choice = choice(version, ChoiceKind::Merge, numbers, output);
    check_legal(levels(version), &choice)
}

/// Makes sub-levels 1, 2, 3 over level 1.
fn stacked() -> Version {
    version(vec![
        added(flush_place(1), 1, "a", "z"),
        added(flush_place(2), 2, "a", "z"),
        added(flush_place(3), 3, "a", "z"),
        added(Place::base(1), 10, "a", "h"),
        added(Place::base(1), 11, "m", "z"),
    ])
}

#[test]
fn sub_levels_3_and_1_may_not_merge_without_2() {
    let version = stacked();
    for output in [
        flush_place(1),
        flush_place(2),
        flush_place(3),
        Place::base(2),
    ] {
        assert!(check(&version, &[1, 3], output).is_err(), "{output}");
    }
    assert_eq!(check(&version, &[1, 2, 3], flush_place(1)), Ok(()));
    assert_eq!(check(&version, &[2, 3], flush_place(2)), Ok(()));
    assert_eq!(check(&version, &[1, 2, 3, 10, 11], Place::base(1)), Ok(()));
}

#[test]
fn what_lies_in_the_gap_of_the_outputs_takes_part() {
    let version = version(vec![
        added(flush_place(1), 1, "a", "b"),
        added(flush_place(2), 2, "y", "z"),
        added(Place::base(1), 10, "k", "m"),
    ]);
    let broken = check(&version, &[1, 2], Place::base(1)).unwrap_err();
    assert!(broken.contains("overlap table 10"), "{broken}");
    // Moved, they stay two tables with a gap between them.
    let moved = choice(&version, ChoiceKind::Move, &[1, 2], Place::base(1));
    assert_eq!(check_legal(levels(&version), &moved), Ok(()));
}

#[test]
fn nothing_moves_up_and_nothing_takes_part_twice() {
    let version = stacked();
    assert!(
        check(&version, &[1, 2], flush_place(2))
            .unwrap_err()
            .contains("move up")
    );
    assert!(
        check(&version, &[1, 1], flush_place(1))
            .unwrap_err()
            .contains("twice")
    );
    assert!(check(&version, &[], flush_place(1)).is_err());
}

#[test]
fn older_versions_are_looked_for_in_every_older_table_outside() {
    let version = version(vec![
        added(flush_place(1), 1, "a", "c"),
        added(flush_place(2), 2, "a", "z"),
        added(flush_place(3), 3, "a", "z"),
        added(Place::base(1), 10, "a", "h"),
        added(Place::base(6), 60, "p", "q"),
    ]);
    let merge = choice(&version, ChoiceKind::Merge, &[2, 10], Place::base(1));
    let older = |key: &[u8]| older_elsewhere(levels(&version), &merge, Keys::One(key));
    assert!(older(b"b"), "an older sub-level of level 0");
    assert!(older(b"p"), "a deeper level");
    assert!(!older(b"e"), "the younger sub-level 3 holds nothing older");
    assert!(!older(b"x"));
    let older_in = |start: &[u8], end: &[u8]| {
        older_elsewhere(levels(&version), &merge, Keys::Range(start, end))
    };
    assert!(
        older_in(b"c", b"e"),
        "its first key is in an older sub-level"
    );
    assert!(
        older_in(b"e", b"z") && older_in(b"e", b"q"),
        "a deeper level"
    );
    assert!(!older_in(b"d", b"p"), "the end is excluded");
}

#[test]
fn an_older_sub_level_of_the_output_s_level_counts() {
    let version = version(vec![
        added(sub_level_place(1, 8), 1, "a", "c"),
        added(sub_level_place(2, 3), 2, "a", "z"),
        added(sub_level_place(2, 1), 3, "p", "z"),
    ]);
    let merge = choice(&version, ChoiceKind::Merge, &[1], sub_level_place(2, 8));
    check_legal(levels(&version), &merge).unwrap();
    let older = |key: &[u8]| older_elsewhere(levels(&version), &merge, Keys::One(key));
    assert!(older(b"b"), "sub-level 3 is older");
    // Of all sub-levels of its level nothing is older.
    let merge = choice(
        &version,
        ChoiceKind::Merge,
        &[1, 2, 3],
        sub_level_place(2, 1),
    );
    let older = |key: &[u8]| older_elsewhere(levels(&version), &merge, Keys::One(key));
    assert!(!older(b"b") && !older(b"q"));
}

#[test]
fn ages_descend_from_level_to_level() {
    let version = version(vec![
        added(flush_place(9), 1, "a", "b"),
        added(flush_place(8), 2, "c", "d"),
        added(sub_level_place(2, 3), 3, "x", "z"),
    ]);
    let out_of_order = |output| {
        let broken = check(&version, &[1], output).unwrap_err();
        assert!(broken.contains("out of order"), "{broken}");
    };
    out_of_order(sub_level_place(1, 9));
    out_of_order(Place::base(1));
    check(&version, &[1], sub_level_place(1, 8)).unwrap();
    check(&version, &[1], sub_level_place(2, 3)).unwrap();
    check(&version, &[1], Place::base(3)).unwrap();
}

fn edit_of(choice: &Choice) -> Edit {
    let numbers: Vec<u64> = choice.inputs.iter().map(|i| i.table.number).collect();
    let hull = KeyRange::hull(choice.inputs.iter().map(|input| &input.table.bounds)).unwrap();
    match choice.kind {
        ChoiceKind::Move => Edit {
            tables_moved: numbers
                .iter()
                .map(|&number| moved(number, choice.output))
                .collect(),
            ..Edit::default()
        },
        ChoiceKind::Removal => replace(&numbers, Vec::new()),
        ChoiceKind::Merge => {
            let mut output = added(choice.output, 1000, "", "");
            output.table.bounds = hull;
            replace(&numbers, vec![output])
        }
    }
}

proptest! {
    /// Two judges that share no code: the one asked before a merge, which knows the choice, and
    /// the one that guards the manifest, which sees only the edit.
    #[test]
    fn what_is_legal_is_what_the_version_takes(
        spans in prop::collection::vec((0u8..6, 0u8..8, 0u8..4), 1..10),
        chosen in prop::collection::vec(any::<bool>(), 10),
        output in 0u8..6,
        merges in any::<bool>(),
    ) {
        let place = |age: u8| match age {
            0..=2 => Place::base(3 - age),
            _ => flush_place(age.into()),
        };
        let key = |letter: u8| char::from(letter).to_string();
        let mut tables: Vec<TableAdded> = Vec::new();
        for ((age, from, length), number) in spans.into_iter().zip(1..) {
            let (from, to) = (b'a' + from, (b'a' + from + length).min(b'h'));
            let table = added(place(age), number, &key(from), &key(to));
            let clashes = |other: &TableAdded| {
                other.place == table.place && other.table.bounds.overlaps(&table.table.bounds)
            };
            if !tables.iter().any(clashes) {
                tables.push(table);
            }
        }
        let numbers: Vec<u64> = tables
            .iter()
            .zip(&chosen)
            .filter(|(_, chosen)| **chosen)
            .map(|(added, _)| added.table.number)
            .collect();
        prop_assume!(!numbers.is_empty());
        let version = version(tables);
        let kind = if merges { ChoiceKind::Merge } else { ChoiceKind::Move };
        let choice = choice(&version, kind, &numbers, place(output));
        let upward = choice.inputs.iter().any(|input| input.place.age < choice.output.age);
        let taken = version.apply(&edit_of(&choice)).is_ok() && !upward;
        let legal = check_legal(levels(&version), &choice);
        prop_assert_eq!(legal.is_ok(), taken, "{}: {:?}", choice, legal);
    }
}
