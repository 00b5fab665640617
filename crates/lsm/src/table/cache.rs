//! The blocks of tables that are kept in memory, within a byte budget.
//!
//! The budget has two parts, and a third where it bounds a whole store: filters and top indexes of
//! open tables. Blocks of the index that readers *pin* are reached without a search
//! and stay until their table is closed. They take up to a quarter of the budget, and no more than
//! three quarters of the part that the read buffer leaves. Beside a large read buffer, a block of
//! the index is worth more than the data blocks that it leads to. The rest holds data blocks, and
//! the index blocks that found no room among the pinned, and forgets blocks that are not read.
//! Nothing is set aside: unpinned bytes are left to the blocks that come and go.
//!
//! With the page cache behind it, a full cache takes a data block in at its second miss within a
//! while. Most blocks of a large store are read once: taking each in would push one out. To touch
//! memory that has long been untouched costs more than all else about a block that the page cache
//! has. A miss that goes to the device costs a hundred times as much. So where tables are read past
//! the page cache every block is taken in.

use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

use parking_lot::Mutex;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};

use super::block::Block;
use super::index_block::IndexBlock;
use super::resident_blocks::{ASKED_ONE_IN, BlockPlace, Home};

/// Where a block belongs: the number of its table and its offset. Table numbers are not reused, so
/// blocks of removed tables need not be searched for; they leave as others are read.
type BlockKey = (u64, u64);
pub(super) type BuildMixer = BuildHasherDefault<Mixer>;

/// Hashes the small integers that caches are keyed by; no attacker chooses them to collide.
#[derive(Default)]
pub(super) struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A block as it is kept: checked, uncompressed, ready to be searched.
#[derive(Clone)]
pub(super) enum CachedBlock {
    Data(Arc<Block>, Option<Home>),
    Index(Arc<IndexBlock>),
}

impl CachedBlock {
    /// Returns with which of `parts` parts it would leave, by where it is in memory.
    fn leaving_part(&self, parts: usize) -> usize {
        let address = match self {
            CachedBlock::Data(block, _) => block.address(),
            CachedBlock::Index(block) => Arc::as_ptr(block).addr(),
        };
        address / LEAVING_TOGETHER_BYTES % parts.max(1)
    }
}

/// Empties the place in the index of a block that leaves.
#[derive(Clone, Default)]
struct Unseating(DefaultLifecycle<BlockKey, CachedBlock>);

impl Lifecycle<BlockKey, CachedBlock> for Unseating {
    type RequestState =
        <DefaultLifecycle<BlockKey, CachedBlock> as Lifecycle<BlockKey, CachedBlock>>::RequestState;

    fn on_evict(&self, state: &mut Self::RequestState, key: BlockKey, block: CachedBlock) {
        if let CachedBlock::Data(_, Some(home)) = &block {
            home.empty();
        }
        self.0.on_evict(state, key, block);
    }
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<BlockKey, CachedBlock> for ByBytes {
    fn weight(&self, _: &BlockKey, block: &CachedBlock) -> u64 {
        const BOOKKEEPING_BYTES: usize = 64;
        let bytes = match block {
            CachedBlock::Data(block, _) => block.memory_bytes(),
            CachedBlock::Index(block) => block.memory_bytes(),
        };
        (bytes + BOOKKEEPING_BYTES) as u64
    }
}

/// Which blocks were missed lately: a fingerprint each, in the place that its hash names. Blocks
/// that share a place displace one another, which is how they are forgotten.
struct Missed(Box<[AtomicU32]>);

impl Missed {
    fn new(places: usize) -> Self {
        Missed((0..places.max(1)).map(|_| AtomicU32::new(0)).collect())
    }

