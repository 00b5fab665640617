//! Merges that dropped less than was predicted, so that they are not tried again at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_lsm::compaction::parts::Part;
use terrace_lsm::compaction::policy::Choice;
use terrace_lsm::compaction::run::Run;
use terrace_lsm::levels::{KeyRange, KeyspaceLevels};

use crate::KeyspaceId;
use crate::db::compaction_history::Compaction;
use crate::db::jobs::Ended;

/// Returns whether a merge dropped less than half of the versions that were predicted.
pub(crate) fn is_setback(choice: &Choice, dropped: u64) -> bool {
    let predicted = choice.predicted;
    predicted.is_some_and(|predicted| (dropped as f64) < predicted.droppable / 2.0)
}

/// Versions that a run with this sub-level must have in a range of keys to be merged for its
/// duplicates there.
#[derive(Default)]
pub(super) struct Setbacks {
    needed: BTreeMap<(KeyspaceId, u64), Vec<Needed>>,
}

struct Needed {
    range: KeyRange,
    versions: u64,
}

impl Setbacks {
    /// Forgets the sub-levels of a keyspace that are not listed.
    pub(super) fn forget_all_but(&mut self, levels: &KeyspaceLevels) {
        let is_listed = |number: u64| levels.sub_levels().any(|(p, _)| p.sub_level == number);
        self.needed
            .retain(|&(keyspace, number), _| keyspace != levels.id || is_listed(number));
    }

    /// Returns the sub-levels of a keyspace with the versions that each needs: the most, where
    /// several ranges need some.
    pub(super) fn of(&self, keyspace: KeyspaceId) -> impl Iterator<Item = (u64, u64)> {
        let needed = self.needed.range((keyspace, 0)..=(keyspace, u64::MAX));
        needed.filter_map(|(&(_, number), ranges)| {
            let most = ranges.iter().map(|needed| needed.versions).max();
            Some((number, most?))
        })
    }

    /// Returns the tables of sub-levels in ranges of keys that have too few versions still.
    pub(super) fn tables(&self, levels: &KeyspaceLevels) -> Vec<u64> {
        let mut numbers = Vec::new();
        for (place, sub_level) in levels.sub_levels() {
            let ranges = self.needed.get(&(levels.id, place.sub_level));
            for needed in ranges.into_iter().flatten() {
                let tables = sub_level.overlapping(&needed.range);
                let versions: u64 = tables.iter().map(|table| table.entries).sum();
                if versions < needed.versions {
                    numbers.extend(tables.iter().map(|table| table.number));
                }
            }
        }
        numbers
    }

    pub(super) fn is_set_back(&self, keyspace: KeyspaceId, run: &Run) -> bool {
        let versions = run.versions();
        let mut needed = self.needed_by(keyspace, run);
        needed.any(|needed| versions < needed.versions)
    }

    /// Marks the parts of a run that are not to be merged: all in a range that has too few versions
    /// still.
    pub(super) fn set_back_parts(
        &self,
        keyspace: KeyspaceId,
        run: &Run,
        parts: &mut Arc<Vec<Part>>,
    ) {
        for needed in self.needed_by(keyspace, run) {
            let is_in = |part: &Part| {
                let mut tables = part.run.tables();
                tables.any(|table| table.bounds.overlaps(&needed.range))
            };
            let inside = parts.iter().filter(|part| is_in(part));
            let versions: u64 = inside.map(|part| part.run.versions()).sum();
            if versions < needed.versions {
                let inside = Arc::make_mut(parts).iter_mut().filter(|part| is_in(part));
                inside.for_each(|part| part.duplicates = None);
            }
        }
    }

    fn needed_by(&self, keyspace: KeyspaceId, run: &Run) -> impl Iterator<Item = &Needed> {
        let places = run.sub_levels().iter().map(|(place, _)| place);
        places
            .filter_map(move |place| self.needed.get(&(keyspace, place.sub_level)))
            .flatten()
    }

