//! The open readers of a store's tables, up to a count and up to an amount of memory.

use std::fmt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};
use terrace_storage::{self as storage, OpenOptions, Operation};

use super::cache::{BlockCache, BuildMixer};
use super::copies::{BlockCopies, TierCopies};
use super::descriptors::{TableFiles, TableLimit};
use super::properties::TableProperties;
use super::reader::TableReader;
use super::reads::TableReads;
use super::table_file::TableFile;
use crate::data_files::{DataFiles, Placed, Stage};
use crate::{Error, Result};

/// Returns the error for a whole table in the place of the one that the manifest lists.
pub fn another_table(path: &Path) -> Error {
    let detail = "another table lies under this name, not the one that is listed";
    Error::corruption(path, 0, detail)
}

/// The open readers of a store's tables. Each holds a filter, a top index, and a file unless descriptors
/// are short.
pub struct TableCache {
    data: DataFiles,
    open_options: OpenOptions,
    files: Arc<TableFiles>,
    blocks: Arc<BlockCache>,
    copies: OnceLock<Arc<dyn TierCopies>>,
    readers: Cache<Placed, Arc<TableReader>, ByMetadata, BuildMixer, SpareKept>,
    weight: ByMetadata,
    kept_weight: Arc<AtomicU64>,
    max_kept_weight: u64,
}

/// Weighs each reader alike or, where their memory has a limit, by its filter and top index. Then it has
/// at least its part of the whole weight: so a weight within the limit is a number of tables within
/// theirs, too.
#[derive(Clone, Copy)]
struct ByMetadata {
    least_weight: u64,
    is_limited: bool,
}

impl ByMetadata {
    /// Returns the weights under a limit, and the limit of their sum.
    fn under(limit: TableLimit) -> (Self, u64) {
        let tables = limit.tables.max(1) as u64;
        // Alike is 1: the shards of a cache round their parts of the whole up to whole weights.
        let least_weight = limit
            .metadata_bytes
            .map_or(1, |bytes| (bytes / tables).max(1));
        let is_limited = limit.metadata_bytes.is_some();
        let weight = ByMetadata {
            least_weight,
            is_limited,
        };
        (weight, least_weight * tables)
    }

    fn of(self, reader: &TableReader) -> u64 {
        match self.is_limited {
            true => self.least_weight.max(reader.metadata_bytes() as u64),
            false => self.least_weight,
        }
    }
}

impl Weighter<Placed, Arc<TableReader>> for ByMetadata {
    fn weight(&self, _: &Placed, reader: &Arc<TableReader>) -> u64 {
        self.of(reader)
    }
}

/// Does not close readers that are kept open: nothing would be saved.
#[derive(Clone)]
struct SpareKept;

impl Lifecycle<Placed, Arc<TableReader>> for SpareKept {
    type RequestState = ();

    fn is_pinned(&self, _: &Placed, reader: &Arc<TableReader>) -> bool {
        reader.is_kept_open()
    }
}

/// A reader that stays open as long as this lives.
#[derive(Debug)]
pub struct KeptOpen {
    reader: Arc<TableReader>,
    weight: u64,
    kept_weight: Arc<AtomicU64>,
}

impl KeptOpen {
    pub(crate) fn reader(&self) -> &Arc<TableReader> {
        &self.reader
    }
}

