//! Blocks of the cache that are reached from the index, without a search.
//!
//! A hash table finds a block after four or five cache lines that are seldom in the processor's
//! cache; from its entry in the index it is one. So a partition of the index that stays in memory
//! remembers which of its blocks the cache holds. The cache decides what stays, as before: it takes
//! a block's [`Home`] in with it and empties the place when it lets the block go. So that it learns
//! what is read, one read in [`ASKED_ONE_IN`] goes to the cache all the same.
//!
//! Invariant: what is in a place is in the cache. A place is filled before the cache takes the block
//! in, or when the cache has just shown it; if the cache lets go of it at that very moment, the block
//! stays in its place until the next read that goes to the cache, which takes it in again.
//!
//! (The literature calls this pointer swizzling: Graefe et al., *In-Memory Performance for Big Data*,
//! VLDB 2014.)

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

use super::block::Block;
use super::index_block::IndexBlock;

/// One read in so many asks the cache about a block that is in its place.
pub(super) const ASKED_ONE_IN: u64 = 16;

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
            place.store(block);
        }
    }
}

/// Where in the index a block is to be found.
#[derive(Clone, Debug)]
pub(super) struct Home {
    partition: Arc<IndexBlock>,
    at: u32,
}

impl Home {
    /// That of the block at a position, if the partition has places.
    pub(super) fn of(partition: &Arc<IndexBlock>, at: usize) -> Option<Home> {
        let at = u32::try_from(at).ok()?;
        partition.resident().is_made().then(|| Home {
            partition: Arc::clone(partition),
            at,
        })
    }

    pub(super) fn is(&self, partition: &Arc<IndexBlock>, at: usize) -> bool {
        Arc::ptr_eq(&self.partition, partition) && self.at as usize == at
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
