//! A sub-level as one sorted sequence: its tables, opened one at a time.
//!
//! A table may be listed with bounds narrower than its file; what lies outside them has been merged
//! elsewhere and must not be seen. Invariant: while the cursor is valid, its key lies inside the
//! bounds of the current table.

use std::sync::Arc;

use crate::Result;
use crate::cursor::Cursor;
use crate::key::{InternalKey, MAX_SEQUENCE, Tag};
use crate::levels::Table;
use crate::table::{CursorOptions, TableCache, TableCursor};

/// A position in a sub-level.
pub(crate) struct SubLevelCursor {
    tables: Vec<Arc<Table>>,
    cache: Arc<TableCache>,
    options: CursorOptions,
    /// The current table's position in `tables`.
    position: usize,
    current: Option<TableCursor>,
}

impl SubLevelCursor {
    /// `tables` are sorted and disjoint.
    pub(crate) fn new(
        tables: Vec<Arc<Table>>,
        cache: Arc<TableCache>,
        options: CursorOptions,
    ) -> Self {
        SubLevelCursor { tables, cache, options, position: 0, current: None }
    }

    /// Makes the table at `position` the current one, unpositioned. False if there is none.
    fn open(&mut self, position: usize) -> Result<bool> {
        let Some(table) = self.tables.get(position) else {
            self.current = None;
            return Ok(false);
        };
        if self.current.is_none() || self.position != position {
            self.current = None;
            self.current = Some(self.cache.get(table.number)?.cursor(self.options));
            self.position = position;
        }
        Ok(true)
    }

    /// Moves the current table's cursor. Any error leaves the whole cursor not valid.
    fn step(&mut self, step: impl FnOnce(&mut TableCursor) -> Result<()>) -> Result<()> {
        let Some(cursor) = &mut self.current else { return Ok(()) };
        let done = step(cursor);
        if done.is_err() {
            self.current = None;
        }
        done
    }

    fn in_bounds(&self) -> bool {
        let Some(cursor) = self.current.as_ref().filter(|cursor| cursor.valid()) else {
            return false;
        };
        let table = self.tables.get(self.position);
        table.is_some_and(|table| {
            !table.narrowed || table.bounds.contains(cursor.key().user_key)
        })
    }

    /// From a place at or after the current table's lower bound to the first version in bounds.
    fn settle_forward(&mut self) -> Result<()> {
        while self.current.is_some() && !self.in_bounds() {
            if self.open(self.position + 1)? {
                self.seek_lower_bound()?;
            }
        }
        Ok(())
    }

    /// From a place at or before the current table's upper bound to the last version in bounds.
    fn settle_backward(&mut self) -> Result<()> {
        while self.current.is_some() && !self.in_bounds() {
            match self.position.checked_sub(1) {
                Some(position) => {
                    self.open(position)?;
                    self.seek_upper_bound()?;
                }
                None => self.current = None,
            }
        }
        Ok(())
    }

    fn seek_lower_bound(&mut self) -> Result<()> {
        let Some(table) = self.tables.get(self.position).cloned() else { return Ok(()) };
        let lower = InternalKey::seek(&table.bounds.smallest, MAX_SEQUENCE);
        self.step(|cursor| cursor.seek(lower))
    }

    /// To the last version inside the current table's bounds.
    fn seek_upper_bound(&mut self) -> Result<()> {
        let Some(table) = self.tables.get(self.position).cloned() else { return Ok(()) };
        let bounds = &table.bounds;
        // The place just past the bound: before the bound's versions if it is excluded.
        let tag = if bounds.largest_excluded { Tag(u64::MAX) } else { Tag(0) };
        let past = InternalKey { user_key: &bounds.largest, tag };
        self.step(|cursor| {
            cursor.seek(past)?;
            if cursor.valid() { cursor.prev() } else { cursor.seek_to_last() }
        })
    }
}

impl Cursor for SubLevelCursor {
    fn valid(&self) -> bool {
        self.current.as_ref().is_some_and(|cursor| cursor.valid())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        if self.open(0)? {
            self.seek_lower_bound()?;
        }
        self.settle_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        match self.tables.len().checked_sub(1) {
            Some(last) => {
                self.open(last)?;
                self.seek_upper_bound()?;
                self.settle_backward()
            }
            None => Ok(()),
        }
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        let position =
            self.tables.partition_point(|table| table.bounds.ends_before(target.user_key));
        if self.open(position)? {
            let below = self
                .tables
                .get(position)
                .is_some_and(|table| target.user_key < table.bounds.smallest.as_slice());
            if below {
                self.seek_lower_bound()?;
            } else {
                self.step(|cursor| cursor.seek(target))?;
            }
        }
        self.settle_forward()
    }

    fn next(&mut self) -> Result<()> {
        self.step(|cursor| cursor.next())?;
        self.settle_forward()
    }

    fn prev(&mut self) -> Result<()> {
        self.step(|cursor| cursor.prev())?;
        self.settle_backward()
    }

    fn key(&self) -> InternalKey<'_> {
        match &self.current {
            Some(cursor) => cursor.key(),
            None => InternalKey { user_key: &[], tag: Tag(0) },
        }
    }

    fn value(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |cursor| cursor.value())
    }
}
