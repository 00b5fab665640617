//! Space: which blocks of a namespace's data are free.
//!
//! One bit a block, in up to 16 partitions, each behind its own lock, so that event loops which start
//! in different ones seldom meet. Nothing of it is on the device: recovery reserves what it finds.

mod bitmap;
mod partition;
mod several;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::block::{Extent, Extents, MAX_EXTENTS};
use partition::{Partition, ZONE_BLOCKS};

/// The most partitions.
pub const MAX_PARTITIONS: usize = 16;

/// Blocks that cannot be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The extent has no blocks, or some that are not the data's.
    Outside(Extent),
    /// The block is in use.
    Used(u64),
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Conflict::Outside(Extent { start, blocks }) => {
                write!(f, "{blocks} blocks from {start} on are not in the data")
            }
            Conflict::Used(block) => write!(f, "block {block} is used twice"),
        }
    }
}

/// The blocks of one namespace's data.
pub struct Space {
    data: Extent,
    partitions: Box<[Mutex<Partition>]>,
    partition_blocks: u64,
    /// Free blocks, less those of allocations that are under way.
    free: AtomicU64,
    kept_back: AtomicU64,
}

impl Space {
    /// Makes a space of free blocks. It has fewer partitions than asked for if it is small.
    pub fn new(data: Extent, partitions: usize) -> Self {
        let zones = data.blocks.div_ceil(ZONE_BLOCKS as u64).max(1);
        let count = partitions.clamp(1, MAX_PARTITIONS) as u64;
        let partition_blocks = zones.div_ceil(count) * ZONE_BLOCKS as u64;
        let partition = |number: u64| {
            let left = data.blocks - number * partition_blocks;
            Mutex::new(Partition::new(left.min(partition_blocks) as usize))
        };
        Space {
            data,
            partitions: (0..data.blocks.div_ceil(partition_blocks))
                .map(partition)
                .collect(),
            partition_blocks,
            free: AtomicU64::new(data.blocks),
            kept_back: AtomicU64::new(0),
        }
    }

    /// Returns the number of partitions.
    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Returns the number of free blocks, those kept back included.
    pub fn free_blocks(&self) -> u64 {
        self.free.load(Relaxed)
    }

    /// Returns the number of blocks that [`allocate`](Space::allocate) leaves free.
    pub fn kept_back(&self) -> u64 {
        self.kept_back.load(Relaxed)
    }

    /// Sets the number of blocks that [`allocate`](Space::allocate) leaves free.
    pub fn keep_back(&self, blocks: u64) {
        self.kept_back.store(blocks, Relaxed);
    }

    /// Marks blocks as used, all or none of them.
    ///
    /// # Errors
    /// A block is in use or is not the data's.
    pub fn reserve(&self, extent: Extent) -> Result<(), Conflict> {
        if !self.contains(extent) {
            return Err(Conflict::Outside(extent));
        }
        let mut locked: Vec<_> = self
            .parts(extent)
            .map(|(number, from, to)| (number, self.partitions[number].lock(), from, to))
            .collect();
        for (number, partition, from, to) in &locked {
            if let Some(block) = partition.used_in(*from, *to) {
                return Err(Conflict::Used(self.block(*number, block)));
            }
        }
        for (_, partition, from, to) in &mut locked {
            partition.mark(*from, *to, false);
        }
        self.free.fetch_sub(extent.blocks, Relaxed);
        Ok(())
    }

    /// Takes free blocks for a store, and leaves those that are kept back. The search begins in
    /// partition `from_partition`, modulo their number. It takes one extent if a run of free blocks is
    /// long enough, else the longest runs, at most `max_extents` of them. All or none.
    pub fn allocate(
        &self,
        blocks: u64,
        from_partition: usize,
        max_extents: usize,
    ) -> Option<Extents> {
        self.take(blocks, from_partition, max_extents, self.kept_back())
    }

    /// Takes free blocks as [`allocate`](Space::allocate) does, those that are kept back too.
    pub fn allocate_reserved(
        &self,
        blocks: u64,
        from_partition: usize,
        max_extents: usize,
    ) -> Option<Extents> {
        self.take(blocks, from_partition, max_extents, 0)
    }

    fn take(&self, blocks: u64, from: usize, most: usize, leave: u64) -> Option<Extents> {
        if blocks == 0 || most == 0 {
            return None;
        }
        // Counted first: two that are under way together leave enough too.
        let less = |free: u64| free.checked_sub(blocks).filter(|left| *left >= leave);
        self.free.fetch_update(Relaxed, Relaxed, less).ok()?;
        let most = most.min(MAX_EXTENTS);
        let taken = self
            .take_one(blocks as usize, from)
            .or_else(|| self.take_several(blocks as usize, most));
        if taken.is_none() {
            self.free.fetch_add(blocks, Relaxed);
        }
        taken
    }

