//! The rule that reads rely on, checked key by key: every version of a key in a younger sub-level
//! is newer than every version of it in an older one.

use std::fmt;
use std::sync::Arc;

use super::sub_level_cursor::SubLevelCursor;
use super::table_meta::Table;
use super::version::{Place, Version};
use crate::Result;
use crate::compaction::MergingCursor;
use crate::cursor::Cursor;
use crate::key::{KeyspaceId, SequenceNumber};

/// A key whose versions stand in the wrong order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgeViolation {
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

/// Walks every version of every keyspace; `open` opens a cursor over a table's file.
///
/// # Errors
/// Those of reading the tables. `Some` is the first violation.
pub(crate) fn check_age_rule<C: Cursor>(
    version: &Version,
    mut open: impl FnMut(&Arc<Table>) -> Result<C>,
) -> Result<Option<AgeViolation>> {
    for levels in version.keyspaces.values() {
        let (places, cursors): (Vec<Place>, Vec<_>) = levels
            .sub_levels()
            .map(|(place, sub_level)| (place, sub_level.tables.clone()))
            .unzip();
        let open = std::cell::RefCell::new(&mut open);
        let cursors = cursors
            .into_iter()
            .map(|tables| SubLevelCursor::over_tables(tables, |t| (open.borrow_mut())(t)))
            .collect();
        if let Some(violation) = check_keyspace(levels.id, &places, MergingCursor::new(cursors))? {
            return Ok(Some(violation));
        }
    }
    Ok(None)
}

/// The merge gives a key's versions from the newest on, so their sub-levels, of which the youngest
/// is the first source, must never go back to an earlier source.
fn check_keyspace<C: Cursor>(
    keyspace: KeyspaceId,
    places: &[Place],
    mut merged: MergingCursor<C>,
) -> Result<Option<AgeViolation>> {
    let mut previous: Option<(Vec<u8>, SequenceNumber, usize)> = None;
    merged.seek_to_first()?;
    while let Some(source) = merged.source() {
        let key = merged.key();
        let same_key = previous
            .as_mut()
            .filter(|(user_key, ..)| user_key == key.user_key);
        match same_key {
            Some((user_key, sequence, earlier)) => {
                if source < *earlier || (source != *earlier && key.sequence() == *sequence) {
                    let (Some(&newer), Some(&older)) = (places.get(*earlier), places.get(source))
                    else {
                        return Ok(None);
                    };
                    return Ok(Some(AgeViolation {
                        keyspace,
                        user_key: user_key.clone(),
                        newer: (*sequence, newer),
                        older: (key.sequence(), older),
                    }));
                }
                (*sequence, *earlier) = (key.sequence(), source);
            }
            None => previous = Some((key.user_key.to_vec(), key.sequence(), source)),
        }
        merged.next()?;
    }
    Ok(None)
}
