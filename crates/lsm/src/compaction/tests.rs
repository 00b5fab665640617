//! Flushes, merges and moves on tables in memory, held against a list of all writes: the policy,
//! the claims, the legality rules, the drop rules, the merge, its slices and the version set
//! together. Several merges are under way at a time, and their slices are built and installed in
//! any order that the engine allows.

mod store;

use std::ops::Range;

use proptest::prelude::*;

use self::store::{KEYS, POLICIES, Store, policy};
use super::MergingCursor;
use super::policy::superseded::are_droppable;
use super::slices::Slice;
use crate::key::{Kind, Tag};
use crate::levels::testing::levels;

#[derive(Clone, Debug)]
enum Step {
    Write {
        key: u8,
        value: bool,
    },
    DeleteRange(Range<u8>),
    Flush,
    Begin,
    Build(prop::sample::Index),
    Install(prop::sample::Index),
    /// A slice fails, or the store is closed.
    Abandon(prop::sample::Index),
    /// The store is closed, and opened with another policy.
    ChangePolicy(usize),
    TakeSnapshot,
    DropSnapshot(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..KEYS, prop::bool::weighted(0.6)).prop_map(|(key, value)| Step::Write { key, value }),
        1 => (0..KEYS, 1..KEYS).prop_map(|(from, length)| Step::DeleteRange(from..from + length)),
        3 => Just(Step::Flush),
        3 => Just(Step::Begin),
        8 => any::<prop::sample::Index>().prop_map(Step::Build),
        8 => any::<prop::sample::Index>().prop_map(Step::Install),
        1 => any::<prop::sample::Index>().prop_map(Step::Abandon),
        1 => (0..POLICIES).prop_map(Step::ChangePolicy),
        1 => Just(Step::TakeSnapshot),
        1 => any::<prop::sample::Index>().prop_map(Step::DropSnapshot),
    ]
}

proptest! {
    #[test]
    fn every_snapshot_reads_what_was_written_whatever_is_merged(
        level0_merge in 2usize..5,
        level1_bytes in prop::sample::select(vec![4u64, 60]),
        first_policy in 0..POLICIES,
        (percent, age_seconds) in prop::sample::select(vec![(0, 0), (50, 0), (0, 30), (10, 60)]),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut store = Store::new(policy(first_policy, level0_merge, level1_bytes));
        (store.policy.percent, store.policy.age_seconds) = (percent, age_seconds);
        for step in steps {
            match step {
                Step::Write { key, value } => store.write(key, value),
                Step::DeleteRange(keys) => store.delete_range(keys),
                Step::Flush => store.flush(),
                Step::Begin => {
                    store.begin();
                }
                Step::Build(at) if !store.jobs.is_empty() => {
                    store.build(at.index(store.jobs.len()));
                }
                Step::Install(at) if !store.jobs.is_empty() => {
                    store.install_slice(at.index(store.jobs.len()));
                }
                Step::Abandon(at) if !store.jobs.is_empty() => {
                    store.jobs.remove(at.index(store.jobs.len()));
                }
                Step::Build(_) | Step::Install(_) | Step::Abandon(_) => {}
                Step::ChangePolicy(number) => {
                    store.jobs.clear();
                    store.policy.inner = policy(number, level0_merge, level1_bytes);
                }
                Step::TakeSnapshot => store.snapshots.push(store.visible()),
                Step::DropSnapshot(at) if !store.snapshots.is_empty() => {
                    let at = at.index(store.snapshots.len());
                    store.snapshots.remove(at);
                }
                Step::DropSnapshot(_) => {}
            }
            store.check();
        }
        store.flush();
        while !store.jobs.is_empty() {
            store.build(0);
            store.install_slice(0);
        }
        let mut rounds = 0;
        while store.compact() {
            store.check();
            rounds += 1;
            prop_assert!(rounds < 200, "the policy never comes to rest");
        }
    }
}

proptest! {
    /// A merge of a due table drops all that makes it due.
    #[test]
    fn a_table_is_due_only_if_writing_it_anew_drops_all_that_it_notes(
        writes in prop::collection::vec((0..KEYS, 0..10u8, any::<bool>()), 1..60),
        live in prop::collection::vec(any::<bool>(), 60),
        one_is_older in any::<bool>(),
    ) {
        let mut store = Store::new(policy(0, 100, 1 << 20));
        for (key, kind, takes_snapshot) in writes {
            match kind {
                0 => store.delete_range(key..key + 5),
                1 => store.write(key, false),
                _ => store.write(key, true),
            }
            if takes_snapshot {
                store.snapshots.push(store.visible());
            }
        }
        store.flush();
        let (_, table) = levels(&store.state.version).tables().next().unwrap();
        let table = std::sync::Arc::clone(table);
        let mut live = live.into_iter();
        store.snapshots.retain(|_| live.next() == Some(true));
        if !are_droppable(&table, &store.stripes()) {
            store.snapshots.clear();
        }
        store.snapshots.extend(one_is_older.then_some(0));
        let is_due = are_droppable(&table, &store.stripes());
        prop_assert_eq!(is_due, table.superseded.is_some());
        let Some(noted) = table.superseded else {
            return Ok(());
        };
        let inputs = MergingCursor::new(vec![store.cursor(&table)]);
        let ranges = store.contents[&table.number].ranges.clone();
        // Something older lies below, so that tombstones stay.
        let tables = store.run_merge(inputs, ranges, &Slice::ALL, u64::MAX, &|_| true);
        let entries: u64 = tables.iter().map(|(table, _)| table.entries).sum();
        prop_assert_eq!(table.entries - entries, noted.versions);
        prop_assert!(tables.iter().all(|(table, _)| table.superseded.is_none()));
    }
}

