//! The split-block Bloom filter that Apache Parquet specifies.
//!
//! A key sets one bit in each of the eight 32-bit words of one 32-byte block, so that a probe
//! touches a single cache line. Everything is derived from one 64-bit hash of the user key, which
//! a reader computes once for all tables.

use xxhash_rust::xxh3::xxh3_64_with_seed;

const FILTER_BLOCK_BYTES: usize = 32;
const WORDS: usize = 8;
/// The odd multipliers of the Parquet specification.
const SALTS: [u32; WORDS] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// The hash of a user key that filters (and later sketches) are fed with. `seed` is the store's.
pub(crate) fn key_hash(user_key: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(user_key, seed)
}

fn block_index(hash: u64, block_count: usize) -> usize {
    (((hash >> 32) * block_count as u64) >> 32) as usize
}

fn masks(hash: u64) -> impl Iterator<Item = u32> {
    let low = hash as u32;
    SALTS
        .into_iter()
        .map(move |salt| 1 << (low.wrapping_mul(salt) >> 27))
}

/// The hashes of a table's keys, until it is known how many there are.
///
/// In chunks: one long vector would leave holes of all its former lengths in the heap.
#[derive(Default)]
pub(super) struct FilterBuilder {
    chunks: Vec<Vec<u64>>,
    count: usize,
}

impl FilterBuilder {
    const CHUNK_HASHES: usize = 8192;

    /// Adds the hash of a key that was not added yet.
    pub(super) fn add(&mut self, hash: u64) {
        if self.count.is_multiple_of(Self::CHUNK_HASHES) {
            self.chunks.push(Vec::with_capacity(Self::CHUNK_HASHES));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(hash);
            self.count += 1;
        }
    }

    /// Hashes added.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The filter's contents.
    pub(super) fn build(&self, bits_per_key: u32) -> Vec<u8> {
        let bits = (self.count as u64).saturating_mul(u64::from(bits_per_key));
        let blocks = bits.div_ceil(FILTER_BLOCK_BYTES as u64 * 8).max(1) as usize;
        let mut contents = vec![0; blocks * FILTER_BLOCK_BYTES];
        let (words, _) = contents.as_chunks_mut::<4>();
        for &hash in self.chunks.iter().flatten() {
            let first = block_index(hash, blocks) * WORDS;
            let block = words.get_mut(first..first + WORDS).unwrap_or_default();
            for (word, mask) in block.iter_mut().zip(masks(hash)) {
                *word = (u32::from_le_bytes(*word) | mask).to_le_bytes();
            }
        }
        contents
    }
}

/// A filter as read from a table.
#[derive(Debug)]
pub(super) struct Filter {
    blocks: Vec<[u32; WORDS]>,
}

impl Filter {
    /// `None` unless the length is that of one or more blocks.
    pub(super) fn new(contents: &[u8]) -> Option<Self> {
        let (blocks, rest) = contents.as_chunks::<FILTER_BLOCK_BYTES>();
        if blocks.is_empty() || !rest.is_empty() {
            return None;
        }
        let decode = |block: &[u8; FILTER_BLOCK_BYTES]| {
            let mut words = [0; WORDS];
            for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*bytes);
            }
            words
        };
        Some(Filter {
            blocks: blocks.iter().map(decode).collect(),
        })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.blocks.capacity() * FILTER_BLOCK_BYTES
    }

    /// `false` only if no key with this hash was added.
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        self.blocks
            .get(block_index(hash, self.blocks.len()))
            .is_none_or(|block| {
                block
                    .iter()
                    .zip(masks(hash))
                    .all(|(word, mask)| word & mask != 0)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(range: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
        range.map(|n| key_hash(&n.to_le_bytes(), 7))
    }

    fn build(hashes: impl Iterator<Item = u64>, bits_per_key: u32) -> Vec<u8> {
        let mut builder = FilterBuilder::default();
        hashes.for_each(|hash| builder.add(hash));
        builder.build(bits_per_key)
    }

    #[test]
    fn every_key_is_found_and_few_others() {
        for (bits_per_key, most_false_positives) in [(10, 200), (16, 30)] {
            let filter = Filter::new(&build(hashes(0..10_000), bits_per_key)).unwrap();
            assert!(hashes(0..10_000).all(|h| filter.may_contain(h)));
            let wrong = hashes(10_000..20_000)
                .filter(|&h| filter.may_contain(h))
                .count();
            assert!(wrong < most_false_positives, "{wrong} of 10000");
        }
    }

    #[test]
    fn a_filter_of_odd_length_is_refused() {
        assert!(Filter::new(&[]).is_none());
        assert!(Filter::new(&[0; 33]).is_none());
        assert!(Filter::new(&[0; 64]).is_some_and(|f| !f.may_contain(1)));
    }

    /// The example of a filter with one block: bits as computed by hand from the specification.
    #[test]
    fn the_bits_are_those_of_the_specification() {
        let filter = build([1].into_iter(), 10);
        let expected: Vec<u8> = SALTS
            .iter()
            .flat_map(|salt| (1u32 << (salt >> 27)).to_le_bytes())
            .collect();
        assert_eq!(filter, expected);
    }
}
