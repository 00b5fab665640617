//! Blocks of the cache that are reached from the index, without a search.
//!
//! A hash table finds a block after four or five cache lines that are seldom in the processor's
//! cache; from its entry in the index it is one. So a partition of the index that stays in memory
//! remembers which of its blocks the cache holds. The cache decides what stays, as before: it takes
//! a block's [`Home`] in with it and empties the place when it lets the block go. So that it learns
//! what is read, one read in [`ASKED_ONE_IN`] goes to the cache all the same.
//!
//! A place is filled when the cache shows the block, not when it takes it in: most blocks of a large
//! store are read once, and filling and emptying cost more than one search.
//!
//! Invariant: what is in a place is in the cache. If the cache lets go of a block at the very moment at
//! which it has shown it, the block stays in its place until the next read that goes to the cache,
//! which takes it in again.
//!
//! (The literature calls this pointer swizzling: Graefe et al., *In-Memory Performance for Big Data*,
//! VLDB 2014.)

use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

use super::block::Block;
use super::format::BlockHandle;
use super::index_block::IndexBlock;

/// One read in so many asks the cache about a block that is in its place.
pub(super) const ASKED_ONE_IN: u64 = 16;

thread_local! {
    /// A count that threads shared would cost them more than the search that is saved.
    static READS: Cell<u64> = const { Cell::new(0) };
}

/// Counts a read of this thread that found its block in its place; whether it is to go to the cache.
#[inline]
pub(super) fn is_cache_asked() -> bool {
    let reads = READS.get().wrapping_add(1);
    READS.set(reads);
    reads.is_multiple_of(ASKED_ONE_IN)
}

/// The places of a partition's blocks; none until they are made.
#[derive(Debug, Default)]
pub(super) struct ResidentBlocks(OnceLock<Box<[ArcSwapOption<Block>]>>);

impl ResidentBlocks {
    /// The memory of so many places, bytes.
    pub(super) fn memory_bytes(children: usize) -> usize {
        children * size_of::<ArcSwapOption<Block>>()
    }

    /// Makes the places. A partition that does not stay needs none: its blocks would keep it in
    /// memory, beyond any budget.
    pub(super) fn make(&self, children: usize) {
        self.0
            .get_or_init(|| (0..children).map(|_| ArcSwapOption::empty()).collect());
    }

    fn place(&self, at: usize) -> Option<&ArcSwapOption<Block>> {
        self.0.get()?.get(at)
    }

    pub(super) fn is_made(&self) -> bool {
        self.0.get().is_some()
    }

    /// The block in a place.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<Arc<Block>> {
        self.place(at)?.load_full()
    }

    fn set(&self, at: usize, block: Option<Arc<Block>>) {
        if let Some(place) = self.place(at) {
            // Replacing waits for whoever is just looking: not for nothing.
            let is_empty = place.load().is_none();
            if !is_empty || block.is_some() {
                place.store(block);
            }
        }
    }
}

/// A data block's place in the index, as a reader comes to it.
pub(super) struct BlockPlace<'a> {
    partition: &'a Arc<IndexBlock>,
    at: usize,
    pub(super) handle: BlockHandle,
}

impl<'a> BlockPlace<'a> {
    /// The place at a position of a partition, `None` past its last.
    pub(super) fn of(partition: &'a Arc<IndexBlock>, at: usize) -> Option<Self> {
        let handle = partition.child(at)?;
        Some(BlockPlace {
            partition,
            at,
            handle,
        })
    }

    /// The block, if it is here.
    #[inline]
    pub(super) fn resident(&self) -> Option<Arc<Block>> {
        self.partition.resident().get(self.at)
    }

    /// Whether a block can be remembered here.
    pub(super) fn has_room(&self) -> bool {
        self.partition.resident().is_made()
    }

    /// The place as the cache remembers it, if there is room.
    pub(super) fn home(&self) -> Option<Home> {
        let at = u32::try_from(self.at).ok()?;
        self.has_room().then(|| Home {
            partition: Arc::clone(self.partition),
            at,
        })
    }
}

/// Where in the index a block of the cache is to be found.
#[derive(Clone, Debug)]
pub(super) struct Home {
    partition: Arc<IndexBlock>,
    at: u32,
}

impl Home {
    pub(super) fn is(&self, place: &BlockPlace<'_>) -> bool {
        Arc::ptr_eq(&self.partition, place.partition) && self.at as usize == place.at
    }

    pub(super) fn fill(&self, block: &Arc<Block>) {
        let place = self.at as usize;
        self.partition
            .resident()
            .set(place, Some(Arc::clone(block)));
    }

    pub(super) fn empty(&self) {
        self.partition.resident().set(self.at as usize, None);
    }
}
