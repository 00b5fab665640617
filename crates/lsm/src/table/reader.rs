//! An open table: point lookups, and blocks for cursors.
//!
//! Filter and top index stay in memory while the table is open. So do partitions of the index once
//! they were read, while the cache's budget lets them. They lead to the data blocks that the cache
//! holds. The others come through the cache. A checksum is verified when a block is read, not when
//! it is found in memory, and a block that fails is not kept.

mod blocks;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use terrace_storage::{File, FilePlace, OpenMode, OpenOptions, Purpose};

use super::block_bounds::{BlockBounds, Contents};
use super::cache::BlockCache;
use super::copies::{BlockCopies, TableCopies};
use super::cursor::TableCursor;
use super::filter::Filter;
use super::format::{BlockHandle, Malformed};
use super::index_block::IndexBlock;
use super::properties::{FilterPlace, FooterFault, TableProperties};
use super::range_block;
use super::read_ahead::Runs;
use super::reads::TableReads;
use super::resident_blocks::BlockPlace;
use super::salvage::forgive_damage;
use super::source::BlockSource;
use crate::block_value::TableValue;
use crate::key::{InternalKey, SequenceNumber, Tag};
use crate::range_tombstones::RangeTombstones;
use crate::time_profile::{Stage, enter_stage};
use crate::{Error, Result};

/// The purpose of a cursor's reads, and whether the blocks are worth keeping. All wishes of a
/// reader of the store reach a cursor over tables by these.
#[derive(Clone, Copy, Debug)]
pub struct CursorOptions {
    pub(crate) purpose: Purpose,
    /// Put blocks that had to be read into the cache. Flush and compaction do not.
    pub fill_cache: bool,
    /// Take blocks from the cache. A reader that does not sees the bytes that lie in the file now.
    pub(crate) ask_cache: bool,
    /// Ask for copies of blocks on a faster device. Lookups do; cursors read on and on.
    pub(super) asks_copies: bool,
    /// Fail where a file would have to be read.
    pub memory_only: bool,
}

impl CursorOptions {
    /// Returns the options of a read for a user, who may want the file itself looked at.
    pub const fn of_reader(fill_cache: bool, verify: bool) -> Self {
        CursorOptions {
            purpose: Purpose::Read,
            fill_cache: fill_cache && !verify,
            ask_cache: !verify,
            asks_copies: false,
            memory_only: false,
        }
    }

    /// Returns the options of a read for a user, as usual.
    pub(crate) const fn user_read() -> Self {
        CursorOptions::of_reader(true, false)
    }

    /// Returns the options of a read that leaves the cache as it is.
    pub const fn uncached(purpose: Purpose) -> Self {
        CursorOptions {
            purpose,
            fill_cache: false,
            ask_cache: true,
            asks_copies: false,
            memory_only: false,
        }
    }

    /// Returns the options for a lookup, which reads one block of each kind.
    pub(super) fn of_lookup(self) -> Self {
        CursorOptions {
            asks_copies: self.ask_cache && self.purpose == Purpose::Read,
            ..self
        }
    }

    /// Refuses to read a file for one that may not wait for it.
    pub(crate) fn check_may_read(self) -> Result<()> {
        match self.memory_only {
            true => Err(Error::WouldBlock),
            false => Ok(()),
        }
    }
}

/// An open table.
#[derive(Debug)]
pub struct TableReader {
    source: BlockSource,
    number: u64,
    cache: Arc<BlockCache>,
    properties: TableProperties,
    footer: BlockHandle,
    filter: Option<Filter>,
    top_index: IndexBlock,
    /// `None` if there are none.
    range_tombstones: Option<Arc<RangeTombstones>>,
    /// The partitions that stay, by their position in the top index.
    pinned: Box<[OnceLock<Arc<IndexBlock>>]>,
    pinned_bytes: AtomicU64,
    /// Bytes of the cache's budget that this reader takes beside its blocks.
    held_bytes: u64,
    kept_open: AtomicBool,
}

