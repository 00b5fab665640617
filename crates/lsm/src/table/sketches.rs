//! The figures that a table gives of its keys without being read: their number, and a sample of
//! them.

use terrace_storage::Purpose;

use super::block_bounds::Contents;
use super::filter::key_hash;
use super::format::{BlockHandle, Malformed};
use super::key_sample::{KeySample, SampleBuilder};
use super::reader::TableReader;
use super::sketch::Sketch;
use super::source::BlockSource;
use crate::Result;
use crate::key::InternalKey;

/// The sketches of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sketches {
    /// Of the distinct user keys.
    pub(crate) keys: Sketch,
    pub(crate) sample: KeySample,
}

/// Those of a table being written, or checked.
pub(super) struct SketchesBuilder {
    hash_seed: u64,
    /// Of the last user key.
    hash: u64,
    keys: Sketch,
    sample: SampleBuilder,
}

impl SketchesBuilder {
    pub(super) fn new(hash_seed: u64) -> Self {
        SketchesBuilder {
            hash_seed,
            hash: 0,
            keys: Sketch::default(),
            sample: SampleBuilder::default(),
        }
    }

    /// Counts a version that comes after all before it; the hash of its user key.
    pub(super) fn count(
        &mut self,
        key: InternalKey<'_>,
        value: &[u8],
        is_new_user_key: bool,
    ) -> u64 {
        if is_new_user_key {
            self.hash = key_hash(key.user_key, self.hash_seed);
            self.keys.add(self.hash);
        }
        self.sample.look_at(self.hash, key, value);
        self.hash
    }

    pub(super) fn finish(&mut self) -> Sketches {
        let built = std::mem::replace(self, SketchesBuilder::new(self.hash_seed));
        Sketches {
            keys: built.keys,
            sample: built.sample.finish(),
        }
    }
}

impl TableReader {
    /// Reads both from the file. Range tombstones are in none.
    ///
    /// # Errors
    /// Those of reading; corruption, if a block is not as the footer says.
    pub(crate) fn sketches(&self, purpose: Purpose) -> Result<Sketches> {
        Ok(Sketches {
            keys: self.key_sketch(purpose)?,
            sample: self.key_sample(purpose)?,
        })
    }

    /// Reads the sketch of the distinct user keys, which is empty without entries.
    ///
    /// # Errors
    /// As those of [`TableReader::sketches`].
    pub fn key_sketch(&self, purpose: Purpose) -> Result<Sketch> {
        let Some(handle) = self.properties().sketch else {
            return Ok(Sketch::default());
        };
        let source = self.place_checked(handle)?;
        let keys = Sketch::decode(&source.read(handle, Contents::Plain, purpose)?.contents);
        let fault = Malformed::new(0, "the sketch of keys is none");
        keys.ok_or_else(|| source.corruption(handle, fault))
    }

    /// Reads the sample of versions, which is empty if no key was chosen.
    ///
    /// # Errors
    /// As those of [`TableReader::sketches`].
    pub fn key_sample(&self, purpose: Purpose) -> Result<KeySample> {
        let properties = self.properties();
        let Some(summary) = &properties.key_sample else {
            return Ok(KeySample::default());
        };
        let source = self.place_checked(summary.handle)?;
        let block = source.read_block(summary.handle, Contents::Sample, purpose)?;
        let hash = |user_key: &[u8]| key_hash(user_key, properties.hash_seed);
        let sample = KeySample::decode(&block, summary, hash);
        sample.map_err(|fault| source.corruption(summary.handle, fault))
    }

    fn place_checked(&self, handle: BlockHandle) -> Result<&BlockSource> {
        let (source, footer) = (self.source(), self.footer());
        source.check_place(handle, footer.offset, footer.offset)?;
        Ok(source)
    }
}
