//! The seam between arenas and the media that make their bytes durable.
//!
//! A [`Device`] holds slots of memory; a [`Medium`] is one activated slot of it. The persist method
//! is the pair of types, so that no code on the path of a write asks which method is in use.

use std::fmt;
use std::path::PathBuf;

use terrace_storage::FileSystem;

use crate::image::ImageWriter;
use crate::window::SlotReader;
use crate::{HEADER_BYTES, Result};

/// The promises of a region, and its medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The persist method: `written`, `volatile`, ...
    pub method: &'static str,
    /// Medium of the bytes: the file system's name, or `dram`.
    pub medium: String,
    /// Whether appended frames survive the death of the process.
    pub survives_kill: bool,
    /// Whether [`Arena::persist`](crate::Arena::persist) works: persisted frames survive a power cut.
    pub can_persist: bool,
    /// Whether power safety is pretended, for benchmarks; reports say so wherever they show a
    /// figure.
    pub emulated: bool,
}

impl Description {
    /// Describes a method on files that only a sync carries to the disk.
    pub(crate) fn of_files(
        method: &'static str,
        file_system: &FileSystem,
        emulate_power_safety: bool,
    ) -> Self {
        let survives_power_cut = file_system.survives_power_cut;
        Description {
            method,
            medium: file_system.name.clone(),
            survives_kill: true,
            can_persist: survives_power_cut || emulate_power_safety,
            emulated: emulate_power_safety && !survives_power_cut,
        }
    }
}

/// One slot that a device holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSlot {
    /// Its number.
    pub number: u64,
    /// Its size in bytes; not necessarily one that an arena can have.
    pub length_bytes: u64,
}

/// An open slot: its memory and how that becomes durable.
pub struct Attached {
    /// The image of the slot, with nothing published.
    pub writer: ImageWriter,
    /// Carries the image's bytes to a place where they survive.
    pub medium: Box<dyn Medium>,
}

/// Memory in slots. One per persist method.
pub trait Device: Send + Sync + fmt::Debug {
    /// Returns the promises of the device.
    fn description(&self) -> Description;

    /// Returns the id of the machine's present boot.
    fn boot_id(&self) -> [u8; 16];

    /// Returns the name of a slot in errors.
    fn file(&self, slot: u64) -> PathBuf;

    /// Returns whether readers of an arena read the slot itself, so that it must not be used again
    /// while one of them is left. False where images are copies.
    fn reads_in_place(&self) -> bool;

    /// Returns all slots, in any state, by rising number.
    fn list(&self) -> Result<Vec<DeviceSlot>>;

    /// Makes a slot of zeros; it and its name are durable when this returns. After an error
    /// nothing is left of it, as far as possible.
    fn create(&self, slot: u64, capacity_bytes: u64) -> Result<()>;

    /// Gives an existing slot, of contents that are not needed, all the space that it takes: a copy
    /// of it may have holes. Only where otherwise a store to memory would have to find space.
    fn occupy(&self, _slot: u64) -> Result<()> {
        Ok(())
    }

    /// Makes an existing slot and its name durable: an earlier process may have died in `create`.
    fn adopt(&self, slot: u64) -> Result<()>;

    /// Removes a slot. It may come back after a power cut.
    fn remove(&self, slot: u64) -> Result<()>;

    /// Returns the first bytes of a slot, up to [`HEADER_BYTES`].
    fn read_header(&self, slot: u64) -> Result<Vec<u8>>;

    /// Stores the first bytes of an existing slot once more where a persist of an earlier process
    /// may have lost them: the same bytes, which are durable then. For devices whose persist may
    /// succeed after one that failed.
    fn store_again(&self, _slot: u64, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Notes that nothing depends on persists of earlier processes any more: no slot is stored
    /// again.
    fn end_recovery(&self) {}

    /// Opens a slot to be written from its beginning. Where readers read in place the image holds
    /// the slot's bytes, else it is unspecified.
    fn attach(&self, slot: u64, capacity_bytes: u64) -> Result<Attached>;

    /// Opens a slot to be read. Writes nothing.
    fn reader(&self, slot: u64) -> Result<Box<dyn SlotReader>>;
}

/// Carries the bytes of one arena's image to a place where they survive. The arena calls the
/// storing methods under its appender's lock; `persist` may run beside them.
pub trait Medium: Send + Sync + fmt::Debug {
    /// Stores the header at the beginning; it is durable when this returns.
    fn store_header(&self, image: &mut ImageWriter, header: &[u8; HEADER_BYTES]) -> Result<()>;

    /// Stores part of a frame that is not complete yet.
    fn store(&self, image: &mut ImageWriter, offset: usize, bytes: &[u8]) -> Result<()>;

    /// Completes the frame at `offset`, of `frame_bytes` bytes: stores its length word, last. When
    /// this returns the frame survives all that appended frames survive on this device.
    fn complete(
        &self,
        image: &mut ImageWriter,
        offset: usize,
        length_word: u64,
        frame_bytes: usize,
    ) -> Result<()>;

    /// Makes the complete frames between two offsets survive a power cut.
    fn persist(&self, from: usize, to: usize) -> Result<()>;
}
