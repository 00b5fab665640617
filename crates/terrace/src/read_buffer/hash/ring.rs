//! Entries one behind the other in a ring of bytes: the oldest leaves room for the next one.
//!
//! The ring is made of chunks; no entry straddles two. A chunk that the tail has left goes to the
//! head, or back to the kernel, if the ring is to shrink. So each is a mapping of its own: an
//! allocator keeps memory that is freed between things that stay, and gives it only to the threads
//! that it serves.
//!
//! A ring shrinks as entries come (three times as many bytes leave), not at once. No thread waits
//! for it, and the arenas that want its memory fill that by writes, too.
//!
//! An entry is `stride u16 | key length u16 | value length u16 | kind u16 | keyspace u32 | sequence u64 |
//! key | value | room`, little-endian. The stride counts steps of four bytes to the next entry; a stride
//! of 0 says that the rest of the chunk is empty. Only this process ever reads it.

use terrace_region::AnonymousMemory;

use super::super::structure::{Key, Version};
use crate::SequenceNumber;

const HEADER_BYTES: usize = 20;
/// Places and strides count these.
const STEP_BYTES: usize = 4;

const VALUE: u16 = 0;
const ABSENT: u16 = 1;

/// Returns the bytes that an entry takes.
pub(super) fn entry_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    (HEADER_BYTES + key_bytes + value_bytes).next_multiple_of(STEP_BYTES)
}

/// An entry, as it is found.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) keyspace: u32,
    pub(super) key: &'a [u8],
    pub(super) sequence: SequenceNumber,
    pub(super) value: Option<&'a [u8]>,
    stride_bytes: usize,
}

impl<'a> Entry<'a> {
    fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (stride, rest) = bytes.split_first_chunk()?;
        let (key_bytes, rest) = rest.split_first_chunk()?;
        let (value_bytes, rest) = rest.split_first_chunk()?;
        let (kind, rest) = rest.split_first_chunk()?;
        let (keyspace, rest) = rest.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*key_bytes)))?;
        let value = rest.get(..usize::from(u16::from_le_bytes(*value_bytes)))?;
        Some(Entry {
            keyspace: u32::from_le_bytes(*keyspace),
            key,
            sequence: u64::from_le_bytes(*sequence),
            value: (u16::from_le_bytes(*kind) == VALUE).then_some(value),
            stride_bytes: usize::from(u16::from_le_bytes(*stride)) * STEP_BYTES,
        })
    }

    pub(super) fn is_of(&self, key: &Key<'_>) -> bool {
        self.keyspace == key.keyspace && self.key == key.bytes
    }
}

/// Writes all of an entry but its stride. The caller has seen to the room.
fn encode(out: &mut [u8], key: &Key<'_>, version: Version<'_>) -> Option<()> {
    let value = version.value.unwrap_or_default();
    let kind = if version.value.is_some() {
        VALUE
    } else {
        ABSENT
    };
    let out = out.get_mut(2..)?;
    let (key_bytes, out) = out.split_first_chunk_mut()?;
    *key_bytes = u16::try_from(key.bytes.len()).ok()?.to_le_bytes();
    let (value_bytes, out) = out.split_first_chunk_mut()?;
    *value_bytes = u16::try_from(value.len()).ok()?.to_le_bytes();
    let (place, out) = out.split_first_chunk_mut()?;
    *place = kind.to_le_bytes();
    let (place, out) = out.split_first_chunk_mut()?;
    *place = key.keyspace.to_le_bytes();
    let (place, out) = out.split_first_chunk_mut()?;
    *place = version.sequence.to_le_bytes();
    let (place, out) = out.split_at_mut_checked(key.bytes.len())?;
    place.copy_from_slice(key.bytes);
    out.get_mut(..value.len())?.copy_from_slice(value);
    Some(())
}

/// See the head of the file.
pub(super) struct Ring {
    /// Chunks by place; `None` where nothing is held.
    chunks: Vec<Option<AnonymousMemory>>,
    /// Chunk that the tail has left, for the head.
    left: Option<AnonymousMemory>,
    chunk_bytes: usize,
    /// Bytes that there are places for.
    capacity_bytes: u64,
    /// Maximum bytes to hold.
    limit_bytes: u64,
    memory_bytes: u64,
    /// Positions of the next entry and of the oldest one, counted from the first entry ever: the
    /// difference is the bytes held.
    head: u64,
    tail: u64,
    moving: Vec<u8>,
}

