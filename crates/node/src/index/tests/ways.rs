//! Lists, walks and samples.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow::{Break, Continue};

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::*;

/// Enough for tables that are split and others that are not yet.
const COUNT: u64 = 30_000;

fn listed(index: &Index, from: Option<&Key>, most: usize) -> Vec<Key> {
    let mut keys = Vec::new();
    index.list(from, |key| {
        keys.push(*key);
        if keys.len() == most {
            Break(())
        } else {
            Continue(())
        }
    });
    keys
}

#[test]
fn a_list_is_in_the_order_of_hashes() {
    let index = filled(COUNT);
    let mut expected: Vec<Key> = (0..COUNT).map(key).collect();
    expected.sort_by_key(|key| (index.hash(key), *key));
    assert_eq!(listed(&index, None, usize::MAX), expected);

    // From any key on, which need not exist.
    for at in (0..COUNT as usize).step_by(997) {
        let from = expected[at];
        assert_eq!(
            listed(&index, Some(&from), 700),
            expected[at..(at + 700).min(expected.len())]
        );
        remove(&index, &from).unwrap();
        assert_eq!(listed(&index, Some(&from), 1), expected[at + 1..][..1]);
        insert(&index, &from, found(0)).unwrap();
    }
    assert_eq!(listed(&Index::new(1), Some(&key(1)), 9), []);
}

#[test]
fn a_resumed_list_misses_nothing_while_tables_are_split() {
    let index = Index::new(3);
    let old: BTreeSet<Key> = (0..COUNT).map(key).collect();
    for key in &old {
        insert(&index, key, found(0)).unwrap();
    }
    let (mut seen, mut from, mut next) = (Vec::new(), None, COUNT);
    loop {
        let part = listed(&index, from.as_ref(), 100);
        // The start is the last key of the part before.
        let new = if from.is_some() {
            &part[1..]
        } else {
            &part[..]
        };
        if new.is_empty() {
            break;
        }
        seen.extend(new.iter().copied().filter(|key| old.contains(key)));
        from = part.last().copied();
        for _ in 0..500 {
            insert(&index, &key(next), found(next)).unwrap();
            next += 1;
        }
    }
    assert!(seen.is_sorted_by_key(|key| (index.hash(key), *key)));
    assert_eq!(seen.len(), old.len());
}

#[test]
fn a_walk_sees_once_each_entry_that_stays() {
    let index = filled(COUNT);
    let mut seen = BTreeMap::new();
    let (mut cursor, mut round) = (WalkCursor::default(), 0);
    loop {
        let mut visited = 0;
        let done = index.walk(&mut cursor, 100, |key, _| {
            visited += 1;
            *seen.entry(*key).or_insert(0) += 1;
        });
        assert!(visited <= 100);
        if done {
            break;
        }
        // Every third key goes, comes and changes meanwhile; the others change at most.
        let (gone, kept) = (key(round * 3 % COUNT), key((round * 3 + 1) % COUNT));
        remove(&index, &gone);
        insert(&index, &kept, found(round)).unwrap();
        if round % 2 == 0 {
            insert(&index, &gone, found(round)).unwrap();
        }
        round += 1;
    }
    for number in (0..COUNT).filter(|number| number % 3 != 0) {
        assert_eq!(seen.get(&key(number)), Some(&1));
    }
    assert!(index.walk(&mut cursor, 1, |_, _| panic!("the end is the end")));
}

#[test]
fn entries_in_a_range_of_blocks_are_found() {
    let index = filled(2_000);
    let mut several = found(9);
    several.place = extents(&[(5_000, 1), (95, 6), (7_000, 1)]);
    insert(&index, &key(9), several).unwrap();
    let mut cell = found(101);
    cell.place = Place::Cell(crate::format::location::CellLocation::new(101, 64).unwrap());
    insert(&index, &key(101), cell).unwrap();
    let range = Extent {
        start: 100,
        blocks: 3,
    };
    let (mut cursor, mut seen) = (WalkCursor::default(), BTreeMap::new());
    while !index.entries_in(&mut cursor, 77, range, |key, found| {
        assert_eq!(seen.insert(*key, found.clone()), None);
    }) {}
    for (key, found) in &seen {
        assert_eq!(get(&index, key).as_ref(), Some(found));
    }
    assert!(seen.into_keys().eq([9, 100, 102].map(key)));
}

#[test]
fn a_sample_finds_entries_however_few() {
    let rng = &mut SmallRng::seed_from_u64(1);
    let index = filled(20_000);
    let mut seen = BTreeSet::new();
    index.sample(rng, 1_000, |key, found, age| {
        assert_eq!((get(&index, key).as_ref(), age), (Some(found), 1));
        seen.insert(*key);
    });
    assert!(seen.len() > 900, "{} of 1,000", seen.len());

    for number in 1..20_000 {
        remove(&index, &key(number)).unwrap();
    }
    let mut visits = 0;
    index.sample(rng, 10, |last, _, _| {
        assert_eq!(*last, key(0));
        visits += 1;
    });
    assert_eq!(visits, 10);
    remove(&index, &key(0)).unwrap();
    index.sample(rng, 10, |_, _, _| panic!("nothing is left"));
}
