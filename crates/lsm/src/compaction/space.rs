//! The space that a merge needs, guessed before it begins: pure functions of its inputs and slices.
//!
//! A merge writes the part of its inputs that stays, by the estimate that it was chosen for, or all
//! of them where there is none. Rows that deleted ranges hide from all readers do not stay. Its
//! slices give back each input that ends in them, once their edits are durable. So it needs the
//! largest difference between the bytes that it has written and those that it has given back, at
//! any of its slices. As a rule that is the slices that are built at the same time, and the tables
//! that go on behind one.
//!
//! The outputs are taken to be compressed like the inputs. If a guess was too small, the disk shows
//! it: the slice fails with `NoSpace`, and is tried again later.

use crate::compaction::policy::Choice;
use crate::compaction::slices::Slice;
use crate::debug_expect::DebugExpect;

/// Reserved bytes for each that is expected to stay.
const MARGIN: f64 = 1.125;

/// The space that the slices of a merge need, in their order.
#[derive(Clone, Debug, Default)]
pub struct Space {
    slices: Vec<SliceSpace>,
    /// Maximum number of slices that are built at the same time.
    workers: usize,
}

#[derive(Clone, Copy, Debug)]
struct SliceSpace {
    written_bytes: u64,
    given_back_bytes: u64,
}

/// Returns the part of a merge's input bytes that it is expected to write.
pub fn part_that_stays(choice: &Choice) -> f64 {
    let dropped = choice
        .predicted
        .map_or(0.0, |known| known.droppable_share());
    (1.0 - dropped).clamp(0.0, 1.0)
}

impl Space {
    /// Returns the space of slices. `hidden_bytes` are those of each slice's inputs that deleted
    /// ranges hide.
    pub fn of(choice: &Choice, slices: &[Slice], hidden_bytes: &[u64], workers: usize) -> Self {
        let reserved_part = (part_that_stays(choice) * MARGIN).min(1.0);
        let of_slice = |(at, slice): (usize, &Slice)| {
            let hidden_bytes = hidden_bytes.get(at).copied().unwrap_or(0);
            let shown_bytes = slice.input_bytes.saturating_sub(hidden_bytes);
            let inputs = choice.inputs.iter().map(|input| &input.table);
            let ends_here = |bounds| {
                let to = slice.to.as_deref();
                slice.overlaps(bounds) && to.is_none_or(|to| bounds.ends_before(to))
            };
            let given_back = inputs.filter(|table| ends_here(&table.bounds));
            SliceSpace {
                written_bytes: (shown_bytes as f64 * reserved_part) as u64,
                given_back_bytes: given_back.map(|table| table.size_bytes).sum(),
            }
        };
        Space {
            slices: slices.iter().enumerate().map(of_slice).collect(),
            workers,
        }
    }

    /// Returns the bytes that a slice writes, and those that its installation gives back.
    pub fn of_slice(&self, number: usize) -> (u64, u64) {
        self.slices.get(number).map_or((0, 0), |slice| {
            (slice.written_bytes, slice.given_back_bytes)
        })
    }

    /// Returns the most bytes that the merge takes beyond those that it has taken when all before a
    /// slice are installed.
    pub fn needed_from(&self, number: usize) -> u64 {
        let slices = self
            .slices
            .get(number..)
            .debug_expect("slices are installed once");
        let beside = self.workers.saturating_sub(1);
        let mut written: u64 = slices.iter().take(beside).map(|s| s.written_bytes).sum();
        let (mut most, mut given_back) = (written, 0u64);
        // When one is the first that is not installed, those that are built beside it may be written.
        for (at, slice) in slices.iter().enumerate() {
            written += slices.get(at + beside).map_or(0, |s| s.written_bytes);
            most = written.saturating_sub(given_back).max(most);
            given_back += slice.given_back_bytes;
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::estimates::Duplicates;
    use crate::compaction::policy::{ChoiceKind, Input, Reason};
    use crate::levels::testing::{added, levels, sub_level_place, version};

    /// Returns the space to merge a table of all keys, and three that end in three slices, a
    /// hundred bytes each.
    fn space(droppable: Option<f64>, workers: usize) -> Space {
        with_hidden(droppable, &[], workers)
    }

    fn with_hidden(droppable: Option<f64>, hidden_bytes: &[u64], workers: usize) -> Space {
        let (old, young) = (sub_level_place(1, 3), sub_level_place(1, 5));
        let version = version(vec![
            added(young, 9, "a", "z"),
            added(old, 1, "a", "c"),
            added(old, 2, "d", "m"),
            added(old, 3, "n", "z"),
        ]);
        let choice = Choice {
            reason: Reason::AskedFor,
            kind: ChoiceKind::Merge,
            inputs: levels(&version)
                .tables()
                .map(|(place, table)| Input::new(place, table))
                .collect(),
            output: old,
            predicted: droppable.map(|droppable| Duplicates {
                versions: 100.0,
                droppable,
            }),
        };
        let slice = |from: Option<&str>, to: Option<&str>| Slice {
            from: from.map(Into::into),
            to: to.map(Into::into),
            input_bytes: 133,
        };
        let slices = [
            slice(None, Some("d")),
            slice(Some("d"), Some("n")),
            slice(Some("n"), None),
        ];
        Space::of(&choice, &slices, hidden_bytes, workers)
    }

    #[test]
    fn a_merge_needs_what_it_writes_before_its_inputs_go() {
        let all = space(None, 1);
        assert_eq!(all.of_slice(0), (133, 100));
        // 133, 266 - 100, 399 - 200.
        assert_eq!(
            [0, 1, 2, 3].map(|at| all.needed_from(at)),
            [199, 166, 133, 0]
        );
        // Two at a time: 266, 399 - 100; 266; 133.
        let at_once = space(None, 2);
        assert_eq!(
            [0, 1, 2, 3].map(|at| at_once.needed_from(at)),
            [299, 266, 133, 0]
        );
        let half = space(Some(60.0), 1);
        assert_eq!(half.of_slice(0).0, 59, "two fifths and a margin");
        assert_eq!(half.needed_from(0), 59);
        assert_eq!(
            space(Some(1.0), 1).of_slice(1).0,
            133,
            "never more than there is"
        );
        let hidden = with_hidden(None, &[133, 33, 200], 1);
        assert_eq!([0, 1, 2].map(|at| hidden.of_slice(at).0), [0, 100, 0]);
        assert_eq!(
            hidden.needed_from(0),
            0,
            "the first gives back what the second needs"
        );
    }
}
