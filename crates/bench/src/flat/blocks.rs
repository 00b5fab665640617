//! The device below the files.

use std::fmt;
use std::io;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;

/// A device of blocks of [`BLOCK_BYTES`]. All buffers are whole blocks.
pub trait Blocks: Send + Sync + fmt::Debug {
    /// Returns the number of blocks.
    fn count(&self) -> u64;

    /// Reads blocks from `first` on.
    ///
    /// # Errors
    /// The device fails, or ends before.
    fn read(&self, first: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes blocks from `first` on. They are durable after a [`Blocks::flush`] that begins later.
    ///
    /// # Errors
    /// The device fails, or ends before. Any of the blocks may have been written.
    fn write(&self, first: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes the writes durable that have returned.
    ///
    /// # Errors
    /// The device fails: nothing is known of the writes since the last flush.
    fn flush(&self) -> io::Result<()>;
}
