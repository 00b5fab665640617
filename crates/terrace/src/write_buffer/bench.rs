//! Entry points for benches: the index by itself, without a store around it.

use std::sync::Arc;

use terrace_lsm::cursor::Cursor;
use terrace_lsm::key::{InternalKey, MAX_SEQUENCE};
use terrace_lsm::table::key_hash;
use terrace_region::{Appended, Frame, Region};

use crate::write_buffer::batch::WriteBatch;
use crate::write_buffer::memtable::MemTable;
use crate::{KeyspaceId, Result};

const SEED: u64 = 7;

/// A MemTable whose arena holds all records from the start; they enter the index when asked for.
pub struct IndexBench {
    table: Arc<MemTable>,
    frames: Vec<Appended>,
}

impl IndexBench {
    /// Makes a frame for each key, with a value of eight bytes.
    pub fn new(keys: &[Vec<u8>]) -> Result<Self> {
        let record_bytes: usize = keys.iter().map(|key| key.len() + 64).sum();
        let capacity_bytes = (record_bytes as u64 + (64 << 10)).next_multiple_of(4096);
        let failed = |error: terrace_region::Error| crate::Error::invalid(error.to_string());
        let region = Region::volatile(capacity_bytes).map_err(failed)?;
        let slot = region.reserve(capacity_bytes).map_err(failed)?;
        let arena = region.activate(slot, 1).map_err(failed)?;
        let mut frames = Vec::new();
        for (first_sequence, key) in (1..).zip(keys) {
            let mut batch = WriteBatch::new();
            batch.put(key, b"8 bytes.")?;
            let frame = Frame {
                first_sequence,
                record_count: 1,
                persisted_until: 0,
                payload: &[batch.payload()],
            };
            frames.push(arena.append(&frame).map_err(failed)?);
        }
        let budget_bytes = MemTable::index_bytes_for(keys.len() as u64);
        let table = Arc::new(MemTable::new(arena, budget_bytes, SEED));
        Ok(IndexBench { table, frames })
    }

    /// Indexes the record of key `number`; keys come in order.
    pub fn insert(&self, number: usize) -> Result<()> {
        match self.frames.get(number) {
            Some(frame) => self.table.insert_frame(
                frame.payload_offset,
                frame.payload_bytes,
                number as u64 + 1,
                |_| {},
            ),
            None => Ok(()),
        }
    }

    /// Returns whether the key is found.
    pub fn get(&self, key: &[u8]) -> bool {
        let hash = key_hash(key, SEED);
        self.table
            .get(KeyspaceId::DEFAULT, key, hash, MAX_SEQUENCE)
            .is_some()
    }

    /// Returns the bytes of the first `count` entries from `key` on.
    pub fn scan(&self, key: &[u8], count: usize) -> Result<usize> {
        let mut cursor = self.table.cursor(KeyspaceId::DEFAULT);
        cursor.seek(InternalKey::seek(key, MAX_SEQUENCE))?;
        let mut bytes = 0;
        for _ in 0..count {
            if !cursor.valid() {
                break;
            }
            bytes += cursor.key().user_key.len() + cursor.value().len();
            cursor.next()?;
        }
        Ok(bytes)
    }

    /// Returns the memory of the index in bytes.
    pub fn index_memory_bytes(&self) -> u64 {
        self.table.index_memory_bytes()
    }
}