    /// Notes a merge that was installed as a whole. Returns whether it was a setback.
    pub(super) fn compare(&mut self, ended: &Ended, past: &Compaction) -> bool {
        if past.predicted_dropped.is_none() {
            return false;
        }
        let output = (ended.keyspace, ended.choice.output.sub_level);
        let left = past.entries.saturating_sub(past.dropped);
        let needed = self.needed.entry(output).or_default();
        needed.retain(|before| !ended.range.encloses(&before.range));
        if !past.setback {
            return false;
        }
        needed.push(Needed {
            range: ended.range.clone(),
            versions: left.saturating_add(left / 4),
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_lsm::compaction::estimates::Duplicates;
    use terrace_lsm::compaction::parts::cells;
    use terrace_lsm::compaction::policy::{ChoiceKind, Reason};
    use terrace_lsm::levels::Place;
    use terrace_lsm::levels::testing::{added, levels, sub_level_place, version};

    use super::*;
    use crate::db::compaction_history::Began;
    use crate::db::jobs::under_way::Progress;

    #[test]
    fn what_could_not_be_dropped_is_tried_again_when_there_is_more() {
        let (old, young) = (sub_level_place(1, 3), sub_level_place(1, 5));
        let sized = |place: Place, number, entries| {
            let mut added = added(place, number, "a", "z");
            added.table.entries = entries;
            added
        };
        let before = version(vec![sized(young, 2, 40), sized(old, 1, 60)]);
        // An ended job has no inputs left.
        let choice = Arc::new(Choice {
            reason: Reason::AskedFor,
            kind: ChoiceKind::Merge,
            inputs: Vec::new(),
            output: old,
            predicted: Some(Duplicates::new(100, 60.0, 0)),
        });
        let ended = Ended {
            job: 1,
            keyspace: KeyspaceId::DEFAULT,
            progress: Progress::begun(1, &choice),
            choice: Arc::clone(&choice),
            range: KeyRange::inclusive("a", "z"),
            installed: 1,
            slices: 1,
        };
        let dropping = |dropped: u64| Compaction {
            entries: 100,
            dropped,
            setback: is_setback(&choice, dropped),
            ..Began::now(1, &choice).past()
        };
        let mut setbacks = Setbacks::default();
        let id = KeyspaceId::DEFAULT;
        let run = |young_entries| {
            let after = version(vec![sized(young, 4, young_entries), sized(old, 3, 90)]);
            Run::of_level(levels(&after), 1).unwrap()
        };
        assert!(!setbacks.compare(&ended, &dropping(20)), "half of it");
        assert!(!setbacks.is_set_back(id, &run(1)));
        assert!(setbacks.compare(&ended, &dropping(10)));
        assert!(setbacks.is_set_back(id, &run(21)), "112 are needed");
        let alone = |entries| {
            let version = version(vec![sized(young, 4, 900), sized(old, 3, entries)]);
            setbacks.tables(levels(&version))
        };
        assert_eq!((alone(111), alone(112)), (vec![3], Vec::new()));
        assert_eq!(setbacks.of(id).collect::<Vec<_>>(), [(old.sub_level, 112)]);
        assert_eq!(setbacks.of(KeyspaceId::from_number(2)).count(), 0);
        assert!(!setbacks.is_set_back(id, &run(22)));
        setbacks.forget_all_but(levels(&before));
        assert!(setbacks.is_set_back(id, &run(21)));
        setbacks.forget_all_but(levels(&version(vec![sized(young, 2, 40)])));
        assert!(!setbacks.is_set_back(id, &run(21)));
    }

    #[test]
    fn a_range_that_could_not_be_dropped_leaves_the_others_alone() {
        let (old, young) = (sub_level_place(1, 3), sub_level_place(1, 5));
        let cell = |number, from, to, entries: u64| {
            [(old, number), (young, number + 1)].map(|(place, number)| {
                let mut added = added(place, number, from, to);
                added.table.entries = entries / 2;
                added
            })
        };
        let run = |entries: u64| {
            let listed = [
                cell(1, "a", "c", entries),
                cell(3, "d", "f", entries),
                cell(5, "g", "i", 100),
            ];
            Run::of_level(levels(&version(listed.concat())), 1).unwrap()
        };
        let parts = |run: &Run| -> Vec<Part> {
            let known = |run| Part {
                run,
                duplicates: Some(Duplicates::default()),
            };
            cells(run).into_iter().map(known).collect()
        };
        let before = run(100);
        let choice = Arc::new(Choice {
            reason: Reason::AskedFor,
            kind: ChoiceKind::Merge,
            inputs: Vec::new(),
            output: old,
            predicted: Some(Duplicates::new(200, 100.0, 0)),
        });
        let ended = Ended {
            job: 1,
            keyspace: KeyspaceId::DEFAULT,
            progress: Progress::begun(1, &choice),
            range: KeyRange::inclusive("a", "f"),
            choice: Arc::clone(&choice),
            installed: 1,
            slices: 1,
        };
        let dropping = |dropped: u64| Compaction {
            entries: 200,
            dropped,
            setback: is_setback(&choice, dropped),
            ..Began::now(1, &choice).past()
        };
        let mut setbacks = Setbacks::default();
        let id = KeyspaceId::DEFAULT;
        assert!(setbacks.compare(&ended, &dropping(40)));
        let known = |setbacks: &Setbacks, run: &Run| -> Vec<bool> {
            let mut parts = Arc::new(parts(run));
            setbacks.set_back_parts(id, run, &mut parts);
            parts.iter().map(|part| part.duplicates.is_some()).collect()
        };
        assert_eq!(known(&setbacks, &run(80)), [false, false, true]);
        assert!(!setbacks.is_set_back(id, &before), "all of it has enough");
        assert_eq!(
            known(&setbacks, &run(98)),
            [false, false, true],
            "200 are needed"
        );
        assert_eq!(known(&setbacks, &run(102)), [true; 3]);
        assert!(!setbacks.compare(&ended, &dropping(50)));
        assert_eq!(known(&setbacks, &run(98)), [true; 3]);
    }
}
