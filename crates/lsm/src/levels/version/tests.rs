use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::levels::FIRST_SUB_LEVEL_NUMBER;
use crate::levels::KeyRange;
use crate::levels::edit::{KeyspaceCreated, KeyspaceRenamed, TableAdded, TableNarrowed};
use crate::levels::testing::{
    added, flush_place, levels, moved, new_state, removed, replace, sub_level_place, version,
};

/// Returns three overlapping flushes over two disjoint tables of level 1.
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
fn a_flush_is_not_taken_for_one_that_went_down() {
    let mut state = new_state();
    let mut flush_ages = Vec::new();
    for number in 1..10 {
        let flushed = state.next_flush_place(KeyspaceId::DEFAULT, FIRST_SUB_LEVEL_NUMBER + number);
        let edit = replace(&[], vec![added(flushed, number, "a", "z")]);
        state = state.apply(&edit).unwrap();
        flush_ages.push(flushed.flush_age());
        // Down to a level that no earlier one reaches.
        let mut place = flushed;
        for _ in 0..6u64.saturating_sub(number / 2) {
            let below = place
                .below()
                .named(|| 100 * number + u64::from(place.level));
            assert_eq!(below.flush_age(), flushed.flush_age());
            let edit = Edit {
                tables_moved: vec![moved(number, below)],
                ..Edit::default()
            };
            state = state.apply(&edit).unwrap();
            place = below;
        }
    }
    assert!(flush_ages.is_sorted_by(|a, b| a < b), "{flush_ages:?}");
}

#[test]
fn no_age_is_too_large_to_be_followed() {
    let place = Place {
        age: u64::MAX,
        ..sub_level_place(3, 1)
    };
    assert_eq!(place.flush_age(), u64::MAX);
}

#[test]
fn below_a_base_is_a_base() {
    for level in 1..6 {
        assert_eq!(Place::base(level).below(), Place::base(level + 1));
        assert!(Place::base(level).is_base());
    }
    let below = flush_place(1).below();
    assert!(
        !below.is_base()
            && below.named(|| 70)
                == Place {
                    sub_level: 70,
                    ..below
                }
    );
    assert_eq!(Place::base(2).named(|| 70), Place::base(2));
}

fn numbers(version: &Version) -> Vec<u64> {
    version.tables().map(|(_, table)| table.number).collect()
}

#[track_caller]
fn assert_refused(version: &Version, edit: &Edit, reason: &str) {
    let error = version.apply(edit).unwrap_err();
    assert!(error.0.contains(reason), "{error}");
}

fn narrowed(number: u64, smallest: &str, largest: &str, largest_excluded: bool) -> TableNarrowed {
    TableNarrowed {
        keyspace: KeyspaceId::DEFAULT,
        number,
        bounds: KeyRange {
            largest_excluded,
            ..KeyRange::inclusive(smallest, largest)
        },
    }
}

#[test]
fn readers_meet_the_youngest_sub_level_first() {
    let version = stacked();
    let ages: Vec<u64> = levels(&version).sub_levels().map(|(p, _)| p.age).collect();
    assert!(ages.is_sorted_by(|a, b| a > b), "{ages:?}");
    let key: Vec<u64> = levels(&version)
        .tables_for_key(b"c")
        .map(|t| t.number)
        .collect();
    assert_eq!(key, [3, 2, 1, 10]);
    let gap: Vec<u64> = levels(&version)
        .tables_for_key(b"j")
        .map(|t| t.number)
        .collect();
    assert_eq!(gap, [3, 2, 1]);
}

#[test]
fn a_merge_of_sub_levels_3_and_1_without_2_is_refused() {
    let version = stacked();
    for output in [
        flush_place(1),
        flush_place(2),
        flush_place(3),
        Place::base(2),
    ] {
        let outputs = vec![added(output, 20, "a", "z")];
        assert!(
            version.apply(&replace(&[1, 3], outputs)).is_err(),
            "{output}"
        );
    }
    let outputs = vec![added(flush_place(3), 20, "a", "z")];
    assert_refused(&version, &replace(&[1, 3], outputs), "would pass table 2");
    let outputs = vec![added(flush_place(3), 20, "a", "z")];
    let next = version.apply(&replace(&[1, 2, 3], outputs)).unwrap();
    assert_eq!(numbers(&next), [20, 10, 11]);
}

#[test]
fn a_merge_may_skip_what_does_not_overlap_it() {
    let version = version(vec![
        added(flush_place(1), 1, "a", "c"),
        added(flush_place(2), 2, "x", "z"),
        added(flush_place(3), 3, "a", "c"),
    ]);
    let outputs = vec![added(flush_place(3), 20, "a", "c")];
    let next = version.apply(&replace(&[1, 3], outputs)).unwrap();
    assert_eq!(numbers(&next), [20, 2]);
}

