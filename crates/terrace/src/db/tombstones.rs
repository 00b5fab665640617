//! What the store tells the policies of tombstones (`compaction/policy/tombstones.rs`): the time, what
//! snapshots are in the way, and what deleted ranges hide.
//!
//! A range tombstone is one record, whatever it hides. So of each table that has some, the entries of older
//! tables under them are counted: all of a table that lies within a range, else the share of its index keys
//! that do. They change only with the levels, so they are kept as long as these do not.
//!
//! Nothing wakes a merge when time passes, or when a snapshot is dropped. A timer does, some times within the age
//! that the options give.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use terrace_storage::Purpose;

use crate::Result;
use crate::compaction::policy::tombstones::{Seen, Tombstones};
use crate::compaction::policy::{Input, described_by};
use crate::db::Store;
use crate::levels::{KeyRange, KeyspaceLevels, Table, Version};
use crate::options::Options;
use crate::range_tombstones::RangeTombstones;
use crate::sync::Mutex;
use crate::table::CursorOptions;

/// The longest time between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Looks within the age at which tombstones are old.
const LOOKS: u64 = 8;

/// Kept between two looks at the levels.
#[derive(Default)]
pub(crate) struct SeenTombstones {
    hidden: Mutex<Hidden>,
}

/// What ranges hide.
#[derive(Default)]
struct Hidden {
    /// In which it was counted; it is not kept for that.
    version: Weak<Version>,
    /// By the numbers of the ranges' tables.
    entries: Arc<BTreeMap<u64, u64>>,
}

impl Store {
    /// Of the present version. Files may be read.
    pub(crate) fn seen_tombstones(&self) -> Arc<Seen> {
        let version = Arc::clone(&self.view.load().version);
        Arc::new(Seen {
            now_seconds: self.clock.unix_seconds(),
            opened_seconds: self.opened_seconds,
            oldest_snapshot: self.oldest_snapshot(),
            hidden: self.hidden_by_ranges(&version),
        })
    }

    /// The policy of the options for a keyspace, and what holds for its tombstones.
    pub(crate) fn policy_of(
        &self,
        levels: &KeyspaceLevels,
        level0_is_paid_for: bool,
        seen: &Arc<Seen>,
    ) -> Tombstones {
        Tombstones {
            inner: described_by(&self.options, self.form_of(levels), level0_is_paid_for),
            percent: self.options.tombstone_percent,
            age_seconds: self.options.tombstone_age_seconds,
            seen: Arc::clone(seen),
        }
    }

    /// When the oldest tombstone of some inputs reached its first table, as far as anybody knows.
    pub(crate) fn oldest_tombstone<'a>(
        &self,
        inputs: impl Iterator<Item = &'a Input>,
    ) -> Option<u64> {
        let with = inputs.filter(|input| input.table.has_tombstones());
        with.map(|input| input.table.oldest_tombstone_seconds)
            .map(|seconds| seconds.unwrap_or(self.opened_seconds))
            .min()
    }

    fn oldest_snapshot(&self) -> u64 {
        let stripes = self.snapshots.stripes(|| self.visible());
        stripes.first().copied().unwrap_or(0)
    }

    fn hidden_by_ranges(&self, version: &Arc<Version>) -> Arc<BTreeMap<u64, u64>> {
        if self.options.tombstone_percent == 0 {
            return Arc::default();
        }
        let mut known = self.seen_tombstones.hidden.lock();
        if Weak::as_ptr(&known.version) == Arc::as_ptr(version) {
            return Arc::clone(&known.entries);
        }
        let mut hidden = BTreeMap::new();
        for levels in version.keyspaces.values() {
            let tables = levels.tables().map(|(_, table)| table);
            for table in tables.filter(|table| table.range_tombstones > 0) {
                // What cannot be read counts for nothing until the levels change.
                let entries = self.hidden_by(levels, table);
                let entries = entries.unwrap_or_else(|error| {
                    self.background.compaction_met(error);
                    0
                });
                hidden.insert(table.number, entries);
            }
        }
        *known = Hidden {
            version: Arc::downgrade(version),
            entries: Arc::new(hidden),
        };
        Arc::clone(&known.entries)
    }

    /// About the entries of older tables that the ranges of a table hide.
    fn hidden_by(&self, levels: &KeyspaceLevels, table: &Arc<Table>) -> Result<u64> {
        let open = table.open(&self.tables)?;
        let Some(ranges) = open.range_tombstones() else {
            return Ok(0);
        };
        let Some((place, _)) = levels.find(table.number) else {
            return Ok(0);
        };
        let older = levels.sub_levels().filter(|(p, _)| p.age < place.age);
        let mut hidden = 0u64;
        for older in older.flat_map(|(_, sub_level)| sub_level.overlapping(&table.bounds)) {
            hidden = hidden.saturating_add(self.entries_under(ranges, &table.bounds, older)?);
        }
        Ok(hidden)
    }

    fn entries_under(
        &self,
        ranges: &RangeTombstones,
        bounds: &KeyRange,
        older: &Arc<Table>,
    ) -> Result<u64> {
        let is_hidden =
            |key: &[u8]| bounds.contains(key) && ranges.newest_covering(key, u64::MAX).is_some();
        let (first, end) = (&older.bounds.smallest, older.bounds.end());
        let covering = ranges.newest_covering(first, u64::MAX);
        if bounds.encloses(&older.bounds)
            && covering.is_some_and(|range| end.as_slice() <= range.end)
        {
            return Ok(older.entries);
        }
        let mut segments = ranges.segments();
        let is_touched = segments.any(|(segment, start, stop)| {
            let meets = start < end.as_slice() && stop > first.as_slice();
            meets && ranges.newest_in(segment, u64::MAX).is_some()
        });
        if !is_touched {
            return Ok(0);
        }
        let options = CursorOptions::uncached(Purpose::Compaction);
        let keys = older.open(&self.tables)?.sampled_keys(options)?;
        let inside = keys.iter().filter(|key| is_hidden(key)).count() as u64;
        Ok(older.entries.saturating_mul(inside) / (keys.len() as u64).max(1))
    }

    /// Time has passed, and perhaps a snapshot.
    pub(crate) fn look_at_tombstones(&self) {
        self.background.compaction_wanted(self);
    }
}

/// How often somebody has to look; `None` if nothing would come of it.
pub(crate) fn pause_between_looks(options: &Options) -> Option<Duration> {
    let age_seconds = options.tombstone_age_seconds;
    match (options.tombstone_percent, age_seconds) {
        (0, 0) => None,
        (_, 0) => Some(LONGEST_PAUSE),
        _ => {
            let pause = Duration::from_secs((age_seconds / LOOKS).max(1));
            Some(pause.min(LONGEST_PAUSE))
        }
    }
}
