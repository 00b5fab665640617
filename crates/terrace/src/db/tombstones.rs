//! The policies' view of tombstones (`compaction/policy/tombstones.rs`): the time, the snapshots in
//! the way, and the entries that deleted ranges hide.
//!
//! A range tombstone is one record, whatever it hides. So for each table that has some, the store
//! counts the entries of older tables under them. These are all entries of a table that lies within
//! a range, else the share of its index keys that do. The counts change only with the levels, so
//! they are kept as long as these do not. The count of two tables is kept as long as both are
//! listed as they were. Beside the counts stand the tables that ranges hide whole.
//!
//! No event wakes a merge when time passes. A timer does, some times within the age that the
//! options give. It also does when a snapshot is dropped, at most once a second.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use terrace_lsm::compaction::policy::mixed_reads::MixedReads;
use terrace_lsm::compaction::policy::removal::hidden_from;
use terrace_lsm::compaction::policy::superseded::{self, Superseded};
use terrace_lsm::compaction::policy::tombstones::{Seen, Tombstones};
use terrace_lsm::compaction::policy::{Input, Policy, described_by};
use terrace_lsm::levels::{KeyRange, KeyspaceLevels, Table, Version};
use terrace_lsm::range_tombstones::RangeTombstones;
use terrace_lsm::sync::Mutex;
use terrace_lsm::table::CursorOptions;
use terrace_storage::Purpose;

use crate::db::Store;
use crate::db::arena_ranges::RangesInArenas;
use crate::db::owners::{Lifecycle, Reads};
use crate::options::Options;
use crate::{Result, SequenceNumber};

/// The longest time between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Number of looks within the age at which tombstones are old.
const LOOKS: u64 = 8;

/// The inputs of the triggers beside the policy's own.
pub(crate) struct SeenBeside {
    pub(crate) tombstones: Arc<Seen>,
    pub(crate) superseded: Arc<superseded::Seen>,
    /// The gains of dividing tables whose parts are worth different tiers.
    pub(crate) mixed_reads: Arc<BTreeMap<u64, f64>>,
}

/// The state kept between two looks at the levels.
#[derive(Default)]
pub(crate) struct SeenTombstones {
    hidden: Mutex<Hidden>,
}

/// The entries and tables that ranges hide.
#[derive(Default)]
struct Hidden {
    /// The version of the count, which does not keep it.
    version: Weak<Version>,
    ranges: HiddenByRanges,
    /// The terms of these sums, by the numbers of the ranges' table and of the older one.
    pairs: BTreeMap<(u64, u64), Pair>,
}

/// The part of one table that the ranges of another hide. A table whose bounds are narrowed is
/// another one here.
struct Pair {
    tables: [Weak<Table>; 2],
    entries: u64,
    /// The number of the youngest of the ranges, if they hide everything.
    hidden_from: Option<SequenceNumber>,
}

/// The view that the policies get.
#[derive(Clone, Default)]
struct HiddenByRanges {
    /// Hidden entries by the numbers of the ranges' tables.
    entries: Arc<BTreeMap<u64, u64>>,
    /// Numbers of ranges by the numbers of the older tables; see [`Seen::hidden_from`].
    from: Arc<BTreeMap<u64, SequenceNumber>>,
}

impl Pair {
    fn is_of(&self, tables: [&Arc<Table>; 2]) -> bool {
        let mut both = self.tables.iter().zip(tables);
        both.all(|(seen, table)| Weak::as_ptr(seen) == Arc::as_ptr(table))
    }
}

impl Store {
    /// Returns the inputs of the triggers beside the policy, for the present version. May read files.
    pub(crate) fn seen_beside(&self, arenas: RangesInArenas) -> SeenBeside {
        // The version before the snapshots: all its entries are at or below a number visible by
        // then, or stay.
        let tombstones = self.seen_tombstones(arenas);
        let superseded = Arc::new(self.seen_superseded());
        SeenBeside {
            tombstones,
            superseded,
            mixed_reads: self.files.heat.gains_of_divisions(),
        }
    }

    /// Returns the policies' view of tombstones in the present version. May read files.
    pub(crate) fn seen_tombstones(&self, arenas: RangesInArenas) -> Arc<Seen> {
        let version = Arc::clone(&self.reads.view.load().version);
        let ranges = self.hidden_by_ranges(&version);
        let mut hidden_from = ranges.from;
        let in_arenas = self.hidden_by_arenas(self.reads.oldest_snapshot(), arenas);
        if !in_arenas.is_empty() {
            let known = Arc::make_mut(&mut hidden_from);
            in_arenas.into_iter().for_each(|(table, from)| {
                let known = known.entry(table).or_insert(from);
                *known = from.min(*known);
            });
        }
        Arc::new(Seen {
            now_seconds: self.lifecycle.clock.unix_seconds(),
            opened_seconds: self.lifecycle.opened_seconds,
            oldest_snapshot: self.reads.oldest_snapshot(),
            hidden: ranges.entries,
            hidden_from,
            // Loads the view again: files may have been read meanwhile.
            paid_for: Arc::new(self.compactor.passed_over.paid_for(
                &self.reads.view.load().version,
                self.lifecycle.clock.unix_seconds(),
            )),
        })
    }