impl Drop for TableReader {
    fn drop(&mut self) {
        self.cache.unpin(*self.pinned_bytes.get_mut());
        self.cache.release(self.held_bytes);
    }
}

impl TableReader {
    /// Opens a table and checks its trailer, footer, filter and top index.
    pub fn open(
        place: &dyn FilePlace,
        name: &str,
        number: u64,
        cache: Arc<BlockCache>,
    ) -> Result<Arc<Self>> {
        let options = OpenOptions::buffered(OpenMode::Read);
        Self::open_with(place, name, number, cache, options)
    }

    /// Opens a table whose file is opened as the store's options say.
    pub(super) fn open_with(
        place: &dyn FilePlace,
        name: &str,
        number: u64,
        cache: Arc<BlockCache>,
        options: OpenOptions,
    ) -> Result<Arc<Self>> {
        let file = place.open(name, options)?;
        Self::assemble(file, place.shown(name), number, cache, None, Err)
    }

    /// Opens a table for [`TableReader::salvage`], which needs neither filter nor range tombstones:
    /// damaged ones are taken for absent.
    pub fn open_damaged(
        place: &dyn FilePlace,
        name: &str,
        number: u64,
        cache: Arc<BlockCache>,
    ) -> Result<Arc<Self>> {
        let file = place.open(name, OpenOptions::buffered(OpenMode::Read))?;
        Self::assemble(file, place.shown(name), number, cache, None, forgive_damage)
    }

    /// Opens a table that may have copies of its blocks on a faster device.
    pub(super) fn from_file(
        file: Arc<dyn File>,
        path: PathBuf,
        number: u64,
        cache: Arc<BlockCache>,
        reads: Option<Arc<TableReads>>,
        copies: Option<Arc<dyn BlockCopies>>,
    ) -> Result<Arc<Self>> {
        let mut reader = Self::assembled(file, path, number, cache, reads, Err)?;
        if let Some(copies) = copies {
            let file_bytes = reader.source.file.length_bytes()?;
            let of_table = TableCopies::of(copies, number, &reader.properties, file_bytes);
            reader.source.copies = Some(of_table);
        }
        Ok(Arc::new(reader))
    }

    /// Makes the reader, which counts its reads of blocks in `reads` from here on. `forgive` decides on
    /// faults in parts that a reader could do without.
    pub(super) fn assemble(
        file: Arc<dyn File>,
        path: PathBuf,
        number: u64,
        cache: Arc<BlockCache>,
        reads: Option<Arc<TableReads>>,
        forgive: impl Fn(Error) -> Result<()>,
    ) -> Result<Arc<Self>> {
        Self::assembled(file, path, number, cache, reads, forgive).map(Arc::new)
    }

    fn assembled(
        file: Arc<dyn File>,
        path: PathBuf,
        number: u64,
        cache: Arc<BlockCache>,
        reads: Option<Arc<TableReads>>,
        forgive: impl Fn(Error) -> Result<()>,
    ) -> Result<Self> {
        let mut source = BlockSource {
            file,
            path,
            runs: Runs::default(),
            bounds: BlockBounds::default(),
            reads: None,
            copies: None,
        };
        let (properties, footer) = read_footer(&source, Purpose::Read)?;
        source.bounds = BlockBounds::of(&properties);
        let filter = match read_filter(&source, &properties, footer, Purpose::Read) {
            Ok(filter) => filter,
            Err(error) => forgive(error).map(|()| None)?,
        };
        let top_index = match properties.top_index {
            Some(handle) => {
                source.check_place(handle, footer.offset, footer.offset)?;
                source.read_index(handle, Contents::TopIndex, Purpose::Read)?
            }
            None => IndexBlock::default(),
        };
        let ranges = read_range_tombstones(&source, &properties, footer, Purpose::Read);
        let range_tombstones = match ranges {
            Ok(ranges) => ranges,
            Err(error) => forgive(error).map(|()| None)?,
        };
        source.reads = reads;
        let mut reader = TableReader {
            source,
            number,
            cache,
            properties,
            footer,
            filter,
            pinned: (0..top_index.len()).map(|_| OnceLock::new()).collect(),
            pinned_bytes: AtomicU64::new(0),
            held_bytes: 0,
            kept_open: AtomicBool::new(false),
            top_index,
            range_tombstones: range_tombstones.map(Arc::new),
        };
        reader.held_bytes = reader.metadata_bytes() as u64;
        reader.cache.hold(reader.held_bytes);
        Ok(reader)
    }