impl Drop for KeptOpen {
    fn drop(&mut self) {
        self.reader.set_kept_open(false);
        self.kept_weight.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

impl TableCache {
    pub fn new(
        data: DataFiles,
        open_options: OpenOptions,
        limit: TableLimit,
        blocks: Arc<BlockCache>,
    ) -> Result<Self> {
        let capacity_tables = limit.tables;
        let (weight, weight_capacity) = ByMetadata::under(limit);
        let files = TableFiles::new(limit)
            .map_err(|error| storage::Error::new(Operation::Open, data.shown(), error))?;
        let mut options = OptionsBuilder::new();
        options
            .estimated_items_capacity(capacity_tables)
            .weight_capacity(weight_capacity);
        if limit.metadata_bytes.is_some() {
            // A shard takes no reader that is larger than its part of the limit.
            options.shards(1);
        }
        let options = options
            .build()
            .map_err(|error| Error::invalid(format!("table cache: {error}")))?;
        Ok(TableCache {
            data,
            open_options,
            files,
            blocks,
            copies: OnceLock::new(),
            readers: Cache::with_options(options, weight, BuildMixer::default(), SpareKept),
            weight,
            kept_weight: Arc::default(),
            // The rest is left to tables that are read now and then.
            max_kept_weight: weight_capacity - weight_capacity / 4,
        })
    }

    /// Has tables that are opened from now on ask for copies of blocks on faster devices. Once.
    pub fn set_copies(&self, copies: Arc<dyn TierCopies>) {
        let _ = self.copies.set(copies);
    }

    fn copies_for(&self, placed: Placed) -> Option<Arc<dyn BlockCopies>> {
        self.copies.get()?.copies_for(placed)
    }

    /// Keeps a reader open beside the cache, if not too many are. Once for each table.
    pub(crate) fn keep_open(&self, reader: &Arc<TableReader>) -> Option<KeptOpen> {
        let weight = self.weight.of(reader);
        let kept_weight = &self.kept_weight;
        if kept_weight.fetch_add(weight, Ordering::Relaxed) + weight > self.max_kept_weight {
            kept_weight.fetch_sub(weight, Ordering::Relaxed);
            return None;
        }
        reader.set_kept_open(true);
        Some(KeptOpen {
            reader: Arc::clone(reader),
            weight,
            kept_weight: Arc::clone(kept_weight),
        })
    }

    /// Returns the reader of a table, opened if it is not. The next call tries a failed open again.
    /// The reader counts its reads in `reads`.
    /// `is_wanted` is called when the table is opened: another one may have got its name.
    pub(crate) fn get(
        &self,
        placed: Placed,
        reads: &Arc<TableReads>,
        is_wanted: impl FnOnce(&TableProperties) -> bool,
    ) -> Result<Arc<TableReader>> {
        self.readers.get_or_insert_with(&placed, || {
            let (place, name) = self.data.place(placed, Stage::Listed)?;
            let blocks = Arc::clone(&self.blocks);
            let path = place.shown(&name);
            let file = TableFile::open(place, name, self.open_options, &self.files)?;
            let (number, copies) = (placed.file.number, self.copies_for(placed));
            let reader = TableReader::from_file(
                Arc::clone(&file) as _,
                path,
                number,
                blocks,
                Some(Arc::clone(reads)),
                copies,
            )?;
            if is_wanted(reader.properties()) {
                file.identified(reader.properties().identity);
                return Ok(reader);
            }
            Err(another_table(reader.path()))
        })
    }

    /// Returns the reader of a table that is open.
    pub(crate) fn if_open(&self, placed: Placed) -> Option<Arc<TableReader>> {
        self.readers.get(&placed)
    }

    /// Forgets a table that is no longer listed; its file is closed when its last user is done.
    pub fn remove(&self, placed: Placed) {
        self.readers.remove(&placed);
        if let Some(copies) = self.copies_for(placed)
            && !self.is_open_elsewhere(placed, &copies)
        {
            copies.table_removed(placed.file.number);
        }
    }

    /// Returns whether a table is open in another tier with the same copies: it has moved, or a copy of it came to
    /// nothing. One that is opened later, or just now, is known by its opening; until then it may lose copies.
    fn is_open_elsewhere(&self, placed: Placed, copies: &Arc<dyn BlockCopies>) -> bool {
        let others = (0..=u8::MAX).filter(|tier| *tier != placed.tier);
        let mut others = others.map(|tier| Placed { tier, ..placed });
        others.any(|other| {
            let found = self
                .readers
                .contains_key(&other)
                .then(|| self.copies_for(other));
            let found = found.flatten();
            found.is_some_and(|found| ptr::addr_eq(Arc::as_ptr(&found), Arc::as_ptr(copies)))
        })
    }

    /// Returns the number of open readers.
    pub(crate) fn open_tables(&self) -> usize {
        self.readers.len()
    }

    /// Bytes of filters and top indexes in memory.
    pub fn metadata_bytes(&self) -> u64 {
        let bytes = |(_, reader): (Placed, Arc<TableReader>)| reader.metadata_bytes() as u64;
        self.readers.iter().map(bytes).sum()
    }

    pub fn blocks(&self) -> &Arc<BlockCache> {
        &self.blocks
    }
}

impl fmt::Debug for TableCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableCache")
            .field("data", &self.data)
            .field("open_tables", &self.open_tables())
            .finish_non_exhaustive()
    }
}
