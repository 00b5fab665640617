//! The bytes of the file, and the pages that random requests go to.
//!
//! A device that compresses, or stores equal blocks once, must gain nothing. So each page has random bytes
//! and begins with a mark of its own. One piece of random bytes serves for the whole file: only the marks
//! change, since new bytes for each piece would cost more than the writes of a quick device. A read finds
//! by the mark whether it got the page that it asked for.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};

use super::plan::PIECE_BYTES;

/// Bytes of a random request. Direct I/O of all common devices has no larger unit.
pub(super) const PAGE_BYTES: usize = 4096;
/// Number of marks of a page, of 8 bytes each.
const MARKS: usize = 2;

/// Memory at an address that direct I/O takes without a copy.
pub(super) struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    pub(super) fn new(length: usize) -> Self {
        let memory = vec![0; length + PAGE_BYTES];
        let address = memory.as_ptr().addr();
        Aligned {
            start: address.next_multiple_of(PAGE_BYTES) - address,
            memory,
            length,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        let all = self.start..self.start + self.length;
        self.memory.get(all).unwrap_or_default()
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let all = self.start..self.start + self.length;
        self.memory.get_mut(all).unwrap_or_default()
    }
}

/// The contents of the file, from a seed.
#[derive(Clone, Copy)]
pub(super) struct Content {
    seed: u64,
}

impl Content {
    pub(super) fn new(seed: u64) -> Self {
        Content { seed }
    }

    /// Returns memory of random bytes, for [`Content::mark`].
    pub(super) fn random(self, length: usize) -> Aligned {
        let mut piece = Aligned::new(length);
        Xoshiro256PlusPlus::seed_from_u64(self.seed).fill_bytes(piece.bytes_mut());
        piece
    }

    /// Returns memory for a piece of the file.
    pub(super) fn piece(self) -> Aligned {
        self.random(PIECE_BYTES as usize)
    }

    /// Makes bytes those of the file from a page on.
    pub(super) fn mark(self, bytes: &mut [u8], first_page: u64) {
        for (bytes, page) in bytes.chunks_mut(PAGE_BYTES).zip(first_page..) {
            for (target, mark) in bytes.as_chunks_mut().0.iter_mut().zip(self.marks(page)) {
                *target = mark;
            }
        }
    }

    /// Returns the first page whose bytes are not those of the file, if there is one.
    pub(super) fn first_wrong_page(self, bytes: &[u8], first_page: u64) -> Option<u64> {
        let mut pages = bytes.chunks(PAGE_BYTES).zip(first_page..);
        let is_wrong = |bytes: &[u8], page| !bytes.as_chunks().0.starts_with(&self.marks(page));
        pages.find_map(|(bytes, page)| is_wrong(bytes, page).then_some(page))
    }

    fn marks(self, page: u64) -> [[u8; 8]; MARKS] {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ page.rotate_left(32));
        std::array::from_fn(|_| random.next_u64().to_le_bytes())
    }
}

/// Random pages of a file, from a seed and the number of a stream.
pub(super) struct Pages {
    random: Xoshiro256PlusPlus,
    count: u64,
}

impl Pages {
    /// Returns a stream of the pages of a file with `count` pages. An empty file has page 0.
    pub(super) fn new(seed: u64, stream: u64, count: u64) -> Self {
        Pages {
            random: Xoshiro256PlusPlus::seed_from_u64(!seed ^ stream.rotate_left(32)),
            count: count.max(1),
        }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.random.random_range(0..self.count)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn memory_is_aligned() {
        for length in [PAGE_BYTES, PIECE_BYTES as usize] {
            let mut memory = Aligned::new(length);
            assert!(memory.bytes().as_ptr().addr().is_multiple_of(PAGE_BYTES));
            assert_eq!(
                (memory.bytes().len(), memory.bytes_mut().len()),
                (length, length)
            );
        }
    }

    #[test]
    fn no_page_equals_another_and_none_can_be_compressed() {
        let content = Content::new(7);
        let mut piece = content.piece();
        let mut pages = BTreeSet::new();
        let pieces = 4;
        for number in 0..pieces {
            content.mark(piece.bytes_mut(), number * 256);
            for page in piece.bytes().chunks(PAGE_BYTES) {
                let mut counts = [0u32; 256];
                page.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
                let entropy_bits: f64 = counts
                    .iter()
                    .filter(|count| **count > 0)
                    .map(|count| f64::from(*count) / PAGE_BYTES as f64)
                    .map(|share| -share * share.log2())
                    .sum();
                assert!(entropy_bits > 7.9, "{entropy_bits} bits a byte");
                pages.insert(page.to_vec());
            }
        }
        assert_eq!(pages.len() as u64, pieces * 256);
        // Another measurement writes other bytes.
        assert_ne!(Content::new(8).piece().bytes(), content.piece().bytes());
    }

    #[test]
    fn a_page_in_the_place_of_another_is_noticed() {
        let content = Content::new(7);
        let mut piece = content.piece();
        content.mark(piece.bytes_mut(), 512);
        let bytes = piece.bytes_mut();
        assert_eq!(content.first_wrong_page(bytes, 512), None);
        assert_eq!(content.first_wrong_page(bytes, 511), Some(511));
        bytes[3 * PAGE_BYTES] ^= 1;
        assert_eq!(content.first_wrong_page(bytes, 512), Some(515));
        content.mark(bytes, 512);
        bytes[PAGE_BYTES + 15] ^= 1;
        assert_eq!(content.first_wrong_page(bytes, 512), Some(513));
        assert_eq!(content.first_wrong_page(&[0; PAGE_BYTES], 0), Some(0));
        assert_eq!(content.first_wrong_page(&[0; 5], 9), Some(9), "a cut page");
        assert_eq!(Content::new(8).first_wrong_page(bytes, 512), Some(512));
    }

    #[test]
    fn pages_come_from_the_whole_file_and_again_from_the_same_seed() {
        let drawn = |seed, stream| {
            let mut pages = Pages::new(seed, stream, 256);
            (0..5000).map(|_| pages.next()).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1, 2), drawn(1, 2));
        assert_ne!(drawn(1, 2), drawn(1, 3));
        assert_ne!(drawn(1, 2), drawn(2, 2));
        let distinct: BTreeSet<u64> = drawn(1, 2).into_iter().collect();
        assert_eq!(distinct, (0..256).collect());
        assert_eq!(Pages::new(1, 1, 0).next(), 0);
    }
}
