//! Parts of a run: ranges of keys of which it may be merged without the rest.
//!
//! Updates that come in clusters leave their stale versions in a few ranges of keys. A merge of these alone
//! frees nearly as much as one of the whole run and writes a fraction.
//!
//! A part is made of whole tables: it ends only where no table of the run goes on. So a merge of a
//! part is a merge like any other, of fewer tables: the rule of ages, claims, slices and edits need
//! not know of it. Every input's file goes, and the merge frees the space that was counted. And the
//! sketches of its tables tell how much it would drop, which no sketch can for half a table. The
//! other way is to cut tables at the ends of a range and to list them with narrower bounds. It
//! frees nothing of those that are cut, and leaves tables behind of which nothing is known.
//!
//! Where tables begin and end anywhere, hardly any part is less than the whole. Therefore merges
//! end their outputs where other sub-levels' tables end (`table_ends.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compaction::estimates::Duplicates;
use crate::compaction::run::Run;
use crate::levels::{Place, SubLevel, Table};

/// Cells of a run that are looked at: how finely a range can be chosen.
const MOST_CELLS: u64 = 64;

/// Tables of a run that no other of its tables overlaps, and the effect of merging them.
#[derive(Clone, Debug)]
pub struct Part {
    pub run: Run,
    /// `None` if it is not known.
    pub duplicates: Option<Duplicates>,
}

/// Returns the smallest parts of a run, in the order of their keys; neighbours together, where they
/// are many.
pub fn cells(run: &Run) -> Vec<Run> {
    let mut tables: Vec<(Place, &Arc<Table>)> = run.tables_with_places().collect();
    tables.sort_by(|(_, a), (_, b)| a.bounds.smallest.cmp(&b.bounds.smallest));
    let least_bytes = run.size_bytes() / MOST_CELLS;
    let mut cells: Vec<Vec<(Place, &Arc<Table>)>> = Vec::new();
    let (mut open, mut open_bytes) = (Vec::new(), 0);
    let mut end: Vec<u8> = Vec::new();
    for (place, table) in tables {
        let nothing_goes_on = end <= table.bounds.smallest;
        if nothing_goes_on && open_bytes > least_bytes {
            cells.push(std::mem::take(&mut open));
            open_bytes = 0;
        }
        end = end.max(table.bounds.end());
        open_bytes += table.size_bytes;
        open.push((place, table));
    }
    cells.push(open);
    cells.into_iter().filter_map(run_of).collect()
}

/// Returns the part that is best by a measure, which `None` excludes, of those that take at most
/// half of the run's bytes: a larger one is not worth the rest that it leaves.
pub(crate) fn best_part(
    parts: &[Part],
    measure: impl Fn(u64, Duplicates) -> Option<f64>,
) -> Option<(Run, Duplicates)> {
    let size_bytes = |part: &Part| part.run.size_bytes();
    let most_bytes = parts.iter().map(size_bytes).sum::<u64>() / 2;
    let mut best: Option<(f64, usize, usize, Duplicates)> = None;
    for from in 0..parts.len() {
        let (mut bytes, mut together) = (0, Duplicates::default());
        for (at, part) in parts.iter().enumerate().skip(from) {
            bytes += size_bytes(part);
            let Some(duplicates) = part.duplicates.filter(|_| bytes <= most_bytes) else {
                break;
            };
            together = together.and(duplicates);
            if let Some(measured) = measure(bytes, together)
                && best.is_none_or(|(least, ..)| measured > least)
            {
                best = Some((measured, from, at, together));
            }
        }
    }
    let (_, from, to, duplicates) = best?;
    let chosen = parts.get(from..=to)?.iter();
    let run = run_of(chosen.flat_map(|part| part.run.tables_with_places()))?;
    // Of a single sub-level a merge drops nothing that it should not.
    (run.count() > 1).then_some((run, duplicates))
}

