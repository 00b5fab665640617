//! The range tombstones of a merge on their way into tables.
//!
//! A table takes the part of each range between its first key and the first key of the next table,
//! so that the tables of a sub-level stay disjoint. A range that goes on is cut there, and its rest
//! goes to the next table. A table may also end at the start of a range, where there are many of
//! them.

use std::collections::VecDeque;

use crate::Result;
use crate::compaction::merge::TableSink;
use crate::range_tombstones::RangeTombstone;

/// Bytes that a tombstone takes beside its keys, about.
const TOMBSTONE_BYTES: usize = 16;

/// Tombstones by start, fed to tables as the merge goes on.
pub(crate) struct OutputRanges {
    /// Those that begin behind the keys that the merge has passed, by start.
    ahead: VecDeque<RangeTombstone>,
    /// Those that the table being written has a part in. None begins before the table does.
    open: Vec<RangeTombstone>,
    /// Bytes of those that began in this table. A range that only goes on does not count: a table
    /// is never full before it has got something of its own.
    begun_bytes: u64,
}

impl OutputRanges {
    pub(crate) fn new(mut kept: Vec<RangeTombstone>) -> Self {
        kept.sort_by(|a, b| a.start.cmp(&b.start));
        OutputRanges {
            ahead: kept.into(),
            open: Vec::new(),
            begun_bytes: 0,
        }
    }

    /// Takes up the tombstones that begin at or before `key`, all if there is none, ending tables
    /// that are full. `key` lies behind every version written so far.
    pub(crate) fn pass<S: TableSink>(
        &mut self,
        key: Option<&[u8]>,
        table_bytes: u64,
        sink: &mut S,
        tables: &mut Vec<S::Table>,
    ) -> Result<()> {
        while let Some(tombstone) = self
            .ahead
            .pop_front_if(|next| key.is_none_or(|key| next.start.as_slice() <= key))
        {
            self.end_if_full(&tombstone.start, table_bytes, sink, tables)?;
            let bytes = tombstone.start.len() + tombstone.end.len() + TOMBSTONE_BYTES;
            self.begun_bytes += bytes as u64;
            self.open.push(tombstone);
        }
        match key {
            Some(key) => self.end_if_full(key, table_bytes, sink, tables),
            None => Ok(()),
        }
    }

    fn end_if_full<S: TableSink>(
        &mut self,
        next_key: &[u8],
        table_bytes: u64,
        sink: &mut S,
        tables: &mut Vec<S::Table>,
    ) -> Result<()> {
        if sink.table_bytes() + self.begun_bytes >= table_bytes {
            tables.extend(self.end_table(Some(next_key), sink)?);
        }
        Ok(())
    }

    /// Completes the table being written, with its part of the tombstones up to `next_key`.
    pub(crate) fn end_table<S: TableSink>(
        &mut self,
        next_key: Option<&[u8]>,
        sink: &mut S,
    ) -> Result<Option<S::Table>> {
        let by_start_then_newest = |a: &RangeTombstone, b: &RangeTombstone| {
            a.start.cmp(&b.start).then(b.sequence.cmp(&a.sequence))
        };
        self.open.sort_by(by_start_then_newest);
        for tombstone in std::mem::take(&mut self.open) {
            let rest = tombstone.clone().clipped(next_key, None);
            if let Some(part) = tombstone.clipped(None, next_key) {
                sink.add_range_tombstone(&part.start, &part.end, part.sequence)?;
            }
            self.open.extend(rest.filter(|_| next_key.is_some()));
        }
        self.begun_bytes = 0;
        sink.finish()
    }
}
