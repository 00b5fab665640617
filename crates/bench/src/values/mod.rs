//! Values that name their record, and can be checked to the byte.
//!
//! A value is made of its record, its version and the seed. A short head names record and version.
//! The rest is copied from a pool of random bytes, from a place that follows from both. So making
//! one costs about a copy, and so does checking one. Values with fields are fields in a row, each
//! with a head of its own, so that one of them can be replaced.

mod mismatch;
mod segment;
mod sizes;

use std::sync::Arc;

use rand::Rng;

use crate::draw::random;
use segment::{Identity, Segments};

pub use mismatch::Mismatch;
pub use sizes::Sizes;

/// Bytes of the pool at least: few enough to stay in a processor's cache.
const POOL_BYTES: u64 = 1 << 20;

/// Makes and checks values. A clone shares the pool.
#[derive(Clone, Debug)]
pub struct Values {
    sizes: Sizes,
    segments: Segments,
}

/// Which versions a value's fields have. Fields too short for a whole version (under 8 bytes) have
/// its low bytes only, and those of under 2 bytes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The least of them.
    pub least: u32,
    /// The greatest of them.
    pub greatest: u32,
}

impl Values {
    /// Values of these sizes that can be compressed to a given share of their bytes: 1 for not at
    /// all. Their heads cannot, of which short ones mainly consist.
    pub fn new(sizes: Sizes, compression_ratio: f64, seed: u64) -> Values {
        let bytes = POOL_BYTES.max(2 * sizes.most_bytes());
        let mut pool = vec![0; bytes as usize];
        random(seed, u64::MAX).fill_bytes(&mut pool);
        Values {
            sizes,
            segments: Segments::new(Arc::from(pool), compression_ratio),
        }
    }

    /// Writes the value of a record in this version, in place of the contents of `value`.
    pub fn write_into(&self, record: u64, version: u32, value: &mut Vec<u8>) {
        value.resize(self.sizes.bytes(record, version) as usize, 0);
        let mut rest = value.as_mut_slice();
        for field in 0..self.sizes.fields() {
            let bytes = self.sizes.field_bytes(rest.len());
            let Some((segment, after)) = rest.split_at_mut_checked(bytes) else {
                return;
            };
            let identity = identity(record, field, bytes);
            self.segments.write(identity, version, segment);
            rest = after;
        }
    }

    /// Replaces one field by that of another version. Values without fields are replaced as a whole.
    pub fn patch(
        &self,
        record: u64,
        field: u32,
        version: u32,
        value: &mut Vec<u8>,
    ) -> Result<(), Mismatch> {
        if self.sizes.fields() == 1 {
            self.write_into(record, version, value);
            return Ok(());
        }
        self.check_length(record, value)?;
        let field = field % self.sizes.fields();
        let from = self.sizes.field_bytes(value.len()) * field as usize;
        let bytes = self.sizes.field_bytes(value.len());
        if let Some(segment) = value.get_mut(from..from + bytes) {
            let identity = identity(record, field, bytes);
            self.segments.write(identity, version, segment);
        }
        Ok(())
    }

    /// Checks that these bytes are a value of this record, in any version, down to the last of
    /// them.
    pub fn check(&self, record: u64, value: &[u8]) -> Result<Versions, Mismatch> {
        self.check_length(record, value)?;
        let mut versions = Versions {
            least: u32::MAX,
            greatest: 0,
        };
        let mut rest = value;
        for field in 0..self.sizes.fields() {
            let bytes = self.sizes.field_bytes(rest.len());
            let Some((segment, after)) = rest.split_at_checked(bytes) else {
                break;
            };
            let identity = identity(record, field, bytes);
            let version = self.segments.check(identity, segment)?;
            versions.least = versions.least.min(version);
            versions.greatest = versions.greatest.max(version);
            rest = after;
        }
        Ok(versions)
    }

    /// Returns the record that a value says it is of, unchecked; `None` if it is too short (12
    /// bytes, in its first field) to say so.
    pub fn record_of(&self, value: &[u8]) -> Option<u64> {
        let bytes = self.sizes.field_bytes(value.len());
        segment::record_of(value.get(..bytes)?, 0)
    }

    fn check_length(&self, record: u64, value: &[u8]) -> Result<(), Mismatch> {
        // The head determines the size.
        let expected = match self.sizes {
            Sizes::Fixed { bytes } => u64::from(bytes),
            Sizes::Fields { .. } | Sizes::Graph => self.sizes.most_bytes(),
            Sizes::Pareto { .. } => {
                let version = segment::version_of(identity(record, 0, value.len()), value);
                self.sizes.bytes(record, version)
            }
        };
        let found = value.len() as u64;
        if found == expected {
            return Ok(());
        }
        // A value of another record mostly has another length, too: then the record is the error.
        if let Some(other) = self.other_record(record, value) {
            return Err(other);
        }
        Err(Mismatch::Length {
            record,
            expected,
            found,
        })
    }

    fn other_record(&self, record: u64, value: &[u8]) -> Option<Mismatch> {
        // One that is longer than any is no whole one.
        if self.sizes.fields() > 1 || value.len() as u64 > self.sizes.most_bytes() {
            return None;
        }
        self.segments
            .other_record(identity(record, 0, value.len()), value)
    }
}

fn identity(record: u64, field: u32, field_bytes: usize) -> Identity {
    Identity {
        record,
        field,
        field_bytes,
    }
}

#[cfg(test)]
mod tests;
