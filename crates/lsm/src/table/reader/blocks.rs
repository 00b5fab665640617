//! The sources of an open table's blocks: pinned partitions of the index, the cache, the file; and
//! the blocks that are kept.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use super::{CursorOptions, TableReader};
use crate::table::block::Block;
use crate::table::block_bounds::Contents;
use crate::table::cache::CachedBlock;
use crate::table::format::{BlockHandle, Malformed};
use crate::table::index_block::IndexBlock;
use crate::table::resident_blocks::{BlockPlace, ResidentBlocks, is_cache_asked};
use crate::{Error, Result};

impl TableReader {
    /// Returns the partition at a position of the top index, `None` past the last: pinned, from the
    /// cache or from the file.
    pub(in crate::table) fn partition(
        &self,
        at: usize,
        options: CursorOptions,
    ) -> Result<Option<Arc<IndexBlock>>> {
        let Some(handle) = self.top_index.child(at) else {
            return Ok(None);
        };
        let slot = self.pinned.get(at);
        if !options.ask_cache {
            return Ok(Some(Arc::new(self.read_partition(at, handle, options)?)));
        }
        if let Some(pinned) = slot.and_then(OnceLock::get) {
            return Ok(Some(Arc::clone(pinned)));
        }
        let partition = match self.cache.get(self.number, handle.offset) {
            Some(CachedBlock::Index(partition)) => return Ok(Some(partition)),
            Some(CachedBlock::Data(..)) => return Err(self.two_roles(handle)),
            None => Arc::new(self.read_partition(at, handle, options)?),
        };
        if options.fill_cache && !self.pin(slot, &partition) {
            let cached = CachedBlock::Index(Arc::clone(&partition));
            self.cache.insert(self.number, handle.offset, cached);
        }
        Ok(Some(partition))
    }

    /// Reads a partition whose keys are those that the top index says.
    fn read_partition(
        &self,
        at: usize,
        handle: BlockHandle,
        options: CursorOptions,
    ) -> Result<IndexBlock> {
        options.check_may_read()?;
        let block = self.read_alone(handle, Contents::Partition, options)?;
        let partition = self.source.index_of(handle, &block)?;
        if partition.is_child_of(&self.top_index, at) {
            return Ok(partition);
        }
        let fault = Malformed::new(0, "the top index's key of a partition is not its last");
        Err(self.source.corruption(handle, fault))
    }

    /// Keeps a partition if there is room; false if there is none.
    fn pin(&self, slot: Option<&OnceLock<Arc<IndexBlock>>>, partition: &Arc<IndexBlock>) -> bool {
        let places_bytes = match self.cache.has_places() {
            true => ResidentBlocks::memory_bytes(partition.len()),
            false => 0,
        };
        let bytes = (partition.memory_bytes() + places_bytes) as u64;
        let Some(slot) = slot.filter(|_| self.cache.pin(bytes)) else {
            return false;
        };
        match slot.set(Arc::clone(partition)) {
            Ok(()) => {
                if self.cache.has_places() {
                    partition.resident().make(partition.len());
                }
                self.pinned_bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            // Another thread was first.
            Err(_) => self.cache.unpin(bytes),
        }
        true
    }

    /// Returns the data block at a place, from memory or from the file.
    pub(super) fn block(
        &self,
        place: &BlockPlace<'_>,
        options: CursorOptions,
    ) -> Result<Arc<Block>> {
        match self.cached(place, options)? {
            Some(block) => Ok(block),
            None => {
                options.check_may_read()?;
                let block = self.read_alone(place.handle, Contents::Data, options)?;
                Ok(self.keep(place, block, options))
            }
        }
    }

    /// Reads a block from the file, or from its copy where a lookup may ask for one.
    fn read_alone(
        &self,
        handle: BlockHandle,
        contents: Contents,
        options: CursorOptions,
    ) -> Result<Block> {
        let CursorOptions {
            purpose,
            fill_cache,
            ..
        } = options;
        match options.asks_copies {
            true => self
                .source
                .read_copied(handle, contents, (purpose, fill_cache)),
            false => self.source.read_block(handle, contents, purpose),
        }
    }

    /// Returns the data block at a place, if it is in memory.
    #[inline]
    pub(in crate::table) fn cached(
        &self,
        place: &BlockPlace<'_>,
        options: CursorOptions,
    ) -> Result<Option<Arc<Block>>> {
        if !options.ask_cache {
            return Ok(None);
        }
        match place.resident() {
            Some(block) if is_cache_asked() => {
                self.show(place, &block, options);
                Ok(Some(block))
            }
            Some(block) => Ok(Some(block)),
            None => self.ask(place, options),
        }
    }

    /// Lets the cache see that a block is read which it holds, or ought to.
    #[cold]
    fn show(&self, place: &BlockPlace<'_>, block: &Arc<Block>, options: CursorOptions) {
        if !self.cache.touch(self.number, place.handle.offset) && options.fill_cache {
            self.take_in(place, block);
        }
    }

    /// Asks the cache, and has the next reader find the block from the index.
    fn ask(&self, place: &BlockPlace<'_>, options: CursorOptions) -> Result<Option<Arc<Block>>> {
        let (block, home) = match self.cache.get(self.number, place.handle.offset) {
            Some(CachedBlock::Data(block, home)) => (block, home),
            Some(CachedBlock::Index(_)) => return Err(self.two_roles(place.handle)),
            None => return Ok(None),
        };
        // A merge is the last to read its inputs: it leaves no traces.
        if options.fill_cache && place.has_room() {
            if home.is_none_or(|home| !home.is(place)) {
                self.take_in(place, &block);
            }
            self.seat(place, &block);
        }
        Ok(Some(block))
    }

    /// Has the cache hold a block, as one that leaves its place when it leaves the cache.
    fn take_in(&self, place: &BlockPlace<'_>, block: &Arc<Block>) {
        let seated = CachedBlock::Data(Arc::clone(block), place.home());
        self.cache.put(self.number, place.handle.offset, seated);
    }

    /// Fills the place with a block that the cache holds.
    fn seat(&self, place: &BlockPlace<'_>, block: &Arc<Block>) {
        place.fill(block);
        // The cache may have dropped it just before, or have it again and seated elsewhere: then
        // nothing else empties the place.
        if !self.cache.empties(self.number, place, block) {
            place.empty();
        }
    }

    /// Puts a block that was read into the cache if it is worth it.
    pub(in crate::table) fn keep(
        &self,
        place: &BlockPlace<'_>,
        block: Block,
        options: CursorOptions,
    ) -> Arc<Block> {
        let block = Arc::new(block);
        if options.fill_cache {
            let cached = CachedBlock::Data(Arc::clone(&block), place.home());
            self.cache.insert(self.number, place.handle.offset, cached);
        }
        block
    }

    /// Returns whether a lookup finds the block in memory, or as a copy on a faster device.
    pub(in crate::table) fn is_at_hand(&self, handle: BlockHandle) -> bool {
        let copies = self.source.copies.as_ref();
        self.cache.contains(self.number, handle.offset)
            || copies.is_some_and(|copies| copies.has(handle))
    }

    fn two_roles(&self, handle: BlockHandle) -> Error {
        let fault = Malformed::new(0, "the index names a block as data and as index");
        self.source.corruption(handle, fault)
    }
}
