//! Blocks of the cache that are reached from the index, without a search.
//!
//! A hash table finds a block after four or five cache lines that are seldom in the processor's
//! cache. From its entry in the index it is one. So a partition of the index that stays in memory
//! remembers which of its blocks the cache holds, unless those are few (`BlockCache::has_places`).
//! The cache decides which blocks stay, as before: it takes a block's [`Home`] in with it and
//! empties the place when it drops the block. So that it learns of reads, one read in
//! [`ASKED_ONE_IN`] goes to the cache all the same.
//!
//! A place is filled when the cache shows the block, not when it takes it in: most blocks of a large
//! store are read once, and filling and emptying cost more than one search.
//!
//! Invariant: a block in a place is in the cache. The cache may drop a block between showing it and
//! the place being filled. So the reader that has filled a place asks once more, and empties it
//! again.
//!
//! (The literature calls this pointer swizzling: Graefe et al., *In-Memory Performance for Big Data*,
//! VLDB 2014.)

use std::cell::Cell;
use std::ptr;
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwapOption;

use super::block::Block;
use super::format::BlockHandle;
use super::index_block::IndexBlock;

/// One read in this many asks the cache about a block that is in its place.
pub(super) const ASKED_ONE_IN: u64 = 16;
const _: () = assert!(ASKED_ONE_IN.is_power_of_two());

thread_local! {
    /// A sequence of each thread: one that threads shared would cost them more than the search that is
    /// saved.
    static READS: Cell<u64> = const { Cell::new(0) };
}

/// Draws for a read of this thread that found its block in its place; returns whether it is to go
/// to the cache. Were it every n-th read, a program that reads in such a rhythm would hide blocks
/// from the cache.
#[inline]
pub(super) fn is_cache_asked() -> bool {
    // Knuth's linear congruence; its high bits are the good ones.
    let drawn = READS.get().wrapping_mul(6_364_136_223_846_793_005);
    let drawn = drawn.wrapping_add(1_442_695_040_888_963_407);
    READS.set(drawn);
    drawn >> 32 & (ASKED_ONE_IN - 1) == 0
}

/// The places of a partition's blocks; none until they are made.
#[derive(Debug, Default)]
pub(super) struct ResidentBlocks(OnceLock<Box<[ArcSwapOption<Block>]>>);

impl ResidentBlocks {
    /// Returns the memory of `children` places, in bytes.
    pub(super) fn memory_bytes(children: usize) -> usize {
        children * size_of::<ArcSwapOption<Block>>()
    }

    /// Makes the places. A partition that does not stay needs none.
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

    /// Returns the block in a place.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<Arc<Block>> {
        self.place(at)?.load_full()
    }

    fn set(&self, at: usize, block: Option<Arc<Block>>) {
        if let Some(place) = self.place(at) {
            // Replacing waits for threads that are just looking: an empty place is not emptied.
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
    /// Returns the place at a position of a partition, `None` past its last.
    pub(super) fn of(partition: &'a Arc<IndexBlock>, at: usize) -> Option<Self> {
        let handle = partition.child(at)?;
        Some(BlockPlace {
            partition,
            at,
            handle,
        })
    }

    /// Returns the block, if it is here.
    #[inline]
    pub(super) fn resident(&self) -> Option<Arc<Block>> {
        self.partition.resident().get(self.at)
    }

    /// Puts the block here.
    pub(super) fn fill(&self, block: &Arc<Block>) {
        let resident = self.partition.resident();
        resident.set(self.at, Some(Arc::clone(block)));
    }

    pub(super) fn empty(&self) {
        self.partition.resident().set(self.at, None);
    }

    /// Returns whether a block can be remembered here.
    pub(super) fn has_room(&self) -> bool {
        self.partition.resident().is_made()
    }

    /// Returns the place as the cache remembers it, if there is room.
    pub(super) fn home(&self) -> Option<Home> {
        let at = u32::try_from(self.at).ok()?;
        self.has_room().then(|| Home {
            partition: Arc::downgrade(self.partition),
            at,
        })
    }
}

/// Where in the index a block of the cache is to be found. It keeps nothing in memory: blocks of a
/// table that was removed stay in the cache until others push them out.
#[derive(Clone, Debug)]
pub(super) struct Home {
    partition: Weak<IndexBlock>,
    at: u32,
}

impl Home {
    pub(super) fn is(&self, place: &BlockPlace<'_>) -> bool {
        ptr::eq(self.partition.as_ptr(), Arc::as_ptr(place.partition))
            && self.at as usize == place.at
    }

    pub(super) fn empty(&self) {
        if let Some(partition) = self.partition.upgrade() {
            partition.resident().set(self.at as usize, None);
        }
    }
}
