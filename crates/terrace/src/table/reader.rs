//! An open table: point lookups, and blocks for cursors.
//!
//! Filter and top index stay in memory while the table is open; partitions and data blocks come
//! through the cache. A checksum is verified when a block is read, not when it is found in the
//! cache, and a block that fails is not cached.

use std::fmt;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_storage::{File, OpenMode, OpenOptions, Purpose, Storage};

use super::block::{Block, Found};
use super::cache::BlockCache;
use super::cursor::TableCursor;
use super::filter::Filter;
use super::format::{BlockHandle, Malformed};
use super::properties::{FooterFault, TableProperties};
use super::source::BlockSource;
use crate::key::{InternalKey, SequenceNumber, Tag};
use crate::{Error, Result};

/// On whose behalf blocks are read, and whether they are worth keeping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CursorOptions {
    pub(crate) purpose: Purpose,
    /// Put blocks that had to be read into the cache. Flush and compaction do not.
    pub(crate) fill_cache: bool,
}

impl CursorOptions {
    /// A read for a user.
    pub(crate) const fn user_read() -> Self {
        CursorOptions {
            purpose: Purpose::Read,
            fill_cache: true,
        }
    }

    /// A read that leaves the cache as it is.
    pub(crate) const fn uncached(purpose: Purpose) -> Self {
        CursorOptions {
            purpose,
            fill_cache: false,
        }
    }
}

/// A value where it lies in its block, which stays in memory as long as this does.
#[derive(Clone)]
pub(crate) struct TableValue {
    block: Arc<Block>,
    range: Range<usize>,
}

impl TableValue {}

impl Deref for TableValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.block.bytes(self.range.clone())
    }
}

impl fmt::Debug for TableValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

/// An open table.
#[derive(Debug)]
pub(crate) struct TableReader {
    source: BlockSource,
    number: u64,
    cache: Arc<BlockCache>,
    properties: TableProperties,
    footer: BlockHandle,
    filter: Option<Filter>,
    top_index: Arc<Block>,
}

impl TableReader {
    /// Opens a table and checks its header, trailer, footer, filter and top index.
    pub(crate) fn open(
        storage: &dyn Storage,
        path: PathBuf,
        number: u64,
        cache: Arc<BlockCache>,
    ) -> Result<Arc<Self>> {
        let file = storage.open(&path, OpenOptions::buffered(OpenMode::Read))?;
        Self::from_file(file, path, number, cache)
    }

    pub(super) fn from_file(
        file: Arc<dyn File>,
        path: PathBuf,
        number: u64,
        cache: Arc<BlockCache>,
    ) -> Result<Arc<Self>> {
        let source = BlockSource { file, path };
        let file_bytes = source.file.length_bytes()?;
        let footer = source.read_frame(file_bytes, Purpose::Read)?;
        let contents = source.read(footer, Purpose::Read)?.contents;
        let properties =
            TableProperties::decode(&contents, file_bytes).map_err(|fault| match fault {
                FooterFault::Malformed(fault) => source.corruption(footer, fault),
                FooterFault::UnknownField(number) => Error::unsupported(
                    &source.path,
                    format!("field {number} of the table's footer is not known"),
                ),
            })?;
        let filter = match properties.filter {
            Some(handle) => {
                source.check_place(handle, footer.offset, footer.offset)?;
                let filter = Filter::new(&source.read(handle, Purpose::Read)?.contents);
                let fault = Malformed::new(0, "the filter's length is wrong");
                Some(filter.ok_or_else(|| source.corruption(handle, fault))?)
            }
            None => None,
        };
        source.check_place(properties.top_index, footer.offset, footer.offset)?;
        let top_index = Arc::new(source.read_block(properties.top_index, Purpose::Read)?);
        Ok(Arc::new(TableReader {
            source,
            number,
            cache,
            properties,
            footer,
            filter,
            top_index,
        }))
    }

