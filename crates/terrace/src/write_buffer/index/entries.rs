//! The index's knowledge of each record, in the order of insertion: one word a record.
//!
//! The word: the start of the record in the arena (low half). And the entry of the next older
//! version of the same key in the same keyspace, plus one (high half, 0 for none). Everything else
//! is read from the record itself.

use std::sync::OnceLock;

use terrace_lsm::sync::atomic::{AtomicU64, Ordering};

const CHUNK_SHIFT: u32 = 13;
const CHUNK_ENTRIES: u32 = 1 << CHUNK_SHIFT;
const CHUNK_BYTES: u64 = CHUNK_ENTRIES as u64 * 8;

type Chunk = Box<[AtomicU64]>;

/// An array of words in chunks that are allocated on first use and never move.
pub(super) struct Entries {
    chunks: Box<[OnceLock<Chunk>]>,
}

impl Entries {
    /// Makes an array for at least `capacity` entries.
    pub(super) fn new(capacity: u64) -> Self {
        let chunks = capacity
            .div_ceil(u64::from(CHUNK_ENTRIES))
            .clamp(1, u64::from(u32::MAX >> CHUNK_SHIFT));
        Entries {
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
        }
    }

    pub(super) fn capacity(&self) -> u32 {
        self.chunks.len() as u32 * CHUNK_ENTRIES
    }

    /// Returns the bytes of memory that this many entries take, whole chunks counted.
    pub(super) fn memory_bytes(&self, entries: u32) -> u64 {
        u64::from(entries.div_ceil(CHUNK_ENTRIES)) * CHUNK_BYTES
    }

    /// Writes entry `number`. The caller publishes the number with release.
    pub(super) fn set(&self, number: u32, record_offset: u32, older: Option<u32>) {
        let word = u64::from(record_offset) | u64::from(older.map_or(0, |older| older + 1)) << 32;
        if let Some(chunk) = self.chunks.get((number >> CHUNK_SHIFT) as usize) {
            let chunk =
                chunk.get_or_init(|| (0..CHUNK_ENTRIES).map(|_| AtomicU64::new(0)).collect());
            if let Some(entry) = chunk.get((number % CHUNK_ENTRIES) as usize) {
                entry.store(word, Ordering::Relaxed);
            }
        }
    }

    /// Returns the record's offset and the next older version, of a number loaded with acquire.
    /// `None` for a number that was never set.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<(u32, Option<u32>)> {
        let chunk = self.chunks.get((number >> CHUNK_SHIFT) as usize)?.get()?;
        let word = chunk
            .get((number % CHUNK_ENTRIES) as usize)?
            .load(Ordering::Relaxed);
        Some((word as u32, ((word >> 32) as u32).checked_sub(1)))
    }
}