#[test]
fn a_merge_into_level_1_takes_all_that_overlaps_there() {
    let version = stacked();
    let outputs = vec![added(Place::base(1), 20, "a", "l")];
    assert_refused(&version, &replace(&[1, 11], outputs), "overlaps table 10");
    let outputs = || vec![added(Place::base(1), 20, "a", "z")];
    assert_refused(
        &version,
        &replace(&[2, 10, 11], outputs()),
        "would pass table 1",
    );
    let next = version.apply(&replace(&[1, 10, 11], outputs())).unwrap();
    assert_eq!(numbers(&next), [3, 2, 20]);
}

#[test]
fn a_moved_table_may_not_pass_one_that_overlaps_it() {
    let version = stacked();
    let to = |number, place| Edit {
        tables_moved: vec![moved(number, place)],
        ..Edit::default()
    };
    assert_refused(&version, &to(3, Place::base(2)), "would pass table 2");
    assert_refused(
        &version,
        &to(
            10,
            Place {
                age: 1 << 40,
                ..flush_place(9)
            },
        ),
        "would pass",
    );
    let next = version.apply(&to(11, Place::base(3))).unwrap();
    let (place, table) = levels(&next).find(11).unwrap();
    assert_eq!((place, table.number), (Place::base(3), 11));
    assert_eq!(numbers(&version), [3, 2, 1, 10, 11]);
}

#[test]
fn new_tables_are_younger_than_what_they_overlap() {
    let version = stacked();
    let flush = |place| replace(&[], vec![added(place, 30, "c", "d")]);
    assert_refused(&version, &flush(Place::base(2)), "is not younger");
    let in_gap = replace(&[], vec![added(Place::base(6), 30, "zz", "zzz")]);
    assert!(version.apply(&in_gap).is_ok());
    let next = version.apply(&flush(flush_place(4))).unwrap();
    assert_eq!(numbers(&next), [30, 3, 2, 1, 10, 11]);
}

#[test]
fn outputs_hold_no_keys_that_were_not_merged() {
    let version = version(vec![added(flush_place(1), 1, "c", "f")]);
    let stray = replace(&[1], vec![added(Place::base(1), 20, "c", "g")]);
    assert_refused(&version, &stray, "outside of the merged keys");
}

#[test]
fn a_flush_may_merge_tables_with_writes_of_other_keys() {
    let tables = [flush_place(1), flush_place(2), flush_place(3)];
    let tables = (1..).zip(tables);
    let version = version(
        tables
            .map(|(number, place)| added(place, number, "c", "f"))
            .collect(),
    );
    let flush = |removed: &[u64], place| Edit {
        flushed_sequence: Some(9),
        ..replace(removed, vec![added(place, 20, "a", "x")])
    };
    let next = version.apply(&flush(&[2, 3], flush_place(2))).unwrap();
    assert_eq!(numbers(&next), [20, 1]);
    // New writes would lie below older ones.
    assert_refused(&version, &flush(&[2], flush_place(2)), "is not younger");
    let no_flush = Edit {
        flushed_sequence: None,
        ..flush(&[2, 3], flush_place(2))
    };
    assert_refused(&version, &no_flush, "outside of the merged keys");
}

#[test]
fn the_structure_is_asserted() {
    let version = stacked();
    let add = |place, number, smallest: &str, largest: &str| {
        replace(&[], vec![added(place, number, smallest, largest)])
    };
    let above = flush_place(8);
    let in_level_7 = Place { level: 7, ..above };
    let misnamed = Place {
        sub_level: 99,
        ..flush_place(3)
    };
    let older_above = Place { age: 3, ..above };
    let same_name = Place {
        sub_level: flush_place(2).sub_level,
        ..above
    };
    let nowhere = Edit {
        keyspaces_dropped: vec![KeyspaceId(9)],
        ..Edit::default()
    };
    let default_again = Edit {
        keyspaces_created: vec![KeyspaceCreated {
            id: KeyspaceId(2),
            name: "default".into(),
        }],
        ..Edit::default()
    };
    let renamed = |number, name: &str| Edit {
        keyspaces_renamed: vec![KeyspaceRenamed {
            id: KeyspaceId(number),
            name: name.into(),
        }],
        ..Edit::default()
    };
    for (edit, reason) in [
        (renamed(9, "new"), "no keyspace 9"),
        (renamed(1, "new"), "keeps its name"),
        (renamed(9, "default"), "exists already"),
        (add(above, 3, "a", "b"), "used already"),
        (add(above, 0, "a", "b"), "is 0"),
        (add(above, 40, "b", "a"), "empty bounds"),
        (add(in_level_7, 40, "a", "b"), "levels go from 0"),
        (add(misnamed, 40, "zz", "zzz"), "has the age of sub-level"),
        (add(older_above, 40, "zz", "zzz"), "is not older"),
        (add(same_name, 40, "a", "b"), "used twice"),
        (replace(&[7], vec![]), "not in keyspace"),
        (replace(&[1, 1], vec![]), "not in keyspace"),
        (
            replace(&[1], vec![added(flush_place(1), 1, "a", "z")]),
            "used already",
        ),
        (nowhere, "no keyspace 9"),
        (default_again, "exists already"),
    ] {
        assert_refused(&version, &edit, reason);
    }
}

