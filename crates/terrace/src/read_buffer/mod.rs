//! The newest versions of keys that are read again and again, in DRAM, within a budget.
//!
//! An entry says: *from number `sequence` on, until a write says otherwise, the key has this value*
//! (or none). Three rules keep that true:
//!
//! 1. **Forwards come in order and before visibility.** Only the leader of the commit queue
//!    forwards writes to the buffer, all of them, in the order of the numbers. It does so in the pass
//!    that puts the frame into the index, before any of it is visible. A reader that may see a write
//!    finds it in the index, and no older entry here. If the index refuses a record, nothing of the
//!    frame is ever visible: the store is poisoned, and entries with its numbers answer nobody.
//! 2. **A back-fill counts only if nothing was forwarded since its read began.** It carries the
//!    number at which it read. Every write raises the number of its key's *stripe*, whether or not
//!    the buffer holds the key, and the stripe keeps it when entries go. A fill first makes its
//!    entry findable and then looks at the stripe; a forward first raises the stripe and then looks
//!    for an entry. Both do so in the one order that all threads agree on, so one of the two
//!    notices the other.
//! 3. **Changes that delete without naming keys raise a floor** (of the keyspace): a range delete,
//!    an ingest, dropping a keyspace. Entries from before the floor count no more; a read from
//!    after it that finds an older version fills from the floor on.
//!
//! A reader at snapshot `s` takes an entry only if its `sequence` is at most `s`: then it is the
//! newest version up to `s`, since it is the newest of all. Versions that were overwritten are not
//! kept, so old snapshots miss. Iterators, flushes and merges read nothing here;
//! seeks are counted (`boundary`).
//!
//! Unless every write is to enter it, the buffer sleeps until the first back-fill (the first get
//! that reads a table). It sleeps again when its hits do not pay for its cost to writes (`worth`).
//! Asleep, it takes no memory, and a write costs one store, of the number up to which stripes know
//! nothing. That number is a floor for all: older entries and reads count no more. The buffer
//! sleeps, too, as long as the block cache has room for every block of the store: it would hold
//! copies of data that is in memory, in the place of other blocks.
//!
//! Once the buffer holds entries in earnest, it claims its whole part of the budget that it shares
//! with the block cache, at once. Claims byte by byte would leave no memory idle. But the cache
//! would then give way block by block, and an allocator finds no room for entries between blocks
//! that stay: measured, a budget of 100 MiB took 157.
//!
//! While scans are many and gets are few, the buffer holds a fifth of that, or a half if it is small
//! (`boundary`).
//!
//! Fills come from tables only. A MemTable is DRAM, or reads like it, and its records would be
//! forwarded again.

mod boundary;
mod forwarding;
mod hash;
mod ordered;
mod share;
mod statistics;
mod structure;
mod worth;

use std::fmt;
use std::sync::OnceLock;

use terrace_lsm::sync::Mutex;
use terrace_lsm::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::options::{ForwardPolicy, Options, ReadBufferStructure};
use crate::{KeyspaceId, SequenceNumber};

use self::boundary::{Boundary, Ever};
use self::hash::HashBuffer;
use self::ordered::OrderedBuffer;
use self::structure::{Counts, Fill, Structure};
use self::worth::Worth;

pub(crate) use self::forwarding::Forwarding;
pub use self::statistics::ReadBufferStatistics;
pub(crate) use self::structure::{Found, Key, Version};

/// Keyspaces that share a place share their floor, which costs entries and nothing else.
const FLOORS: usize = 64;

/// Bytes that the buffer releases at a time, in the background.
const STEP_BYTES: u64 = 4 << 20;
/// Bytes of a piece of such a step. Pieces are small, for writers wait for the lock of a shard.
const PIECE_BYTES: u64 = 128 << 10;
/// Maximum number of pieces in a step: after these a structure has been all around.
const PIECES: usize = 64;
/// Bytes of memory for which it takes one seek or get to change hands: a large buffer took long to
/// fill.
const BYTES_A_GET: u64 = 64 << 10;

/// Sizes of a record for which a structure has places. Larger records never enter.
const MIN_USUAL_RECORD_BYTES: u32 = 100;
const MAX_USUAL_RECORD_BYTES: u64 = 8 << 10;

