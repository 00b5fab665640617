//! The index of a cache: the place of each entry in the file, by the hash of its key.
//!
//! It has parts with a lock each. Readers of different blocks seldom meet, and a part that grows keeps few of
//! them waiting. No walk over all entries holds one lock.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use terrace_lsm::sync::{Mutex, MutexGuard};

/// Number of parts, a power of two.
const PARTS: usize = 64;
/// The lowest bit of a hash that tells its part: tables use the lowest and the highest bits themselves.
const PART_BIT: u32 = 48;

/// The place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: u32,
    /// Position in the segment.
    pub(super) position: u32,
    /// The length of its block.
    pub(super) block_bytes: u32,
}

const _: () = assert!(size_of::<(u64, Place)>() == 24);

/// Takes hashes as they are.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0 << 8 | u64::from(byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A part of the index.
#[derive(Debug, Default)]
struct Part {
    places: HashMap<u64, Place, BuildHasherDefault<AsItIs>>,
    block_bytes: u64,
}

impl Part {
    fn remove_segment(&mut self, segment: u32) -> u64 {
        let before = self.places.len();
        let mut gone_bytes = 0;
        self.places.retain(|_, place| {
            let goes = place.segment == segment;
            gone_bytes += if goes {
                u64::from(place.block_bytes)
            } else {
                0
            };
            !goes
        });
        self.block_bytes -= gone_bytes;
        (before - self.places.len()) as u64
    }

    /// Returns the bytes of memory: an entry and a byte of control for each place of the table.
    fn memory_bytes(&self) -> u64 {
        let places = self.places.capacity() * 8 / 7;
        (places * (size_of::<(u64, Place)>() + 1)) as u64
    }
}

/// The places of all entries that may be found. An entry tells its whole key: a place is a hint.
#[derive(Debug)]
pub(super) struct Index {
    parts: [Mutex<Part>; PARTS],
}

impl Default for Index {
    fn default() -> Self {
        Index {
            parts: std::array::from_fn(|_| Mutex::default()),
        }
    }
}

impl Index {
    fn part(&self, hash: u64) -> MutexGuard<'_, Part> {
        let [first, ..] = &self.parts;
        let at = (hash >> PART_BIT) as usize % PARTS;
        self.parts.get(at).unwrap_or(first).lock()
    }

    fn sum(&self, of: impl Fn(&mut Part) -> u64) -> u64 {
        self.parts.iter().map(|part| of(&mut part.lock())).sum()
    }

    pub(super) fn get(&self, hash: u64) -> Option<Place> {
        self.part(hash).places.get(&hash).copied()
    }

    /// Enters an entry in the place of one of the same hash.
    pub(super) fn insert(&self, hash: u64, place: Place) {
        let mut part = self.part(hash);
        part.block_bytes += u64::from(place.block_bytes);
        if let Some(old) = part.places.insert(hash, place) {
            part.block_bytes -= u64::from(old.block_bytes);
        }
    }

    /// Removes an entry, if it is still at a place. Returns whether it was.
    pub(super) fn remove_at(&self, hash: u64, place: Place) -> bool {
        let mut part = self.part(hash);
        let is_there = part.places.get(&hash) == Some(&place);
        if is_there {
            part.places.remove(&hash);
            part.block_bytes -= u64::from(place.block_bytes);
        }
        is_there
    }

    /// Removes all entries of a segment whose list cannot be read. Returns their number.
    pub(super) fn remove_segment(&self, segment: u32) -> u64 {
        self.sum(|part| part.remove_segment(segment))
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        for part in &self.parts {
            *part.lock() = Part::default();
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.sum(|part| part.places.len() as u64)
    }

    /// Returns the bytes of all blocks.
    pub(super) fn block_bytes(&self) -> u64 {
        self.sum(|part| part.block_bytes)
    }

    /// Returns the bytes of memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.sum(|part| part.memory_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_blocks_are_those_that_are_entered() {
        let place = |segment, block_bytes| Place {
            segment,
            position: 32,
            block_bytes,
        };
        let index = Index::default();
        index.insert(1, place(0, 10));
        index.insert(2, place(0, 20));
        index.insert(2, place(1, 25));
        assert_eq!((index.len(), index.block_bytes()), (2, 35));
        assert!(!index.remove_at(2, place(0, 20)), "it is elsewhere by now");
        assert!(index.remove_at(2, place(1, 25)));
        // Entries of a segment lie in all parts.
        for part in 1..PARTS as u64 {
            index.insert(part << PART_BIT, place(0, 1));
            index.insert(part << PART_BIT | 1, place(1, 2));
        }
        assert_eq!(index.get(5 << PART_BIT), Some(place(0, 1)));
        assert_eq!(index.remove_segment(0), PARTS as u64);
        assert_eq!((index.len(), index.block_bytes()), (63, 126));
        index.clear();
        assert_eq!((index.len(), index.memory_bytes()), (0, 0));
    }
}
