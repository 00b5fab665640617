//! Which user keys may be in a table, by a few bits a key.
//!
//! There are two kinds. Everything of either is derived from one 64-bit hash of the user key, which
//! a reader computes once for all tables.

mod chance;
mod fuse;
mod fuse_builder;
mod split_block;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use self::fuse::Fuse;
use self::split_block::SplitBlock;

/// Returns the hash of a user key that filters and sketches are fed with. `seed` is the store's.
pub fn key_hash(user_key: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(user_key, seed)
}

/// The kinds of filters, by their numbers in files; 0 is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FilterKind {
    /// Quickly built, and probed with one cache line.
    SplitBlock = 1,
    /// Errs far less often for the same memory; dear to build.
    Fuse = 2,
}

impl FilterKind {
    pub(super) fn from_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(FilterKind::SplitBlock),
            2 => Some(FilterKind::Fuse),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            FilterKind::SplitBlock => "split-block Bloom",
            FilterKind::Fuse => "binary fuse",
        }
    }
}

/// Memory of a filter that is built, for each key, its hash included.
pub const FILTER_BUILD_BYTES_PER_KEY: u64 = 27;

/// The filter that a table is to have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FilterForm {
    /// The table has a split-block filter where that errs less often, as for a few hundred keys.
    pub kind: FilterKind,
    /// 0 for none.
    pub bits_per_key: f64,
}

impl FilterForm {
    pub(super) fn is_none(&self) -> bool {
        self.bits_per_key <= 0.0
    }
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

    /// Returns the kind of the filter and its contents.
    pub(super) fn build(&self, form: FilterForm) -> (FilterKind, Vec<u8>) {
        self.build_within(form, fuse_builder::MOST_ATTEMPTS)
    }

    fn build_within(&self, form: FilterForm, attempts: u64) -> (FilterKind, Vec<u8>) {
        let bits_per_key = form.bits_per_key;
        let hashes = || self.chunks.iter().flatten().copied();
        if form.kind == FilterKind::Fuse {
            let chance = FilterKind::SplitBlock.chance(bits_per_key, self.count);
            let fuse = fuse_builder::build(hashes, self.count, bits_per_key, chance, attempts);
            if let Some(contents) = fuse {
                return (FilterKind::Fuse, contents);
            }
        }
        let bits = bits_per_key * self.count as f64;
        (FilterKind::SplitBlock, split_block::build(hashes(), bits))
    }
}

/// A filter as read from a table.
#[derive(Debug)]
pub(super) enum Filter {
    SplitBlock(SplitBlock),
    Fuse(Fuse),
}

impl Filter {
    /// Reads a filter; `None` unless these can be the contents of one of the kind.
    pub(super) fn new(kind: FilterKind, contents: Vec<u8>) -> Option<Self> {
        match kind {
            FilterKind::SplitBlock => SplitBlock::new(&contents).map(Filter::SplitBlock),
            FilterKind::Fuse => Fuse::new(contents).map(Filter::Fuse),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Filter::SplitBlock(filter) => filter.memory_bytes(),
            Filter::Fuse(filter) => filter.memory_bytes(),
        }
    }

    /// Returns `false` only if no key with this hash was added.
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        match self {
            Filter::SplitBlock(filter) => filter.may_contain(hash),
            Filter::Fuse(filter) => filter.may_contain(hash),
        }
    }
}

/// For the bench of filters: a filter of a kind, by its number.
#[doc(hidden)]
pub struct FilterBench(Filter);

impl FilterBench {
    /// Builds the filter and reads the result; its kind may have become another.
    pub fn new(kind: u64, bits_per_key: f64, hashes: impl Iterator<Item = u64>) -> Option<Self> {
        let kind = FilterKind::from_number(kind)?;
        let mut builder = FilterBuilder::default();
        hashes.for_each(|hash| builder.add(hash));
        let (kind, contents) = builder.build(FilterForm { kind, bits_per_key });
        Filter::new(kind, contents).map(FilterBench)
    }

    /// Returns whether a key of this hash may have been added.
    pub fn may_contain(&self, hash: u64) -> bool {
        self.0.may_contain(hash)
    }

    /// Returns the memory of the filter.
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

#[cfg(test)]
mod tests;