    /// Returns the policy of the options for a keyspace, and the triggers that hold under every policy.
    pub(crate) fn policy_of(
        &self,
        levels: &KeyspaceLevels,
        level0_is_paid_for: bool,
        seen: &SeenBeside,
    ) -> Box<dyn Policy> {
        let tombstones = Tombstones {
            inner: described_by(
                &self.options.policy_settings(),
                self.form_of(levels),
                level0_is_paid_for,
            ),
            percent: self.options.tombstone_percent,
            age_seconds: self.options.tombstone_age_seconds,
            seen: Arc::clone(&seen.tombstones),
        };
        let inner: Box<dyn Policy> = Box::new(tombstones);
        let superseded = Superseded {
            inner,
            seen: Arc::clone(&seen.superseded),
        };
        if seen.mixed_reads.is_empty() {
            return Box::new(superseded);
        }
        Box::new(MixedReads {
            inner: Box::new(superseded),
            gains: Arc::clone(&seen.mixed_reads),
        })
    }

    fn hidden_by_ranges(&self, version: &Arc<Version>) -> HiddenByRanges {
        let mut known = self.compactor.seen_tombstones.hidden.lock();
        if Weak::as_ptr(&known.version) == Arc::as_ptr(version) {
            return known.ranges.clone();
        }
        let before = std::mem::take(&mut known.pairs);
        let mut pairs = BTreeMap::new();
        let mut hidden = BTreeMap::new();
        let mut hidden_from = BTreeMap::<u64, SequenceNumber>::new();
        for levels in version.keyspaces.values() {
            let with_ranges = levels
                .tables()
                .filter(|(_, table)| table.range_tombstones > 0);
            for (place, table) in with_ranges {
                let older = levels.sub_levels().filter(|(p, _)| p.age < place.age);
                let older = older.flat_map(|(_, sub_level)| sub_level.overlapping(&table.bounds));
                let of_table = older.map(|older| self.hidden_of([table, older], &before));
                let mut entries = 0u64;
                for counted in of_table {
                    match counted {
                        Ok((name, pair)) => {
                            entries = entries.saturating_add(pair.entries);
                            if let Some(from) = pair.hidden_from {
                                let known = hidden_from.entry(name.1).or_insert(from);
                                *known = from.min(*known);
                            }
                            pairs.insert(name, pair);
                        }
                        // A table that cannot be read counts for nothing until the levels change.
                        Err(error) => self.lifecycle.background.compaction_met(error),
                    }
                }
                hidden.insert(table.number, entries);
            }
        }
        *known = Hidden {
            version: Arc::downgrade(version),
            ranges: HiddenByRanges {
                entries: Arc::new(hidden),
                from: Arc::new(hidden_from),
            },
            pairs,
        };
        known.ranges.clone()
    }

    /// Returns the approximate number of entries of the second table that the ranges of the first
    /// hide, from `before` or read now.
    fn hidden_of(
        &self,
        tables: [&Arc<Table>; 2],
        before: &BTreeMap<(u64, u64), Pair>,
    ) -> Result<((u64, u64), Pair)> {
        let [table, older] = tables;
        let name = (table.number, older.number);
        let seen = before.get(&name).filter(|pair| pair.is_of(tables));
        let (entries, hidden_from) = match seen {
            Some(pair) => (pair.entries, pair.hidden_from),
            None => match table.open(&self.files.tables)?.range_tombstones() {
                Some(ranges) => match hidden_from(ranges, &table.bounds, older) {
                    Some(from) => (older.entries, Some(from)),
                    None => (self.entries_under(ranges, &table.bounds, older)?, None),
                },
                None => (0, None),
            },
        };
        let pair = Pair {
            tables: tables.map(Arc::downgrade),
            entries,
            hidden_from,
        };
        Ok((name, pair))
    }

