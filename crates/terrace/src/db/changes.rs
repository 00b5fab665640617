//! The changes to a footprint since a number, as a writer looks for them outside the commit queue.
//!
//! Writes after the number are in MemTables, or in tables that hold higher numbers. The caller holds a
//! snapshot at the number, so merges keep it apart from later versions: of the later versions of a key they
//! drop those that a still later one hides, and no tombstone.
//!
//! A commit after a walk over much of a store may read as much: each newer table, where it overlaps a range
//! that was read.

use std::sync::Arc;

use terrace_lsm::cursor::Cursor;
use terrace_lsm::key::{InternalKey, MAX_SEQUENCE};
use terrace_lsm::levels::{KeyRange, KeyspaceLevels, Table};
use terrace_lsm::range_tombstones::{Covering, RangeTombstones};
use terrace_lsm::read_point::ReadPoint;
use terrace_lsm::table::{CursorOptions, key_hash};

use crate::db::Store;
use crate::db::arena_changes::changed_in_arenas;
use crate::db::conflict::Condition;
use crate::db::footprint::{Footprint, Span};
use crate::db::owners::Files;
use crate::db::read::{get_in_table, newest_range};
use crate::db::view::View;
use crate::db::write::WriteOptions;
use crate::write_buffer::batch::WriteBatch;
use crate::{Error, KeyspaceId, Result, SequenceNumber};

/// A key that was changed.
pub(crate) type Found = Option<(KeyspaceId, Vec<u8>)>;

/// Number of times that a writer looks for changes outside the queue, because others write faster than the
/// leader may look.
const MAX_VALIDATIONS: u32 = 3;
/// Blocks that are read for a look are not worth keeping.
const LOOK: CursorOptions = CursorOptions::of_reader(false, false);
/// Number of records that a writer leaves to the leader without a look of its own.
const MAX_LEFT_TO_LEADER: u64 = 64;

impl Store {
    /// Writes a batch unless a part of a footprint was written after `since`. The caller holds a snapshot at
    /// that number, or at a lower one.
    pub(crate) fn write_if_unchanged(
        &self,
        batch: WriteBatch,
        options: WriteOptions,
        footprint: Footprint,
        since: SequenceNumber,
    ) -> Result<()> {
        let written = self.write_validated(batch, options, footprint, since);
        match &written {
            Ok(()) => self.metrics.transactions.committed(),
            Err(Error::Conflict { .. }) => self.metrics.transactions.refused(),
            Err(_) => {}
        }
        written
    }

    fn write_validated(
        &self,
        batch: WriteBatch,
        options: WriteOptions,
        footprint: Footprint,
        since: SequenceNumber,
    ) -> Result<()> {
        if footprint.is_empty() {
            return self.write(batch, options);
        }
        let mut condition = Arc::new(Condition::new(footprint, since));
        let mut validations = 0;
        if self.reads.visible().saturating_sub(since) > MAX_LEFT_TO_LEADER {
            self.validate(&mut condition, since)?;
            validations += 1;
        }
        loop {
            let written = self.write_if(batch.clone(), options, Some(Arc::clone(&condition)));
            let is_refused = matches!(written, Err(Error::Conflict { .. }));
            if !is_refused || !condition.is_outpaced() || validations == MAX_VALIDATIONS {
                return written;
            }
            self.validate(&mut condition, since)?;
            validations += 1;
        }
    }

    /// Looks for changes after `since`, and leaves later ones to the leader.
    fn validate(&self, condition: &mut Arc<Condition>, since: SequenceNumber) -> Result<()> {
        let up_to = self.check_unchanged(&condition.footprint, since)?;
        match Arc::get_mut(condition) {
            Some(condition) => condition.renew(up_to),
            // A request that was refused may be let go a moment later.
            None => *condition = Arc::new(Condition::new(condition.footprint.clone(), up_to)),
        }
        Ok(())
    }

