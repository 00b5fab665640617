//! Segments: where small values live together.
//!
//! A small value is durable with its journal record, which holds it whole. Its home is a cell in the
//! open segment, in memory; a full segment is written once and never changed. So no block that holds
//! a durable value is ever written again. Until its write has completed, a segment is read from
//! memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use parking_lot::Mutex;

use crate::Key;
use crate::block::{BLOCK_BYTES, Buffer, Extent};
use crate::format::cell::{CELL_HEAD_BYTES, SegmentBuilder, cell_bytes};
use crate::format::location::{CellLocation, SEGMENT_BLOCKS, SEGMENT_BYTES};

/// Width of a class of segments by their live bytes.
const CLASS_BYTES: u32 = 1024;
/// Dead bytes that no cleaning gains: the end of a segment, where the next cell did not fit.
pub(super) const LOST_BYTES: u32 = 4096;

/// The segments of a namespace.
pub(super) struct Segments {
    secret: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: Option<SegmentBuilder>,
    /// Full segments whose write has not completed.
    sealed: BTreeMap<u64, Buffer>,
    /// Live bytes of all segments, by first block.
    live: HashMap<u64, u32>,
    /// Written segments by the class of their live bytes: victims of the cleaner.
    by_live: BTreeSet<(u32, u64)>,
    /// Bytes that cleaning all of these would gain.
    reclaimable: u64,
    /// Segments with cells that cannot be read: they are never cleaned.
    aside: BTreeSet<u64>,
    /// Failed writes of sealed segments.
    failures: BTreeMap<u64, u32>,
}

/// Where a value was staged.
pub(super) struct Staged {
    pub(super) location: CellLocation,
    /// A segment that is full and is to be written.
    pub(super) sealed: Option<u64>,
}

impl Segments {
    pub(super) fn new(secret: u64) -> Self {
        Segments {
            secret,
            state: Mutex::default(),
        }
    }

    /// Puts a value into the open segment. `allocate` gives the place of a new one when it is full;
    /// none if there is no place.
    pub(super) fn stage(
        &self,
        key: &Key,
        sequence: u64,
        value: &[u8],
        allocate: impl FnOnce() -> Option<Extent>,
    ) -> Option<Staged> {
        let mut state = self.state.lock();
        let mut pushed = state
            .open
            .as_mut()
            .and_then(|open| open.push(key, sequence, value));
        let mut sealed = None;
        if pushed.is_none() {
            let place = allocate()?;
            sealed = state.seal();
            let mut fresh = SegmentBuilder::new(self.secret, place.start, sequence);
            pushed = fresh.push(key, sequence, value);
            state.open = Some(fresh);
        }
        let location = pushed.expect("an empty segment has room for a small value");
        *state.live.entry(location.segment()).or_default() += cell_size(value.len() as u32);
        Some(Staged { location, sealed })
    }

    /// Closes the open segment. Returns it if there is one to be written.
    pub(super) fn seal(&self) -> Option<u64> {
        self.state.lock().seal()
    }

    /// Returns a copy of a sealed segment, to be written.
    pub(super) fn image(&self, segment: u64) -> Option<Buffer> {
        let state = self.state.lock();
        let mut copy = Buffer::zeroed(SEGMENT_BLOCKS as usize);
        copy.copy_from_slice(state.sealed.get(&segment)?);
        Some(copy)
    }

    /// Notes that a sealed segment is on the device. Returns its extent if nothing in it is live.
    pub(super) fn written(&self, segment: u64) -> Option<Extent> {
        let mut state = self.state.lock();
        state.sealed.remove(&segment);
        state.failures.remove(&segment);
        state.settle(segment)
    }

    /// Returns the full segments that are not on the device yet.
    pub(super) fn sealed(&self) -> BTreeSet<u64> {
        self.state.lock().sealed.keys().copied().collect()
    }

    /// Counts a failed write of a sealed segment. Returns how many there were.
    pub(super) fn failed_again(&self, segment: u64) -> u32 {
        let mut state = self.state.lock();
        let failures = state.failures.entry(segment).or_default();
        *failures += 1;
        *failures
    }

    /// Keeps the cleaner from a segment that it could not read.
    pub(super) fn set_aside(&self, segment: u64) {
        let mut state = self.state.lock();
        if state.aside.insert(segment)
            && let Some(&live) = state.live.get(&segment)
        {
            state.unlist(segment, live);
        }
    }

