//! The index of a MemTable: a skip list over records that live elsewhere, in an arena.
//!
//! Goal: readers that never lock or wait, one or several inserters, memory that is counted, bounded
//! and freed as a whole. Nothing is ever removed, so there is no reclamation to get wrong.
//!
//! All memory is words (`AtomicU32`) in chunks that are allocated on first use and never move; a
//! node is named by its word offset, 0 being "none". This keeps links at four bytes and the whole
//! structure free of `unsafe`: a relaxed atomic load is a plain load on every machine we support.
//!
//! A node: `key offset, key length | height << 16, value length, keyspace, tag low, tag high,
//! prefix high, prefix low`, then one link a level. The first eight key bytes are kept beside the
//! reference, so that most comparisons touch the node only.
//!
//! Invariants: (1) a node's words are written before the link that publishes it is (release), and
//! read after that link is (acquire); (2) links of one level only ever point to greater keys; (3) a
//! node reachable at level n is reachable at every level below n.

use std::cmp::Ordering as KeyOrder;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::key::Tag;

/// Levels of the list; with a quarter of the nodes rising a level this serves 4^12 entries.
const MAX_HEIGHT: usize = 12;
const HEADER_WORDS: u32 = 8;
const HEAD: u32 = 1;
const NONE: u32 = 0;

const CHUNK_SHIFT: u32 = 16;
const CHUNK_WORDS: u32 = 1 << CHUNK_SHIFT;

/// The most memory one entry can take.
pub(crate) const MAX_ENTRY_BYTES: u64 = (HEADER_WORDS as u64 + MAX_HEIGHT as u64) * 4;

/// Where keys are read from: the arena's image.
pub(crate) trait KeyBytes {
    fn key_bytes(&self, offset: u32, length: u32) -> &[u8];
}

/// A record as the index holds it. Offsets are in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) keyspace: u32,
    pub(crate) tag: Tag,
    pub(crate) key_offset: u32,
    pub(crate) key_bytes: u32,
    pub(crate) value_bytes: u32,
}

impl Entry {
    pub(crate) fn value_offset(&self) -> u32 {
        self.key_offset + self.key_bytes
    }
}

/// A place in the order: keyspace, user key, then tags from the newest.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) keyspace: u32,
    pub(crate) key: &'a [u8],
    pub(crate) tag: Tag,
}

/// A node's name. Valid for the index that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(u32);

/// The index memory has reached its bound.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct IndexFull;

type Chunk = Box<[AtomicU32]>;

/// The skip list. See the head of the file.
pub(crate) struct Index {
    chunks: Box<[OnceLock<Chunk>]>,
    /// The next free word.
    end: AtomicU32,
    /// State of the height generator; races only make heights a little less random.
    random: AtomicU32,
}

impl Index {
    /// An index that takes at most `budget_bytes` (rounded up to a chunk).
    pub(crate) fn new(budget_bytes: u64) -> Self {
        let chunk_bytes = u64::from(CHUNK_WORDS) * 4;
        let chunks = budget_bytes
            .div_ceil(chunk_bytes)
            .clamp(1, u64::from(u32::MAX >> CHUNK_SHIFT));
        let index = Index {
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            end: AtomicU32::new(HEAD),
            random: AtomicU32::new(0x9E37_79B9),
        };
        // The head is a node with no key and every level.
        let _head = index.allocate(HEADER_WORDS + MAX_HEIGHT as u32);
        index
    }