/// Versions that a snapshot needs are not merged again and again, and go when the snapshot is gone.
#[test]
fn superseded_versions_that_a_snapshot_needs_are_left_in_peace() {
    for number in 0..POLICIES {
        for in_range in [false, true] {
            let mut store = Store::new(policy(number, 3, 1 << 20));
            (0..KEYS).for_each(|key| store.write(key, true));
            store.snapshots.push(store.visible());
            match in_range {
                true => store.delete_range(0..KEYS),
                false => (0..KEYS).for_each(|key| store.write(key, true)),
            }
            store.flush();
            store.come_to_rest();
            let entries = |store: &Store| -> u64 {
                let tables = levels(&store.state.version).tables();
                tables.map(|(_, table)| table.entries).sum()
            };
            let live = if in_range { 0 } else { u64::from(KEYS) };
            assert_eq!(entries(&store), live + u64::from(KEYS));
            store.snapshots.clear();
            while store.compact() {
                store.check();
            }
            assert_eq!(entries(&store), live, "policy {number}");
        }
    }
}

/// Without snapshots, tables merged all the way down hold each key once and no tombstone.
#[test]
fn merging_everything_leaves_one_version_a_key_and_no_tombstones() {
    (0..POLICIES).for_each(merge_everything);
}

fn merge_everything(policy_number: usize) {
    let mut store = Store::new(policy(policy_number, 3, 6));
    for round in 0..40 {
        for key in 0..KEYS {
            store.write(key, (round + key) % 3 != 0);
        }
        store.flush();
        while store.compact() {}
        store.check();
    }
    let tables = levels(&store.state.version).tables();
    let inputs = tables.map(|(_, table)| store.cursor(table)).collect();
    let inputs = MergingCursor::new(inputs);
    let tables = store.run_merge(inputs, Vec::new(), &Slice::ALL, u64::MAX, &|_| false);
    let last = &tables[0].1.entries;
    let live = store
        .writes
        .iter()
        .rev()
        .take(usize::from(KEYS))
        .filter(|w| w.2.is_some())
        .count();
    assert_eq!(last.len(), live);
    assert!(last.iter().all(|entry| entry.1.kind() == Some(Kind::Put)));
    assert!(store.merges > 10, "only {} merges", store.merges);
}

/// The outputs of a merge leave older sub-levels of the same level alone, and a tombstone over them
/// stays.
#[test]
fn a_tombstone_over_an_older_sub_level_of_its_level_stays() {
    for number in 1..POLICIES {
        let mut store = Store::new(policy(number, 2, 1 << 20));
        for round in 0..40u8 {
            for apart in [0, 5, 11] {
                store.write((round + apart) % KEYS, (round + apart) % 3 == 0);
            }
            store.flush();
            while store.compact() {
                store.check();
            }
        }
        assert!(store.merges > 10, "only {} merges", store.merges);
    }
}

/// Tombstones come down onto older sub-levels of their level, where the versions that they hide may
/// lie one further.
#[test]
fn full_tables_over_older_sub_levels_of_their_level_hide_what_they_hid() {
    for number in 0..POLICIES {
        // Nothing is ever full or over its target but with tombstones.
        let mut store = Store::new(policy(number, 3, 1 << 20));
        (store.policy.percent, store.policy.age_seconds) = (0, 0);
        for round in 0..9u8 {
            for key in (0..KEYS).filter(|key| key % 3 == round % 3) {
                store.write(key, true);
            }
            store.flush();
            while store.compact() {}
        }
        let merges = store.merges;
        (0..KEYS).for_each(|key| store.write(key, false));
        store.flush();
        store.policy.percent = 50;
        while store.compact() {
            store.check();
        }
        store.check();
        let left = levels(&store.state.version).tables().count();
        assert_eq!(left, 0, "policy {number}: all is deleted");
        assert!(store.merges > merges, "policy {number}");
    }
}

