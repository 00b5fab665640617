//! A cursor over a table: positions in the top index and a partition, and a place in a data block.

use std::cmp::Ordering::Greater;
use std::path::PathBuf;
use std::sync::Arc;

use super::block::{Block, BlockCursor};
use super::format::{BlockHandle, Malformed};
use super::index_block::IndexBlock;
use super::read_ahead::{ReadAhead, Walk};
use super::reader::{CursorOptions, TableReader};
use super::resident_blocks::BlockPlace;
use crate::Result;
use crate::block_value::TableValue;
use crate::cursor::Cursor;
use crate::key::{InternalKey, SequenceNumber, Tag};
use crate::time_profile::{Stage, leaf, stage};

/// Walks a table's versions in both directions. It is valid when its position in the data block
/// is; the two above then name that block.
///
/// Keys ascend strictly from one position to the next, and a seek ends at its target or behind, for
/// any bytes. Loops over cursors end because of that. Blocks see to the order within them; at a
/// block's edges the cursor holds its keys against the index, or the footer.
pub struct TableCursor {
    table: Arc<TableReader>,
    options: CursorOptions,
    /// The partition stood in: its position in the top index, and the position in it.
    partition: Option<(usize, Arc<IndexBlock>)>,
    at: usize,
    /// The data block entered last, and where it lies.
    data: Option<(BlockHandle, BlockCursor)>,
    ahead: ReadAhead,
    /// The number of every entry, in place of those in the file.
    assigned: Option<SequenceNumber>,
}

/// An edge of a data block.
#[derive(Clone, Copy)]
enum Edge {
    Front,
    Back,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    First,
    Last,
    Seek(InternalKey<'a>),
    Next,
    Prev,
}

impl TableCursor {
    pub(super) fn new(table: Arc<TableReader>, options: CursorOptions) -> Self {
        TableCursor {
            table,
            options,
            partition: None,
            at: 0,
            data: None,
            ahead: ReadAhead::default(),
            assigned: None,
        }
    }

    /// Gives every entry this number in place of its own, if there is one. Each key is there once.
    pub fn with_assigned(mut self, sequence: Option<SequenceNumber>) -> Self {
        self.assigned = sequence;
        self
    }

    /// Returns where in the file a seek to `target` leads.
    fn in_file<'k>(&self, target: InternalKey<'k>) -> InternalKey<'k> {
        let Some(sequence) = self.assigned else {
            return target;
        };
        // The one version of the key lies before the target if it is newer.
        let tag = if sequence > target.tag.sequence() {
            Tag(0)
        } else {
            Tag(u64::MAX)
        };
        InternalKey { tag, ..target }
    }

    /// Takes the same step in each of the three blocks.
    fn descend(&mut self, step: Step<'_>) -> Result<()> {
        self.invalidate();
        let top = self.table.top_index();
        if self.enter_partition(choose(top, step))? {
            self.at = self.partition().map_or(0, |p| choose(p, step));
            self.enter_block(step)?;
        }
        Ok(())
    }

    /// Goes to the data block beside this one, to its entry at the near end, or to none.
    fn cross(&mut self, step: Step<'_>) -> Result<()> {
        self.invalidate();
        let (left, entered) = match step {
            Step::Prev => (Edge::Front, Edge::Back),
            _ => (Edge::Back, Edge::Front),
        };
        self.check_edge(left)?;
        self.enter_beside(step)?;
        if self.valid() {
            self.check_edge(entered)?;
        }
        Ok(())
    }

    fn enter_beside(&mut self, step: Step<'_>) -> Result<()> {
        let Some((top_at, partition)) = &self.partition else {
            return Ok(());
        };
        let (beside, end) = match step {
            Step::Prev => (self.at.checked_sub(1), Step::Last),
            _ => (
                Some(self.at + 1).filter(|at| *at < partition.len()),
                Step::First,
            ),
        };
        if let Some(at) = beside {
            self.at = at;
            return self.enter_block(end);
        }
        let top_beside = match step {
            Step::Prev => top_at.checked_sub(1),
            _ => Some(top_at + 1),
        };
        if let Some(top_at) = top_beside
            && self.enter_partition(top_at)?
        {
            self.at = self.partition().map_or(0, |p| choose(p, end));
            self.enter_block(end)?;
        }
        Ok(())
    }

    /// Refuses the entry that the block cursor stands on, or has left, unless it is where the index
    /// has its edge of the block. That is behind the key before the block, or not behind the
    /// block's own.
    fn check_edge(&self, edge: Edge) -> Result<()> {
        let (Some((top_at, partition)), Some((handle, cursor))) = (&self.partition, &self.data)
        else {
            return Ok(());
        };
        let (key, top) = (cursor.key(), self.table.top_index());
        let properties = self.table.properties();
        let is_at = |end: &[u8]| InternalKey::decode(end) == Some(key);
        let fits = match (edge, self.at.checked_sub(1), top_at.checked_sub(1)) {
            (Edge::Front, Some(before), _) => partition.compare(key, before) == Some(Greater),
            (Edge::Front, None, Some(before)) => top.compare(key, before) == Some(Greater),
            (Edge::Front, None, None) => is_at(&properties.smallest),
            (Edge::Back, ..) if self.at + 1 < partition.len() || top_at + 1 < top.len() => {
                partition
                    .compare(key, self.at)
                    .is_some_and(|order| order != Greater)
            }
            (Edge::Back, ..) => is_at(&properties.largest),
        };
        if fits {
            return Ok(());
        }
        let detail = "the index and the keys of a block disagree";
        let fault = Malformed::new(cursor.position(), detail);
        Err(self.table.source().corruption(*handle, fault))
    }

    fn partition(&self) -> Option<&IndexBlock> {
        self.partition.as_ref().map(|(_, partition)| &**partition)
    }

    /// Enters the partition; false past the last one.
    fn enter_partition(&mut self, top_at: usize) -> Result<bool> {
        if self.partition.as_ref().is_some_and(|(at, _)| *at == top_at) {
            return Ok(true);
        }
        let _index = stage(Stage::Index);
        self.partition = None;
        let partition = self.table.partition(top_at, self.options)?;
        self.partition = partition.map(|partition| (top_at, partition));
        Ok(self.partition.is_some())
    }

    /// Goes into the data block at the present position, and takes a step in it.
    fn enter_block(&mut self, step: Step<'_>) -> Result<()> {
        let partition = self.partition.as_ref().map(|(_, partition)| partition);
        let Some(partition) = partition else {
            return Ok(());
        };
        let Some(place) = BlockPlace::of(partition, self.at) else {
            return Ok(());
        };
        let handle = place.handle;
        // It may still be at hand: iterators seek near where they are.
        if self.data.as_ref().is_none_or(|(held, _)| *held != handle) {
            let (table, options) = (&self.table, self.options);
            let walk = Walk {
                onwards: !matches!(step, Step::Last | Step::Prev),
                purpose: options.purpose,
            };
            let cached = {
                let _asking = leaf(Stage::BlockCache);
                table.cached(&place, options)?
            };
            let block = match cached {
                Some(block) => {
                    let source = table.source();
                    self.ahead.follow(source, handle, walk);
                    block
                }
                None => {
                    options.check_may_read()?;
                    let source = table.source();
                    let read = self.ahead.block(source, partition, self.at, handle, walk)?;
                    table.keep(&place, read, options)
                }
            };
            put_on(&mut self.data, handle, block);
        }
        self.step(step)
    }

    fn step(&mut self, step: Step<'_>) -> Result<()> {
        let Some((handle, cursor)) = &mut self.data else {
            return Ok(());
        };
        let result = match step {
            Step::First => cursor.seek_to_first(),
            Step::Last => cursor.seek_to_last(),
            Step::Seek(target) => cursor.seek(target),
            Step::Next => cursor.next(),
            Step::Prev => cursor.prev(),
        };
        result.map_err(|fault| self.table.source().corruption(*handle, fault))
    }

    fn invalidate(&mut self) {
        if let Some((_, cursor)) = &mut self.data {
            cursor.invalidate();
        }
    }

    /// Returns the result; after an error the cursor is at no entry.
    fn settle(&mut self, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.invalidate();
        }
        result
    }
}