    /// Copies a value out of memory. Returns false if its segment is on the device.
    pub(super) fn read(&self, location: CellLocation, value: &mut [u8]) -> bool {
        let state = self.state.lock();
        let open = state
            .open
            .as_ref()
            .filter(|open| open.start() == location.segment());
        let bytes: &[u8] = match open {
            Some(open) => open.bytes(),
            None => match state.sealed.get(&location.segment()) {
                Some(sealed) => sealed,
                None => return false,
            },
        };
        let at = location.offset() + CELL_HEAD_BYTES;
        value.copy_from_slice(&bytes[at..at + value.len()]);
        true
    }

    /// Adds a segment that is on the device, with cells of `live_bytes` bytes.
    pub(super) fn adopt(&self, segment: u64, live_bytes: u32) {
        let mut state = self.state.lock();
        let live = state.live.entry(segment).or_default();
        let before = *live;
        *live += live_bytes;
        state.unlist(segment, before);
        let freed = state.settle(segment);
        debug_assert!(freed.is_none(), "an adopted segment holds live cells");
    }

    /// Takes a cell away. Returns the segment's extent if it was the last live one.
    pub(super) fn release(&self, location: CellLocation, value_bytes: u32) -> Option<Extent> {
        let mut state = self.state.lock();
        let segment = location.segment();
        let live = state.live.get_mut(&segment);
        debug_assert!(live.is_some(), "a live cell lies in a known segment");
        let live = live?;
        let before = *live;
        debug_assert!(before >= cell_size(value_bytes), "a cell is released once");
        *live = before.saturating_sub(cell_size(value_bytes));
        state.unlist(segment, before);
        state.settle(segment)
    }

    /// Returns the written segment with the fewest live bytes, but for those in `except`. None if it
    /// has too few dead bytes for cleaning to gain any.
    pub(super) fn emptiest(&self, except: &BTreeSet<u64>) -> Option<u64> {
        let state = self.state.lock();
        let mut candidates = state.by_live.iter();
        let &(_, segment) = candidates.find(|(_, segment)| !except.contains(segment))?;
        (gain(state.live[&segment]) > 0).then_some(segment)
    }

    /// Returns the live bytes of a segment; 0 if it is free.
    pub(super) fn live_bytes(&self, segment: u64) -> u32 {
        self.state.lock().live.get(&segment).copied().unwrap_or(0)
    }

    /// Returns the bytes that cleaning would gain.
    pub(super) fn reclaimable(&self) -> u64 {
        self.state.lock().reclaimable
    }

    /// Returns the number of segments and their live bytes.
    pub(super) fn usage(&self) -> (u64, u64) {
        let state = self.state.lock();
        let live = state.live.values().map(|&bytes| u64::from(bytes)).sum();
        (state.live.len() as u64, live)
    }
}

impl State {
    fn seal(&mut self) -> Option<u64> {
        let full = self.open.take()?;
        let segment = full.start();
        let mut image = Buffer::zeroed(SEGMENT_BLOCKS as usize);
        image.copy_from_slice(full.bytes());
        self.sealed.insert(segment, image);
        Some(segment)
    }

    /// Puts a segment that is on the device where its live bytes belong; frees it if there are none.
    fn settle(&mut self, segment: u64) -> Option<Extent> {
        let is_open = self
            .open
            .as_ref()
            .is_some_and(|open| open.start() == segment);
        if is_open || self.sealed.contains_key(&segment) {
            return None;
        }
        let live = *self.live.get(&segment)?;
        if live > 0 {
            self.list(segment, live);
            return None;
        }
        self.live.remove(&segment);
        self.aside.remove(&segment);
        Some(extent_of(segment))
    }
}

impl State {
    fn list(&mut self, segment: u64, live: u32) {
        let is_aside = self.aside.contains(&segment);
        if !is_aside && self.by_live.insert((live / CLASS_BYTES, segment)) {
            self.reclaimable += u64::from(gain(live));
        }
    }

    fn unlist(&mut self, segment: u64, live: u32) {
        if self.by_live.remove(&(live / CLASS_BYTES, segment)) {
            self.reclaimable -= u64::from(gain(live));
        }
    }
}

/// Returns the bytes that cleaning a segment gains.
fn gain(live: u32) -> u32 {
    (SEGMENT_BYTES as u32 - LOST_BYTES).saturating_sub(live)
}

/// Returns the extent of a segment.
pub(super) fn extent_of(segment: u64) -> Extent {
    Extent {
        start: segment,
        blocks: SEGMENT_BLOCKS,
    }
}

fn cell_size(value_bytes: u32) -> u32 {
    cell_bytes(value_bytes as usize) as u32
}

const _: () = assert!(SEGMENT_BLOCKS as usize * BLOCK_BYTES == 1 << 16);
