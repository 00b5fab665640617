//! The protocol for memory that the CPU stores into and that survives: a mapped file, DAX.
//!
//! Every part of a frame is copied, then its length word is stored by one aligned 8-byte store. No
//! fence lies between: after a kill the stores that retired are all there, and after a power cut
//! lines may have reached the medium in any order, with a fence or without. The checksum decides;
//! the word stored last lets a kill leave a frame that is whole or not begun. A persist writes back
//! the lines of everything appended since the last one and waits for them by one fence.

use std::fmt;

use crate::device::Medium;
use crate::image::ImageWriter;
use crate::{Error, HEADER_BYTES, Result};

/// The four things that can be done to memory that survives. Stores go through the image's one
/// writer; `write_back` and `fence` may run beside them.
///
/// An error means that the medium is gone; a mapping reports it at the fence at the latest.
pub trait Memory: Send + Sync + fmt::Debug {
    /// Copies bytes. A crash may leave any part of them.
    fn copy(&self, image: &mut ImageWriter, offset: usize, bytes: &[u8]) -> Result<()>;

    /// Copies bytes; they are durable when this returns.
    fn copy_durably(&self, image: &mut ImageWriter, offset: usize, bytes: &[u8]) -> Result<()> {
        self.copy(image, offset, bytes)?;
        self.write_back(offset, bytes.len())?;
        self.fence()
    }

    /// Stores an aligned little-endian word after every copy before it. A crash leaves it whole or
    /// absent.
    fn store_word(&self, image: &mut ImageWriter, offset: usize, word: u64) -> Result<()>;

    /// Begins to write back the stores in a range.
    fn write_back(&self, offset: usize, length_bytes: usize) -> Result<()>;

    /// Waits until every write-back begun so far has reached the medium.
    fn fence(&self) -> Result<()>;
}

/// One arena in memory that survives.
#[derive(Debug)]
pub struct Stored<M> {
    memory: M,
    /// Makes the error of a persist where nothing survives a power cut.
    refusal: Option<fn() -> Error>,
}

impl<M: Memory> Stored<M> {
    /// Returns the protocol over a slot's memory.
    pub fn new(memory: M) -> Self {
        Stored {
            memory,
            refusal: None,
        }
    }

    /// Returns the same where nothing survives a power cut: a persist is the error that `refusal`
    /// makes.
    pub(crate) fn without_persist(memory: M, refusal: fn() -> Error) -> Self {
        Stored {
            memory,
            refusal: Some(refusal),
        }
    }
}

impl<M: Memory> Medium for Stored<M> {
    fn store_header(&self, image: &mut ImageWriter, header: &[u8; HEADER_BYTES]) -> Result<()> {
        self.memory.copy_durably(image, 0, header)
    }

    fn store(&self, image: &mut ImageWriter, offset: usize, bytes: &[u8]) -> Result<()> {
        self.memory.copy(image, offset, bytes)
    }

    fn complete(
        &self,
        image: &mut ImageWriter,
        offset: usize,
        length_word: u64,
        _frame_bytes: usize,
    ) -> Result<()> {
        self.memory.store_word(image, offset, length_word)
    }

    fn persist(&self, from: usize, to: usize) -> Result<()> {
        if let Some(refusal) = self.refusal {
            return Err(refusal());
        }
        self.memory.write_back(from, to - from)?;
        self.memory.fence()
    }
}
