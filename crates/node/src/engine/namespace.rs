//! A namespace: its part that all event loops share.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::block_namespace::BlockNamespace;
use super::journal::Journal;
use super::key_locks::KeyLocks;
use super::pins::Pins;
use super::poison::Poison;
use super::segments::Segments;
use super::worker::Waiter;
use super::{Failure, NamespaceInfo, recovery};
use crate::block::{BLOCK_BYTES, Extent, Extents};
use crate::device::Device;
use crate::format::location::CellLocation;
use crate::format::namespace::{Description, Kind};
use crate::format::superblock::Superblock;
use crate::index::{Found, Index, Place};
use crate::space::Space;
use crate::{Key, Result};

/// An opened device: its namespaces, for any number of event loops.
pub struct Node {
    /// The device's superblock.
    pub superblock: Superblock,
    namespaces: Vec<Arc<Namespace>>,
    block_namespaces: Vec<BlockNamespace>,
}

impl Node {
    /// Opens the device and recovers its namespaces.
    ///
    /// # Errors
    /// The device cannot be read, or its superblock, a checkpoint or a journal is damaged.
    pub fn open(device: &mut dyn Device) -> Result<Arc<Node>> {
        let superblock = recovery::superblock(device)?;
        let (mut namespaces, mut block_namespaces) = (Vec::new(), Vec::new());
        for description in &superblock.namespaces {
            match description.kind {
                Kind::Keys => namespaces.push(Arc::new(recovery::open(device, description)?)),
                Kind::Blocks => block_namespaces.push(BlockNamespace::new(description.clone())),
            }
        }
        Ok(Arc::new(Node {
            superblock,
            namespaces,
            block_namespaces,
        }))
    }

    /// Returns all namespaces, in the order of the superblock.
    pub fn namespaces(&self) -> Vec<NamespaceInfo> {
        let all = self.superblock.namespaces.iter();
        all.map(|description| {
            let free_blocks = self
                .position(description.nsid)
                .map_or(0, |at| self.namespaces[at].space.free_blocks());
            let data_blocks = description.data.blocks;
            let is_keys = description.kind == Kind::Keys;
            NamespaceInfo {
                nsid: description.nsid,
                kind: description.kind,
                domain: description.domain,
                name: description.name.clone(),
                size_bytes: data_blocks * BLOCK_BYTES as u64,
                used_bytes: data_blocks.saturating_sub(free_blocks) * BLOCK_BYTES as u64,
                max_value_bytes: description.max_value_bytes,
                max_keys: is_keys.then_some(description.max_keys),
                uuid: description.uuid,
                nguid: description.nguid,
            }
        })
        .collect()
    }

    /// Returns the counters of the key namespace `nsid`.
    pub fn statistics(&self, nsid: u32) -> Option<Statistics> {
        self.position(nsid)
            .map(|at| self.namespaces[at].statistics())
    }

    /// Returns the cause if some namespace refuses changes: a journal write or a flush failed.
    pub fn refusal(&self) -> Option<String> {
        let keys = self.namespaces.iter().map(|namespace| &namespace.poison);
        let blocks = self
            .block_namespaces
            .iter()
            .map(|namespace| &namespace.poison);
        let mut causes = keys.chain(blocks).filter_map(Poison::cause);
        causes.next().map(str::to_owned)
    }

    /// Returns the keys of the key namespace `nsid` with a change that the recovery did not take: no
    /// flush was known to cover it, and its value was not whole. Such a key has the value before. A
    /// crash leaves such changes, and no answer has called them durable.
    pub fn skipped(&self, nsid: u32) -> &[Key] {
        self.position(nsid)
            .map_or(&[], |at| &self.namespaces[at].skipped)
    }

    pub(super) fn position(&self, nsid: u32) -> Option<usize> {
        let mut all = self.namespaces.iter();
        all.position(|namespace| namespace.description.nsid == nsid)
    }

    pub(super) fn key_namespaces(&self) -> &[Arc<Namespace>] {
        &self.namespaces
    }

    /// Refuses changes of all namespaces: they share the device, and the system reports lost writes to one
    /// flush alone.
    pub(super) fn poison(&self, why: &str) {
        for namespace in &self.namespaces {
            namespace.poison(why.to_owned());
            namespace.wake_space_waiters();
        }
        for namespace in &self.block_namespaces {
            namespace.poison.set(why.to_owned());
        }
    }

    pub(super) fn block_position(&self, nsid: u32) -> Option<usize> {
        let mut all = self.block_namespaces.iter();
        all.position(|namespace| namespace.description.nsid == nsid)
    }

