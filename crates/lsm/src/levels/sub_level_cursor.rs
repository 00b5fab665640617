//! One cursor over all tables of a sub-level: opens one table at a time, and clips tables whose
//! bounds are narrower than their file. The maker of the cursor opens the tables, by a closure;
//! their deleted ranges are the caller's.

use std::path::PathBuf;
use std::sync::Arc;

use super::table_meta::{KeyRange, Table};
use super::version::SubLevel;
use crate::Result;
use crate::block_value::TableValue;
use crate::cursor::Cursor;
use crate::key::{InternalKey, MAX_SEQUENCE, SequenceNumber, Tag};

/// The tables of a cursor: a whole sub-level, shared with the version, or a list of its own.
enum Tables {
    Whole(Arc<SubLevel>),
    Listed(Vec<Arc<Table>>),
}

impl Tables {
    fn list(&self) -> &[Arc<Table>] {
        match self {
            Tables::Whole(sub_level) => &sub_level.tables,
            Tables::Listed(tables) => tables,
        }
    }

    /// Returns the position of the first table that does not end before `key`.
    fn position(&self, key: &[u8]) -> usize {
        match self {
            Tables::Whole(sub_level) => sub_level.position(key),
            Tables::Listed(tables) => tables.partition_point(|table| table.bounds.ends_before(key)),
        }
    }
}

/// Walks the tables of one sub-level in order. `Open` opens a cursor over a table's whole file.
pub struct SubLevelCursor<C, Open> {
    tables: Tables,
    open: Open,
    /// The table stood in, by its position, and a cursor in it.
    current: Option<(usize, Clipped<C>)>,
}

impl<C: Cursor, Open: FnMut(&Arc<Table>) -> Result<C>> SubLevelCursor<C, Open> {
    /// Makes a cursor over a sub-level; opens nothing before it is positioned.
    pub fn new(sub_level: &Arc<SubLevel>, open: Open) -> Self {
        SubLevelCursor::over(Tables::Whole(Arc::clone(sub_level)), open)
    }

    /// Makes a cursor over some tables of a sub-level, in their order.
    pub fn over_tables(tables: Vec<Arc<Table>>, open: Open) -> Self {
        SubLevelCursor::over(Tables::Listed(tables), open)
    }

    fn over(tables: Tables, open: Open) -> Self {
        SubLevelCursor {
            tables,
            open,
            current: None,
        }
    }

    /// Opens the table at `index`, unless it is the one stood in; false past either end.
    fn enter(&mut self, index: Option<usize>) -> Result<bool> {
        let Some((index, table)) = index.and_then(|i| Some((i, self.tables.list().get(i)?))) else {
            self.current = None;
            return Ok(false);
        };
        if self.current.as_ref().is_none_or(|(at, _)| *at != index) {
            self.current = None;
            let bounds = table.narrowed.then(|| table.bounds.clone());
            let cursor = Clipped::new((self.open)(table)?, bounds);
            self.current = Some((index, cursor));
        }
        Ok(true)
    }

    /// Returns whether all entries of the present table are from before a number, but for the
    /// deleted range of that number.
    fn present_within(&self, below: SequenceNumber) -> bool {
        let at = self.current.as_ref().map(|(at, _)| *at);
        let table = at.and_then(|at| self.tables.list().get(at));
        table.is_some_and(|table| table.max_sequence <= below)
    }

    fn with_current(&mut self, act: impl FnOnce(&mut Clipped<C>) -> Result<()>) -> Result<()> {
        let Some((_, cursor)) = &mut self.current else {
            return Ok(());
        };
        let acted = act(cursor);
        if acted.is_err() {
            self.current = None;
        }
        acted
    }

    /// Goes on to the first version of the following tables while the current one is exhausted.
    fn settle_forward(&mut self) -> Result<()> {
        while let Some((index, cursor)) = &self.current
            && !cursor.valid()
        {
            let index = index + 1;
            if self.enter(Some(index))? {
                self.with_current(Clipped::seek_to_first)?;
            }
        }
        Ok(())
    }

    fn settle_backward(&mut self) -> Result<()> {
        while let Some((index, cursor)) = &self.current
            && !cursor.valid()
        {
            let index = index.checked_sub(1);
            if self.enter(index)? {
                self.with_current(Clipped::seek_to_last)?;
            }
        }
        Ok(())
    }
}

