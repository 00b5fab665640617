//! The facts that a recovery finds in a slot: no decisions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::arena::Arena;
use crate::device::{Attached, Medium};
use crate::format::{ArenaKey, FrameInfo, HEADER_BYTES, HeaderState};
use crate::image::ImageWriter;
use crate::scan::{Scan, Visitor};
use crate::window::{SlotReader, Window};
use crate::{Error, Result};

/// A slot that the region holds, as evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotInfo {
    /// Its number.
    pub number: u64,
    /// Its size in bytes; not necessarily one that an arena can have.
    pub length_bytes: u64,
    /// Its header.
    pub header: HeaderState,
}

/// The manifest's facts about an arena that is to be recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Its size. Any other is damage, and no byte but the header is read. `None` takes the bytes
    /// that are there, up to the size that an intact header names.
    pub capacity_bytes: Option<u64>,
    /// End of its frames. If whole frames end there nothing behind is read; if they do not, the
    /// whole arena is searched. Only an arena that has taken no frame since may have this.
    pub end_bytes: Option<u64>,
}

/// Where the frames of a recovered arena are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In memory of this process.
    Memory,
    /// In a private mapping of the file: the kernel may take its memory back. A medium without such
    /// mappings gives memory. With a mapping, a medium that cannot be read ends the process.
    Mapping,
}

/// Judges a frame that lies where the one before it ends. Its checksum was compared; the window
/// reads its payload. False refuses this frame and all behind it.
pub type Judge<'a> = dyn FnMut(&FrameInfo, &mut Window<'_>) -> Result<bool> + 'a;

/// An arena found after a crash, for one generation. Its frames are on the medium; see
/// [`Recovered::load`].
#[derive(Debug)]
pub struct Recovered {
    pub(crate) slot: u64,
    pub(crate) file: PathBuf,
    pub(crate) key: ArenaKey,
    pub(crate) reader: Box<dyn SlotReader>,
    /// Its header.
    pub header: HeaderState,
    /// Whether the header is intact and of the requested generation: the arena was activated.
    pub is_activated: bool,
    /// Whether it was activated in the present boot of the machine: if damage is found, the process
    /// died and not the machine. False if the header cannot tell.
    pub is_same_boot: bool,
    /// The frames and the damage.
    pub scan: Scan,
}

impl Recovered {
    /// Returns the slot of the arena.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// Returns the requested generation.
    pub fn generation(&self) -> u64 {
        self.key.generation()
    }

    /// Returns the file of the arena, or its name where it is no file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns whether frames lie here although the header, durable before any of them, does not
    /// vouch for them: that was damaged afterwards. Without frames, the arena was never activated.
    pub fn has_lost_header(&self) -> bool {
        !self.is_activated && self.scan.has_frames()
    }

    /// Returns an arena, sealed, that holds the frames of `scan.run` and no others. It takes the
    /// memory of these frames and not of its capacity.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::OutOfMemory`].
    pub fn load(&self, placement: Placement) -> Result<Arc<Arena>> {
        let end_bytes = self.scan.end_bytes;
        let mapped = match placement {
            Placement::Memory => None,
            Placement::Mapping => self.reader.map(end_bytes)?,
        };
        let writer = match mapped {
            Some(mapped) => mapped,
            None => {
                let mut writer = ImageWriter::anonymous(end_bytes)?;
                self.reader.read_exact_at(writer.unpublished(), 0)?;
                writer
            }
        };
        let attached = Attached {
            writer,
            medium: Box::new(ReadMedium),
        };
        let arena = Arena::new(self.slot, self.key, self.file.clone(), attached, end_bytes)?;
        arena.seal()?;
        Ok(Arc::new(arena))
    }
}

/// Folds the frames of a walk into a scan.
pub(crate) struct Folding<'a> {
    pub(crate) scan: Scan,
    pub(crate) judge: &'a mut Judge<'a>,
    pub(crate) is_over: bool,
}

impl Visitor for Folding<'_> {
    fn in_prefix(&mut self, frame: &FrameInfo, window: &mut Window<'_>) -> Result<()> {
        self.is_over = self.is_over || !(self.judge)(frame, window)?;
        if self.is_over {
            self.scan.add_behind(frame);
        } else {
            self.scan.add(frame);
        }
        Ok(())
    }

    fn behind(&mut self, frame: &FrameInfo) {
        self.scan.add_behind(frame);
    }
}

/// The medium of an arena that was recovered: nothing is ever written to it.
#[derive(Debug)]
struct ReadMedium;

impl Medium for ReadMedium {
    fn store_header(&self, _: &mut ImageWriter, _: &[u8; HEADER_BYTES]) -> Result<()> {
        Err(Error::Sealed)
    }

    fn store(&self, _: &mut ImageWriter, _: usize, _: &[u8]) -> Result<()> {
        Err(Error::Sealed)
    }

    fn complete(&self, _: &mut ImageWriter, _: usize, _: u64, _: usize) -> Result<()> {
        Err(Error::Sealed)
    }

    fn persist(&self, _: usize, _: usize) -> Result<()> {
        Err(Error::Sealed)
    }
}