/// The part of a store's options that a buffer goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    policy: ForwardPolicy,
    structure: ReadBufferStructure,
    while_blocks_fit: bool,
}

impl Settings {
    pub(crate) fn of(options: &Options) -> Self {
        Settings {
            policy: options.read_buffer.policy,
            structure: options.constants.structure,
            while_blocks_fit: options.constants.while_blocks_fit,
        }
    }
}

#[cfg(test)]
impl Default for Settings {
    fn default() -> Self {
        Settings::of(&Options::default())
    }
}

/// The buffer of one store. See the head of the file.
pub(crate) struct ReadBuffer {
    settings: Settings,
    /// Maximum of its bytes of the budget, as the options say.
    capacity_bytes: u64,
    /// Maximum of its bytes of the budget, as other consumers leave it now.
    left_bytes: AtomicU64,
    hash_seed: u64,
    /// Size of a record for which a structure is made.
    usual_record_bytes: AtomicU32,
    floors: [AtomicU64; FLOORS],
    structure: OnceLock<Box<dyn Structure>>,
    /// Whether the structure is there, and forwards go to it.
    awake: AtomicBool,
    slept_until: SleptUntil,
    /// Whether the block cache can hold all that the buffer could have.
    blocks_fit: AtomicBool,
    worth: Worth,
    boundary: Boundary,
    /// Number of times that it was put to sleep.
    sleeps: AtomicU64,
    /// Bytes that it takes of the budget.
    claimed_bytes: AtomicU64,
    settling: Mutex<()>,
    fills_taken: AtomicU64,
    fills_dropped: AtomicU64,
    /// Numbers of writes stored and skipped; only the leader writes them.
    forwards: [AtomicU64; 2],
}

/// The last number forwarded to a sleeping buffer: stripes know of newer ones only. It lies on a
/// line of its own, which no thread writes to while the buffer is awake.
#[repr(align(64))]
struct SleptUntil(AtomicU64);

