//! Every block that the index of a table leads to, read from the file and not from the cache.

use std::sync::Arc;

use terrace_storage::Purpose;

use super::block::{Block, BlockCursor};
use super::block_bounds::Contents;
use super::compression::Compression;
use super::format::{Ascending, BlockHandle, Malformed};
use super::reader::TableReader;
use crate::Result;
use crate::key::InternalKey;

/// The role of a block of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockRole {
    Data,
    IndexPartition,
    TopIndex,
    Filter,
    Sketch,
    KeySample,
    RangeTombstones,
    Footer,
}

impl BlockRole {
    pub const fn name(self) -> &'static str {
        match self {
            BlockRole::Data => "data",
            BlockRole::IndexPartition => "index partition",
            BlockRole::TopIndex => "top index",
            BlockRole::Filter => "filter",
            BlockRole::Sketch => "sketch of keys",
            BlockRole::KeySample => "sample of keys",
            BlockRole::RangeTombstones => "range tombstones",
            BlockRole::Footer => "footer",
        }
    }
}

/// A data block or a partition, and the key that the index names it by.
pub(super) struct Visit<'a> {
    pub(super) role: BlockRole,
    pub(super) handle: BlockHandle,
    pub(super) compression: Compression,
    pub(super) block: &'a Arc<Block>,
    pub(super) index_key: InternalKey<'a>,
}

impl TableReader {
    /// Visits the data blocks in key order, and each partition after the data blocks it names.
    pub(super) fn walk(&self, visit: &mut dyn FnMut(&Visit<'_>) -> Result<()>) -> Result<()> {
        let Some(top) = self.properties().top_index else {
            return Ok(());
        };
        let top_block = Arc::new(self.source().read_block(
            top,
            Contents::TopIndex,
            Purpose::Other,
        )?);
        let (mut partitions, mut blocks) = (Ascending::default(), Ascending::default());
        self.for_each_child(top, &top_block, &mut |index_key, handle| {
            self.check_order(&mut partitions, handle)?;
            let (partition, compression) = self.read_index_or_data(handle, Contents::Partition)?;
            self.for_each_child(handle, &partition, &mut |index_key, handle| {
                self.check_order(&mut blocks, handle)?;
                let (block, compression) = self.read_index_or_data(handle, Contents::Data)?;
                visit(&Visit {
                    role: BlockRole::Data,
                    handle,
                    compression,
                    block: &block,
                    index_key,
                })
            })?;
            visit(&Visit {
                role: BlockRole::IndexPartition,
                handle,
                compression,
                block: &partition,
                index_key,
            })
        })
    }

    /// Refuses a block that lies before one that was visited: an index may name none twice.
    fn check_order(&self, visited: &mut Ascending, handle: BlockHandle) -> Result<()> {
        if visited.takes(handle) {
            return Ok(());
        }
        let fault = Malformed::new(0, "a block does not follow the one before");
        Err(self.source().corruption(handle, fault))
    }

    fn read_index_or_data(
        &self,
        handle: BlockHandle,
        contents: Contents,
    ) -> Result<(Arc<Block>, Compression)> {
        let unsealed = self.source().read(handle, contents, Purpose::Other)?;
        let block = Block::new(unsealed.contents)
            .map_err(|fault| self.source().corruption(handle, fault))?;
        Ok((Arc::new(block), unsealed.compression))
    }

    fn for_each_child(
        &self,
        parent: BlockHandle,
        index: &Arc<Block>,
        visit: &mut dyn FnMut(InternalKey<'_>, BlockHandle) -> Result<()>,
    ) -> Result<()> {
        self.for_each_entry(parent, index, &mut |cursor| {
            let child = self.child_handle(cursor.value(), cursor.position(), parent)?;
            visit(cursor.key(), child)
        })
    }

    /// Visits the entries of a block from the first to the last.
    pub(super) fn for_each_entry(
        &self,
        handle: BlockHandle,
        block: &Arc<Block>,
        visit: &mut dyn FnMut(&BlockCursor) -> Result<()>,
    ) -> Result<()> {
        let corruption = |fault: Malformed| self.source().corruption(handle, fault);
        let mut cursor = BlockCursor::new(Arc::clone(block));
        cursor.seek_to_first().map_err(corruption)?;
        while cursor.valid() {
            visit(&cursor)?;
            cursor.next().map_err(corruption)?;
        }
        Ok(())
    }
}