#[test]
fn a_slice_leaves_the_rest_of_its_inputs_listed() {
    let version = stacked();
    let slice = |narrow_to: &str, output: TableAdded| Edit {
        tables_removed: vec![removed(10)],
        tables_narrowed: [1, 2, 3]
            .map(|number| narrowed(number, narrow_to, "z", false))
            .into(),
        tables_added: vec![output],
        ..Edit::default()
    };
    let next = version
        .apply(&slice("i", added(Place::base(1), 20, "a", "h")))
        .unwrap();
    assert_eq!(numbers(&next), [3, 2, 1, 20, 11]);
    let (_, table) = levels(&next).find(2).unwrap();
    assert!(table.narrowed && !table.bounds.contains(b"h") && table.bounds.contains(b"i"));
    // The slice of 3 may not go down while that of 2 stays above.
    let mut edit = slice("i", added(Place::base(1), 20, "a", "h"));
    edit.tables_narrowed.remove(1);
    assert_refused(&version, &edit, "would pass table 2");
    let wider = Edit {
        tables_narrowed: vec![narrowed(1, "a", "zz", false)],
        ..Edit::default()
    };
    assert_refused(&version, &wider, "cannot be widened");
}

#[test]
fn a_piece_cut_from_the_back_is_checked_too() {
    let version = version(vec![
        added(flush_place(2), 2, "a", "m"),
        added(flush_place(1), 1, "k", "p"),
    ]);
    let cut = |back: &str, output: TableAdded| Edit {
        tables_narrowed: vec![narrowed(2, "a", back, true)],
        tables_added: vec![output],
        ..Edit::default()
    };
    let below = |smallest| added(Place::base(1), 20, smallest, "m");
    assert_refused(&version, &cut("l", below("l")), "would pass table 1");
    let in_place = Place {
        level: 0,
        sub_level: 90,
        age: flush_place(2).age + 1,
    };
    assert!(
        version
            .apply(&cut("l", added(in_place, 20, "l", "m")))
            .is_ok()
    );
}

#[test]
fn files_go_when_the_edit_is_durable_and_the_last_reader_has_left() {
    let before = stacked();
    let obsolete = Arc::clone(before.obsolete());
    let mut edit = replace(&[1, 10], vec![added(Place::base(1), 20, "a", "h")]);
    edit.tables_removed.extend([removed(2), removed(3)]);
    edit.tables_moved = vec![moved(11, Place::base(2))];
    let after = before.apply(&edit).unwrap();
    let reader = before.clone();
    before.mark_removed(&edit);
    drop(before);
    assert_eq!(obsolete.take(), []);
    drop(reader);
    let gone = obsolete.take().into_iter();
    let mut gone: Vec<u64> = gone.map(|(placed, _)| placed.file.number).collect();
    gone.sort_unstable();
    assert_eq!(gone, [1, 2, 3, 10]);
    drop(after);
    assert_eq!(obsolete.take(), []);
}

#[test]
fn an_edit_that_never_became_durable_leaves_the_files() {
    let before = stacked();
    let obsolete = Arc::clone(before.obsolete());
    drop(before.apply(&replace(&[1, 2, 3], vec![])).unwrap());
    drop(before);
    assert_eq!(obsolete.take(), []);
}

#[test]
fn dropping_a_keyspace_lets_go_of_all_its_tables() {
    let before = stacked();
    let obsolete = Arc::clone(before.obsolete());
    let edit = Edit {
        keyspaces_dropped: vec![KeyspaceId::DEFAULT],
        ..Edit::default()
    };
    let after = before.apply(&edit).unwrap();
    before.mark_removed(&edit);
    drop(before);
    assert_eq!((after.keyspaces.len(), obsolete.take().len()), (0, 5));
}