impl ReadBuffer {
    /// Makes a buffer. `hash_seed` is that of the hashes which come with keys.
    pub(crate) fn new(settings: Settings, capacity_bytes: u64, hash_seed: u64) -> Self {
        ReadBuffer {
            settings,
            capacity_bytes,
            left_bytes: AtomicU64::new(capacity_bytes),
            hash_seed,
            usual_record_bytes: AtomicU32::new(MIN_USUAL_RECORD_BYTES),
            floors: std::array::from_fn(|_| AtomicU64::new(0)),
            structure: OnceLock::new(),
            awake: AtomicBool::new(false),
            slept_until: SleptUntil(AtomicU64::new(0)),
            // A store begins without tables.
            blocks_fit: AtomicBool::new(true),
            worth: Worth::default(),
            boundary: Boundary::default(),
            sleeps: AtomicU64::new(0),
            claimed_bytes: AtomicU64::new(0),
            settling: Mutex::new(()),
            fills_taken: AtomicU64::new(0),
            fills_dropped: AtomicU64::new(0),
            forwards: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// Notes that a scan was positioned that wants its blocks kept. `block_misses` gives the blocks
    /// that the cache ever missed. Returns whether the memory is to change hands: then
    /// `let_some_go` does the rest.
    pub(crate) fn sought(&self, block_misses: impl Fn() -> u64) -> bool {
        self.awake.load(Ordering::Relaxed)
            && self.boundary.sought()
            && self.changes_hands(Some(block_misses()))
    }

    /// Returns whether gets and scans change places.
    fn changes_hands(&self, block_misses: Option<u64>) -> bool {
        let structure = self.structure.get();
        // A structure that cannot give memory back has nothing to yield.
        let Some(structure) = structure.filter(|some| some.least_bytes() < self.capacity_bytes)
        else {
            return false;
        };
        let counts = structure.counts();
        let ever = Ever {
            gets: counts.hits + counts.misses,
            block_misses,
        };
        let fewest = self.capacity_bytes / BYTES_A_GET;
        let changes = self.boundary.look(ever, fewest);
        if changes {
            self.settle_limit();
        }
        changes
    }

    /// Releases a part of the memory that it has yielded and still holds. Returns false if there is
    /// none. If true, the claim on the budget has changed.
    pub(crate) fn let_some_go(&self) -> bool {
        let structure = self.structure.get();
        let Some(structure) = structure.filter(|_| self.boundary.is_yielded()) else {
            return false;
        };
        let before_bytes = structure.memory_bytes();
        let goal_bytes = before_bytes.saturating_sub(STEP_BYTES);
        let goal_bytes = goal_bytes.max(self.limit_bytes());
        for _ in 0..PIECES {
            if structure.memory_bytes() <= goal_bytes {
                break;
            }
            structure.shrink(PIECE_BYTES);
        }
        let held = structure.memory_bytes();
        // Others may have let it go: writes do, while it is beyond its limit.
        held < before_bytes || self.claim(held) < self.claimed_bytes.load(Ordering::Relaxed)
    }

    /// Takes memory before a first write would wait for it (34 ms for a buffer of 400 MiB), if every
    /// write is to enter.
    pub(crate) fn expect_writes(&self) {
        if self.stores_all() {
            self.awaken();
        }
    }

    fn stores_all(&self) -> bool {
        self.settings.policy != ForwardPolicy::Resident
    }

    /// Returns the key's value or absence at `snapshot`, if the buffer knows. The caller took
    /// `snapshot` before.
    #[inline]
    pub(crate) fn get(&self, key: &Key<'_>, snapshot: SequenceNumber) -> Option<Found> {
        if !self.awake.load(Ordering::Acquire) {
            return None;
        }
        // Not older than `snapshot`: all writes before it were forwarded, or slept through.
        let floor = self.floor_of(key.keyspace);
        self.structure.get()?.get(key, floor, snapshot)
    }

    /// Offers the version that a read at `read_at` found in the tables. A full structure takes
    /// versions that are read again and again. Returns whether the claim on the budget has changed.
    pub(crate) fn fill(
        &self,
        key: &Key<'_>,
        mut version: Version<'_>,
        read_at: SequenceNumber,
    ) -> bool {
        // A buffer that was found awake is not woken again: it may be falling asleep at this
        // moment.
        let structure = if self.awake.load(Ordering::SeqCst) {
            self.structure.get().map(|structure| &**structure)
        } else {
            (!self.is_needless() && self.worth.wakes(key.hash)).then(|| self.awaken())
        };
        let Some(structure) = structure else {
            return false;
        };
        let floor = self.floor_of(key.keyspace);
        if read_at < floor {
            self.fills_dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        // The read saw what raised the floor, and still found this version.
        version.sequence = version.sequence.max(floor);
        if self.boundary.read_table(key.hash) {
            self.changes_hands(None);
        }
        match structure.fill(key, version, read_at) {
            Fill::Taken => self.fills_taken.fetch_add(1, Ordering::Relaxed),
            Fill::Outdated => self.fills_dropped.fetch_add(1, Ordering::Relaxed),
            Fill::NotWanted => 0,
        };
        self.has_to_claim(structure)
    }

    /// Notes the average size of the store's records, for the structure that is made when the buffer first
    /// wakes. It gets places for records of half that size: places for smaller ones cost a hundredth of
    /// the memory, and records that find no place leave half of it idle.
    pub(crate) fn expect_records(&self, average_bytes: u64) {
        let usual_bytes = (average_bytes / 2).min(MAX_USUAL_RECORD_BYTES) as u32;
        self.usual_record_bytes
            .store(usual_bytes.max(MIN_USUAL_RECORD_BYTES), Ordering::Relaxed);
    }

    /// Compares the bytes of all blocks of the store in memory with the bytes of the cache. A
    /// buffer that is awake and no longer needed falls asleep with the next write. Stale versions
    /// come and go: between the two limits the buffer stays as it is.
    pub(crate) fn weigh_blocks(&self, blocks_bytes: u64, cache_bytes: u64) {
        if blocks_bytes <= cache_bytes {
            self.blocks_fit.store(true, Ordering::Relaxed);
        } else if blocks_bytes > cache_bytes.saturating_add(cache_bytes / 2) {
            self.blocks_fit.store(false, Ordering::Relaxed);
        }
    }

    fn is_needless(&self) -> bool {
        !self.settings.while_blocks_fit && self.blocks_fit.load(Ordering::Relaxed)
    }

    fn pays(&self, structure: &dyn Structure) -> bool {
        let (hits, held_bytes) = (structure.counts().hits, structure.memory_bytes());
        self.worth.pays(hits, held_bytes, self.limit_bytes())
    }

    /// Puts the buffer to sleep. The leader calls it between two frames: the next one is not
    /// forwarded any more, and raises the floor of everything that is held until the buffer wakes.
    fn fall_asleep(&self, structure: &dyn Structure) {
        self.awake.store(false, Ordering::SeqCst);
        self.sleeps.fetch_add(1, Ordering::Relaxed);
        // The buffer wakes for gets.
        self.boundary.give_back();
        structure.clear();
    }

    /// Returns the structure, if the buffer is awake. If not, one store is enough: a fill that
    /// wakes it at this moment brings an entry from before that number, which counts no more.
    fn awake_or_told(&self, last_sequence: SequenceNumber) -> Option<&dyn Structure> {
        if !self.awake.load(Ordering::SeqCst) {
            self.slept_until.0.store(last_sequence, Ordering::SeqCst);
            return None;
        }
        self.structure.get().map(|structure| &**structure)
    }

    fn awaken(&self) -> &dyn Structure {
        // Not in the closure: under a scheduler that tries orders a load lets another thread run, which
        // would wait for the closure.
        let record_bytes = self.usual_record_bytes.load(Ordering::Relaxed);
        let structure = self.structure.get_or_init(|| {
            let bytes = self.capacity_bytes;
            match self.settings.structure {
                ReadBufferStructure::Hash => {
                    Box::new(HashBuffer::new(bytes, record_bytes, self.hash_seed))
                }
                ReadBufferStructure::Ordered => Box::new(OrderedBuffer::new(bytes)),
            }
        });
        // In the one order, too: a thread that finds it awake finds the number that it slept until.
        if !self.awake.load(Ordering::SeqCst) {
            self.settle_limit();
            self.awake.store(true, Ordering::SeqCst);
        }
        &**structure
    }

    /// Raises the floor: entries of the keyspace from before `sequence` count no more, nor do reads
    /// from before it. Call it before `sequence` is visible; from then on a reader at `sequence` sees
    /// the change.
    pub(crate) fn raise_floor(&self, keyspace: KeyspaceId, sequence: SequenceNumber) {
        self.floor(keyspace.number())
            .fetch_max(sequence, Ordering::AcqRel);
    }

    /// Returns the number before which entries and reads of a keyspace count no more. It loads in
    /// the one order of all threads: a thread that finds the buffer awake finds the number that it
    /// slept until.
    #[inline]
    fn floor_of(&self, keyspace: u32) -> SequenceNumber {
        let of_keyspace = self.floor(keyspace).load(Ordering::Acquire);
        of_keyspace.max(self.slept_until.0.load(Ordering::SeqCst))
    }

    fn floor(&self, keyspace: u32) -> &AtomicU64 {
        let [first, ..] = &self.floors;
        let place = keyspace as usize % FLOORS;
        self.floors.get(place).unwrap_or(first)
    }

    fn held_bytes(&self) -> u64 {
        let structure = self.structure.get();
        structure.map_or(0, |structure| structure.memory_bytes())
    }

    pub(crate) fn statistics(&self) -> ReadBufferStatistics {
        let structure = self.structure.get();
        let counts = structure.map_or_else(Counts::default, |structure| structure.counts());
        let [stored, skipped] = &self.forwards;
        ReadBufferStatistics {
            hits: counts.hits,
            absent_hits: counts.absent_hits,
            misses: counts.misses,
            forwards_stored: stored.load(Ordering::Relaxed),
            forwards_skipped: skipped.load(Ordering::Relaxed),
            fills_taken: self.fills_taken.load(Ordering::Relaxed),
            fills_dropped: self.fills_dropped.load(Ordering::Relaxed),
            evictions: counts.evictions,
            sleeps: self.sleeps.load(Ordering::Relaxed),
            bytes: self.held_bytes(),
            capacity_bytes: self.limit_bytes(),
        }
    }
}

impl fmt::Debug for ReadBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadBuffer")
            .field("settings", &self.settings)
            .field("capacity_bytes", &self.capacity_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;

#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;
