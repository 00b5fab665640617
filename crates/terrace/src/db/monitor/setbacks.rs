//! Merges that dropped less than was predicted, so that they are not tried again at once.

use std::collections::BTreeMap;

use crate::KeyspaceId;
use crate::compaction::run::Run;
use crate::db::jobs::Ended;
use crate::levels::KeyspaceLevels;

/// Versions that a run with this sub-level must have to be merged for its duplicates.
#[derive(Default)]
pub(super) struct Setbacks {
    needed: BTreeMap<(KeyspaceId, u64), u64>,
}

impl Setbacks {
    /// Of the sub-levels of a keyspace only those count that are listed.
    pub(super) fn forget_all_but(&mut self, levels: &KeyspaceLevels) {
        let is_listed = |number: u64| levels.sub_levels().any(|(p, _)| p.sub_level == number);
        self.needed
            .retain(|&(keyspace, number), _| keyspace != levels.id || is_listed(number));
    }

    /// The sub-levels of a keyspace with what they need.
    pub(super) fn of(&self, keyspace: KeyspaceId) -> impl Iterator<Item = (u64, u64)> {
        let needed = self.needed.range((keyspace, 0)..=(keyspace, u64::MAX));
        needed.map(|(&(_, number), &needed)| (number, needed))
    }

    pub(super) fn is_set_back(&self, keyspace: KeyspaceId, run: &Run) -> bool {
        let versions = run.versions();
        let mut places = run.sub_levels().iter().map(|(place, _)| place);
        places.any(|place| {
            let needed = self.needed.get(&(keyspace, place.sub_level));
            needed.is_some_and(|&needed| versions < needed)
        })
    }

    /// Whether a merge that was installed as a whole was a setback.
    pub(super) fn compare(&mut self, ended: &Ended) -> bool {
        let Some(predicted) = ended.choice.predicted else {
            return false;
        };
        let output = (ended.keyspace, ended.choice.output.sub_level);
        let left = ended.written_versions;
        let dropped = ended.input_versions.saturating_sub(left);
        if dropped as f64 >= predicted.droppable / 2.0 {
            self.needed.remove(&output);
            return false;
        }
        self.needed.insert(output, left.saturating_add(left / 4));
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::compaction::estimates::Duplicates;
    use crate::compaction::policy::{Choice, ChoiceKind, Reason};
    use crate::levels::Place;
    use crate::levels::testing::{added, levels, sub_level_place, version};

    #[test]
    fn what_could_not_be_dropped_is_tried_again_when_there_is_more() {
        let (old, young) = (sub_level_place(1, 3), sub_level_place(1, 5));
        let sized = |place: Place, number, entries| {
            let mut added = added(place, number, "a", "z");
            added.table.entries = entries;
            added
        };
        let before = version(vec![sized(young, 2, 40), sized(old, 1, 60)]);
        // What an ended job has left of its inputs: none.
        let choice = Arc::new(Choice {
            reason: Reason::AskedFor,
            kind: ChoiceKind::Merge,
            inputs: Vec::new(),
            output: old,
            predicted: Some(Duplicates::new(100, 60.0, 0)),
        });
        let dropping = |dropped: u64| Ended {
            job: 1,
            keyspace: KeyspaceId::DEFAULT,
            choice: Arc::clone(&choice),
            input_versions: 100,
            written_versions: 100 - dropped,
            installed: 1,
            slices: 1,
        };
        let mut setbacks = Setbacks::default();
        let id = KeyspaceId::DEFAULT;
        let run = |young_entries| {
            let after = version(vec![sized(young, 4, young_entries), sized(old, 3, 90)]);
            Run::of_level(levels(&after), 1).unwrap()
        };
        assert!(!setbacks.compare(&dropping(20)), "half of it");
        assert!(!setbacks.is_set_back(id, &run(1)));
        assert!(setbacks.compare(&dropping(10)));
        assert!(setbacks.is_set_back(id, &run(21)), "112 are needed");
        assert_eq!(setbacks.of(id).collect::<Vec<_>>(), [(old.sub_level, 112)]);
        assert_eq!(setbacks.of(KeyspaceId(2)).count(), 0);
        assert!(!setbacks.is_set_back(id, &run(22)));
        setbacks.forget_all_but(levels(&before));
        assert!(setbacks.is_set_back(id, &run(21)));
        setbacks.forget_all_but(levels(&version(vec![sized(young, 2, 40)])));
        assert!(!setbacks.is_set_back(id, &run(21)));
    }
}