    /// Fails if a part of a footprint was written after `since`. Returns a number up to which every write
    /// was looked at.
    fn check_unchanged(
        &self,
        footprint: &Footprint,
        since: SequenceNumber,
    ) -> Result<SequenceNumber> {
        // Before the view, which then lists every write up to it.
        let up_to = self.reads.visible();
        let view = self.reads.view.load_full();
        let seed = self.writes.hash_seed;
        let changed = changed_in_arenas(&view, footprint, since, up_to, seed);
        let changed = match changed {
            None if view.flushed_sequence > since => self
                .files
                .changed_in_tables(&view, footprint, since, seed)?,
            changed => changed,
        };
        match changed {
            Some((keyspace, key)) => Err(self.reads.conflict(keyspace, &key)),
            None => Ok(up_to),
        }
    }
}

/// Returns the first key of a span that a range tombstone with a number above `since` deletes.
pub(crate) fn deleted_in(
    set: &RangeTombstones,
    span: &Span,
    since: SequenceNumber,
) -> Option<Vec<u8>> {
    let meets = |range: &Covering<'_>| {
        range.sequence > since && span.ends_after(range.start) && *range.end > *span.start
    };
    let range = set.iter().find(meets)?;
    Some(range.start.max(&span.start).to_vec())
}

impl Files {
    /// Looks each part of a footprint up in the tables that have numbers above `since`.
    fn changed_in_tables(
        &self,
        view: &View,
        footprint: &Footprint,
        since: SequenceNumber,
        hash_seed: u64,
    ) -> Result<Found> {
        for (keyspace, key) in footprint.keys() {
            // Of a keyspace that was dropped the leader tells.
            if let Some(levels) = view.version.keyspace(keyspace)
                && self.is_newer_in_tables(levels, key, key_hash(key, hash_seed), since)?
            {
                return Ok(Some((keyspace, key.to_vec())));
            }
        }
        for (keyspace, span) in footprint.spans() {
            let Some(levels) = view.version.keyspace(keyspace) else {
                continue;
            };
            for (_, table) in levels.tables() {
                if table.max_sequence > since
                    && meets(&table.bounds, span)
                    && let Some(key) = self.changed_in_table(table, span, since)?
                {
                    return Ok(Some((keyspace, key)));
                }
            }
        }
        Ok(None)
    }

    fn is_newer_in_tables(
        &self,
        levels: &KeyspaceLevels,
        key: &[u8],
        hash: u64,
        since: SequenceNumber,
    ) -> Result<bool> {
        let options = LOOK;
        for table in levels.tables_for_key(key) {
            if table.max_sequence <= since {
                continue;
            }
            let open = table.open(&self.tables)?;
            let found = get_in_table(
                table,
                &open,
                key,
                hash,
                ReadPoint::at(MAX_SEQUENCE),
                options,
            )?;
            let deleted = match table.range_tombstones {
                0 => None,
                _ => newest_range(&open, key, MAX_SEQUENCE),
            };
            let written = found.map(|(tag, _)| tag.sequence());
            if written.max(deleted).is_some_and(|number| number > since) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns a key of a span that a table has with a number above `since`.
    fn changed_in_table(
        &self,
        table: &Arc<Table>,
        span: &Span,
        since: SequenceNumber,
    ) -> Result<Option<Vec<u8>>> {
        let open = table.open(&self.tables)?;
        // Keys outside of the table's bounds do not count.
        let span = &within(span, &table.bounds);
        if table.range_tombstones > 0
            && let Some(set) = open.range_tombstones()
            && let Some(key) = deleted_in(set, span, since)
        {
            return Ok(Some(key));
        }
        let cursor = open.cursor(LOOK);
        let mut cursor = cursor.with_assigned(table.assigned_sequence());
        cursor.seek(InternalKey::seek(&span.start, MAX_SEQUENCE))?;
        while cursor.valid() && span.ends_after(cursor.key().user_key) {
            if cursor.key().sequence() > since {
                return Ok(Some(cursor.key().user_key.to_vec()));
            }
            cursor.next()?;
        }
        Ok(None)
    }
}

/// Returns whether a range and a span have a key in common, or may have.
fn meets(range: &KeyRange, span: &Span) -> bool {
    !range.ends_before(&span.start) && span.ends_after(&range.smallest)
}

/// Returns the keys of a span that lie in a range.
fn within(span: &Span, range: &KeyRange) -> Span {
    let end = range.end();
    Span {
        start: range.smallest.clone().max(span.start.clone()),
        end: Some(match &span.end {
            Some(own) => end.min(own.clone()),
            None => end,
        }),
    }
}
