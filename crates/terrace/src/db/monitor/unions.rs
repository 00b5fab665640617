//! One union of sketches for each sub-level.
//!
//! New tables are read from their files. If some went, all are read again, for a sketch forgets
//! nothing. While a merge replaces tables that would be done once for each of its slices, so the
//! reading waits for the merge to end. Each table has a small sketch besides, a kibibyte, so that
//! some of a sub-level's tables can be counted without the rest. The number of small sketches is
//! limited, so that they take a few megabytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_lsm::compaction::estimates::Duplicates;
use terrace_lsm::compaction::parts::{Part, cells};
use terrace_lsm::compaction::run::Run;
use terrace_lsm::levels::{KeyspaceLevels, Place, SubLevel};
use terrace_lsm::table::{Sketch, SmallSketch, TableCache};
use terrace_storage::Purpose;

use crate::Result;

/// Maximum number of a keyspace's tables with small sketches. Where there are more, half a terabyte
/// of usual ones, nothing is known of a part.
const MOST_SMALL: usize = 8192;

/// The unions by the sub-levels' numbers.
#[derive(Clone, Default)]
pub(super) struct Unions {
    by_sub_level: BTreeMap<u64, Union>,
}

/// The union of the tables of a sub-level.
#[derive(Clone)]
struct Union {
    tables: Vec<u64>,
    keys: Arc<Sketch>,
    /// Small sketches by the tables' numbers; empty where there are too many tables.
    of_tables: Arc<BTreeMap<u64, SmallSketch>>,
}

impl Unions {
    /// Brings the sub-levels that are asked about up to date. The next call tries those again that
    /// cannot be read.
    pub(super) fn bring_up_to_date(
        &mut self,
        levels: &KeyspaceLevels,
        is_asked: impl Fn(u64) -> bool,
        is_busy: impl Fn(u64) -> bool,
        tables: &TableCache,
    ) {
        let mut before = std::mem::take(&mut self.by_sub_level);
        let asked = levels
            .sub_levels()
            .filter(|(place, _)| is_asked(place.sub_level));
        let keeps_small = asked.map(|(_, s)| s.tables.len()).sum::<usize>() <= MOST_SMALL;
        for (place, sub_level) in levels.sub_levels() {
            let number = place.sub_level;
            let known = before.remove(&number);
            if !is_asked(number) {
                continue;
            }
            if is_busy(number) {
                self.by_sub_level.extend(known.map(|union| (number, union)));
            } else if let Ok(union) = union_of(sub_level, known, keeps_small, tables) {
                self.by_sub_level.insert(number, union);
            }
        }
    }

    /// Returns the drops of a merge of each of these runs if there were no snapshots, by the runs'
    /// names. They cannot be known where a merge is under way, nor of a table that counts for a
    /// part of its keys only. Such a table is the rest of a merge that was cut short.
    pub(super) fn of_runs(
        &self,
        levels: &KeyspaceLevels,
        runs: &[Run],
    ) -> BTreeMap<Vec<u64>, Duplicates> {
        let mut begun: Option<(Place, usize, Sketch)> = None;
        let mut known = BTreeMap::new();
        for run in runs {
            if run.tables().any(|table| table.narrowed) {
                continue;
            }
            let Some(oldest) = run.oldest() else { continue };
            // The usual next run is the same with one sub-level more.
            let goes_on = |(of, count, _): &mut (Place, usize, Sketch)| {
                *of == oldest && *count + 1 == run.count()
            };
            let united = match begun.take_if(goes_on) {
                Some((_, _, mut keys)) => {
                    let added = run.sub_levels().first();
                    let added = added.and_then(|(_, sub_level)| self.current(sub_level));
                    added.map(|added| {
                        keys.unite(added);
                        keys
                    })
                }
                None => self.united(run),
            };
            let Some(keys) = united else { continue };
            let duplicates =
                Duplicates::new(run.versions(), keys.estimate(), tombstones(levels, run));
            known.insert(run.name(), duplicates);
            begun = Some((oldest, run.count(), keys));
        }
        known
    }

    /// Returns the parts of a run, with the drops of their merges if there were no snapshots.
    pub(super) fn parts(&self, levels: &KeyspaceLevels, run: &Run) -> Vec<Part> {
        let are_known = |(place, _): &(Place, _)| {
            let union = self.by_sub_level.get(&place.sub_level);
            union.is_some_and(|union| !union.of_tables.is_empty())
        };
        if !run.sub_levels().iter().all(are_known) || !self.are_of(run) {
            return Vec::new();
        }
        let cells = cells(run).into_iter();
        cells
            .map(|run| Part {
                duplicates: self.of_cell(levels, &run),
                run,
            })
            .collect()
    }

