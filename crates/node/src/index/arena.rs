//! Entries in chunks. A slot keeps its number until its entry is removed.

use super::entry::Entry;

/// Small chunks keep the unused rest of 64 partitions small.
const CHUNK_ENTRIES: usize = 256;
const NONE: u32 = u32::MAX;

struct Chunk {
    entries: Box<[Entry; CHUNK_ENTRIES]>,
    live: u16,
}

/// The entries of one partition.
pub(super) struct Arena {
    chunks: Vec<Chunk>,
    /// Slots that have been used.
    slots: u32,
    /// The first of those that are free again. They are linked.
    free: u32,
}

impl Default for Arena {
    fn default() -> Self {
        Arena {
            chunks: Vec::new(),
            slots: 0,
            free: NONE,
        }
    }
}

fn split(slot: u32) -> (usize, usize) {
    (slot as usize / CHUNK_ENTRIES, slot as usize % CHUNK_ENTRIES)
}

impl Arena {
    pub(super) fn get(&self, slot: u32) -> &Entry {
        let (chunk, at) = split(slot);
        &self.chunks[chunk].entries[at]
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut Entry {
        let (chunk, at) = split(slot);
        &mut self.chunks[chunk].entries[at]
    }

    /// Puts an entry into a free slot; none if the slots have no numbers left.
    pub(super) fn insert(&mut self, entry: Entry) -> Option<u32> {
        let slot = match self.free {
            NONE => self.grow()?,
            slot => {
                self.free = self.get(slot).next_free();
                slot
            }
        };
        let (chunk, at) = split(slot);
        self.chunks[chunk].entries[at] = entry;
        self.chunks[chunk].live += 1;
        Some(slot)
    }

    /// Returns a slot that was never used.
    fn grow(&mut self) -> Option<u32> {
        let slot = self.slots;
        self.slots = slot.checked_add(1)?;
        if split(slot).0 == self.chunks.len() {
            let entries = Box::new([Entry::free(NONE); CHUNK_ENTRIES]);
            self.chunks.push(Chunk { entries, live: 0 });
        }
        Some(slot)
    }

    pub(super) fn remove(&mut self, slot: u32) {
        let (chunk, at) = split(slot);
        let chunk = &mut self.chunks[chunk];
        chunk.entries[at] = Entry::free(self.free);
        chunk.live -= 1;
        self.free = slot;
    }

    /// Returns the number of slots that have been used, free ones included.
    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the first slot from `slot` on that is in use. Chunks without entries cost one step.
    pub(super) fn next_live(&self, slot: u32, end: u32) -> Option<u32> {
        let mut slot = slot;
        while slot < end.min(self.slots) {
            let (chunk, at) = split(slot);
            if self.chunks[chunk].live == 0 {
                slot += (CHUNK_ENTRIES - at) as u32;
            } else if self.chunks[chunk].entries[at].is_free() {
                slot += 1;
            } else {
                return Some(slot);
            }
        }
        None
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.len() * size_of::<[Entry; CHUNK_ENTRIES]>()
            + self.chunks.capacity() * size_of::<Chunk>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::Packed;
    use super::*;
    use crate::Key;

    #[test]
    fn a_removed_slot_is_the_next_one_used_and_others_stay() {
        let entry = |number: u32| {
            let key = Key::new(&number.to_le_bytes()).unwrap();
            Entry::new(&key, number, 0, Packed::Cell(0), 0)
        };
        let mut arena = Arena::default();
        for number in 0..1_000 {
            assert_eq!(arena.insert(entry(number)), Some(number));
        }
        assert_eq!(arena.slots(), 1_000);
        for slot in 200..900 {
            arena.remove(slot);
        }
        assert_eq!(arena.next_live(199, 1_024), Some(199));
        assert_eq!(arena.next_live(200, 1_024), Some(900));
        assert_eq!(arena.next_live(200, 900), None);
        assert_eq!(arena.next_live(1_000, 2_000), None);
        assert_eq!(arena.insert(entry(7)), Some(899));
        assert_eq!(arena.get(950).value_bytes, 950);
        // The chunk entries and the vector's spare room, nothing else.
        assert!(arena.memory_bytes() < 1_024 * 32 + 16 * 16);
    }
}