/// Within one edit, drops make room for new names.
#[test]
fn a_keyspace_takes_another_ones_name_only_if_the_same_edit_drops_that_one() {
    let (old, new) = (KeyspaceId(2), KeyspaceId(3));
    let created = |id, name: &str| KeyspaceCreated {
        id,
        name: name.into(),
    };
    let both = Edit {
        keyspaces_created: vec![created(old, "cities"), created(new, "cities.new")],
        ..Edit::default()
    };
    let replaced = Edit {
        keyspaces_dropped: vec![old],
        keyspaces_renamed: vec![KeyspaceRenamed {
            id: new,
            name: "cities".into(),
        }],
        ..Edit::default()
    };
    let version = stacked().apply(&both).unwrap();
    let taken = Edit {
        keyspaces_dropped: Vec::new(),
        ..replaced.clone()
    };
    assert_refused(&version, &taken, "exists already");
    let version = version.apply(&replaced).unwrap();
    assert_eq!(version.keyspace_named("cities").unwrap().id, new);
    assert_eq!(version.keyspaces.len(), 2);
}

/// A model that knows nothing of bounds: for each key, its versions by age, as the merge rules of
/// the design state them.
mod model {
    use super::*;

    /// Tables whose keys are single letters; the edit merges some of them to one place.
    pub(super) fn keeps_order(tables: &[(Place, u8, u8)], inputs: &[bool], output: u64) -> bool {
        let merged = |at: usize| inputs.get(at).copied().unwrap_or(false);
        (b'a'..=b'h').all(|key| {
            let holds = |&(_, from, to): &(Place, u8, u8)| (from..=to).contains(&key);
            let ages = |want: bool| {
                let tables = tables.iter().enumerate();
                tables
                    .filter(move |(at, table)| merged(*at) == want && holds(table))
                    .map(|(_, table)| table.0.age)
            };
            ages(true).all(|input| {
                ages(false)
                    .all(|outside| outside != output && (input > outside) == (output > outside))
            })
        })
    }
}

proptest! {
    #[test]
    fn what_apply_takes_keeps_every_key_in_order(
        spans in prop::collection::vec((0u64..5, 0u8..8, 0u8..4), 1..9),
        inputs in prop::collection::vec(any::<bool>(), 9),
        output in 0u64..5,
    ) {
        let key = |letter: u8| char::from(letter).to_string();
        let mut tables: Vec<(Place, u8, u8)> = Vec::new();
        for (sub_level, from, length) in spans {
            let (place, from) = (flush_place(sub_level), b'a' + from);
            let to = (from + length).min(b'h');
            let fits = |t: &(Place, u8, u8)| t.0 != place || t.2 < from || to < t.1;
            if tables.iter().all(fits) {
                tables.push((place, from, to));
            }
        }
        let listed = tables.iter().zip(1..).map(|(&(place, from, to), number)| {
            added(place, number, &key(from), &key(to))
        });
        let version = version(listed.collect());
        let chosen: Vec<usize> = (0..tables.len()).filter(|&at| inputs[at]).collect();
        prop_assume!(!chosen.is_empty());
        // An output for each input, so that the model, which has no hull, says the same.
        let mut outputs: Vec<(u8, u8)> = chosen.iter().map(|&at| (tables[at].1, tables[at].2)).collect();
        outputs.sort_unstable();
        outputs.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            last.1 = if joins { last.1.max(next.1) } else { last.1 };
            joins
        });
        let place = flush_place(output);
        let edit = replace(
            &chosen.iter().map(|&at| at as u64 + 1).collect::<Vec<_>>(),
            outputs.iter().zip(100..).map(|(&(from, to), n)| added(place, n, &key(from), &key(to))).collect(),
        );
        let keeps = model::keeps_order(&tables, &inputs, place.age);
        prop_assert_eq!(version.apply(&edit).is_ok(), keeps, "{:?} {:?}", tables, edit);
    }
}

/// Bounds that were made for lookups in one version must not serve the next.
#[test]
fn lookups_find_tables_that_came_and_miss_those_that_went() {
    let tables = [(1, "b", "d"), (2, "f", "h"), (3, "m", "p"), (4, "r", "r")];
    let tables = tables.map(|(n, from, to)| added(flush_place(1), n, from, to));
    let before = version(tables.into());
    let found = |version: &Version| {
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "q", "r", "rr"].map(|key| {
            let mut tables = levels(version).tables_for_key(key.as_bytes());
            tables.next().map_or(0, |table| table.number)
        })
    };
    assert_eq!(found(&before), [0, 1, 1, 1, 0, 2, 2, 2, 0, 0, 4, 0]);
    let (_, sub_level) = levels(&before).sub_levels().next().unwrap();
    let positions = ["a", "d", "e", "p", "s"].map(|key| sub_level.position(key.as_bytes()));
    assert_eq!(positions, [0, 0, 1, 2, 4]);
    let edit = replace(&[2], vec![added(flush_place(1), 5, "g", "g")]);
    let after = before.apply(&edit).unwrap();
    assert_eq!(found(&after), [0, 1, 1, 1, 0, 0, 5, 0, 0, 0, 4, 0]);
    assert_eq!(found(&before), [0, 1, 1, 1, 0, 2, 2, 2, 0, 0, 4, 0]);
}
