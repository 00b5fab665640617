//! Claims: the keys and ages that a merge under way keeps others from touching.
//!
//! A merge reads sub-levels of some ages and puts its outputs into the oldest of them or below. So
//! until its last edit the keys between its first and its last one may change hands anywhere in
//! that span of ages. Two merges whose keys or whose ages are apart know nothing of each other.
//! Neither takes an input or an output place of the other, and none of the versions that one moves
//! can pass a version that the other moves. Their outputs must be in order, too, at any keys: the
//! deeper one has to be the older.

use std::collections::BTreeSet;

use crate::compaction::policy::Choice;
use crate::compaction::slices::Slice;
use crate::levels::{KeyRange, Place};

/// Keys and ages, both as closed spans.
#[derive(Clone, Debug)]
pub struct Claim {
    range: KeyRange,
    youngest_age: u64,
    output: Place,
    /// The numbers of the inputs.
    inputs: BTreeSet<u64>,
    /// Numbers of the inputs that leave their level for a deeper one.
    carried_down: BTreeSet<u64>,
}

impl Claim {
    /// Returns the claim of a choice; `None` if it has no inputs.
    pub fn of(choice: &Choice) -> Option<Claim> {
        let inputs = choice.inputs.iter();
        Some(Claim {
            range: KeyRange::hull(inputs.clone().map(|input| &input.table.bounds))?,
            youngest_age: inputs.clone().map(|input| input.place.age).max()?,
            output: choice.output,
            inputs: inputs.clone().map(|input| input.table.number).collect(),
            carried_down: inputs
                .filter(|input| input.place.level < choice.output.level)
                .map(|input| input.table.number)
                .collect(),
        })
    }

    /// Makes a claim from the parts of another; see the methods that return them.
    pub fn new(
        range: KeyRange,
        youngest_age: u64,
        output: Place,
        inputs: impl IntoIterator<Item = u64>,
        carried_down: impl IntoIterator<Item = u64>,
    ) -> Claim {
        Claim {
            range,
            youngest_age,
            output,
            inputs: inputs.into_iter().collect(),
            carried_down: carried_down.into_iter().collect(),
        }
    }

    /// Returns the rest of the claim when all before a slice is installed.
    pub fn beginning_at(mut self, slice: &Slice) -> Claim {
        if let Some(from) = &slice.from
            && *from > self.range.smallest
        {
            self.range.smallest.clone_from(from);
        }
        self
    }

    /// Returns whether both may not be under way at the same time.
    pub fn conflicts_with(&self, other: &Claim) -> bool {
        let meets = self.range.overlaps(&other.range)
            && self.output.age <= other.youngest_age
            && other.output.age <= self.youngest_age;
        meets || self.is_out_of_order_with(other)
    }

    /// Returns whether the outputs, of any keys, could not be listed together: ages descend from
    /// level to level.
    fn is_out_of_order_with(&self, other: &Claim) -> bool {
        let (own, its) = (self.output, other.output);
        (own.level < its.level && own.age <= its.age)
            || (own.level > its.level && own.age >= its.age)
    }

    /// Makes a claim on one place, for tables that are put there without a merge.
    pub fn on_place(range: KeyRange, place: Place) -> Claim {
        Claim::new(range, place.age, place, [], [])
    }

    /// Returns whether a table takes part.
    pub fn takes(&self, number: u64) -> bool {
        self.inputs.contains(&number)
    }

    /// Returns the numbers of the tables that take part, ascending.
    pub fn inputs(&self) -> impl Iterator<Item = u64> {
        self.inputs.iter().copied()
    }

    /// Returns the numbers of the inputs that leave their level for a deeper one.
    pub fn all_carried_down(&self) -> impl Iterator<Item = u64> {
        self.carried_down.iter().copied()
    }

    /// Returns the claimed keys.
    pub fn range(&self) -> &KeyRange {
        &self.range
    }

    pub fn youngest_age(&self) -> u64 {
        self.youngest_age
    }

    /// Returns the sub-level that takes the outputs.
    pub fn output(&self) -> Place {
        self.output
    }

    /// Returns whether a table is on its way to a deeper level.
    pub(crate) fn carries_down(&self, number: u64) -> bool {
        self.carried_down.contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::policy::{ChoiceKind, Input, Reason};
    use crate::levels::testing::{added, flush_place, levels, sub_level_place, version};

    fn claim(inputs: &[(Place, &str, &str)], output: Place) -> Claim {
        let tables = (1u64..).zip(inputs);
        let version = version(
            tables
                .map(|(number, &(place, from, to))| added(place, number, from, to))
                .collect(),
        );
        let inputs = levels(&version).tables().map(|(place, table)| Input {
            place,
            table: table.clone(),
        });
        let choice = Choice {
            reason: Reason::Level0SubLevels(1),
            kind: ChoiceKind::Merge,
            inputs: inputs.collect(),
            output,
            predicted: None,
        };
        Claim::of(&choice).unwrap()
    }

    #[test]
    fn merges_conflict_if_both_keys_and_ages_meet() {
        let down = claim(&[(flush_place(1), "c", "m")], Place::base(1));
        let beside = claim(&[(Place::base(1), "n", "z")], Place::base(2));
        let below = claim(&[(Place::base(2), "a", "z")], Place::base(3));
        let above = claim(
            &[(flush_place(3), "a", "z"), (flush_place(2), "a", "z")],
            flush_place(2),
        );
        let under = claim(&[(Place::base(1), "m", "n")], Place::base(2));
        let passing = claim(&[(flush_place(2), "k", "k")], Place::base(1));
        for other in [&beside, &below, &above] {
            assert!(!down.conflicts_with(other) && !other.conflicts_with(&down));
        }
        for other in [&under, &passing, &down] {
            assert!(down.conflicts_with(other) && other.conflicts_with(&down));
        }
    }

    #[test]
    fn outputs_out_of_order_conflict_whatever_their_keys_are() {
        let tiered = claim(&[(sub_level_place(1, 1), "a", "b")], sub_level_place(2, 1));
        let range = KeyRange::inclusive("x", "z");
        let into = |place| Claim::on_place(range.clone(), place);
        assert!(tiered.conflicts_with(&into(Place::base(1))));
        assert!(into(Place::base(1)).conflicts_with(&tiered));
        for place in [Place::base(2), Place::base(3), sub_level_place(1, 2)] {
            assert!(!tiered.conflicts_with(&into(place)) && !into(place).conflicts_with(&tiered));
        }
    }

    #[test]
    fn what_is_installed_is_claimed_no_more() {
        let down = claim(&[(flush_place(1), "c", "m")], Place::base(1));
        let rest = down.clone().beginning_at(&Slice {
            from: Some(b"h".to_vec()),
            to: None,
            input_bytes: 1,
        });
        let left = claim(&[(Place::base(1), "a", "g")], Place::base(2));
        let right = claim(&[(Place::base(1), "a", "h")], Place::base(2));
        assert!(down.conflicts_with(&left) && !rest.conflicts_with(&left));
        assert!(rest.conflicts_with(&right));
    }
}