/// Makes a run of some tables of neighbouring sub-levels.
fn run_of<'a>(tables: impl IntoIterator<Item = (Place, &'a Arc<Table>)>) -> Option<Run> {
    let mut by_age = BTreeMap::<u64, (Place, Vec<Arc<Table>>)>::new();
    for (place, table) in tables {
        let (_, listed) = by_age.entry(place.age).or_insert((place, Vec::new()));
        listed.push(Arc::clone(table));
    }
    let youngest_first = by_age.into_values().rev();
    let sub_levels = youngest_first.map(|(place, tables)| {
        let part = SubLevel::new(place.sub_level, place.age, tables);
        (place, Arc::new(part))
    });
    Run::new(sub_levels.collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::levels::testing::{added, levels, sub_level_place, version};
    use crate::levels::{KeyRange, TableAdded};

    fn run(tables: Vec<TableAdded>) -> Run {
        Run::of_level(levels(&version(tables)), 1).unwrap()
    }

    fn numbers(run: &Run) -> Vec<u64> {
        run.tables().map(|table| table.number).collect()
    }

    fn parts(sizes: &[(u64, f64)]) -> Vec<Part> {
        let (old, young) = (sub_level_place(1, 3), sub_level_place(1, 5));
        let listed = (0u8..).zip(sizes).flat_map(|(at, &(bytes, _))| {
            let key = String::from(char::from(b'a' + at));
            [(old, 1), (young, 2)].map(|(place, nth)| {
                let mut added = added(place, 10 * u64::from(at) + nth, &key, &key);
                added.table.size_bytes = bytes / 2;
                added
            })
        });
        let cells = cells(&run(listed.collect()));
        assert_eq!(cells.len(), sizes.len());
        let known = |(run, &(bytes, droppable)): (Run, &(u64, f64))| Part {
            run,
            duplicates: (droppable >= 0.0).then_some(Duplicates {
                versions: bytes as f64,
                droppable,
            }),
        };
        cells.into_iter().zip(sizes).map(known).collect()
    }

    /// Finds the part that drops most for each byte written; larger parts count more.
    fn best(sizes: &[(u64, f64)]) -> Option<Vec<u64>> {
        let measure = |bytes, duplicates: Duplicates| {
            let freed = bytes as f64 * duplicates.droppable_share();
            Some(bytes as f64 * freed / (bytes as f64 - freed))
        };
        best_part(&parts(sizes), measure).map(|(run, _)| numbers(&run))
    }

    #[test]
    fn a_part_ends_where_no_table_goes_on() {
        let (old, young) = (sub_level_place(1, 3), sub_level_place(1, 5));
        let run = run(vec![
            added(old, 1, "a", "c"),
            added(old, 2, "d", "f"),
            added(old, 3, "g", "t"),
            added(young, 4, "b", "c"),
            added(young, 5, "e", "g"),
            // Short ones within a long one.
            added(young, 6, "h", "i"),
            added(young, 7, "j", "k"),
            added(young, 8, "x", "z"),
        ]);
        let cells: Vec<_> = cells(&run).iter().map(numbers).collect();
        assert_eq!(cells, [vec![4, 1], vec![5, 6, 7, 2, 3], vec![8]]);
    }

    #[test]
    fn neighbours_count_together_and_half_is_the_most() {
        assert_eq!(
            best(&[(100, 1.0), (100, 60.0), (100, 60.0), (100, 0.0), (100, 0.0)]),
            Some(vec![12, 22, 11, 21])
        );
        assert_eq!(best(&[(100, 60.0), (90, -1.0)]), None, "more than half");
        assert_eq!(
            best(&[(100, 50.0), (100, -1.0), (100, 60.0), (100, 0.0)]),
            Some(vec![22, 21]),
            "of one nothing is known"
        );
    }

    proptest! {
        /// The tables of a cell are all that overlap its keys.
        #[test]
        fn nothing_of_the_run_overlaps_a_cell_from_outside(
            spans in prop::collection::vec((0u8..3, 0u8..100, 0u8..9), 1..40),
        ) {
            let mut listed: Vec<TableAdded> = Vec::new();
            for (number, (sub_level, from, length)) in (1u64..).zip(spans) {
                let place = sub_level_place(1, 3 + u64::from(sub_level));
                let mut table = added(place, number, "", "");
                table.table.bounds = KeyRange::inclusive([from], [from.saturating_add(length)]);
                let fits = listed.iter().all(|other| {
                    other.place != place || !other.table.bounds.overlaps(&table.table.bounds)
                });
                listed.extend(fits.then_some(table));
            }
            let run = run(listed);
            let cells = cells(&run);
            let hulls = cells.iter().map(|cell| {
                KeyRange::hull(cell.tables().map(|table| &table.bounds)).unwrap()
            });
            let hulls: Vec<KeyRange> = hulls.collect();
            for pair in hulls.windows(2) {
                prop_assert!(pair[0].ends_before(&pair[1].smallest));
            }
            let all: usize = cells.iter().map(|cell| cell.tables().count()).sum();
            prop_assert_eq!(all, run.tables().count());
        }
    }
}