/// Versions that a snapshot needs stay where they are, and go as soon as no snapshot needs them.
#[test]
fn tombstones_that_a_snapshot_pins_are_left_in_peace() {
    for number in 0..POLICIES {
        for (percent, age_seconds) in [(20, 0), (0, 1)] {
            let mut store = Store::new(policy(number, 3, 1 << 20));
            (store.policy.percent, store.policy.age_seconds) = (percent, age_seconds);
            (0..KEYS).for_each(|key| store.write(key, true));
            store.flush();
            while store.compact() {}
            // Some are older than the snapshot, and in the same table.
            (0..KEYS / 2).for_each(|key| store.write(key, false));
            store.snapshots.push(store.visible());
            (KEYS / 2..KEYS).for_each(|key| store.write(key, false));
            store.flush();
            store.come_to_rest();
            let left = levels(&store.state.version).tables().count();
            assert!(left > 0, "the snapshot needs some");
            store.snapshots.clear();
            while store.compact() {
                store.check();
            }
            let left = levels(&store.state.version).tables().count();
            assert_eq!(left, 0, "policy {number}: all is deleted");
        }
    }
}

/// The leveled policy makes one sub-level a level of all that another policy left.
#[test]
fn the_leveled_policy_settles_what_a_tiered_one_left() {
    let mut store = Store::new(policy(1, 4, 6));
    let mut most = 0;
    for round in 0..40u8 {
        for key in 0..KEYS {
            store.write(key, (round + key) % 4 != 0);
        }
        store.flush();
        while store.compact() {}
        let levels = levels(&store.state.version).levels.iter();
        most = most.max(
            levels
                .skip(1)
                .map(|level| level.sub_levels.len())
                .max()
                .unwrap(),
        );
    }
    let is_settled = |store: &Store| {
        let mut places = levels(&store.state.version).sub_levels();
        places.all(|(place, _)| place.level == 0 || place.is_base())
    };
    assert!(!is_settled(&store) && most > 1, "{most} sub-levels a level");
    store.policy.inner = policy(0, 4, 6);
    while store.compact() {
        store.check();
    }
    assert!(is_settled(&store));
}

/// Two merges with keys or levels apart are under way together, and one is sliced.
#[test]
fn merges_overlap_in_time() {
    let mut store = Store::new(policy(0, 2, 6));
    for round in 0..60u64 {
        // A part of the keys at a time: so little does not go all the way down in one merge.
        for key in (0..KEYS).filter(|key| u64::from(key * 4 / KEYS) == round % 4) {
            store.write(key, (round + u64::from(key)) % 5 != 0);
        }
        store.flush();
        while store.begin() {}
        for at in (0..store.jobs.len()).rev() {
            store.build(at);
            store.build(at);
            store.install_slice(at);
            store.check();
        }
    }
    assert!(store.most_jobs >= 2, "{} merges at a time", store.most_jobs);
    assert!(store.merges > 10, "{} merges", store.merges);
}

#[test]
fn an_age_rule_that_is_broken_is_found() {
    let mut store = Store::new(policy(0, 3, 6));
    store.write(1, true);
    store.flush();
    store.write(1, true);
    store.flush();
    let numbers: Vec<u64> = store.contents.keys().copied().collect();
    let old = store.contents[&numbers[0]].clone();
    let new = store.contents.insert(numbers[1], old).unwrap();
    store.contents.insert(numbers[0], new);
    let violation = store.violation().unwrap();
    assert_eq!(violation.user_key, [1]);
    assert_eq!((violation.newer.0, violation.older.0), (2, 1));
    assert!(
        violation.to_string().contains("version 2 at level 0"),
        "{violation}"
    );
}

/// A range tombstone is a version of every key in it, above and below others.
#[test]
fn an_age_rule_that_a_deleted_range_breaks_is_found() {
    type Write = fn(&mut Store);
    let put: Write = |store| store.write(1, true);
    let delete_0_to_3: Write = |store| store.delete_range(0..3);
    let delete_1_to_2: Write = |store| store.delete_range(1..2);
    for (older, newer) in [
        (put, delete_0_to_3),
        (delete_0_to_3, put),
        (delete_0_to_3, delete_1_to_2),
        (delete_1_to_2, delete_0_to_3),
    ] {
        let mut store = Store::new(policy(0, 3, 6));
        for write in [older, newer] {
            write(&mut store);
            store.flush();
        }
        assert_eq!(store.violation(), None);
        for contents in store.contents.values_mut() {
            for (_, tag, _) in &mut contents.entries {
                *tag = Tag::new(3 - tag.sequence(), Kind::Put);
            }
            for range in &mut contents.ranges {
                range.sequence = 3 - range.sequence;
            }
        }
        let violation = store.violation().unwrap();
        assert_eq!((violation.newer.0, violation.older.0), (2, 1));
    }
}
