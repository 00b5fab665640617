//! The calls of the two paths to the read buffer. Where it is off, each is one test of `None`.

use std::sync::Arc;

use terrace_lsm::key::Tag;
use terrace_lsm::levels::{KeyspaceLevels, Version as TablesVersion};
use terrace_lsm::time_profile::{Stage, enter_stage};
use terrace_region::release_free_memory;

use crate::db::Store;
use crate::db::owners::{Files, Reads};
use crate::db::read::Lookup;
use crate::db::value::Value;
use crate::read_buffer::{Forwarding, Found, Key, ReadBuffer, Version};
use crate::{Compression, KeyspaceId, SequenceNumber};

impl<'a> Lookup<'a> {
    fn buffered(&self) -> Key<'a> {
        Key::new(self.keyspace, self.key, self.hash)
    }
}

impl Store {
    /// Offers the read buffer the version that a read found in the tables. `tag` is the version's.
    #[inline]
    pub(crate) fn fill_buffer(&self, lookup: &Lookup<'_>, tag: Tag, value: Option<&[u8]>) {
        if let Some(buffer) = &self.reads.read_buffer {
            enter_stage(Stage::ReadBuffer);
            let sequence = tag.sequence();
            let version = Version { sequence, value };
            let has_to_claim = buffer.fill(&lookup.buffered(), version, lookup.began_at);
            if has_to_claim || self.has_held_changed() {
                self.settle_claim(buffer);
            }
        }
    }

    /// Notes that a scan was positioned whose blocks are to be kept, and may move memory: a store
    /// that is scanned has its memory where scans look.
    pub(crate) fn settle_boundary(&self) {
        let Some(buffer) = &self.reads.read_buffer else {
            return;
        };
        if buffer.sought(|| self.files.tables.blocks().misses()) {
            self.by_and_by(Self::let_entries_go);
        }
    }

    /// Has the deletion worker take steps until none is left; in a read-only store, which has no
    /// such worker, the caller takes them.
    fn by_and_by(&self, step: impl Fn(&Self) -> bool) {
        if self.options.read_only {
            while step(self) {}
        } else {
            self.lifecycle.background.deletion_wanted(self);
        }
    }

    /// Takes a step of the deletion worker: some entries that the read buffer has yielded leave it,
    /// and blocks may take their memory. False if there are none.
    pub(crate) fn let_entries_go(&self) -> bool {
        let buffer = self.reads.read_buffer.as_ref();
        let some_went = buffer.filter(|buffer| buffer.let_some_go());
        if let Some(buffer) = some_went {
            self.settle_claim(buffer);
        }
        some_went.is_some()
    }

    /// Ends the forwarding of a frame of some bytes.
    #[inline]
    pub(crate) fn end_forward(&self, forwarding: Option<Forwarding<'_>>, payload_bytes: usize) {
        if let Some(buffer) = &self.reads.read_buffer {
            enter_stage(Stage::Forward);
            let has_to_claim = forwarding.is_some_and(|forwarding| forwarding.end(payload_bytes));
            if has_to_claim || self.has_held_changed() {
                self.settle_claim(buffer);
            }
        }
    }

    /// Prepares the buffer before the first write of a store that takes writes.
    pub(crate) fn prepare_for_writes(&self) {
        if let Some(buffer) = &self.reads.read_buffer {
            buffer.expect_writes();
            self.settle_claim(buffer);
        }
    }

    /// Tells the buffer whether the block cache has room for all blocks of a version.
    pub(crate) fn weigh_blocks(&self, version: &TablesVersion) {
        let Some(buffer) = &self.reads.read_buffer else {
            return;
        };
        let tables = version
            .keyspaces
            .values()
            .flat_map(|levels| levels.tables());
        let (bytes, entries) = tables.fold((0, 0), |(bytes, entries), (_, table)| {
            (bytes + table.size_bytes, entries + table.entries)
        });
        buffer.expect_records(bytes.checked_div(entries).unwrap_or(0));
        let in_memory_bytes = |levels: &Arc<KeyspaceLevels>| -> u64 {
            let form = self.form_of(levels);
            let of_level = levels.levels.iter().enumerate().map(|(number, level)| {
                let is_compressed = form.compression_of(number) != Compression::None;
                blocks_in_memory_bytes(level.size_bytes(), is_compressed)
            });
            of_level.sum()
        };
        let bytes: u64 = version.keyspaces.values().map(in_memory_bytes).sum();
        let held_bytes = self.files.tables.blocks().held_bytes();
        buffer.weigh_blocks(bytes, self.options.cache_bytes.saturating_sub(held_bytes));
    }

    /// Returns whether open tables or transactions have taken much of the budget, or given it back, since
    /// it was divided.
    #[inline]
    fn has_held_changed(&self) -> bool {
        let held_bytes = self.files.tables.blocks().held_bytes();
        self.reads.memory.has_held_changed(held_bytes)
    }

    /// Divides the memory budget again. The read buffer fills slower than blocks leave, so the
    /// blocks may leave in the background.
    fn settle_claim(&self, buffer: &ReadBuffer) {
        let blocks = self.files.tables.blocks();
        let lend = |bytes| blocks.lend(bytes);
        let held_bytes = blocks.held_bytes();
        let divide = |request| self.reads.memory.settle(request, held_bytes, lend);
        let are_to_leave = buffer.settle_claim(divide);
        if are_to_leave {
            self.by_and_by(|store| store.files.let_blocks_go());
        }
    }
}

impl Reads {
    /// Returns the read buffer's knowledge of a key: a value, its absence, or nothing.
    #[inline]
    pub(crate) fn get_buffered(&self, lookup: &Lookup<'_>) -> Option<Option<Value>> {
        let buffer = self.read_buffer.as_ref()?;
        // All writes visible at that number have been forwarded.
        match buffer.get(&lookup.buffered(), lookup.began_at)? {
            Found::Value(bytes) => Some(Some(Value::owned(bytes))),
            Found::Absent => Some(None),
        }
    }

    /// Tells the buffer that versions before `sequence` in the keyspace may have been removed or
    /// replaced without naming keys. A range delete that is a record of its own does this when it
    /// is forwarded; every other change calls this before `sequence` is visible.
    pub(crate) fn raise_floor(&self, keyspace: KeyspaceId, sequence: SequenceNumber) {
        if let Some(buffer) = &self.read_buffer {
            buffer.raise_floor(keyspace, sequence);
        }
    }
}

impl Files {
    /// Takes a step of the deletion worker: some of the blocks that are to leave do, and their
    /// memory goes back to the kernel. False if there are none.
    pub(crate) fn let_blocks_go(&self) -> bool {
        let some_went = self.tables.blocks().let_some_go();
        if some_went {
            release_free_memory();
        }
        some_went
    }
}

/// Returns the bytes that the blocks of tables take in the block cache: their bookkeeping is less
/// than a sixteenth, and compressed ones are taken to double. For data that does not compress that
/// is too much: between half of the cache and all of it, a buffer is awake that need not be.
fn blocks_in_memory_bytes(tables_bytes: u64, is_compressed: bool) -> u64 {
    let uncompressed_bytes = tables_bytes << u32::from(is_compressed);
    uncompressed_bytes + uncompressed_bytes / 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_take_more_in_memory_than_in_files() {
        assert_eq!(blocks_in_memory_bytes(1600, false), 1700);
        assert_eq!(blocks_in_memory_bytes(1600, true), 3400);
    }
}
