//! Memory that survives, simulated with crashes: the `stored` method's test bench.
//!
//! It records copies, aligned words, write-backs and fences, and draws the state after a crash:
//! - A *kill* keeps everything stored so far; the copy it interrupts is torn at any byte.
//! - A *power cut* changes the boot id. On DAX, any part of the stores to a 64-byte line since its
//!   last fenced write-back may be there, words whole. In a page cache, each 4 KiB page has any
//!   state that it had since the last sync.
//!
//! Each operation takes one step of a [`CrashSwitch`], shared with the simulated files, so that one
//! number names a crash point of the whole machine. On a dead machine nothing is stored any more
//! and every operation is an error. Slots come into being durably at one step; a removed one may be
//! back after a power cut.

mod contents;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use terrace_storage::{CrashKind, CrashSwitch, Operation, Step};

use self::contents::Contents;
use crate::device::{Attached, Description, Device, DeviceSlot};
use crate::image::{ImagePool, ImageWriter};
use crate::stored::{Memory, Stored};
use crate::window::SlotReader;
use crate::{Error, HEADER_BYTES, Result};

const LINE_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;

/// Kind of the simulated memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Persistent memory, mapped directly; a persist writes back cache lines.
    Dax,
    /// The page cache of a file that was mapped; a persist syncs it.
    PageCache,
}

impl MemoryKind {
    /// Returns the bytes that reach the medium as one.
    const fn unit_bytes(self) -> usize {
        match self {
            MemoryKind::Dax => LINE_BYTES,
            MemoryKind::PageCache => PAGE_BYTES,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            MemoryKind::Dax => "simulated dax",
            MemoryKind::PageCache => "simulated page cache",
        }
    }
}

/// Slots of simulated memory, deterministic from a seed. Clones share them.
///
/// ```
/// # fn main() -> terrace_region::Result<()> {
/// use terrace_region::{Frame, MemoryKind, Region, SimulatedMemory};
/// use terrace_storage::{CrashKind, CrashSwitch};
///
/// let memory = SimulatedMemory::new(MemoryKind::Dax, 1, CrashSwitch::new());
/// let region = Region::open(Box::new(memory.clone()), [7; 16], 16384)?;
/// let arena = region.activate(region.reserve(16384)?, 1)?;
/// let frame = Frame { first_sequence: 1, record_count: 1, persisted_until: 0, payload: &[b"kept"] };
/// arena.append(&frame)?;
/// arena.persist()?;
///
/// let memory = memory.crash(CrashKind::PowerCut, 2, CrashSwitch::new());
/// let region = Region::open(Box::new(memory), [7; 16], 16384)?;
/// assert_eq!(region.recover(arena.slot(), 1)?.scan.frames(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SimulatedMemory {
    state: Arc<Mutex<State>>,
    images: Arc<ImagePool>,
}

struct State {
    kind: MemoryKind,
    switch: CrashSwitch,
    random: StdRng,
    /// Counts power cuts; the boot id is made of it.
    boots: u128,
    slots: BTreeMap<u64, Contents>,
    /// Removed since the last power cut.
    removed: BTreeMap<u64, Contents>,
}

impl SimulatedMemory {
    /// Returns a device without slots.
    pub fn new(kind: MemoryKind, seed: u64, switch: CrashSwitch) -> Self {
        Self::from_state(State {
            kind,
            switch,
            random: StdRng::seed_from_u64(seed),
            boots: 1,
            slots: BTreeMap::new(),
            removed: BTreeMap::new(),
        })
    }

    fn from_state(state: State) -> Self {
        SimulatedMemory {
            state: Arc::new(Mutex::new(state)),
            images: ImagePool::new(0),
        }
    }

    /// Returns the device that the next process finds if the machine dies now. This one stays as it
    /// is.
    pub fn crash(&self, kind: CrashKind, seed: u64, switch: CrashSwitch) -> SimulatedMemory {
        let state = self.state.lock();
        let mut random = StdRng::seed_from_u64(seed);
        let mut boots = state.boots;
        let mut slots = state.slots.clone();
        let mut removed = state.removed.clone();
        if kind == CrashKind::PowerCut {
            boots += 1;
            let back = removed.into_iter().filter(|_| random.random_bool(0.5));
            slots.extend(back.collect::<Vec<_>>());
            removed = BTreeMap::new();
            for contents in slots.values_mut() {
                *contents = Contents::new(state.kind, contents.after_power_cut(&mut random));
            }
        }
        Self::from_state(State {
            kind: state.kind,
            switch,
            random,
            boots,
            slots,
            removed,
        })
    }

    /// Changes bytes of a slot without a store: a fault of the medium.
    pub fn damage(&self, slot: u64, offset: usize, bytes: &[u8]) {
        let mut state = self.state.lock();
        let kind = state.kind;
        if let Some(contents) = state.slots.get_mut(&slot) {
            let mut damaged = contents.current().to_vec();
            for (to, from) in damaged.iter_mut().skip(offset).zip(bytes) {
                *to = *from;
            }
            *contents = Contents::new(kind, damaged);
        }
    }

    fn attached(&self, slot: u64, bytes: &[u8]) -> Result<Attached> {
        let mut writer = self.images.image(bytes.len())?;
        writer.copy(0, bytes)?;
        let memory = SimulatedSlot {
            state: Arc::clone(&self.state),
            slot,
        };
        Ok(Attached {
            writer,
            medium: Box::new(Stored::new(memory)),
        })
    }