    fn entries_under(
        &self,
        ranges: &RangeTombstones,
        bounds: &KeyRange,
        older: &Arc<Table>,
    ) -> Result<u64> {
        if self.options.tombstone_percent == 0 {
            return Ok(0);
        }
        let is_hidden =
            |key: &[u8]| bounds.contains(key) && ranges.newest_covering(key, u64::MAX).is_some();
        let (first, end) = (&older.bounds.smallest, older.bounds.end());
        let mut segments = ranges.segments();
        let is_touched = segments.any(|(segment, start, stop)| {
            let meets = start < end.as_slice() && stop > first.as_slice();
            meets && ranges.newest_in(segment, u64::MAX).is_some()
        });
        if !is_touched {
            return Ok(0);
        }
        let options = CursorOptions::uncached(Purpose::Compaction);
        let keys = older.open(&self.files.tables)?.sampled_keys(options)?;
        let inside = keys.iter().filter(|key| is_hidden(key)).count() as u64;
        Ok(older.entries.saturating_mul(inside) / (keys.len() as u64).max(1))
    }

    /// Wakes the merges after some time or the end of a snapshot, unless no table can have become
    /// due by that.
    pub(crate) fn look_at_tables(&self) {
        let version = Arc::clone(&self.reads.view.load().version);
        let mut tables = version.tables().map(|(_, table)| table);
        if tables.any(|table| table.has_tombstones() || table.superseded.is_some()) {
            self.lifecycle.background.compaction_wanted(self);
        }
        if self.files.lacks_reserve() {
            self.lifecycle.background.deletion_wanted(self);
        }
        self.lifecycle.background.migration_wanted(self);
    }
}

impl Reads {
    pub(crate) fn oldest_snapshot(&self) -> u64 {
        let stripes = self.snapshots.stripes(|| self.visible());
        stripes.first().copied().unwrap_or(0)
    }
}

impl Lifecycle {
    /// Returns the time at which the oldest tombstone of some inputs reached its first table, as
    /// far as it is known.
    pub(crate) fn oldest_tombstone<'a>(
        &self,
        inputs: impl Iterator<Item = &'a Input>,
    ) -> Option<u64> {
        let with = inputs.filter(|input| input.table.has_tombstones());
        with.map(|input| input.table.oldest_tombstone_seconds)
            .map(|seconds| seconds.unwrap_or(self.opened_seconds))
            .min()
    }
}

/// Returns the time between two looks at the tables.
pub(crate) fn pause_between_looks(options: &Options) -> Duration {
    let age_seconds = options.tombstone_age_seconds;
    match age_seconds {
        0 => LONGEST_PAUSE,
        _ => Duration::from_secs((age_seconds / LOOKS).max(1)).min(LONGEST_PAUSE),
    }
}

#[cfg(test)]
mod tests {
    use terrace_lsm::levels::testing::{added, flush_place, levels, version};

    use super::*;
    use crate::{Background, Db};

    #[test]
    fn a_table_listed_anew_is_another_one() {
        let both = [(flush_place(2), 2), (flush_place(1), 1)];
        let listed = || version(both.map(|(place, n)| added(place, n, "a", "b")).to_vec());
        let (before, again) = (listed(), listed());
        let tables = |version| -> [Arc<Table>; 2] {
            [2, 1].map(|number| Arc::clone(levels(version).find(number).unwrap().1))
        };
        let [ranges, older] = tables(&before);
        let pair = Pair {
            tables: [&ranges, &older].map(Arc::downgrade),
            entries: 7,
            hidden_from: None,
        };
        assert!(pair.is_of([&ranges, &older]));
        let [other_ranges, other_older] = tables(&again);
        assert!(!pair.is_of([&other_ranges, &older]));
        assert!(!pair.is_of([&ranges, &other_older]));
    }

    fn hidden(db: &Db) -> Vec<u64> {
        let seen = db.store().seen_tombstones(RangesInArenas::AsTheyAre);
        seen.hidden.values().copied().collect()
    }

    #[test]
    fn what_was_counted_of_two_tables_is_kept_while_both_are_listed() {
        let options = Options {
            level0_merge: 10,
            background: Background::Inline,
            // A flush takes no table along.
            arena_bytes: 1 << 20,
            ..Options::in_memory()
        };
        let db = Db::open("/store", options).unwrap();
        for key in 0..100u8 {
            db.put([key], [key; 1000]).unwrap();
        }
        db.flush().unwrap();
        db.delete_range([50], [60]).unwrap();
        db.flush().unwrap();
        let [counted] = hidden(&db)[..] else {
            panic!("{:?}", hidden(&db));
        };
        assert!((5..=20).contains(&counted), "{counted}");
        // A count that no table gives.
        let mut known = db.store().compactor.seen_tombstones.hidden.lock();
        known.pairs.values_mut().for_each(|pair| pair.entries = 77);
        drop(known);
        db.put(b"x", b"beside them").unwrap();
        db.flush().unwrap();
        assert_eq!(hidden(&db), [77]);
        db.keyspace("default").unwrap().compact_range(..).unwrap();
        assert_eq!(hidden(&db), [0u64; 0]);
        assert!(
            db.store()
                .compactor
                .seen_tombstones
                .hidden
                .lock()
                .pairs
                .is_empty()
        );
    }
}
