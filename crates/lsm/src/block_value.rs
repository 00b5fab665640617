//! A value where it lies in a block of entries. Cursors hand it on without a copy.
//!
//! The rest of a block's contents is known to `table/block.rs` alone.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::debug_expect::DebugExpect;

/// The contents of a data or index block. Never empty.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) contents: Vec<u8>,
    pub(crate) entries_end: usize,
    pub(crate) restart_count: usize,
}

impl Block {
    /// Returns bytes of the contents; none for a range that leaves them.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.contents
            .get(range)
            .debug_expect("an entry lies in its block")
    }
}

/// A value where it lies in its block, which stays in memory as long as this does.
#[derive(Clone)]
pub struct TableValue {
    block: Arc<Block>,
    range: Range<usize>,
}

impl TableValue {
    pub(crate) fn new(block: Arc<Block>, range: Range<usize>) -> Self {
        TableValue { block, range }
    }

    /// Puts a value in a place. One of the same block takes over its hold on that: to count a holder
    /// is dear if processors share the block.
    pub(crate) fn place(place: &mut Option<TableValue>, block: &Arc<Block>, range: Range<usize>) {
        match place {
            Some(held) if Arc::ptr_eq(&held.block, block) => held.range = range,
            _ => *place = Some(TableValue::new(Arc::clone(block), range)),
        }
    }
}

impl Deref for TableValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.block.bytes(self.range.clone())
    }
}

impl fmt::Debug for TableValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}
