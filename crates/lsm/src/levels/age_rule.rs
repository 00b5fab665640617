//! The rule that reads rely on, checked key by key. Every version of a key in a younger sub-level
//! is newer than every version of it in an older one. A range tombstone counts as a version of
//! every key in it.

use std::fmt;
use std::sync::Arc;

use super::sub_level_cursor::SubLevelCursor;
use super::table_meta::Table;
use super::version::{Place, Version};
use crate::Result;
use crate::cursor::Cursor;
use crate::cursor::MergingCursor;
use crate::key::{KeyspaceId, MAX_SEQUENCE, SequenceNumber};
use crate::range_tombstones::{RangeTombstone, RangeTombstones};

/// A key whose versions stand in the wrong order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgeViolation {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) user_key: Vec<u8>,
    /// The newer version, and the older sub-level that holds it.
    pub(crate) newer: (SequenceNumber, Place),
    /// A version no newer, and the younger (or the same) sub-level that holds it.
    pub(crate) older: (SequenceNumber, Place),
}

impl fmt::Display for AgeViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "key {} of keyspace {}: version {} at {} is hidden by version {} at {}",
            self.user_key.escape_ascii(),
            self.keyspace,
            self.newer.0,
            self.newer.1,
            self.older.0,
            self.older.1
        )
    }
}

impl Version {
    /// Returns the table that holds the version which hides a newer one.
    pub fn table_with(&self, violation: &AgeViolation) -> Option<&Arc<Table>> {
        let mut sub_levels = self.keyspace(violation.keyspace)?.sub_levels();
        let (_, sub_level) = sub_levels.find(|(place, _)| *place == violation.older.1)?;
        sub_level
            .tables
            .get(sub_level.position(&violation.user_key))
    }
}

/// Walks every version of every keyspace; `open` opens a cursor over a table's file, `ranges` gives
/// its range tombstones.
///
/// # Errors
/// Those of reading the tables. `Some` is the first violation.
pub fn check_age_rule<C: Cursor>(
    version: &Version,
    mut open: impl FnMut(&Arc<Table>) -> Result<C>,
    mut ranges: impl FnMut(&Arc<Table>) -> Result<Option<Arc<RangeTombstones>>>,
) -> Result<Option<AgeViolation>> {
    for levels in version.keyspaces.values() {
        let (places, cursors): (Vec<Place>, Vec<_>) = levels
            .sub_levels()
            .map(|(place, sub_level)| (place, sub_level.tables.clone()))
            .unzip();
        let deleted = deleted_ranges(&cursors, &mut ranges)?;
        let open = std::cell::RefCell::new(&mut open);
        let cursors = cursors
            .into_iter()
            .map(|tables| SubLevelCursor::over_tables(tables, |t| (open.borrow_mut())(t)))
            .collect();
        let layers = Layers {
            keyspace: levels.id,
            places,
            deleted,
        };
        if let Some(violation) = layers.check_ranges() {
            return Ok(Some(violation));
        }
        if let Some(violation) = layers.check_versions(MergingCursor::new(cursors))? {
            return Ok(Some(violation));
        }
    }
    Ok(None)
}

/// Returns the range tombstones of each sub-level, each only where its table counts.
fn deleted_ranges(
    sub_levels: &[Vec<Arc<Table>>],
    ranges: &mut impl FnMut(&Arc<Table>) -> Result<Option<Arc<RangeTombstones>>>,
) -> Result<Vec<RangeTombstones>> {
    let of_sub_level = |tables: &Vec<Arc<Table>>| {
        let mut list = Vec::new();
        for table in tables.iter().filter(|table| table.range_tombstones > 0) {
            let bounds = &table.bounds;
            let set = ranges(table)?;
            let found = set.iter().flat_map(|set| set.iter());
            list.extend(found.filter_map(|found| {
                let (from, to) = (bounds.smallest.as_slice(), bounds.end());
                RangeTombstone::from(found).clipped(Some(from), Some(&to))
            }));
        }
        Ok(RangeTombstones::new(list))
    };
    sub_levels.iter().map(of_sub_level).collect()
}

/// The sub-levels of a keyspace, the youngest first.
struct Layers {
    keyspace: KeyspaceId,
    places: Vec<Place>,
    deleted: Vec<RangeTombstones>,
}

impl Layers {
    /// Checks versions as the merge gives them: those of a key from the newest on. So their
    /// sub-levels, of which the youngest is the first source, must never go back to an earlier
    /// source.
    fn check_versions<C: Cursor>(
        &self,
        mut merged: MergingCursor<C>,
    ) -> Result<Option<AgeViolation>> {
        let mut previous: Option<(Vec<u8>, SequenceNumber, usize)> = None;
        merged.seek_to_first()?;
        while let Some(source) = merged.source() {
            let key = merged.key();
            if let Some(violation) = self.check_deleted(key.user_key, key.sequence(), source) {
                return Ok(Some(violation));
            }
            let same_key = previous
                .as_mut()
                .filter(|(user_key, ..)| user_key == key.user_key);
            match same_key {
                Some((user_key, sequence, earlier)) => {
                    if source < *earlier || (source != *earlier && key.sequence() == *sequence) {
                        let newer = (*sequence, *earlier);
                        return Ok(self.violation(user_key, newer, (key.sequence(), source)));
                    }
                    (*sequence, *earlier) = (key.sequence(), source);
                }
                None => previous = Some((key.user_key.to_vec(), key.sequence(), source)),
            }
            merged.next()?;
        }
        Ok(None)
    }

    /// Ranges against ranges, at every start: nothing else begins to overlap anywhere else.
    fn check_ranges(&self) -> Option<AgeViolation> {
        self.deleted.iter().enumerate().find_map(|(at, set)| {
            let mut segments = self.deleted.iter().flat_map(|set| set.segments());
            segments.find_map(|(_, start, _)| {
                let newest = set.newest_covering(start, MAX_SEQUENCE)?;
                self.check_deleted(start, newest.sequence, at)
            })
        })
    }

    /// Checks a version against the ranges of the other sub-levels: those in younger ones must be
    /// newer, those in older ones older.
    fn check_deleted(
        &self,
        key: &[u8],
        sequence: SequenceNumber,
        source: usize,
    ) -> Option<AgeViolation> {
        let others = self.deleted.iter().enumerate();
        others
            .filter(|(other, set)| *other != source && !set.is_empty())
            .find_map(|(other, set)| {
                let is_younger = other < source;
                let most = if is_younger { sequence } else { MAX_SEQUENCE };
                let found = set.newest_covering(key, most)?.sequence;
                if is_younger {
                    self.violation(key, (sequence, source), (found, other))
                } else if found >= sequence {
                    self.violation(key, (found, other), (sequence, source))
                } else {
                    None
                }
            })
    }

    fn violation(
        &self,
        user_key: &[u8],
        newer: (SequenceNumber, usize),
        older: (SequenceNumber, usize),
    ) -> Option<AgeViolation> {
        Some(AgeViolation {
            keyspace: self.keyspace,
            user_key: user_key.to_vec(),
            newer: (newer.0, *self.places.get(newer.1)?),
            older: (older.0, *self.places.get(older.1)?),
        })
    }
}