impl<C: Cursor, Open: FnMut(&Arc<Table>) -> Result<C>> Cursor for SubLevelCursor<C, Open> {
    fn valid(&self) -> bool {
        self.current.as_ref().is_some_and(|(_, c)| c.valid())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.enter(Some(0))?;
        self.with_current(Clipped::seek_to_first)?;
        self.settle_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.enter(self.tables.list().len().checked_sub(1))?;
        self.with_current(Clipped::seek_to_last)?;
        self.settle_backward()
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        let index = self.tables.position(target.user_key);
        self.enter(Some(index))?;
        self.with_current(|cursor| cursor.seek(target))?;
        self.settle_forward()
    }

    fn next(&mut self) -> Result<()> {
        self.with_current(Clipped::next)?;
        self.settle_forward()
    }

    fn prev(&mut self) -> Result<()> {
        self.with_current(Clipped::prev)?;
        self.settle_backward()
    }

    fn pass_hidden(&mut self, below: SequenceNumber, end: &[u8]) -> Result<()> {
        match self.present_within(below) {
            true => self.seek(InternalKey::seek(end, MAX_SEQUENCE)),
            false => self.next(),
        }
    }

    fn pass_hidden_back(&mut self, below: SequenceNumber, start: &[u8]) -> Result<()> {
        if !self.present_within(below) {
            return self.prev();
        }
        // The rows from `start` on in the table are hidden, too: there is something to come back from.
        self.seek(InternalKey::seek(start, MAX_SEQUENCE))?;
        match self.valid() {
            true => self.prev(),
            false => self.seek_to_last(),
        }
    }

    fn key(&self) -> InternalKey<'_> {
        const EMPTY: InternalKey<'static> = InternalKey {
            user_key: &[],
            tag: Tag(0),
        };
        self.current.as_ref().map_or(EMPTY, |(_, c)| c.key())
    }

    fn value(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |(_, c)| c.value())
    }

    fn file(&self) -> Option<PathBuf> {
        self.current.as_ref().and_then(|(_, c)| c.file())
    }

    fn hold_value(&self, held: &mut Option<TableValue>) {
        match &self.current {
            Some((_, cursor)) => cursor.hold_value(held),
            None => *held = None,
        }
    }
}

/// A cursor that sees only the versions of the keys in some bounds.
struct Clipped<C> {
    cursor: C,
    bounds: Option<KeyRange>,
    inside: bool,
}

impl<C: Cursor> Clipped<C> {
    fn new(cursor: C, bounds: Option<KeyRange>) -> Self {
        Clipped {
            cursor,
            bounds,
            inside: false,
        }
    }

    /// Notes whether the cursor stands inside, whichever way it came.
    fn check(&mut self) {
        self.inside = self.cursor.valid()
            && self
                .bounds
                .as_ref()
                .is_none_or(|bounds| bounds.contains(self.cursor.key().user_key));
    }
}

impl<C: Cursor> Cursor for Clipped<C> {
    fn valid(&self) -> bool {
        self.inside
    }

    fn seek_to_first(&mut self) -> Result<()> {
        match &self.bounds {
            None => self.cursor.seek_to_first()?,
            Some(bounds) => {
                let first = InternalKey::seek(&bounds.smallest, MAX_SEQUENCE);
                self.cursor.seek(first)?;
            }
        }
        self.check();
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        match &self.bounds {
            None => self.cursor.seek_to_last()?,
            Some(bounds) => {
                // The place behind the last version inside, then one back.
                let end = if bounds.largest_excluded {
                    InternalKey::seek(&bounds.largest, MAX_SEQUENCE)
                } else {
                    InternalKey {
                        user_key: &bounds.largest,
                        tag: Tag(0),
                    }
                };
                self.cursor.seek(end)?;
                if self.cursor.valid() {
                    self.cursor.prev()?;
                } else {
                    self.cursor.seek_to_last()?;
                }
            }
        }
        self.check();
        Ok(())
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        match &self.bounds {
            Some(bounds) if target.user_key < bounds.smallest.as_slice() => {
                return self.seek_to_first();
            }
            _ => self.cursor.seek(target)?,
        }
        self.check();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.cursor.next()?;
        self.check();
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.cursor.prev()?;
        self.check();
        Ok(())
    }