    /// Returns the newest version of `key` that a reader at `snapshot` may see. `hash` is that of
    /// [`key_hash`](super::key_hash) under the seed in the table's properties.
    ///
    /// One block of each kind is enough: no separator in the index has the user key of the block
    /// behind it, unless it is the last key of its own block.
    ///
    /// Range tombstones are another matter: [`TableReader::range_tombstones`].
    pub fn get(
        &self,
        key: &[u8],
        hash: u64,
        snapshot: SequenceNumber,
        options: CursorOptions,
    ) -> Result<Option<(Tag, TableValue)>> {
        if !self.may_contain(hash) {
            return Ok(None);
        }
        let options = options.of_lookup();
        enter_stage(Stage::Index);
        let target = InternalKey::seek(key, snapshot);
        let top_at = self.top_index.position(target);
        let held;
        let pinned = self.pinned.get(top_at).and_then(OnceLock::get);
        let partition = match pinned.filter(|_| options.ask_cache) {
            Some(partition) => partition,
            None => match self.partition(top_at, options)? {
                Some(partition) => {
                    held = partition;
                    &held
                }
                None => return Ok(None),
            },
        };
        let Some(place) = BlockPlace::of(partition, partition.position(target)) else {
            return Ok(None);
        };
        enter_stage(Stage::BlockCache);
        let data = self.block(&place, options)?;
        enter_stage(Stage::BlockSearch);
        let found = data.find(target);
        let found = found.map_err(|fault| self.source.corruption(place.handle, fault))?;
        let Some(found) = found.filter(|found| found.same_user_key) else {
            // Older tables come next.
            enter_stage(Stage::Filters);
            return Ok(None);
        };
        Ok(Some((found.tag, TableValue::new(data, found.value))))
    }

    /// Makes a cursor over all versions, at none.
    pub fn cursor(self: &Arc<Self>, options: CursorOptions) -> TableCursor {
        TableCursor::new(Arc::clone(self), options)
    }

    /// Returns `false` only if no key with this hash is in the table.
    pub fn may_contain(&self, hash: u64) -> bool {
        let filter = self.filter.as_ref();
        filter.is_none_or(|filter| filter.may_contain(hash))
    }

    pub(super) fn is_kept_open(&self) -> bool {
        self.kept_open.load(Ordering::Relaxed)
    }

    pub(super) fn set_kept_open(&self, kept: bool) {
        self.kept_open.store(kept, Ordering::Relaxed);
    }

    /// Returns the range tombstones of the whole file, `None` if there are none.
    pub fn range_tombstones(&self) -> Option<&Arc<RangeTombstones>> {
        self.range_tombstones.as_ref()
    }

    pub fn properties(&self) -> &TableProperties {
        &self.properties
    }

    pub fn path(&self) -> &Path {
        &self.source.path
    }

    /// Bytes of memory that the open table takes beside the cache.
    pub(crate) fn metadata_bytes(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, Filter::memory_bytes);
        let ranges = self.range_tombstones.as_ref();
        let ranges = ranges.map_or(0, |ranges| ranges.memory_bytes() as usize);
        let index = self.top_index.memory_bytes() + size_of_val(&*self.pinned);
        size_of::<Self>() + filter + index + ranges
    }

    pub(super) fn source(&self) -> &BlockSource {
        &self.source
    }

    pub(super) fn footer(&self) -> BlockHandle {
        self.footer
    }

    pub(super) fn top_index(&self) -> &IndexBlock {
        &self.top_index
    }

    /// Returns the handle in the value of an entry, at `position` in the index block at `parent`.
    /// Children lie before their parent.
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
}

