//! Copies of blocks on a faster device than the one that their table lies on.
//!
//! A table of a slow tier may have a place with copies beside its file. Only reads of one block ask there: walks,
//! merges and checks go past it, and leave it as it is. A copy is a block as it lies in the file, under the same
//! checksum, so a wrong one is never taken for the block.

use std::fmt;
use std::sync::Arc;

use super::format::BlockHandle;
use super::properties::TableProperties;
use crate::data_files::Placed;

/// A table, as its copies are known by it: another file of the same number is another table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CopiedTable {
    /// The table's number.
    pub number: u64,
    /// Random bits of its own.
    pub identity: u128,
    /// The length of its file.
    pub file_bytes: u64,
}

/// A block of a table, where it lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CopiedBlock {
    /// The table.
    pub table: CopiedTable,
    /// Offset of the block in the file.
    pub offset: u64,
    /// Its bytes there, with their trailer.
    pub length_bytes: u64,
}

/// The answer to a request for a copy.
#[derive(Debug, PartialEq, Eq)]
pub enum Copied {
    /// The bytes of the block as the file has them.
    Found(Vec<u8>),
    /// There is none, and [`BlockCopies::offer`] would take one.
    Wanted,
    /// There is none, and none is wanted.
    Unwanted,
}

/// Copies of blocks. Failures are no concern of a reader: it goes to the table then.
pub trait BlockCopies: fmt::Debug + Send + Sync {
    /// Returns the copy of a block. `is_counted`: the read tells how often the block is wanted.
    fn look(&self, block: &CopiedBlock, is_counted: bool) -> Copied;

    /// Returns whether there is a copy of a block. That is no read of it.
    fn has(&self, block: &CopiedBlock) -> bool;

    /// Takes the bytes of a block that was read and checked.
    fn offer(&self, block: &CopiedBlock, stored: Vec<u8>);

    /// Takes note that readers open a table.
    fn table_opened(&self, number: u64);

    /// Takes note that a table is not read any more.
    fn table_removed(&self, number: u64);
}

/// The copies for tables of each tier.
pub trait TierCopies: fmt::Debug + Send + Sync {
    /// Returns the copies for a table; `None` where its tier has none.
    fn copies_for(&self, placed: Placed) -> Option<Arc<dyn BlockCopies>>;
}

/// The copies of one open table.
#[derive(Clone, Debug)]
pub(super) struct TableCopies {
    copies: Arc<dyn BlockCopies>,
    table: CopiedTable,
}

impl TableCopies {
    pub(super) fn of(
        copies: Arc<dyn BlockCopies>,
        number: u64,
        properties: &TableProperties,
        file_bytes: u64,
    ) -> Self {
        copies.table_opened(number);
        let table = CopiedTable {
            number,
            identity: properties.identity,
            file_bytes,
        };
        TableCopies { copies, table }
    }

    fn block(&self, handle: BlockHandle) -> CopiedBlock {
        CopiedBlock {
            table: self.table,
            offset: handle.offset,
            length_bytes: handle.length_bytes,
        }
    }

    pub(super) fn look(&self, handle: BlockHandle, is_counted: bool) -> Copied {
        self.copies.look(&self.block(handle), is_counted)
    }

    pub(super) fn has(&self, handle: BlockHandle) -> bool {
        self.copies.has(&self.block(handle))
    }

    pub(super) fn offer(&self, handle: BlockHandle, stored: Vec<u8>) {
        self.copies.offer(&self.block(handle), stored);
    }
}
