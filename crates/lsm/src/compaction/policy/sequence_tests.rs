//! Tests: random sequences of flushes, deletes of ranges and openings under the leveled policy, each worked off
//! until nothing is due. Merges are counted, not done: outputs are as large as their inputs.

use std::collections::BTreeSet;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::compaction::legality::check_legal;
use crate::compaction::targets::Targets;
use crate::levels::testing::{added, flush_place, levels, version};
use crate::levels::{LEVELS, TableAdded, Version};

const SEQUENCES: u64 = 10_000;
const STEPS: usize = 12;
const KEYS: u64 = 1000;
const TABLE_BYTES: u64 = 200;
const SHAPE: Shape = Shape {
    level1_bytes: 400,
    level_ratio: 3,
};

pub(super) struct NoEstimates;

impl Estimates for NoEstimates {
    fn merged(&self, _: &KeyspaceLevels, _: &Run) -> Option<Duplicates> {
        None
    }
    fn merged_now(&self, _: &KeyspaceLevels, _: &Run, _: Duplicates) -> Option<Duplicates> {
        None
    }
    fn keys(&self, _: &KeyspaceLevels, _: &Run) -> Option<f64> {
        None
    }
}

struct Sequence {
    random: SmallRng,
    policy: Leveled,
    tables: Vec<TableAdded>,
    next_number: u64,
}

fn key(number: u64) -> String {
    format!("{number:04}")
}

fn key_number(key: &[u8]) -> u64 {
    std::str::from_utf8(key).unwrap().parse().unwrap()
}

impl Sequence {
    fn new(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let policy = Leveled {
            level0_merge: random.random_range(1..5),
            level0_is_paid_for: false,
            shape: SHAPE,
            slice_bytes: 4 * TABLE_BYTES,
            same_form_as_above: (0..LEVELS).map(|_| random.random_bool(0.7)).collect(),
        };
        Sequence {
            random,
            policy,
            tables: Vec::new(),
            next_number: 1,
        }
    }

    fn version(&self) -> Version {
        version(self.tables.clone())
    }

    fn add(&mut self, place: Place, from: u64, to: u64, bytes: u64) {
        let mut table = added(place, self.next_number, &key(from), &key(to));
        table.table.size_bytes = bytes;
        self.tables.push(table);
        self.next_number += 1;
    }

    /// Flushes a table. Debt does not fall when it comes to level 0.
    fn flush(&mut self) {
        let debt = |sequence: &Sequence| sequence.policy.debt_bytes(levels(&sequence.version()));
        let before = debt(self);
        let from = self.random.random_range(0..KEYS);
        let to = self.random.random_range(from..KEYS);
        let bytes = self.random.random_range(1..400);
        self.add(flush_place(self.next_number), from, to, bytes);
        assert!(debt(self) >= before);
    }

    /// Deletes a range. Tables that it hides are removed.
    fn delete_range(&mut self) {
        let from = self.random.random_range(0..KEYS);
        let range = KeyRange::inclusive(key(from), key(from + KEYS / 3));
        self.tables
            .retain(|added| !range.encloses(&added.table.bounds));
    }

    /// Adds a file to a level that has nothing of its keys, as an ingestion does.
    fn ingest(&mut self) {
        let level = self.random.random_range(1..LEVELS as u8);
        let from = self.random.random_range(0..KEYS - 20);
        let range = KeyRange::inclusive(key(from), key(from + 20));
        let is_in_the_way = |added: &TableAdded| added.table.bounds.overlaps(&range);
        if !self.tables.iter().any(is_in_the_way) {
            self.add(Place::base(level), from, from + 20, 100);
        }
    }

    /// Opens the store again, maybe with another form for the levels, and smaller ones.
    fn open(&mut self) {
        let form = self.random.random_range(0..LEVELS);
        if let Some(same) = self.policy.same_form_as_above.get_mut(form) {
            *same = !*same;
        }
        self.policy.shape.level1_bytes = self.random.random_range(200..600);
    }

    fn carry_out(&mut self, choice: &Choice) {
        let taken: BTreeSet<u64> = choice.inputs.iter().map(|i| i.table.number).collect();
        if choice.kind == ChoiceKind::Move {
            let moved = self.tables.iter_mut();
            let moved = moved.filter(|added| taken.contains(&added.table.number));
            moved.for_each(|added| added.place = choice.output);
            return;
        }
        self.tables
            .retain(|added| !taken.contains(&added.table.number));
        let hull = KeyRange::hull(choice.inputs.iter().map(|i| &i.table.bounds)).unwrap();
        let bytes: u64 = choice.inputs.iter().map(|i| i.table.size_bytes).sum();
        let (from, to) = (key_number(&hull.smallest), key_number(&hull.largest));
        let tables = bytes.div_ceil(TABLE_BYTES).min(to - from + 1);
        for number in 0..tables {
            let at = |number| from + (to - from + 1) * number / tables;
            let end = if number + 1 == tables {
                to
            } else {
                at(number + 1) - 1
            };
            self.add(choice.output, at(number), end, bytes / tables);
        }
    }