    /// The newest version of `key` that a reader at `snapshot` may see. `hash` is that of
    /// [`key_hash`](super::key_hash) under the seed in the table's properties.
    ///
    /// One block of each kind is enough: no separator in the index has the user key of the block
    /// behind it, unless it is the last key of its own block.
    pub(crate) fn get(
        &self,
        key: &[u8],
        hash: u64,
        snapshot: SequenceNumber,
        options: CursorOptions,
    ) -> Result<Option<(Tag, TableValue)>> {
        if !self.may_contain(hash) {
            return Ok(None);
        }
        let target = InternalKey::seek(key, snapshot);
        let top = self.properties.top_index;
        let Some(found) = self.find(&self.top_index, top, target)? else {
            return Ok(None);
        };
        let partition_handle = self.child(&self.top_index, found.value, top)?;
        let partition = self.block(partition_handle, options)?;
        let Some(found) = self.find(&partition, partition_handle, target)? else {
            return Ok(None);
        };
        let data_handle = self.child(&partition, found.value, partition_handle)?;
        let data = self.block(data_handle, options)?;
        let found = self.find(&data, data_handle, target)?;
        Ok(found.filter(|found| found.same_user_key).map(|found| {
            let value = TableValue {
                block: data,
                range: found.value,
            };
            (found.tag, value)
        }))
    }

    /// A cursor over all versions, at none.
    pub(crate) fn cursor(self: &Arc<Self>, options: CursorOptions) -> TableCursor {
        TableCursor::new(Arc::clone(self), options)
    }

    /// `false` only if no key with this hash is in the table.
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let filter = self.filter.as_ref();
        filter.is_none_or(|filter| filter.may_contain(hash))
    }

    pub(crate) fn properties(&self) -> &TableProperties {
        &self.properties
    }

    pub(crate) fn path(&self) -> &Path {
        &self.source.path
    }

    /// Bytes of memory that the open table takes beside the cache.
    pub(crate) fn metadata_bytes(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, Filter::memory_bytes);
        size_of::<Self>() + filter + self.top_index.memory_bytes()
    }

    pub(super) fn source(&self) -> &BlockSource {
        &self.source
    }

    pub(super) fn footer(&self) -> BlockHandle {
        self.footer
    }

    pub(super) fn top_index(&self) -> &Arc<Block> {
        &self.top_index
    }

    /// The block at a handle, from the cache or from the file.
    pub(super) fn block(&self, handle: BlockHandle, options: CursorOptions) -> Result<Arc<Block>> {
        if let Some(block) = self.cache.get(self.number, handle.offset) {
            return Ok(block);
        }
        let block = Arc::new(self.source.read_block(handle, options.purpose)?);
        if options.fill_cache {
            self.cache
                .insert(self.number, handle.offset, Arc::clone(&block));
        }
        Ok(block)
    }

    /// The handle in an entry of the index block at `parent`. Children lie before their parent.
    fn child(
        &self,
        index: &Block,
        value: Range<usize>,
        parent: BlockHandle,
    ) -> Result<BlockHandle> {
        self.child_handle(index.bytes(value.clone()), value.start, parent)
    }

    /// The same for an entry's value at `position`.
    pub(super) fn child_handle(
        &self,
        value: &[u8],
        position: usize,
        parent: BlockHandle,
    ) -> Result<BlockHandle> {
        let fault = Malformed::new(position, "an index entry is not a block handle");
        let handle =
            BlockHandle::decode(value).ok_or_else(|| self.source.corruption(parent, fault))?;
        self.source
            .check_place(handle, parent.offset, parent.offset)?;
        Ok(handle)
    }

    fn find(
        &self,
        block: &Block,
        handle: BlockHandle,
        target: InternalKey<'_>,
    ) -> Result<Option<Found>> {
        let found = block.find(target);
        found.map_err(|fault| self.source.corruption(handle, fault))
    }
}
