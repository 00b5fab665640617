//! The tables that a flush takes along.
//!
//! A store that is opened for one write and closed again leaves a tiny table each time, and no merge
//! gets to run. So a flush merges the youngest tiny tables of level 0 with its own writes.

use crate::compaction::claim::Claim;
use crate::compaction::policy::{Choice, ChoiceKind, Input, Reason};
use crate::levels::KeyspaceLevels;

/// Maximum bytes of tables that a flush takes along.
const MOST_BYTES: u64 = 1 << 20;
/// The same bound as a part of a full arena: the writes of a load grow by no more than this part.
const PART_OF_ARENA: u64 = 64;
/// A smaller bound takes none: a store with such small arenas has tiny tables all the time.
const LEAST_BYTES: u64 = 32 << 10;

/// Returns the bytes of tables that the flush of `flushed_bytes` takes along at most. Half as many
/// as it writes may always go along: else the small arenas of a young store would leave sub-levels
/// that make merges of level 0 begin early, which costs far more.
pub fn most_bytes_taken_along(arena_bytes: u64, flushed_bytes: u64) -> u64 {
    let bytes = MOST_BYTES.min(arena_bytes / PART_OF_ARENA);
    if bytes < LEAST_BYTES {
        return 0;
    }
    bytes.max(flushed_bytes / 2)
}

/// Returns the youngest sub-levels of level 0 that have at most `most_bytes` together, as inputs of a
/// merge with a younger one that takes the place of the oldest of them. A table of a claimed age does
/// not take part, even if its keys are others, so that the merge skips nothing that is under way.
/// `None` if there is none.
pub fn taken_along(levels: &KeyspaceLevels, claims: &[Claim], most_bytes: u64) -> Option<Choice> {
    let claimed_age = claims.iter().map(Claim::youngest_age).max();
    let (mut inputs, mut bytes, mut sub_levels, mut output) = (Vec::new(), 0_u64, 0, None);
    for (place, sub_level) in levels.sub_levels() {
        bytes = bytes.saturating_add(sub_level.size_bytes());
        let is_claimed = claimed_age.is_some_and(|age| place.age <= age);
        if place.level > 0 || is_claimed || bytes > most_bytes {
            break;
        }
        let tables = sub_level.tables.iter().cloned();
        inputs.extend(tables.map(|table| Input { place, table }));
        sub_levels += 1;
        output = Some(place);
    }
    Some(Choice {
        reason: Reason::Level0SubLevels(sub_levels),
        kind: ChoiceKind::Merge,
        inputs,
        output: output?,
        predicted: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::legality::check_legal;
    use crate::levels::testing::{added, flush_place, levels, version};
    use crate::levels::{KeyRange, Place, TableAdded};

    fn sized(place: Place, number: u64, keys: (&str, &str), size_bytes: u64) -> TableAdded {
        let mut added = added(place, number, keys.0, keys.1);
        added.table.size_bytes = size_bytes;
        added
    }

    /// Returns the numbers of the tables taken along, youngest first, and the age of the output.
    fn taken(tables: Vec<TableAdded>, claims: &[Claim]) -> Option<(Vec<u64>, u64)> {
        let version = version(tables);
        let choice = taken_along(levels(&version), claims, 1000)?;
        check_legal(levels(&version), &choice).unwrap();
        let numbers = choice.inputs.iter().map(|input| input.table.number);
        Some((numbers.collect(), choice.output.age))
    }

    fn four() -> Vec<TableAdded> {
        vec![
            sized(Place::base(1), 1, ("a", "z"), 10),
            sized(flush_place(2), 2, ("a", "m"), 800),
            sized(flush_place(3), 3, ("a", "m"), 100),
            sized(flush_place(4), 4, ("c", "z"), 200),
            sized(flush_place(5), 5, ("x", "y"), 300),
        ]
    }

    #[test]
    fn the_youngest_of_level_0_go_along_up_to_the_bound() {
        let age = |name| flush_place(name).age;
        assert_eq!(taken(four(), &[]), Some((vec![5, 4, 3], age(3))));
        let mut large = four();
        large.push(sized(flush_place(6), 6, ("b", "b"), 1001));
        assert_eq!(taken(large, &[]), None, "none is skipped");
        let mut exactly = four();
        exactly[1].table.size_bytes = 400;
        assert_eq!(taken(exactly, &[]), Some((vec![5, 4, 3, 2], age(2))));
        assert_eq!(
            taken(four()[..1].to_vec(), &[]),
            None,
            "nor of a deeper level"
        );
    }

    #[test]
    fn no_age_that_is_claimed_is_touched() {
        let age = |name| flush_place(name).age;
        // Of other keys: its outputs may yet be listed at any age below.
        let range = KeyRange::inclusive("q", "q");
        let claim = |youngest| Claim::new(range.clone(), age(youngest), Place::base(1), [], []);
        assert_eq!(taken(four(), &[claim(3)]), Some((vec![5, 4], age(4))));
        assert_eq!(
            taken(four(), &[claim(2), claim(4)]),
            Some((vec![5], age(5)))
        );
        assert_eq!(taken(four(), &[claim(5)]), None);
    }

    #[test]
    fn what_goes_along_is_a_64th_of_a_full_arena_or_half_of_what_is_flushed() {
        let most = |arena_mib: u64, flushed| most_bytes_taken_along(arena_mib << 20, flushed);
        assert_eq!(most(64, 1000), 1 << 20);
        assert_eq!(most(1024, 1000), 1 << 20);
        assert_eq!(most(2, 1000), 32 << 10);
        assert_eq!(most(1, 1 << 20), 0, "of small arenas nothing");
    }

    #[test]
    fn the_arenas_of_a_young_store_leave_one_table() {
        const FULL_BYTES: u64 = 64 << 20;
        let mut table_bytes = 0;
        for bytes in [256 << 10, 1 << 20, 4 << 20, 16 << 20, FULL_BYTES] {
            assert!(table_bytes <= most_bytes_taken_along(FULL_BYTES, bytes));
            table_bytes += bytes;
        }
        assert!(most_bytes_taken_along(FULL_BYTES, FULL_BYTES) < FULL_BYTES);
    }
}
