//! A cursor over a table: three nested positions, in the top index, a partition and a data block.

use std::sync::Arc;

use super::block::BlockCursor;
use super::format::BlockHandle;
use super::reader::{CursorOptions, TableReader};
use crate::Result;
use crate::cursor::Cursor;
use crate::key::InternalKey;

/// Walks a table's versions in both directions. It is valid when its position in the data block
/// is; the two above then name that block.
pub(crate) struct TableCursor {
    table: Arc<TableReader>,
    options: CursorOptions,
    top: Place,
    partition: Place,
    data: Place,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    First,
    Last,
    Seek(InternalKey<'a>),
    Next,
    Prev,
}

/// A position in a block, and where the block lies.
struct Place {
    cursor: BlockCursor,
    handle: BlockHandle,
}

impl Place {
    /// At no entry of the top index: where the top position begins, and where the others are until
    /// they have a block.
    fn nowhere(table: &TableReader) -> Self {
        Place {
            cursor: BlockCursor::new(Arc::clone(table.top_index())),
            handle: table.properties().top_index,
        }
    }

    /// Moves, and says whether there is an entry.
    fn step(&mut self, table: &TableReader, step: Step<'_>) -> Result<bool> {
        let result = match step {
            Step::First => self.cursor.seek_to_first(),
            Step::Last => self.cursor.seek_to_last(),
            Step::Seek(target) => self.cursor.seek(target),
            Step::Next => self.cursor.next(),
            Step::Prev => self.cursor.prev(),
        };
        result.map_err(|fault| table.source().corruption(self.handle, fault))?;
        Ok(self.cursor.valid())
    }

    /// Goes into the block under the parent's cursor, to no entry of it.
    fn enter(&mut self, table: &TableReader, options: CursorOptions, parent: &Place) -> Result<()> {
        let index = &parent.cursor;
        let handle = table.child_handle(index.value(), index.position(), parent.handle)?;
        self.cursor.reset(table.block(handle, options)?);
        self.handle = handle;
        Ok(())
    }
}

impl TableCursor {
    pub(super) fn new(table: Arc<TableReader>, options: CursorOptions) -> Self {
        TableCursor {
            options,
            top: Place::nowhere(&table),
            partition: Place::nowhere(&table),
            data: Place::nowhere(&table),
            table,
        }
    }

    /// Takes the same step in each of the three blocks.
    fn descend(&mut self, step: Step<'_>) -> Result<()> {
        let (table, options) = (&*self.table, self.options);
        if self.top.step(table, step)? {
            self.partition.enter(table, options, &self.top)?;
            if self.partition.step(table, step)? {
                self.data.enter(table, options, &self.partition)?;
                self.data.step(table, step)?;
            }
        }
        Ok(())
    }

    /// Goes to the data block beside this one, to its entry at `end`, or to none.
    fn cross(&mut self, direction: Step<'_>, end: Step<'_>) -> Result<()> {
        let (table, options) = (&*self.table, self.options);
        if !self.partition.step(table, direction)? {
            if !self.top.step(table, direction)? {
                return Ok(());
            }
            self.partition.enter(table, options, &self.top)?;
            self.partition.step(table, end)?;
        }
        self.data.enter(table, options, &self.partition)?;
        self.data.step(table, end)?;
        Ok(())
    }

    /// After an error the cursor is at no entry.
    fn settle(&mut self, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.data.cursor.invalidate();
        }
        result
    }
}

impl Cursor for TableCursor {
    fn valid(&self) -> bool {
        self.data.cursor.valid()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        let result = self.descend(Step::First);
        self.settle(result)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let result = self.descend(Step::Last);
        self.settle(result)
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.data.cursor.invalidate();
        let mut result = self.descend(Step::Seek(target));
        // The target may lie between a block's last key and its separator.
        if result.is_ok() && self.top.cursor.valid() && !self.valid() {
            result = self.cross(Step::Next, Step::First);
        }
        self.settle(result)
    }

    fn next(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        let mut result = self.data.step(&self.table, Step::Next).map(drop);
        if result.is_ok() && !self.valid() {
            result = self.cross(Step::Next, Step::First);
        }
        self.settle(result)
    }

    fn prev(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        let mut result = self.data.step(&self.table, Step::Prev).map(drop);
        if result.is_ok() && !self.valid() {
            result = self.cross(Step::Prev, Step::Last);
        }
        self.settle(result)
    }

    fn key(&self) -> InternalKey<'_> {
        if self.valid() {
            self.data.cursor.key()
        } else {
            InternalKey::seek(&[], 0)
        }
    }

    fn value(&self) -> &[u8] {
        if self.valid() {
            self.data.cursor.value()
        } else {
            &[]
        }
    }
}