impl Drop for TableCursor {
    fn drop(&mut self) {
        self.ahead.end_run(self.table.source());
    }
}

/// Returns where a step from outside leads in an index block; past the last child if nowhere.
fn choose(index: &IndexBlock, step: Step<'_>) -> usize {
    match step {
        Step::Last => index.len().saturating_sub(1),
        Step::Seek(target) => index.position(target),
        Step::First | Step::Next | Step::Prev => 0,
    }
}

/// Puts a cursor on a block, at no entry of it; keeps the buffer of the one before.
fn put_on(data: &mut Option<(BlockHandle, BlockCursor)>, handle: BlockHandle, block: Arc<Block>) {
    match data {
        Some((held, cursor)) => {
            *held = handle;
            cursor.reset(block);
        }
        None => *data = Some((handle, BlockCursor::new(block))),
    }
}

impl Cursor for TableCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.data.as_ref().is_some_and(|(_, cursor)| cursor.valid())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        let result = self.descend(Step::First);
        let result = result.and_then(|()| self.check_edge(Edge::Front));
        self.settle(result)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let result = self.descend(Step::Last);
        let result = result.and_then(|()| self.check_edge(Edge::Back));
        self.settle(result)
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        let target = self.in_file(target);
        let mut result = self.descend(Step::Seek(target));
        // The target may lie between a block's last key and its separator.
        if result.is_ok() && self.partition.is_some() && !self.valid() {
            result = self.cross(Step::Next);
        }
        self.settle(result)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        let mut result = self.step(Step::Next);
        if result.is_ok() && !self.valid() {
            result = self.cross(Step::Next);
        }
        self.settle(result)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        let mut result = self.step(Step::Prev);
        if result.is_ok() && !self.valid() {
            result = self.cross(Step::Prev);
        }
        self.settle(result)
    }

    #[inline]
    fn key(&self) -> InternalKey<'_> {
        match &self.data {
            Some((_, cursor)) if cursor.valid() => match self.assigned {
                None => cursor.key(),
                Some(sequence) => InternalKey {
                    tag: cursor.key().tag.with_sequence(sequence),
                    ..cursor.key()
                },
            },
            _ => InternalKey::seek(&[], 0),
        }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match &self.data {
            Some((_, cursor)) if cursor.valid() => cursor.value(),
            _ => &[],
        }
    }

    fn file(&self) -> Option<PathBuf> {
        Some(self.table.path().to_path_buf())
    }

    fn hold_value(&self, held: &mut Option<TableValue>) {
        match &self.data {
            Some((_, cursor)) if cursor.valid() => cursor.hold_value(held),
            _ => *held = None,
        }
    }
}