/// Reads a table's trailer and footer only: filter and index stay in the file.
///
/// # Errors
/// [`Error::Unsupported`] for a table of another release; corruption of trailer or footer.
pub fn read_properties(place: &dyn FilePlace, name: &str) -> Result<TableProperties> {
    let source = BlockSource {
        file: place.open(name, OpenOptions::buffered(OpenMode::Read))?,
        path: place.shown(name),
        runs: Runs::default(),
        bounds: BlockBounds::default(),
        reads: None,
        copies: None,
    };
    let (properties, _) = read_footer(&source, Purpose::Other)?;
    Ok(properties)
}

/// Returns the identity in the footer of an open file; `None` if it cannot be read.
pub(super) fn identity_of(file: &Arc<dyn File>, name: &str) -> Option<u128> {
    let source = BlockSource {
        file: Arc::clone(file),
        path: PathBuf::from(name),
        runs: Runs::default(),
        bounds: BlockBounds::default(),
        reads: None,
        copies: None,
    };
    let footer = read_footer(&source, Purpose::Read).ok();
    footer.map(|(properties, _)| properties.identity)
}

/// Returns the footer's fields and its place.
fn read_footer(source: &BlockSource, purpose: Purpose) -> Result<(TableProperties, BlockHandle)> {
    let file_bytes = source.file.length_bytes()?;
    let footer = source.read_trailer(file_bytes, purpose)?;
    let contents = source.read(footer, Contents::Plain, purpose)?.contents;
    let unsupported = |detail| Error::unsupported(&source.path, detail);
    let properties = TableProperties::decode(&contents, file_bytes);
    let properties = properties.map_err(|fault| match fault {
        FooterFault::Malformed(fault) => source.corruption(footer, fault),
        FooterFault::UnknownField(number) => {
            unsupported(format!("field {number} of the table's footer is not known"))
        }
        FooterFault::UnknownFilter(number) => unsupported(format!(
            "the table's filter is of kind {number}, which is not known"
        )),
    })?;
    let compression = properties.compression;
    if !compression.is_built_in() {
        let name = compression.name();
        return Err(unsupported(format!(
            "the table is compressed with {name}, and this program was built without the feature `{name}`"
        )));
    }
    Ok((properties, footer))
}

/// Reads the filter, if there is one.
pub(super) fn read_filter(
    source: &BlockSource,
    properties: &TableProperties,
    footer: BlockHandle,
    purpose: Purpose,
) -> Result<Option<Filter>> {
    let Some(FilterPlace { kind, handle }) = properties.filter else {
        return Ok(None);
    };
    source.check_place(handle, footer.offset, footer.offset)?;
    let filter = Filter::new(
        kind,
        source.read(handle, Contents::Plain, purpose)?.contents,
    );
    let fault = Malformed::new(0, "the filter's length is wrong");
    let filter = filter.ok_or_else(|| source.corruption(handle, fault))?;
    Ok(Some(filter))
}

/// Reads the block of range tombstones, if there is one, and checks it.
pub(super) fn read_range_tombstones(
    source: &BlockSource,
    properties: &TableProperties,
    footer: BlockHandle,
    purpose: Purpose,
) -> Result<Option<RangeTombstones>> {
    let Some(summary) = &properties.range_tombstones else {
        return Ok(None);
    };
    let handle = summary.handle;
    source.check_place(handle, footer.offset, footer.offset)?;
    let block = source.read_block(handle, Contents::Ranges, purpose)?;
    let sequences = properties.smallest_sequence..=properties.largest_sequence;
    let decoded = range_block::decode(&block, summary, sequences);
    decoded
        .map(Some)
        .map_err(|fault| source.corruption(handle, fault))
}