    /// Bytes of memory in use, whole chunks counted.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let chunks = self.end.load(Ordering::Relaxed).div_ceil(CHUNK_WORDS);
        u64::from(chunks) * u64::from(CHUNK_WORDS) * 4
    }

    /// Bytes that entries have taken.
    pub(crate) fn entry_bytes(&self) -> u64 {
        let head_words = HEAD + HEADER_WORDS + MAX_HEIGHT as u32;
        u64::from(self.end.load(Ordering::Relaxed) - head_words) * 4
    }

    /// Adds an entry. Entries of one index differ in (keyspace, key, tag). Safe from several
    /// threads at once.
    pub(crate) fn insert(&self, entry: Entry, keys: &impl KeyBytes) -> Result<(), IndexFull> {
        let height = self.random_height();
        let node = self
            .allocate(HEADER_WORDS + height as u32)
            .ok_or(IndexFull)?;
        let key = keys.key_bytes(entry.key_offset, entry.key_bytes);
        let prefix = prefix_of(key);
        self.set(node, entry.key_offset);
        self.set(node + 1, entry.key_bytes | (height as u32) << 16);
        self.set(node + 2, entry.value_bytes);
        self.set(node + 3, entry.keyspace);
        self.set(node + 4, entry.tag.0 as u32);
        self.set(node + 5, (entry.tag.0 >> 32) as u32);
        self.set(node + 6, (prefix >> 32) as u32);
        self.set(node + 7, prefix as u32);
        let target = Target {
            keyspace: entry.keyspace,
            key,
            tag: entry.tag,
        };

        let mut before = HEAD;
        let mut splice = [(HEAD, NONE); MAX_HEIGHT];
        for level in (0..MAX_HEIGHT).rev() {
            let (previous, next) = self.position(before, level, &target, prefix, keys);
            before = previous;
            if let Some(place) = splice.get_mut(level) {
                *place = (previous, next);
            }
        }
        for (level, &(mut previous, mut next)) in splice.iter().enumerate().take(height) {
            loop {
                self.link(node, level).store(next, Ordering::Relaxed);
                // Release: whoever finds the node finds its words (invariant 1).
                let published = self.link(previous, level).compare_exchange(
                    next,
                    node,
                    Ordering::Release,
                    Ordering::Relaxed,
                );
                if published.is_ok() {
                    break;
                }
                (previous, next) = self.position(previous, level, &target, prefix, keys);
            }
        }
        Ok(())
    }

    /// The first entry at or after `target`.
    pub(crate) fn seek(&self, target: &Target<'_>, keys: &impl KeyBytes) -> Option<Node> {
        let (_, next) = self.descend(target, keys);
        (next != NONE).then_some(Node(next))
    }

    /// The last entry before `target`.
    pub(crate) fn seek_before(&self, target: &Target<'_>, keys: &impl KeyBytes) -> Option<Node> {
        let (previous, _) = self.descend(target, keys);
        (previous != HEAD).then_some(Node(previous))
    }

    /// The first entry of all.
    pub(crate) fn first(&self) -> Option<Node> {
        self.following(HEAD)
    }

    /// The entry after `node`.
    pub(crate) fn next(&self, node: Node) -> Option<Node> {
        self.following(node.0)
    }

    /// The entry at `node`.
    pub(crate) fn entry(&self, node: Node) -> Entry {
        let tag = u64::from(self.get(node.0 + 4)) | u64::from(self.get(node.0 + 5)) << 32;
        Entry {
            key_offset: self.get(node.0),
            key_bytes: self.get(node.0 + 1) & 0xffff,
            value_bytes: self.get(node.0 + 2),
            keyspace: self.get(node.0 + 3),
            tag: Tag(tag),
        }
    }

    fn following(&self, node: u32) -> Option<Node> {
        let next = self.link(node, 0).load(Ordering::Acquire);
        (next != NONE).then_some(Node(next))
    }

    /// The neighbours of `target` on the lowest level.
    fn descend(&self, target: &Target<'_>, keys: &impl KeyBytes) -> (u32, u32) {
        let prefix = prefix_of(target.key);
        let mut place = (HEAD, NONE);
        for level in (0..MAX_HEIGHT).rev() {
            place = self.position(place.0, level, target, prefix, keys);
        }
        place
    }

    /// Walks `level` from `before` to the last node below `target` and the one after it.
    #[inline]
    fn position(
        &self,
        mut before: u32,
        level: usize,
        target: &Target<'_>,
        prefix: u64,
        keys: &impl KeyBytes,
    ) -> (u32, u32) {
        loop {
            let next = self.link(before, level).load(Ordering::Acquire);
            if next == NONE || self.compare(next, target, prefix, keys) != KeyOrder::Less {
                return (before, next);
            }
            before = next;
        }
    }

    #[inline]
    fn compare(
        &self,
        node: u32,
        target: &Target<'_>,
        prefix: u64,
        keys: &impl KeyBytes,
    ) -> KeyOrder {
        let node_prefix = u64::from(self.get(node + 6)) << 32 | u64::from(self.get(node + 7));
        self.get(node + 3)
            .cmp(&target.keyspace)
            .then_with(|| node_prefix.cmp(&prefix))
            .then_with(|| {
                let entry = self.entry(Node(node));
                let key = keys.key_bytes(entry.key_offset, entry.key_bytes);
                key.cmp(target.key).then_with(|| target.tag.cmp(&entry.tag))
            })
    }

    /// Takes `words` words that lie in one chunk.
    fn allocate(&self, words: u32) -> Option<u32> {
        let mut taken = NONE;
        let advance = |end: u32| {
            let last = end.checked_add(words)?.checked_sub(1)?;
            let start = if end >> CHUNK_SHIFT == last >> CHUNK_SHIFT {
                end
            } else {
                (last >> CHUNK_SHIFT) << CHUNK_SHIFT
            };
            let next = start.checked_add(words)?;
            ((next - 1) >> CHUNK_SHIFT < self.chunks.len() as u32).then(|| {
                taken = start;
                next
            })
        };
        self.end
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance)
            .ok()?;
        let chunk = self.chunks.get((taken >> CHUNK_SHIFT) as usize)?;
        chunk.get_or_init(|| (0..CHUNK_WORDS).map(|_| AtomicU32::new(0)).collect());
        Some(taken)
    }

    fn random_height(&self) -> usize {
        let mut state = self.random.load(Ordering::Relaxed);
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        self.random.store(state, Ordering::Relaxed);
        (1 + (state | 1 << 31).trailing_zeros() as usize / 2).min(MAX_HEIGHT)
    }

    fn link(&self, node: u32, level: usize) -> &AtomicU32 {
        self.word(node + HEADER_WORDS + level as u32)
    }

    fn set(&self, at: u32, value: u32) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    fn get(&self, at: u32) -> u32 {
        self.word(at).load(Ordering::Relaxed)
    }

    #[inline]
    #[expect(
        clippy::indexing_slicing,
        clippy::expect_used,
        reason = "offsets come from `allocate` alone and never from stored bytes"
    )]
    fn word(&self, at: u32) -> &AtomicU32 {
        let chunk = self.chunks[(at >> CHUNK_SHIFT) as usize].get();
        &chunk.expect("a node's chunk was made when the node was")[(at % CHUNK_WORDS) as usize]
    }
}

/// The first eight bytes, zero-filled, so that integer order agrees with byte order. Keys that
/// agree here may still differ (`a` and `a\0`): then the whole keys are compared.
fn prefix_of(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            for (to, &from) in bytes.iter_mut().zip(key) {
                *to = from;
            }
            u64::from_be_bytes(bytes)
        }
    }
}

#[cfg(test)]
mod tests;
