//! The journal's ring, read block by block.

use super::blocking::Blocking;
use crate::Result;
use crate::block::{BLOCK_BYTES, Buffer, Extent};

/// Blocks that are read at once: 1 MiB.
const BATCH_BLOCKS: u64 = 256;

/// Reads the blocks of a ring one after another, many at once.
pub(super) struct Ring {
    ring: Extent,
    first: u64,
    next: u64,
    batch: Buffer,
    batch_start: u64,
}

impl Ring {
    pub(super) fn new(ring: Extent, first: u64) -> Self {
        Ring {
            ring,
            first,
            next: first,
            batch: Buffer::default(),
            batch_start: first,
        }
    }

    /// Returns the next block; none after a whole turn.
    pub(super) fn next(&mut self, device: &mut Blocking<'_>) -> Result<Option<&[u8]>> {
        if self.next - self.first == self.ring.blocks {
            return Ok(None);
        }
        let in_batch = (self.next - self.batch_start) as usize;
        if in_batch * BLOCK_BYTES >= self.batch.len() {
            let at = self.next % self.ring.blocks;
            let left = self.ring.blocks - (self.next - self.first);
            let extent = Extent {
                start: self.ring.start + at,
                blocks: BATCH_BLOCKS.min(self.ring.blocks - at).min(left),
            };
            self.batch = device.read(&[extent])?;
            self.batch_start = self.next;
        }
        let at = (self.next - self.batch_start) as usize * BLOCK_BYTES;
        self.next += 1;
        Ok(Some(&self.batch[at..at + BLOCK_BYTES]))
    }
}

/// Returns the place of a block on the device, in bytes.
pub(super) fn place_of(ring: Extent, number: u64) -> u64 {
    (ring.start + number % ring.blocks) * BLOCK_BYTES as u64
}