    /// Returns the duplicates of whole tables: where a merge was cut short nothing is known.
    fn of_cell(&self, levels: &KeyspaceLevels, cell: &Run) -> Option<Duplicates> {
        let versions = cell.versions();
        if cell.count() == 1 {
            return Some(Duplicates::new(versions, versions as f64, 0));
        }
        let mut keys = SmallSketch::default();
        for (place, sub_level) in cell.sub_levels() {
            let of_tables = &self.by_sub_level.get(&place.sub_level)?.of_tables;
            for table in &sub_level.tables {
                let of_table = of_tables.get(&table.number);
                keys.unite(of_table.filter(|_| !table.narrowed)?);
            }
        }
        Some(Duplicates::new(
            versions,
            keys.estimate(),
            tombstones(levels, cell),
        ))
    }

    /// Returns whether the sub-levels of a run have the tables that they had.
    pub(super) fn are_of(&self, run: &Run) -> bool {
        let mut sub_levels = run.sub_levels().iter();
        sub_levels.all(|(_, sub_level)| self.current(sub_level).is_some())
    }

    /// Returns the approximate number of distinct keys of a run, by its sub-levels as they were
    /// last seen. A merge leaves a key in its sub-level as long as any is left.
    pub(super) fn keys_about(&self, run: &Run) -> Option<f64> {
        let seen = run.sub_levels().iter();
        let mut seen = seen
            .filter_map(|(place, _)| self.by_sub_level.get(&place.sub_level))
            .map(|union| &union.keys)
            .peekable();
        seen.peek()?;
        let mut keys = Sketch::default();
        seen.for_each(|sketch| keys.unite(sketch));
        Some(keys.estimate())
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let of_union = |union: &Union| {
            let of_tables = union.of_tables.values();
            let small: u64 = of_tables.map(SmallSketch::memory_bytes).sum();
            union.keys.memory_bytes() + small
        };
        self.by_sub_level.values().map(of_union).sum()
    }

    fn united(&self, run: &Run) -> Option<Sketch> {
        let mut keys = Sketch::default();
        for (_, sub_level) in run.sub_levels() {
            keys.unite(self.current(sub_level)?);
        }
        Some(keys)
    }

    /// Returns the union of a sub-level, if it is of the tables that are listed.
    pub(super) fn current(&self, sub_level: &SubLevel) -> Option<&Sketch> {
        let union = self.by_sub_level.get(&sub_level.number)?;
        (union.tables == numbers(sub_level)).then_some(&*union.keys)
    }
}

/// Returns the number of tombstones that a merge of a run drops since nothing is older.
fn tombstones(levels: &KeyspaceLevels, run: &Run) -> u64 {
    if run.is_oldest_of(levels) {
        run.tables().map(|table| table.tombstones).sum()
    } else {
        0
    }
}

/// Returns the numbers of a sub-level's tables, ascending.
fn numbers(sub_level: &SubLevel) -> Vec<u64> {
    let mut numbers: Vec<u64> = sub_level.tables.iter().map(|table| table.number).collect();
    numbers.sort_unstable();
    numbers
}

/// # Errors
/// Those of reading.
fn union_of(
    sub_level: &SubLevel,
    before: Option<Union>,
    keeps_small: bool,
    tables: &TableCache,
) -> Result<Union> {
    let listed = numbers(sub_level);
    let is_listed = |number: &u64| listed.binary_search(number).is_ok();
    let mut begun = before.filter(|before| before.tables.iter().all(is_listed));
    if !keeps_small && let Some(begun) = &mut begun {
        begun.of_tables = Arc::default();
    }
    if let Some(begun) = begun.take_if(|begun| begun.tables == listed) {
        return Ok(begun);
    }
    let mut of_tables = begun.as_ref().map(|begun| begun.of_tables.clone());
    let (read, mut keys) = match begun {
        Some(Union { tables, keys, .. }) => (tables, Arc::unwrap_or_clone(keys)),
        None => (Vec::new(), Sketch::default()),
    };
    let small = Arc::make_mut(of_tables.get_or_insert_default());
    for table in &sub_level.tables {
        if read.binary_search(&table.number).is_ok() {
            continue;
        }
        let of_table = table.open(tables)?.key_sketch(Purpose::Compaction)?;
        if keeps_small {
            small.insert(table.number, (&of_table).into());
        }
        keys.unite(&of_table);
    }
    Ok(Union {
        tables: listed,
        keys: Arc::new(keys),
        of_tables: of_tables.unwrap_or_default(),
    })
}