    pub(super) fn block_namespaces(&self) -> &[BlockNamespace] {
        &self.block_namespaces
    }
}

/// Counters of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Keys.
    pub keys: u64,
    /// Bytes of their values.
    pub value_bytes: u64,
    /// Blocks of the data area.
    pub data_blocks: u64,
    /// Blocks of it that hold nothing.
    pub free_blocks: u64,
    /// Segments of small values.
    pub segments: u64,
    /// Live bytes in them.
    pub live_segment_bytes: u64,
    /// Extents of values that lie in several. Their number has a bound.
    pub extra_extents: u64,
    /// Bytes of memory of the index.
    pub index_bytes: u64,
    /// Bytes of memory of the map of free blocks.
    pub space_bytes: u64,
    /// Journal groups that became durable.
    pub groups: u64,
    /// Checkpoints that became durable.
    pub checkpoints: u64,
    /// Cells and values that were moved to make room.
    pub moves: u64,
    /// Keys that were dropped to make room.
    pub evictions: u64,
    /// Values whose checksum did not match.
    pub damaged_reads: u64,
}

/// Counters that every loop adds to.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) groups: AtomicU64,
    pub(super) checkpoints: AtomicU64,
    pub(super) moves: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) damaged_reads: AtomicU64,
}

/// Passes of the cleaner that gained nothing.
#[derive(Clone, Default)]
pub(super) struct VainCleanings {
    /// Number behind the journal's last written block at the time.
    written: u64,
    pub(super) times: u32,
    /// Segments that keys being changed held.
    pub(super) held: BTreeSet<u64>,
}

pub(super) struct Namespace {
    pub(super) description: Description,
    pub(super) index: Index,
    pub(super) space: Space,
    pub(super) keys: KeyLocks,
    pub(super) pins: Pins,
    pub(super) segments: Segments,
    pub(super) journal: Mutex<Journal>,
    /// Last sequence number given.
    pub(super) sequence: AtomicU64,
    /// Keys that stores in flight may add.
    pub(super) reserved_keys: AtomicU64,
    /// Extents of several that values in flight may add.
    pub(super) reserved_extents: AtomicU64,
    /// Places whose freeing record is not durable yet, with the number of the block behind it.
    pub(super) quarantine: Mutex<VecDeque<(u64, Found)>>,
    /// Commands that wait for space.
    pub(super) space_waiters: Mutex<VecDeque<Waiter>>,
    /// The loop that makes a checkpoint and waits for segments of others.
    pub(super) duty_waiter: Mutex<Option<Waiter>>,
    /// Whether some loop cleans segments.
    pub(super) cleaning: Mutex<bool>,
    vain_cleanings: Mutex<VainCleanings>,
    /// Whether some loop moves values out of a zone.
    pub(super) defragmenting: Mutex<bool>,
    /// The clock of last uses: it ticks as stores go by.
    pub(super) clock: AtomicU8,
    pub(super) clock_stores: AtomicU64,
    /// Keys with a record that the recovery did not take.
    pub(super) skipped: Vec<Key>,
    poison: Poison,
    pub(super) counters: Counters,
}

impl Namespace {
    pub(super) fn new(
        description: Description,
        index: Index,
        space: Space,
        segments: Segments,
        journal: Journal,
        sequence: u64,
    ) -> Self {
        Namespace {
            index,
            space,
            keys: KeyLocks::new(),
            pins: Pins::new(),
            segments,
            journal: Mutex::new(journal),
            sequence: AtomicU64::new(sequence),
            reserved_keys: AtomicU64::new(0),
            reserved_extents: AtomicU64::new(0),
            quarantine: Mutex::default(),
            space_waiters: Mutex::default(),
            duty_waiter: Mutex::default(),
            cleaning: Mutex::default(),
            vain_cleanings: Mutex::default(),
            defragmenting: Mutex::default(),
            clock: AtomicU8::new(0),
            clock_stores: AtomicU64::new(0),
            skipped: Vec::new(),
            poison: Poison::default(),
            counters: Counters::default(),
            description,
        }
    }

    /// Returns the passes of the cleaner that gained nothing since the last change.
    pub(super) fn vain_cleanings(&self) -> VainCleanings {
        let written = self.journal.lock().written;
        let vain = self.vain_cleanings.lock();
        match vain.written == written {
            true => vain.clone(),
            false => VainCleanings::default(),
        }
    }

