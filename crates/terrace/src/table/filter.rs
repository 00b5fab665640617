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

/// The contents of a filter over distinct hashes.
pub(super) fn build(hashes: &[u64], bits_per_key: u32) -> Vec<u8> {
    let bits = (hashes.len() as u64).saturating_mul(u64::from(bits_per_key));
    let blocks = bits.div_ceil(FILTER_BLOCK_BYTES as u64 * 8).max(1) as usize;
    let mut words = vec![[0u32; WORDS]; blocks];
    for &hash in hashes {
        if let Some(block) = words.get_mut(block_index(hash, blocks)) {
            for (word, mask) in block.iter_mut().zip(masks(hash)) {
                *word |= mask;
            }
        }
    }
    words
        .iter()
        .flatten()
        .flat_map(|word| word.to_le_bytes())
        .collect()
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

    fn hashes(range: std::ops::Range<u64>) -> Vec<u64> {
        range.map(|n| key_hash(&n.to_le_bytes(), 7)).collect()
    }

    #[test]
    fn every_key_is_found_and_few_others() {
        for (bits_per_key, most_false_positives) in [(10, 200), (16, 30)] {
            let filter = Filter::new(&build(&hashes(0..10_000), bits_per_key)).unwrap();
            assert!(hashes(0..10_000).iter().all(|&h| filter.may_contain(h)));
            let wrong = hashes(10_000..20_000)
                .iter()
                .filter(|&&h| filter.may_contain(h))
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
        let filter = build(&[1], 10);
        let expected: Vec<u8> = SALTS
            .iter()
            .flat_map(|salt| (1u32 << (salt >> 27)).to_le_bytes())
            .collect();
        assert_eq!(filter, expected);
    }
}