/// Returns the bytes of a ring at its least limit: a chunk's worth of entries in two, a chunk for
/// the head to come, and one that its tail leaves at this moment.
pub(super) const fn least_bytes(chunk_bytes: usize) -> u64 {
    4 * chunk_bytes as u64
}

impl Ring {
    /// Makes a ring of whole chunks, two at least.
    pub(super) fn new(capacity_bytes: usize, chunk_bytes: usize) -> Self {
        let chunks = (capacity_bytes / chunk_bytes).max(2);
        let capacity_bytes = (chunks * chunk_bytes) as u64;
        Ring {
            chunks: Vec::new(),
            left: None,
            chunk_bytes,
            capacity_bytes,
            limit_bytes: capacity_bytes,
            memory_bytes: 0,
            head: 0,
            tail: 0,
            moving: Vec::new(),
        }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    pub(super) fn held_bytes(&self) -> u64 {
        self.head - self.tail
    }

    /// Drops all entries and their memory. Returns the bytes freed.
    pub(super) fn clear(&mut self) -> u64 {
        self.chunks = Vec::new();
        self.left = None;
        (self.head, self.tail) = (0, 0);
        std::mem::take(&mut self.memory_bytes)
    }

    /// Sets the memory that it may take from now on. Bytes beyond it leave as entries come.
    pub(super) fn limit(&mut self, bytes: u64) {
        let chunk = self.chunk_bytes as u64;
        // Below its capacity the ring holds parts of two chunks, the head's and the tail's, and one
        // between.
        self.limit_bytes = match bytes >= self.capacity_bytes {
            true => self.capacity_bytes,
            false => bytes.saturating_sub(2 * chunk).max(chunk),
        };
    }

    fn place(&self, at: u64) -> u32 {
        (at % self.capacity_bytes / STEP_BYTES as u64) as u32
    }

    fn bytes(&self, place: u32) -> Option<&[u8]> {
        let at = place as usize * STEP_BYTES;
        let chunk = self.chunks.get(at / self.chunk_bytes)?.as_ref()?;
        chunk.get(at % self.chunk_bytes..self.chunk_bytes)
    }

    fn bytes_mut(&mut self, place: u32) -> Option<&mut [u8]> {
        let at = place as usize * STEP_BYTES;
        let chunk = self.chunks.get_mut(at / self.chunk_bytes)?.as_mut()?;
        chunk.get_mut(at % self.chunk_bytes..self.chunk_bytes)
    }

    pub(super) fn entry(&self, place: u32) -> Option<Entry<'_>> {
        Entry::decode(self.bytes(place)?)
    }

    /// Returns the rest of the chunk at a position.
    fn rest_of_chunk(&self, at: u64) -> u64 {
        self.chunk_bytes as u64 - at % self.chunk_bytes as u64
    }

    /// Returns the position of the next entry, if it has this size.
    fn start_for(&self, bytes: usize) -> u64 {
        let rest = self.rest_of_chunk(self.head);
        if (bytes as u64) > rest {
            self.head + rest
        } else {
            self.head
        }
    }