    /// Returns the present bytes of a slot.
    fn bytes(&self, operation: Operation, slot: u64) -> Result<Vec<u8>> {
        let state = self.state.lock();
        state.check_alive(operation, slot)?;
        match state.slots.get(&slot) {
            Some(contents) => Ok(contents.current().to_vec()),
            None => Err(Error::Missing {
                slot,
                file: path(slot),
            }),
        }
    }
}

fn path(slot: u64) -> PathBuf {
    Path::new("/simulated").join(format!("arena-{slot}"))
}

impl State {
    fn check_alive(&self, operation: Operation, slot: u64) -> Result<()> {
        if self.switch.is_frozen() {
            return Err(frozen(operation, slot));
        }
        Ok(())
    }

    /// Takes a step of an operation that is whole or absent; interrupted, it is either.
    fn step(
        &mut self,
        operation: Operation,
        slot: u64,
        change: impl FnOnce(&mut Self),
    ) -> Result<()> {
        let step = self.switch.advance();
        if step == Step::Alive || (step == Step::Interrupted && self.random.random_bool(0.5)) {
            change(self);
        }
        match step {
            Step::Alive => Ok(()),
            Step::Interrupted | Step::Frozen => Err(frozen(operation, slot)),
        }
    }
}

fn frozen(operation: Operation, slot: u64) -> Error {
    Error::Io(CrashSwitch::error(operation, &path(slot)))
}

impl Device for SimulatedMemory {
    fn description(&self) -> Description {
        Description {
            method: "stored",
            medium: self.state.lock().kind.name().to_owned(),
            survives_kill: true,
            can_persist: true,
            emulated: false,
        }
    }

    fn boot_id(&self) -> [u8; 16] {
        self.state.lock().boots.to_le_bytes()
    }

    fn file(&self, slot: u64) -> PathBuf {
        path(slot)
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn list(&self) -> Result<Vec<DeviceSlot>> {
        let state = self.state.lock();
        let slots = state.slots.iter().map(|(number, contents)| DeviceSlot {
            number: *number,
            length_bytes: contents.current().len() as u64,
        });
        Ok(slots.collect())
    }

    fn create(&self, slot: u64, capacity_bytes: u64) -> Result<()> {
        let mut state = self.state.lock();
        let contents = Contents::new(state.kind, vec![0; capacity_bytes as usize]);
        state.step(Operation::Open, slot, |state| {
            state.removed.remove(&slot);
            state.slots.insert(slot, contents);
        })
    }

    fn adopt(&self, slot: u64) -> Result<()> {
        self.state.lock().step(Operation::Sync, slot, |_| {})
    }

    fn remove(&self, slot: u64) -> Result<()> {
        self.state.lock().step(Operation::Remove, slot, |state| {
            if let Some(contents) = state.slots.remove(&slot) {
                state.removed.insert(slot, contents);
            }
        })
    }

    fn read_header(&self, slot: u64) -> Result<Vec<u8>> {
        let mut bytes = self.bytes(Operation::Read, slot)?;
        bytes.truncate(HEADER_BYTES);
        Ok(bytes)
    }

    fn attach(&self, slot: u64, _capacity_bytes: u64) -> Result<Attached> {
        self.attached(slot, &self.bytes(Operation::Open, slot)?)
    }

    fn reader(&self, slot: u64) -> Result<Box<dyn SlotReader>> {
        Ok(Box::new(Snapshot(self.bytes(Operation::Open, slot)?)))
    }
}

/// The bytes of a slot as they were when it was opened to be read.
struct Snapshot(Vec<u8>);

impl SlotReader for Snapshot {
    fn length_bytes(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.0.as_slice().read_exact_at(buffer, offset)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

impl fmt::Debug for SimulatedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedMemory")
            .field("kind", &self.state.lock().kind)
            .finish_non_exhaustive()
    }
}

/// The memory of one slot.
struct SimulatedSlot {
    state: Arc<Mutex<State>>,
    slot: u64,
}

impl SimulatedSlot {
    fn step(&self, operation: Operation, change: impl FnOnce(&mut Contents)) -> Result<()> {
        let slot = self.slot;
        self.state.lock().step(operation, slot, |state| {
            state.slots.get_mut(&slot).map(change);
        })
    }
}

impl Memory for SimulatedSlot {
    fn copy(&self, image: &mut ImageWriter, offset: usize, bytes: &[u8]) -> Result<()> {
        image.copy(offset, bytes)?;
        let mut state = self.state.lock();
        let step = state.switch.advance();
        let length = match step {
            Step::Alive => bytes.len(),
            Step::Interrupted => state.random.random_range(0..=bytes.len()),
            Step::Frozen => 0,
        };
        if let (Some(contents), Some(stored)) =
            (state.slots.get_mut(&self.slot), bytes.get(..length))
        {
            contents.store(offset, stored, false);
        }
        match step {
            Step::Alive => Ok(()),
            Step::Interrupted | Step::Frozen => Err(frozen(Operation::Write, self.slot)),
        }
    }

    fn store_word(&self, image: &mut ImageWriter, offset: usize, word: u64) -> Result<()> {
        image.store_word(offset, word)?;
        self.step(Operation::Write, |contents| {
            contents.store(offset, &word.to_le_bytes(), true);
        })
    }

    fn write_back(&self, offset: usize, length_bytes: usize) -> Result<()> {
        self.step(Operation::Sync, |contents| {
            contents.write_back(offset, length_bytes);
        })
    }

    fn fence(&self) -> Result<()> {
        self.step(Operation::Sync, Contents::fence)
    }
}

impl fmt::Debug for SimulatedSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedSlot")
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}
