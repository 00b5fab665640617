//! A coordinated sample of a table's versions: every version of every key whose hash begins with
//! enough zeros.
//!
//! All tables choose the same keys. So the samples of several tables, put together, are a sample of
//! all that these hold. It shows the share that a merge would drop, across levels of any size,
//! within a range of keys, between two snapshots, in bytes. A HyperLogLog can tell none of these.
//! With one key in 64, a table of 64 MiB with records of 200 bytes has a sample of 150 KB in memory
//! while it is looked at. Its file has half a byte for each record. Larger tables take a rarer
//! sample, so that none has more than [`MOST_VERSIONS`], but for versions of one key. Where samples
//! of different rarity are put together, the rarest counts ([`KeySample::thinned`]).

use super::block::Block;
use super::block_builder::BlockBuilder;
use super::format::{BlockHandle, Malformed};
use super::index_builder::INDEX_RESTART_INTERVAL;
use crate::coding::{Decoder, put_varint};
use crate::key::{InternalKey, Tag};

/// Leading zeros that a hash in a sample has at least.
const LEAST_ZEROS: u32 = 6;
/// The most zeros that a 64-bit hash can have.
const MOST_ZEROS: u32 = 64;
/// Beyond this many versions the sample becomes rarer.
const MOST_VERSIONS: usize = 4096;

/// A version that was chosen by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledVersion {
    pub user_key: Vec<u8>,
    pub tag: Tag,
    /// Of key and value.
    pub size_bytes: u64,
}

impl SampledVersion {
    /// Bytes that it takes in memory.
    pub fn memory_bytes(&self) -> u64 {
        (size_of::<Self>() + self.user_key.len()) as u64
    }
}

/// The chosen versions of a table, in the order of their internal keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySample {
    zeros: u32,
    versions: Vec<SampledVersion>,
}

/// The footer's summary of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SampleSummary {
    pub(super) handle: BlockHandle,
    /// Leading zeros of the hashes of all keys in it.
    zeros: u32,
    pub(super) versions: u64,
}

impl SampleSummary {
    pub(super) fn encode_into(&self, out: &mut Vec<u8>) {
        self.handle.encode_into(out);
        put_varint(out, u64::from(self.zeros));
        put_varint(out, self.versions);
    }

    /// Decodes a summary; `None` unless `bytes` is one and nothing else, of at least one version.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(bytes);
        let summary = SampleSummary {
            handle: BlockHandle {
                offset: decoder.varint()?,
                length_bytes: decoder.varint()?,
            },
            zeros: decoder.varint_u32()?,
            versions: decoder.varint()?,
        };
        let is_possible = (LEAST_ZEROS..=MOST_ZEROS).contains(&summary.zeros);
        (decoder.is_empty() && is_possible && summary.versions > 0).then_some(summary)
    }
}

impl KeySample {
    /// Returns the leading zeros that the hashes of its keys have at least.
    pub fn zeros(&self) -> u32 {
        self.zeros
    }

    /// Returns the versions that are left of it in a rarer sample.
    pub fn thinned(
        &self,
        zeros: u32,
        hash: impl Fn(&[u8]) -> u64,
    ) -> impl Iterator<Item = &SampledVersion> {
        let all = zeros <= self.zeros;
        let versions = self.versions.iter();
        versions.filter(move |version| all || hash(&version.user_key).leading_zeros() >= zeros)
    }

    pub(super) fn decode(
        block: &Block,
        summary: &SampleSummary,
        hash: impl Fn(&[u8]) -> u64,
    ) -> Result<Self, Malformed> {
        let mut versions: Vec<SampledVersion> = Vec::new();
        let mut last: Option<InternalKey<'_>> = None;
        for entry in block.whole_entries() {
            let (position, key, value) = entry?;
            let fault = |detail| Err(Malformed::new(position, detail));
            let mut decoder = Decoder::new(value);
            let Some(size_bytes) = decoder.varint().filter(|_| decoder.is_empty()) else {
                return fault("a sampled version has no size");
            };
            if last.is_some_and(|last| last >= key) || key.tag.kind().is_none() {
                return fault("sampled versions do not ascend, or are of an unknown kind");
            }
            if hash(key.user_key).leading_zeros() < summary.zeros {
                return fault("a key is not one of the sample");
            }
            last = Some(key);
            versions.push(SampledVersion {
                user_key: key.user_key.to_vec(),
                tag: key.tag,
                size_bytes,
            });
        }
        if versions.len() as u64 != summary.versions {
            return Err(Malformed::new(0, "the footer says otherwise of the sample"));
        }
        Ok(KeySample {
            zeros: summary.zeros,
            versions,
        })
    }
}

/// The sample of a table being written.
pub(super) struct SampleBuilder {
    zeros: u32,
    versions: Vec<(u64, SampledVersion)>,
}

impl Default for SampleBuilder {
    fn default() -> Self {
        SampleBuilder {
            zeros: LEAST_ZEROS,
            versions: Vec::new(),
        }
    }
}

impl SampleBuilder {
    /// Looks at a version, which comes after all before it.
    pub(super) fn look_at(&mut self, hash: u64, key: InternalKey<'_>, value: &[u8]) {
        if hash.leading_zeros() < self.zeros {
            return;
        }
        let version = SampledVersion {
            user_key: key.user_key.to_vec(),
            tag: key.tag,
            size_bytes: (key.user_key.len() + value.len()) as u64,
        };
        self.versions.push((hash, version));
        while self.versions.len() > MOST_VERSIONS && self.is_of_several_keys() {
            self.zeros += 1;
            let zeros = self.zeros;
            self.versions
                .retain(|(hash, _)| hash.leading_zeros() >= zeros);
        }
    }

    /// Returns whether there are several keys; of one key alone there is nothing rarer.
    fn is_of_several_keys(&self) -> bool {
        self.versions.first().map(|(hash, _)| hash) != self.versions.last().map(|(hash, _)| hash)
            && self.zeros < MOST_ZEROS
    }

    pub(super) fn finish(self) -> KeySample {
        if self.versions.is_empty() {
            return KeySample::default();
        }
        KeySample {
            zeros: self.zeros,
            versions: self
                .versions
                .into_iter()
                .map(|(_, version)| version)
                .collect(),
        }
    }
}

impl KeySample {
    /// Hands the block to `write`; the summary, if there are any versions.
    pub(super) fn write(&self, write: impl FnOnce(&[u8]) -> BlockHandle) -> Option<SampleSummary> {
        if self.versions.is_empty() {
            return None;
        }
        let mut block = BlockBuilder::new(INDEX_RESTART_INTERVAL);
        let mut value = Vec::new();
        for version in &self.versions {
            value.clear();
            put_varint(&mut value, version.size_bytes);
            let key = InternalKey {
                user_key: &version.user_key,
                tag: version.tag,
            };
            block.add(key, &value);
        }
        Some(SampleSummary {
            handle: block.finish(write),
            zeros: self.zeros,
            versions: self.versions.len() as u64,
        })
    }
}