    /// Returns the bytes that would be held with one more entry.
    fn held_with(&self, bytes: usize) -> u64 {
        self.start_for(bytes) + bytes as u64 - self.tail
    }

    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.held_with(bytes) <= self.limit_bytes
    }

    /// Returns whether there is room beyond the limit, which the ring is to come back to by and by.
    pub(super) fn has_place(&self, bytes: usize) -> bool {
        self.held_with(bytes) <= self.capacity_bytes
    }

    /// Adds an entry behind the youngest one, where there is room.
    pub(super) fn push(&mut self, key: &Key<'_>, version: Version<'_>) -> Option<u32> {
        let value_bytes = version.value.map_or(0, <[u8]>::len);
        let bytes = entry_bytes(key.bytes.len(), value_bytes);
        let place = self.advance(bytes)?;
        encode(self.bytes_mut(place)?, key, version)?;
        Some(place)
    }

    /// Takes room for an entry and writes its stride.
    fn advance(&mut self, bytes: usize) -> Option<u32> {
        if bytes > self.chunk_bytes || !self.has_place(bytes) {
            return None;
        }
        let start = self.start_for(bytes);
        if start > self.head {
            self.write_stride(self.head, 0)?;
        }
        self.reach(start)?;
        self.write_stride(start, bytes)?;
        self.head = start + bytes as u64;
        Some(self.place(start))
    }

    /// Provides the memory of the chunk at a position.
    fn reach(&mut self, at: u64) -> Option<()> {
        let chunk = self.chunk_of(at);
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, || None);
        }
        let place = self.chunks.get_mut(chunk)?;
        if place.is_none() {
            let memory = match self.left.take() {
                Some(left) => left,
                None => {
                    let new = AnonymousMemory::new(self.chunk_bytes).ok()?;
                    self.memory_bytes += self.chunk_bytes as u64;
                    new
                }
            };
            *place = Some(memory);
        }
        Some(())
    }

    fn chunk_of(&self, at: u64) -> usize {
        (at % self.capacity_bytes) as usize / self.chunk_bytes
    }

    /// Moves the tail on. The memory that it leaves goes to the head, or to the kernel.
    fn leave(&mut self, bytes: u64) {
        let left = self.chunk_of(self.tail);
        let left_whole = bytes >= self.rest_of_chunk(self.tail);
        self.tail += bytes;
        // A full ring's head may be in the chunk that its tail leaves.
        if !left_whole || left == self.chunk_of(self.head) {
            return;
        }
        let memory = self.chunks.get_mut(left).and_then(Option::take);
        if self.left.is_none() {
            self.left = memory;
        } else if memory.is_some() {
            self.memory_bytes -= self.chunk_bytes as u64;
        }
    }

    fn write_stride(&mut self, at: u64, bytes: usize) -> Option<()> {
        let place = self.place(at);
        let stride = u16::try_from(bytes / STEP_BYTES).ok()?;
        *self.bytes_mut(place)?.first_chunk_mut()? = stride.to_le_bytes();
        Some(())
    }

    /// Returns whether the entry there is newer than a version.
    pub(super) fn is_newer(&self, place: u32, sequence: SequenceNumber) -> bool {
        self.entry(place)
            .is_some_and(|entry| entry.sequence > sequence)
    }

    /// Puts another version into an entry, if it fits in its room.
    pub(super) fn overwrite(&mut self, place: u32, key: &Key<'_>, version: Version<'_>) -> bool {
        let value_bytes = version.value.map_or(0, <[u8]>::len);
        let room = self.entry(place).map_or(0, |entry| entry.stride_bytes);
        room >= entry_bytes(key.bytes.len(), value_bytes)
            && self
                .bytes_mut(place)
                .and_then(|out| encode(out, key, version))
                .is_some()
    }

    /// Returns the entry that leaves next.
    pub(super) fn oldest(&mut self) -> Option<(u32, Entry<'_>)> {
        if self.tail < self.head && self.oldest_stride() == 0 {
            self.leave(self.rest_of_chunk(self.tail));
        }
        if self.tail == self.head {
            return None;
        }
        let place = self.place(self.tail);
        Some((place, self.entry(place)?))
    }

    fn oldest_stride(&self) -> u64 {
        let entry = self.entry(self.place(self.tail));
        entry.map_or(0, |entry| entry.stride_bytes as u64)
    }

    /// Drops the entry that [`Ring::oldest`] gave.
    pub(super) fn drop_oldest(&mut self) {
        self.leave(self.oldest_stride());
    }

    /// Moves that entry behind the youngest one. Returns its new place, or `None` if it is gone,
    /// because it does not fit into the rest of a chunk.
    pub(super) fn move_oldest(&mut self) -> Option<u32> {
        let (place, stride) = (self.place(self.tail), self.oldest_stride() as usize);
        let mut moving = std::mem::take(&mut self.moving);
        moving.clear();
        moving.extend_from_slice(self.bytes(place)?.get(..stride)?);
        self.drop_oldest();
        let moved = self.advance(stride);
        if let Some(place) = moved {
            self.bytes_mut(place)?
                .get_mut(..stride)?
                .copy_from_slice(&moving);
        }
        self.moving = moving;
        moved
    }
}