    /// Takes note of a pass of the cleaner that gained nothing: keys that are being changed hold the
    /// segments `held`.
    pub(super) fn count_vain_cleaning(&self, held: impl IntoIterator<Item = u64>) {
        let written = self.journal.lock().written;
        let mut vain = self.vain_cleanings.lock();
        if vain.written != written {
            *vain = VainCleanings {
                written,
                ..VainCleanings::default()
            };
        }
        vain.times += 1;
        vain.held.extend(held);
    }

    pub(super) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns an error if the namespace takes no changes.
    pub(super) fn check_writable(&self) -> std::result::Result<(), Failure> {
        self.poison.check()
    }

    /// Refuses changes from now on. Returns the error that commands in flight get.
    pub(super) fn poison(&self, why: String) -> Failure {
        self.poison.set(why)
    }

    /// Gives a value's place back, as soon as no reader is at it.
    pub(super) fn free_place(&self, found: &Found) {
        match &found.place {
            Place::Extents(extents) => self.free_extents(extents.clone()),
            Place::Cell(location) => self.free_cell(*location, found.value_bytes),
        }
    }

    pub(super) fn free_cell(&self, location: CellLocation, value_bytes: u32) {
        if let Some(segment) = self.segments.release(location, value_bytes) {
            self.free_extents(Extents::one(segment));
        }
    }

    pub(super) fn free_extents(&self, extents: Extents) {
        if let Some(extents) = self.pins.free(extents) {
            self.free_now(&extents);
        }
    }

    pub(super) fn unpin(&self, start: u64) {
        if let Some(extents) = self.pins.unpin(start) {
            self.free_now(&extents);
        }
    }

    /// Makes blocks free for others, and has the commands that wait for space look again.
    fn free_now(&self, extents: &Extents) {
        for extent in extents.iter() {
            self.space.free(extent);
        }
        self.wake_space_waiters();
    }

    pub(super) fn wake_space_waiters(&self) {
        let waiting = std::mem::take(&mut *self.space_waiters.lock());
        for waiter in waiting {
            waiter.look_again();
        }
    }

    /// Returns the present age, and lets the clock tick: 128 ticks for each turn over of all keys.
    pub(super) fn tick(&self) -> u8 {
        let stores = self.clock_stores.fetch_add(1, Ordering::Relaxed);
        let step = (self.index.len() / 128).max(1);
        if stores.is_multiple_of(step) {
            self.clock.fetch_add(1, Ordering::Relaxed);
        }
        self.clock.load(Ordering::Relaxed)
    }

    pub(super) fn has_key(&self, hash: u64, key: &Key) -> bool {
        self.index.partition(hash).lock().contains(hash, key)
    }

    /// Looks a key up and pins its value.
    pub(super) fn find_pinned(&self, hash: u64, key: &Key) -> Option<Found> {
        let mut partition = self.index.partition(hash).lock();
        let found = partition.get(hash, key)?;
        self.pins.pin(found.place.first_block());
        partition.touch(hash, key, self.clock.load(Ordering::Relaxed));
        Some(found)
    }

    fn statistics(&self) -> Statistics {
        let (segments, live_segment_bytes) = self.segments.usage();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            keys: self.index.len(),
            value_bytes: self.index.value_bytes(),
            data_blocks: self.description.data.blocks,
            free_blocks: self.space.free_blocks(),
            segments,
            live_segment_bytes,
            extra_extents: self.index.extra_extents(),
            index_bytes: self.index.memory_bytes(),
            space_bytes: self.space.memory_bytes(),
            groups: count(&self.counters.groups),
            checkpoints: count(&self.counters.checkpoints),
            moves: count(&self.counters.moves),
            evictions: count(&self.counters.evictions),
            damaged_reads: count(&self.counters.damaged_reads),
        }
    }
}

/// Returns the extent of blocks `from..from + blocks` of a value as places on the device.
pub(super) fn part_of(extents: &Extents, from: u64, blocks: u64) -> Vec<Extent> {
    let (mut skip, mut left) = (from, blocks);
    let mut parts = Vec::new();
    for extent in extents.iter() {
        if left == 0 {
            break;
        }
        if skip >= extent.blocks {
            skip -= extent.blocks;
            continue;
        }
        let taken = left.min(extent.blocks - skip);
        parts.push(Extent {
            start: extent.start + skip,
            blocks: taken,
        });
        (skip, left) = (0, left - taken);
    }
    debug_assert_eq!(left, 0, "a value lies within its extents");
    parts
}
