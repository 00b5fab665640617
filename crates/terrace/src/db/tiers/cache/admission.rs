//! The choice of the blocks that a full cache keeps: those that are read most often, as far as a small sketch
//! can tell.
//!
//! The sketch counts the reads of each block in four counters of four bits, as TinyLFU does. The smallest of the
//! four is the estimate. All counters are halved after a number of reads, so that old reads are forgotten. Each of the
//! next reads halves a few of them: none waits for all.
//! When a segment is emptied, its most frequent entries stay ([`survivors`]). The frequency of those that go is
//! the limit for new blocks from then on.

use std::cmp::Reverse;

use terrace_lsm::sync::atomic::{AtomicU64, Ordering};

/// Reads between two halvings, for each block that the cache holds.
const READS_PER_BLOCK: u64 = 24;
/// Words that one read halves. All are halved long before the next halving is due.
const WORDS_PER_READ: u64 = 64;
/// Counters in a word.
const COUNTERS: u32 = 16;
/// All bits of counters that were shifted by one, but for those that came from a neighbour.
const HALVED: u64 = 0x7777_7777_7777_7777;
const MAX_COUNT: u64 = 15;

/// How often blocks were read lately, about. Readers count without a lock: a count that two threads change at once
/// may be lost.
#[derive(Debug)]
pub(super) struct Sketch {
    words: Box<[AtomicU64]>,
    mask: u64,
    reads: AtomicU64,
    reads_to_halving: AtomicU64,
    /// The next word that is to be halved; at the end of the words there is none.
    next_halved: AtomicU64,
}

impl Sketch {
    /// Makes a sketch for a cache of a number of blocks.
    pub(super) fn new(blocks: u64) -> Sketch {
        let words = blocks.clamp(64, 1 << 32).next_power_of_two();
        Sketch {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            mask: words - 1,
            reads: AtomicU64::new(0),
            reads_to_halving: AtomicU64::new(blocks.max(64) * READS_PER_BLOCK),
            next_halved: AtomicU64::new(words),
        }
    }

    /// Sets the number of blocks that the cache holds.
    pub(super) fn set_blocks(&self, blocks: u64) {
        let reads = blocks.max(64) * READS_PER_BLOCK;
        self.reads_to_halving.store(reads, Ordering::Relaxed);
    }

    /// Returns the places of the counters of a hash: a word and a shift each.
    fn places(&self, hash: u64) -> impl Iterator<Item = (usize, u32)> {
        let mask = self.mask;
        (0..4u32).map(move |row| {
            let mixed = (hash ^ u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15))
                .wrapping_mul(0xd6e8_feb8_6659_fd93);
            let mixed = mixed ^ mixed >> 32;
            // Each row has a quarter of the counters of each word.
            let counter = row * COUNTERS / 4 + (mixed >> 60) as u32 % (COUNTERS / 4);
            ((mixed & mask) as usize, counter * 4)
        })
    }

    fn counter(&self, (word, shift): (usize, u32)) -> u64 {
        let word = self.words.get(word);
        word.map_or(0, |word| word.load(Ordering::Relaxed) >> shift & MAX_COUNT)
    }

    /// Returns how often a block was read lately.
    pub(super) fn estimate(&self, hash: u64) -> u64 {
        let counts = self.places(hash).map(|place| self.counter(place));
        counts.min().unwrap_or(0)
    }

    /// Counts a read. Returns whether it was the last one of those that halved all counts.
    pub(super) fn count(&self, hash: u64) -> bool {
        let estimate = self.estimate(hash);
        if estimate < MAX_COUNT {
            // Larger counters count others, too.
            for place in self.places(hash) {
                if self.counter(place) == estimate
                    && let Some(word) = self.words.get(place.0)
                {
                    let old = word.load(Ordering::Relaxed);
                    // A step from the value that was seen: no counter runs over into its neighbour.
                    if old >> place.1 & MAX_COUNT == estimate {
                        let new = old + (1 << place.1);
                        let _ =
                            word.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
                    }
                }
            }
        }
        let reads = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        let is_due = reads >= self.reads_to_halving.load(Ordering::Relaxed);
        // One thread begins.
        let is_first = || {
            let reset = self
                .reads
                .compare_exchange(reads, 0, Ordering::Relaxed, Ordering::Relaxed);
            reset.is_ok()
        };
        if is_due && is_first() {
            self.next_halved.store(0, Ordering::Relaxed);
        }
        self.halve_some()
    }

    /// Halves the next words, if all are to be halved. Returns whether these were the last ones.
    fn halve_some(&self) -> bool {
        let all = self.words.len() as u64;
        // Mostly there are none, and no reader writes.
        if self.next_halved.load(Ordering::Relaxed) >= all {
            return false;
        }
        let begin = self
            .next_halved
            .fetch_add(WORDS_PER_READ, Ordering::Relaxed);
        let end = begin.saturating_add(WORDS_PER_READ).min(all);
        let words = self.words.get(begin as usize..end as usize);
        for word in words.unwrap_or_default() {
            let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |counters| {
                Some(counters >> 1 & HALVED)
            });
        }
        begin < all && end == all
    }

    /// Returns the bytes of memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        size_of_val(&*self.words) as u64
    }
}

/// The entries that stay when a segment is emptied.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Survivors {
    /// Positions in the list of entries, ascending.
    pub(super) kept: Vec<usize>,
    /// Highest frequency of an entry that goes: a new block must be read more often than that.
    pub(super) limit: u64,
}

/// Returns the most frequent of a segment's entries, as far as they take no more than `max_bytes`. An entry has a
/// frequency and a size. Of equals, the first stay.
pub(super) fn survivors(entries: &[(u64, u64)], max_bytes: u64) -> Survivors {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    let of = |at: &usize| entries.get(*at).copied().unwrap_or_default();
    order.sort_by_key(|at| Reverse(of(at).0));
    let mut left_bytes = max_bytes;
    let mut kept = Vec::new();
    let mut limit = 0;
    for at in order {
        let (frequency, bytes) = of(&at);
        match left_bytes.checked_sub(bytes) {
            Some(rest) if frequency > 0 => {
                left_bytes = rest;
                kept.push(at);
            }
            _ => {
                limit = frequency;
                break;
            }
        }
    }
    kept.sort_unstable();
    Survivors { kept, limit }
}

#[cfg(test)]
mod tests;