    /// Notes a miss; whether there was one of the same block lately.
    fn again(&self, key: &BlockKey) -> bool {
        let hash = BuildMixer::default().hash_one(key);
        let place = hash as usize % self.0.len();
        let fingerprint = (hash >> 32) as u32;
        let place = self.0.get(place);
        place.is_some_and(|place| place.swap(fingerprint, Ordering::Relaxed) == fingerprint)
    }
}

/// The parts of the budget that are not for blocks that come and go.
#[derive(Clone, Copy, Default)]
struct Given {
    pinned_bytes: u64,
    lent_bytes: u64,
    leaving: Option<Leaving>,
}

/// All blocks that come and go are leaving, a part at a time.
#[derive(Clone, Copy)]
struct Leaving {
    /// Bytes that were lent before: they keep their room until the blocks have left.
    lent_bytes: u64,
    parts: usize,
    parts_gone: usize,
}

/// Bytes that leave at a time, or a little more. Readers may wait for that: 50 MB took 10 ms or so,
/// where 3 GB at once took 1,300. A small cache is empty before the borrower of its bytes is full.
const LEAVING_BYTES: u64 = 32 << 20;
/// Each part looks at all blocks.
const MOST_LEAVING_PARTS: u64 = 64;
/// Blocks that lie together leave together, so that no block between holds pages back.
const LEAVING_TOGETHER_BYTES: usize = 4 << 20;

/// Uncompressed blocks of all tables, shared by all readers, within a byte budget.
pub struct BlockCache {
    blocks: Cache<BlockKey, CachedBlock, ByBytes, BuildMixer, Unseating>,
    /// None where every block is worth it.
    missed: Option<Missed>,
    was_full: AtomicBool,
    inserted_bytes: AtomicU64,
    /// There is room until this many bytes were inserted.
    room_until_bytes: AtomicU64,
    capacity_bytes: u64,
    most_pinned_bytes: u64,
    has_places: bool,
    /// Whether the bytes that others hold are a part of the budget.
    counts_held: bool,
    /// Bytes of these, changed under the lock.
    held_bytes: AtomicU64,
    /// Pinned, and lent to others.
    given: Mutex<Given>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Returns the number of parts with a lock each, some for each processor at least. A part lists its
/// blocks in tables that double when they are full. Threads that need the part wait then: 5 ms
/// where there were 65,536 blocks to a part. Not many more than that takes: a block that is larger
/// than its part is not kept, and a thread that pins takes all locks.
fn shards(capacity_bytes: u64) -> usize {
    const USUAL_SHARD_BYTES: u64 = 32 << 20;
    const SHARDS_A_PROCESSOR: usize = 4;
    const MOST_SHARDS: usize = 1024;
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let usual = usize::try_from(capacity_bytes / USUAL_SHARD_BYTES).unwrap_or(MOST_SHARDS);
    let usual = 1 << usual.clamp(1, MOST_SHARDS).ilog2();
    usual.max((processors * SHARDS_A_PROCESSOR).next_power_of_two())
}

impl BlockCache {
    /// Makes a cache of blocks that are read through the page cache, or from the device.
    pub fn new(capacity_bytes: u64, is_direct: bool) -> Self {
        const USUAL_BLOCK_BYTES: u64 = 4096;
        let usual_blocks = (capacity_bytes / USUAL_BLOCK_BYTES) as usize;
        #[expect(
            clippy::expect_used,
            reason = "it fails where one of the two capacities is not set"
        )]
        let options = OptionsBuilder::new()
            .estimated_items_capacity(usual_blocks)
            .weight_capacity(capacity_bytes)
            .shards(shards(capacity_bytes))
            .build()
            .expect("both capacities are set");
        BlockCache {
            blocks: Cache::with_options(
                options,
                ByBytes,
                BuildMixer::default(),
                Unseating::default(),
            ),
            // As many as half the blocks that fit: a block read less often is worth no room.
            missed: (!is_direct).then(|| Missed::new(usual_blocks / 2)),
            was_full: AtomicBool::new(false),
            inserted_bytes: AtomicU64::new(0),
            room_until_bytes: AtomicU64::new(0),
            capacity_bytes,
            most_pinned_bytes: capacity_bytes / 4,
            has_places: true,
            counts_held: false,
            held_bytes: AtomicU64::new(0),
            given: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Returns the same cache with a budget of which `most_bytes` may be lent: three quarters of
    /// the rest may be pinned. `is_for_good`: it is lent from the first write on.
    pub fn lending(self, most_bytes: u64, is_for_good: bool) -> Self {
        let left_bytes = self.capacity_bytes.saturating_sub(most_bytes);
        BlockCache {
            most_pinned_bytes: self.most_pinned_bytes.min(left_bytes / 4 * 3),
            has_places: !is_for_good || left_bytes > self.capacity_bytes / 4,
            ..self
        }
    }

    /// Returns the same cache with a budget that the bytes are a part of that others hold: filters and top
    /// indexes of open tables, and transactions.
    pub fn counting_held(self) -> Self {
        BlockCache {
            counts_held: true,
            ..self
        }
    }

    /// Returns the bytes of the budget that open tables and transactions take.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Takes bytes of the budget, for as long as a table or a transaction is open.
    pub fn hold(&self, bytes: u64) {
        self.change_held(|held_bytes| held_bytes + bytes);
    }

    /// Gives bytes back that [`BlockCache::hold`] took.
    pub fn release(&self, bytes: u64) {
        self.change_held(|held_bytes| held_bytes - bytes);
    }

    fn change_held(&self, changed: impl FnOnce(u64) -> u64) {
        if self.counts_held {
            let given = self.given.lock();
            let bytes = changed(self.held_bytes());
            self.held_bytes.store(bytes, Ordering::Relaxed);
            self.give(*given);
        }
    }

    /// Returns the most that may be pinned.
    pub fn max_pinned_bytes(&self) -> u64 {
        self.most_pinned_bytes
    }

    /// Returns whether pinned partitions of the index are to have places for resident blocks.
    pub(super) fn has_places(&self) -> bool {
        self.has_places
    }

    pub(super) fn get(&self, table: u64, offset: u64) -> Option<CachedBlock> {
        let block = self.blocks.get(&(table, offset));
        let counter = if block.is_some() {
            &self.hits
        } else {
            &self.misses
        };
        counter.fetch_add(1, Ordering::Relaxed);
        block
    }

    /// Counts a read of a block that its reader has, and the hits that did not come here. Returns
    /// false if the cache has dropped the block.
    pub(super) fn touch(&self, table: u64, offset: u64) -> bool {
        self.hits.fetch_add(ASKED_ONE_IN, Ordering::Relaxed);
        self.blocks.get(&(table, offset)).is_some()
    }

    /// Returns whether a block is there, which does not count as a read of it.
    pub(super) fn contains(&self, table: u64, offset: u64) -> bool {
        self.blocks.contains_key(&(table, offset))
    }

    pub(super) fn insert(&self, table: u64, offset: u64, block: CachedBlock) {
        let key = (table, offset);
        let is_data = matches!(block, CachedBlock::Data(..));
        if is_data && !self.is_wanted(&key, &block) {
            return;
        }
        self.blocks.insert(key, block);
    }

    /// Returns whether a data block that was missed is to be taken in.
    fn is_wanted(&self, key: &BlockKey, block: &CachedBlock) -> bool {
        let Some(missed) = &self.missed else {
            return true;
        };
        !self.is_full(ByBytes.weight(key, block)) || missed.again(key)
    }

    /// Returns whether it holds this very block, and will empty its place when it drops the block.
    pub(super) fn empties(&self, table: u64, place: &BlockPlace<'_>, block: &Arc<Block>) -> bool {
        match self.blocks.peek(&(table, place.handle.offset)) {
            Some(CachedBlock::Data(held, Some(home))) => {
                Arc::ptr_eq(&held, block) && home.is(place)
            }
            _ => false,
        }
    }

    /// Takes a block in without asking whether it is worth it.
    pub(super) fn put(&self, table: u64, offset: u64, block: CachedBlock) {
        self.blocks.insert((table, offset), block);
    }

    /// Returns whether a block has to leave to make room. A full cache is taken to stay full until
    /// room is given back. One with room is taken to have it until half of that room is used. The
    /// reason: a look takes every shard's lock, and a block leaves only for another. A shard is
    /// full when it lacks less than a block.
    fn is_full(&self, bytes: u64) -> bool {
        if self.was_full.load(Ordering::Relaxed) {
            return true;
        }
        let inserted_bytes = self.inserted_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if inserted_bytes < self.room_until_bytes.load(Ordering::Relaxed) {
            return false;
        }
        let capacity_bytes = self.blocks.capacity();
        let room_bytes = capacity_bytes.saturating_sub(self.blocks.weight());
        // No more than half: a block that no shard would take says nothing of the room for others.
        let lacking_bytes = bytes.saturating_mul(self.blocks.num_shards() as u64);
        if room_bytes <= lacking_bytes.min(capacity_bytes / 2) {
            self.was_full.store(true, Ordering::Relaxed);
            return true;
        }
        let until = inserted_bytes + room_bytes / 2;
        self.room_until_bytes.store(until, Ordering::Relaxed);
        false
    }

    /// Pins `bytes` if they may be pinned, and returns whether; the caller unpins them.
    pub(super) fn pin(&self, bytes: u64) -> bool {
        let mut given = self.given.lock();
        let fits = given.pinned_bytes + bytes <= self.most_pinned_bytes;
        if fits {
            given.pinned_bytes += bytes;
            self.give(*given);
        }
        fits
    }

    /// Leaves the blocks the bytes that are neither for tables, nor pinned, nor lent.
    fn give(&self, given: Given) {
        let leaving = given.leaving.map(|leaving| leaving.lent_bytes);
        let lent_bytes = leaving.unwrap_or(given.lent_bytes);
        let bytes = self.held_bytes() + given.pinned_bytes + lent_bytes;
        self.blocks
            .set_capacity(self.capacity_bytes.saturating_sub(bytes));
        // After the capacity, as `was_full`: a finding of before it is forgotten.
        self.room_until_bytes.store(0, Ordering::Relaxed);
    }

    /// Lends this much of the budget, all in all, to another cache. If it is much more than before
    /// and blocks have to leave, all that come and go are to. An allocator keeps the memory between
    /// those that stay, and the budget would be taken twice. Returns whether they are to; the
    /// caller has [`BlockCache::let_some_go`] called until they are gone.
    pub fn lend(&self, bytes: u64) -> bool {
        let mut given = self.given.lock();
        let is_given_back = bytes < given.lent_bytes;
        let more_bytes = bytes.saturating_sub(given.lent_bytes);
        let left_bytes = self.capacity_bytes.saturating_sub(bytes);
        let gives_up_much =
            more_bytes > self.capacity_bytes / 8 && self.blocks.weight() > left_bytes;
        if gives_up_much {
            // Those that are leaving already begin again: blocks came since, to parts that were
            // gone.
            let leaving = given.leaving.map(|leaving| leaving.lent_bytes);
            let parts = (self.blocks.weight() / LEAVING_BYTES).clamp(1, MOST_LEAVING_PARTS);
            given.leaving = Some(Leaving {
                lent_bytes: leaving.unwrap_or(given.lent_bytes),
                parts: parts as usize,
                parts_gone: 0,
            });
        }
        given.lent_bytes = bytes;
        self.give(*given);
        if is_given_back {
            // There is room again.
            self.was_full.store(false, Ordering::Relaxed);
        }
        gives_up_much
    }

    /// Removes a part of the blocks that are to leave; false if there are none. The caller then has
    /// the allocator give their memory back. For one thread at a time.
    ///
    /// The cache still knows the blocks that left before: a capacity of nothing would have it
    /// forget them.
    pub fn let_some_go(&self) -> bool {
        let (part, parts) = {
            let mut given = self.given.lock();
            let Some(leaving) = &mut given.leaving else {
                return false;
            };
            if leaving.parts_gone == leaving.parts {
                given.leaving = None;
                self.give(*given);
                self.was_full.store(false, Ordering::Relaxed);
                return false;
            }
            leaving.parts_gone += 1;
            (leaving.parts_gone - 1, leaving.parts)
        };
        self.blocks.retain(|_, block| {
            let leaves = block.leaving_part(parts) == part;
            if leaves && let CachedBlock::Data(_, Some(home)) = block {
                home.empty();
            }
            !leaves
        });
        true
    }

    pub(super) fn unpin(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut given = self.given.lock();
        given.pinned_bytes -= bytes;
        self.give(*given);
    }

    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Returns the bytes in use, pinned ones included.
    pub fn used_bytes(&self) -> u64 {
        self.blocks.weight() + self.given.lock().pinned_bytes
    }

    /// Returns the bytes that blocks may take which come and go.
    #[cfg(test)]
    pub(super) fn left_bytes(&self) -> u64 {
        self.blocks.capacity()
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache")
            .field("used_bytes", &self.used_bytes())
            .field("capacity_bytes", &self.capacity_bytes())
            .finish_non_exhaustive()
    }
}