    fn take_one(&self, blocks: usize, from: usize) -> Option<Extents> {
        let count = self.partitions.len();
        (0..count).find_map(|step| {
            let number = (from % count + step) % count;
            let start = self.partitions[number].lock().take(blocks)?;
            Some(self.extent(number, start, blocks).into())
        })
    }

    /// Takes the longest runs, under all locks: they are taken in the order of the partitions.
    fn take_several(&self, blocks: usize, most: usize) -> Option<Extents> {
        let mut locked: Vec<_> = self.partitions.iter().map(Mutex::lock).collect();
        let mut partitions: Vec<&mut Partition> =
            locked.iter_mut().map(|lock| &mut **lock).collect();
        let pieces = several::choose(&mut partitions, blocks, most)?;
        let extents = pieces.into_iter().map(|(number, from, len)| {
            partitions[number].mark(from, from + len, false);
            self.extent(number, from, len)
        });
        Extents::new(&extents.collect::<Vec<_>>())
    }

    /// Gives back blocks that are in use.
    pub fn free(&self, extent: Extent) {
        debug_assert!(
            self.contains(extent),
            "{extent:?} is not in {:?}",
            self.data
        );
        if !self.contains(extent) {
            return;
        }
        for (number, from, to) in self.parts(extent) {
            let freed = self.partitions[number].lock().mark(from, to, true);
            debug_assert_eq!(freed, to - from, "{extent} were not all in use");
            self.free.fetch_add(freed as u64, Relaxed);
        }
    }

    /// Returns true if the block is free.
    pub fn is_free(&self, block: u64) -> bool {
        let extent = Extent {
            start: block,
            blocks: 1,
        };
        self.contains(extent)
            && self.parts(extent).all(|(number, from, to)| {
                self.partitions[number].lock().used_in(from, to).is_none()
            })
    }

    /// Returns the length of the longest run of free blocks. Runs end at the ends of partitions.
    pub fn largest_run(&self) -> u64 {
        let partitions = self.partitions.iter();
        let longest = partitions.map(|partition| partition.lock().longest() as u64);
        longest.max().unwrap_or(0)
    }

    /// Returns the zone with the most free blocks that is not all free, and their number; none if
    /// no such zone has a free block. Zones of `zone_blocks` count from the data's beginning. Zones
    /// for which `skip` is true do not count. Zones have a power of two of blocks, at most 4,096.
    pub fn emptiest_zone(
        &self,
        zone_blocks: u64,
        skip: impl Fn(Extent) -> bool,
    ) -> Option<(Extent, u64)> {
        let small = zone_blocks.clamp(1, ZONE_BLOCKS as u64).next_power_of_two() as usize;
        let best = std::cell::Cell::new(None);
        for (number, partition) in self.partitions.iter().enumerate() {
            partition.lock().small_zones(
                small,
                || best.get().map_or(0, |(_, free)| free as usize) + 1,
                |from, to, free| {
                    let zone = self.extent(number, from, to - from);
                    if !skip(zone) {
                        best.set(Some((zone, free as u64)));
                    }
                },
            );
        }
        best.get()
    }

    /// Returns the memory of the bitmaps and summaries, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let partitions = self.partitions.iter();
        let inside = partitions.map(|partition| partition.lock().memory_bytes() as u64);
        inside.sum::<u64>() + size_of_val(&*self.partitions) as u64
    }

    fn contains(&self, extent: Extent) -> bool {
        let end = extent.start.checked_add(extent.blocks);
        extent.blocks > 0
            && extent.start >= self.data.start
            && end.is_some_and(|end| end <= self.data.end())
    }

    /// Iterates over the parts of an extent of the data: partition, and first and last block in it.
    fn parts(&self, extent: Extent) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
        let (size, from) = (self.partition_blocks, extent.start - self.data.start);
        let to = from + extent.blocks;
        (from / size..to.div_ceil(size)).map(move |number| {
            let start = number * size;
            let (from, to) = (from.max(start) - start, to.min(start + size) - start);
            (number as usize, from as usize, to as usize)
        })
    }

    fn block(&self, partition: usize, at: usize) -> u64 {
        self.data.start + partition as u64 * self.partition_blocks + at as u64
    }

    fn extent(&self, partition: usize, from: usize, blocks: usize) -> Extent {
        Extent {
            start: self.block(partition, from),
            blocks: blocks as u64,
        }
    }

    #[cfg(test)]
    fn looked(&self) -> u64 {
        let partitions = self.partitions.iter();
        partitions.map(|partition| partition.lock().looked()).sum()
    }
}
