//! Builds the contents of one block after another.

use crate::coding::{put_varint, varint_length};
use crate::debug_expect::DebugExpect;
use crate::key::{InternalKey, Tag};
use crate::key_prefixes::common_length;

/// Entries in order on their way into a block.
pub(super) struct BlockBuilder {
    restart_interval: usize,
    contents: Vec<u8>,
    restarts: Vec<u32>,
    entries: usize,
    last_user_key: Vec<u8>,
    last_tag: Tag,
}

impl BlockBuilder {
    pub(super) fn new(restart_interval: usize) -> Self {
        BlockBuilder {
            restart_interval: restart_interval.max(1),
            contents: Vec::new(),
            restarts: Vec::new(),
            entries: 0,
            last_user_key: Vec::new(),
            last_tag: Tag(0),
        }
    }

    /// Adds an entry. The caller keeps the order.
    pub(super) fn add(&mut self, key: InternalKey<'_>, value: &[u8]) {
        let shared = self.shared_length(key);
        if self.begins_restart() {
            self.restarts.push(self.contents.len() as u32);
        }
        let suffix = key
            .user_key
            .get(shared..)
            .debug_expect("shared bytes are in both keys");
        put_varint(&mut self.contents, shared as u64);
        put_varint(&mut self.contents, suffix.len() as u64 + 8);
        put_varint(&mut self.contents, value.len() as u64);
        self.contents.extend_from_slice(suffix);
        self.contents.extend_from_slice(&key.tag.0.to_le_bytes());
        self.contents.extend_from_slice(value);
        // Sequential keys change in their last bytes only: the shared part need not be copied.
        let kept = shared.min(self.last_user_key.len());
        self.last_user_key.truncate(kept);
        self.last_user_key.extend_from_slice(
            key.user_key
                .get(kept..)
                .debug_expect("shared bytes are in both keys"),
        );
        self.last_tag = key.tag;
        self.entries += 1;
    }

    fn begins_restart(&self) -> bool {
        self.entries.is_multiple_of(self.restart_interval)
    }

    /// Bytes that the next entry's key takes from the one before.
    fn shared_length(&self, key: InternalKey<'_>) -> usize {
        if self.begins_restart() {
            0
        } else {
            common_length(&self.last_user_key, key.user_key)
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Returns the last key added, to this block or, if it is empty, to the one before.
    pub(super) fn last_key(&self) -> InternalKey<'_> {
        InternalKey {
            user_key: &self.last_user_key,
            tag: self.last_tag,
        }
    }

    /// Returns the length of the contents if the block ended here.
    pub(super) fn length_bytes(&self) -> usize {
        self.contents.len() + (self.restarts.len() + 1) * 4
    }

    /// Returns the length of the contents if the block ended behind this entry.
    pub(super) fn length_with(&self, key: InternalKey<'_>, value: &[u8]) -> usize {
        let shared = self.shared_length(key);
        let suffix = key.user_key.len() - shared + 8;
        let lengths = [shared, suffix, value.len()].map(|length| varint_length(length as u64));
        let restart = if self.begins_restart() { 4 } else { 0 };
        self.length_bytes() + restart + lengths.iter().sum::<usize>() + suffix + value.len()
    }

    /// Hands the finished contents to `write` and begins the next block.
    pub(super) fn finish<T>(&mut self, write: impl FnOnce(&[u8]) -> T) -> T {
        for restart in &self.restarts {
            self.contents.extend_from_slice(&restart.to_le_bytes());
        }
        let count = self.restarts.len() as u32;
        self.contents.extend_from_slice(&count.to_le_bytes());
        let result = write(&self.contents);
        self.contents.clear();
        self.restarts.clear();
        self.entries = 0;
        result
    }
}
