//! The checksum, and the seeds that bind it to a structure and its place.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A structure in a namespace and its place there. Each has a seed of its own, so that no structure
/// passes for another one, or for the same one elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// A journal block, by its number.
    Journal { number: u64 },
    /// The trailer of a value that ends with this block.
    Trailer { last_block: u64 },
    /// The header of a segment, by its first block.
    Segment { start: u64 },
    /// A cell, by its location.
    Cell { location: u64 },
    /// The header of a checkpoint, by the first block of the slot.
    CheckpointHeader { slot: u64 },
    /// A content block of a checkpoint.
    CheckpointContent { generation: u64, index: u64 },
}

impl Place {
    /// Returns the checksum of `bytes` at this place.
    pub(super) fn sum(self, secret: u64, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes, self.seed(secret))
    }

    fn seed(self, secret: u64) -> u64 {
        let words = match self {
            Place::Journal { number } => [1, number, 0],
            Place::Trailer { last_block } => [2, last_block, 0],
            Place::Segment { start } => [3, start, 0],
            Place::Cell { location } => [4, location, 0],
            Place::CheckpointHeader { slot } => [5, slot, 0],
            Place::CheckpointContent { generation, index } => [6, generation, index],
        };
        let mut bytes = [0; 24];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        xxh3_64_with_seed(&bytes, secret)
    }
}

/// Bytes of a checksum, which begins every structure and does not cover itself.
pub(super) const SUM_BYTES: usize = 8;

/// Puts the checksum of the rest of `bytes` before it, and returns it.
pub(super) fn seal(bytes: &mut [u8], sum: impl FnOnce(&[u8]) -> u64) -> u64 {
    let (to, covered) = bytes.split_at_mut(SUM_BYTES);
    let sum = sum(covered);
    to.copy_from_slice(&sum.to_le_bytes());
    sum
}

/// Returns the checksum that begins `bytes` if it is that of the rest.
pub(super) fn checked(bytes: &[u8], sum: impl FnOnce(&[u8]) -> u64) -> Option<u64> {
    let (stored, covered) = bytes.split_first_chunk::<SUM_BYTES>()?;
    let stored = u64::from_le_bytes(*stored);
    (stored == sum(covered)).then_some(stored)
}