    fn key(&self) -> InternalKey<'_> {
        self.cursor.key()
    }

    fn value(&self) -> &[u8] {
        self.cursor.value()
    }

    fn file(&self) -> Option<PathBuf> {
        self.cursor.file()
    }

    fn hold_value(&self, held: &mut Option<TableValue>) {
        self.cursor.hold_value(held);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Error;
    use crate::cursor::testing::{Version as Entry, VersionsCursor};
    use crate::key::Kind;
    use crate::levels::testing::{added, flush_place, levels, version};

    /// Makes a sub-level of tables that each hold every key of their own span, two versions of
    /// each; its tables are listed with these bounds. Returns also the versions that count.
    fn sub_level(bounds: &[(u8, u8, bool)]) -> (Arc<SubLevel>, Vec<Entry>) {
        let mut counted = Vec::new();
        let mut listed = Vec::new();
        for (&(smallest, largest, largest_excluded), number) in bounds.iter().zip(1..) {
            let mut table = added(flush_place(1), number, "", "");
            table.table.bounds = KeyRange {
                largest_excluded,
                ..KeyRange::inclusive([smallest], [largest])
            };
            table.table.narrowed = true;
            let bounds = &table.table.bounds;
            counted.extend(contents(number).filter(|entry| bounds.contains(&entry.0)));
            listed.push(table);
        }
        let version = version(listed);
        let (_, sub_level) = levels(&version).sub_levels().next().unwrap();
        (Arc::clone(sub_level), counted)
    }

    /// Returns more than any bounds that a table is listed with.
    fn contents(number: u64) -> impl Iterator<Item = Entry> {
        let versions = |key| [2, 1].map(move |sequence| (key, sequence));
        (0..=40u8).flat_map(versions).map(move |(key, sequence)| {
            let tag = Tag::new(sequence, Kind::Put);
            (vec![key], tag, number.to_le_bytes().to_vec())
        })
    }

    fn open(table: &Arc<Table>) -> Result<VersionsCursor> {
        Ok(VersionsCursor::new(contents(table.number).collect()))
    }

    proptest! {
        #[test]
        fn only_what_lies_inside_the_bounds_is_seen_from_either_side(
            spans in prop::collection::vec((1u8..4, 1u8..4, any::<bool>()), 1..6),
            moves in prop::collection::vec((0u8..5, 0u8..42, 0u64..4), 1..60),
        ) {
            let mut at = 0;
            let bounds: Vec<_> = spans
                .iter()
                .map(|&(gap, length, excluded)| {
                    let smallest = at + gap;
                    at = smallest + length;
                    (smallest, at, excluded)
                })
                .collect();
            let (sub_level, counted) = sub_level(&bounds);
            let mut whole = SubLevelCursor::new(&sub_level, open);
            let mut listed = SubLevelCursor::over_tables(sub_level.tables.clone(), open);
            let mut model = VersionsCursor::new(counted);
            for (step, key, sequence) in moves {
                let target = InternalKey::new(std::slice::from_ref(&key), sequence, Kind::Put);
                let cursors: [&mut dyn Cursor; 3] = [&mut whole, &mut listed, &mut model];
                for cursor in cursors {
                    match step {
                        0 => cursor.seek_to_first().unwrap(),
                        1 => cursor.seek_to_last().unwrap(),
                        2 => cursor.seek(target).unwrap(),
                        3 if cursor.valid() => cursor.next().unwrap(),
                        4 if cursor.valid() => cursor.prev().unwrap(),
                        _ => {}
                    }
                }
                let cursors: [&dyn Cursor; 2] = [&whole, &listed];
                for cursor in cursors {
                    prop_assert_eq!(cursor.valid(), model.valid());
                    if cursor.valid() {
                        let expected = (model.key(), model.value());
                        prop_assert_eq!((cursor.key(), cursor.value()), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn after_a_failed_open_the_cursor_is_not_valid_and_may_be_tried_again() {
        let (sub_level, _) = sub_level(&[(1, 2, false), (5, 6, false)]);
        let mut fails = false;
        let mut cursor = SubLevelCursor::new(&sub_level, |table: &Arc<Table>| {
            fails = !fails && table.number == 2;
            if fails {
                Err(Error::Closed)
            } else {
                open(table)
            }
        });
        let target = [5];
        let target = InternalKey::seek(&target, MAX_SEQUENCE);
        assert!(cursor.seek(target).is_err() && !cursor.valid());
        cursor.seek(target).unwrap();
        assert_eq!(cursor.key().user_key, [5]);
    }
}