    /// Returns how many levels began.
    fn work_off(&mut self) -> usize {
        let mut crossed = BTreeSet::new();
        let mut began = 0;
        for _ in 0..10_000 {
            let version = self.version();
            let levels = levels(&version);
            let targets = Targets::of(levels, self.policy.shape);
            let crossing = self.policy.cross(levels, &targets, &[]);
            let Some(choice) = self.policy.pick(levels, &[], &NoEstimates) else {
                self.check_rest(levels, &targets);
                return began;
            };
            check_legal(levels, &choice).unwrap_or_else(|broken| panic!("{choice}: {broken}"));
            if let Some((_, crossing)) = crossing {
                assert_eq!(
                    crossing.to_string(),
                    choice.to_string(),
                    "a crossing goes first"
                );
                assert_eq!(choice.kind, ChoiceKind::Move, "{choice}");
                for input in &choice.inputs {
                    let place = (input.table.number, choice.output.level);
                    assert!(crossed.insert(place), "{choice}: twice");
                }
            }
            self.carry_out(&choice);
            let after = self.version();
            let after = Targets::of(crate::levels::testing::levels(&after), self.policy.shape);
            began += usize::from(after.deepest() > targets.deepest());
        }
        panic!("no end of merges");
    }

    /// Checks that at rest no level is over its target, and none that is not used has tables.
    fn check_rest(&self, levels: &KeyspaceLevels, targets: &Targets) {
        for (number, level) in (1u8..).zip(levels.levels.iter().skip(1)) {
            let bytes = level.size_bytes();
            assert!(!targets.is_over(number, bytes), "level {number}: {bytes}");
            assert!(targets.is_used(number) || bytes == 0);
        }
        let level0 = levels
            .levels
            .first()
            .map_or(0, |level| level.sub_levels.len());
        assert!(level0 < self.policy.level0_merge.max(1));
        assert_eq!(debt_below_level0(self, levels), 0);
    }
}

fn debt_below_level0(sequence: &Sequence, levels: &KeyspaceLevels) -> u64 {
    let without = Leveled {
        level0_merge: usize::MAX,
        ..sequence.policy.clone()
    };
    without.debt_bytes(levels)
}

#[test]
fn every_sequence_comes_to_rest_and_no_table_crosses_twice() {
    let (mut began, mut unused) = (0, 0);
    for seed in 0..SEQUENCES {
        let mut sequence = Sequence::new(seed);
        for _ in 0..STEPS {
            match sequence.random.random_range(0..20) {
                0 => sequence.delete_range(),
                1 => sequence.open(),
                2 => sequence.ingest(),
                _ => sequence.flush(),
            }
            if sequence.random.random_bool(0.7) {
                began += sequence.work_off();
            }
        }
        began += sequence.work_off();
        let version = sequence.version();
        let targets = Targets::of(levels(&version), sequence.policy.shape);
        unused += usize::from(targets.first_used() > 1);
    }
    assert!(
        began > 100 && unused > 100,
        "{began} levels began, {unused} stores skip some"
    );
}

/// Tables that one edit of a crossing moves at most.
const MOST_MOVED: usize = 4096;

/// Returns a store with tables of these bytes in level 2, where a third level is due.
fn before_a_crossing(tables: impl Iterator<Item = u64>) -> Sequence {
    let mut sequence = Sequence::new(0);
    sequence.policy = Leveled {
        level0_merge: 4,
        shape: Shape {
            level1_bytes: 3000,
            level_ratio: 10,
        },
        same_form_as_above: vec![true; LEVELS],
        ..sequence.policy
    };
    for (at, bytes) in (0..).zip(tables) {
        sequence.add(Place::base(2), at, at, bytes);
    }
    sequence
}

impl Sequence {
    /// Works off all that moves alone do, and returns how many tables each edit moved. No table is
    /// moved twice.
    fn move_to_rest(&mut self) -> Vec<usize> {
        let mut moved = BTreeSet::new();
        let mut edits = Vec::new();
        loop {
            let version = self.version();
            let levels = levels(&version);
            let Some(choice) = self.policy.pick(levels, &[], &NoEstimates) else {
                self.check_rest(levels, &Targets::of(levels, self.policy.shape));
                return edits;
            };
            assert_eq!(choice.kind, ChoiceKind::Move, "{}", choice.reason);
            assert_eq!(choice.output, Place::base(3));
            check_legal(levels, &choice).unwrap();
            let mut inputs = choice.inputs.iter();
            assert!(inputs.all(|input| moved.insert(input.table.number)));
            edits.push(choice.inputs.len());
            self.carry_out(&choice);
        }
    }
}

#[test]
fn a_crossing_of_many_tables_takes_several_edits() {
    // The first edit moves less than half of level 3's target.
    let first = std::iter::repeat_n(10, MOST_MOVED);
    let mut sequence = before_a_crossing(first.chain(std::iter::repeat_n(11, 4900)));
    assert_eq!(sequence.move_to_rest(), [MOST_MOVED, 3952, 1]);
}

#[test]
fn a_level_that_has_begun_takes_the_rest_of_a_crossing_by_moves() {
    // The first edit moves most of level 3's target.
    let mut sequence = before_a_crossing(std::iter::repeat_n(20, 4700));
    let edits = sequence.move_to_rest();
    assert_eq!(edits[0], MOST_MOVED);
    assert!(edits.len() > 50 && edits[1..].iter().all(|tables| *tables == 1));
}
