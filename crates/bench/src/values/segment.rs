//! One field of a value: a head and bytes from the pool.
//!
//! ```text
//! tag      up to 8 bytes  the record and the field, mixed
//! version  up to 4 bytes  the version, masked by the tag
//! body                    bytes of the pool from a place that follows from tag and version
//! ```
//!
//! Both parts of the head look random, so that they cannot be compressed. Half of a field that is
//! too short for a whole head goes to the version, the other to the tag. Compressible fields are
//! divided into pieces. Only the first part of a piece is from the pool, and the rest repeats it:
//! db_bench's way, except that its random bytes are printable.

use std::sync::Arc;

use super::Mismatch;
use crate::draw::{mix_64, scale, unmix_64};

/// The owner of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    pub(super) record: u64,
    pub(super) field: u32,
    /// Bytes of each field.
    pub(super) field_bytes: usize,
}

const TAG_BYTES: usize = 8;
const VERSION_BYTES: usize = 4;
/// The bytes of which a compressible value repeats a part; db_bench's.
const PIECE_BYTES: usize = 100;
/// Keeps the tags of fields apart: the bits of records are the low ones.
const FIELD_STEP: u64 = 0xD1B5_4A32_D192_ED03;

impl Identity {
    /// Returns the identity that a segment of this length says it has.
    fn found_in(segment: &[u8], field: u32) -> Option<Identity> {
        Some(Identity {
            record: record_of(segment, field)?,
            field,
            field_bytes: segment.len(),
        })
    }

    fn tag(self) -> u64 {
        mix_64(
            self.record
                .wrapping_add(FIELD_STEP.wrapping_mul(u64::from(self.field))),
        )
    }
}

/// Writes and checks segments.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    pool: Arc<[u8]>,
    piece: usize,
    /// Bytes of a piece that do not repeat others.
    fresh: usize,
}

/// Neighbouring bytes of one origin.
struct Run {
    from: usize,
    to: usize,
    /// As opposed to: repeated.
    from_pool: bool,
}

impl Segments {
    pub(super) fn new(pool: Arc<[u8]>, compression_ratio: f64) -> Segments {
        let fresh = (compression_ratio * PIECE_BYTES as f64).round() as usize;
        // One piece, however long, if nothing is to be repeated: then a segment is one copy.
        let (piece, fresh) = if fresh >= PIECE_BYTES {
            (usize::MAX, usize::MAX)
        } else {
            (PIECE_BYTES, fresh.max(1))
        };
        Segments { pool, piece, fresh }
    }

    pub(super) fn write(&self, identity: Identity, version: u32, segment: &mut [u8]) {
        let tag = identity.tag();
        let (tag_bytes, version_bytes) = head_bytes(segment.len());
        let masked = (version ^ version_mask(tag)).to_le_bytes();
        if let Some((head, rest)) = segment.split_first_chunk_mut::<TAG_BYTES>()
            && let Some(version) = rest.first_chunk_mut::<VERSION_BYTES>()
        {
            // A whole head, in two stores.
            *head = tag.to_le_bytes();
            *version = masked;
        } else {
            copy(segment, &tag.to_le_bytes(), 0, tag_bytes);
            copy(segment, &masked, tag_bytes, version_bytes);
        }
        let pool = self.window(identity, version, segment.len());
        for run in self.runs(tag_bytes + version_bytes, segment.len()) {
            if run.from_pool {
                if let (Some(to), Some(from)) = (
                    segment.get_mut(run.from..run.to),
                    pool.get(run.from..run.to),
                ) {
                    to.copy_from_slice(from);
                }
            } else {
                segment.copy_within(run.from - self.fresh..run.to - self.fresh, run.from);
            }
        }
    }

    /// Checks a segment; returns its version.
    pub(super) fn check(&self, identity: Identity, segment: &[u8]) -> Result<u32, Mismatch> {
        let version = version_of(identity, segment);
        match self.first_difference(identity, version, segment) {
            None => Ok(version),
            Some(mangled) => {
                Err(self
                    .other_record(identity, segment)
                    .unwrap_or(Mismatch::Mangled {
                        record: identity.record,
                        field: identity.field,
                        at: mangled.at as u64,
                        expected: mangled.expected,
                        found: mangled.found,
                    }))
            }
        }
    }

    /// Returns the error that a segment is a whole one of another record, if it is.
    pub(super) fn other_record(&self, identity: Identity, segment: &[u8]) -> Option<Mismatch> {
        let Identity { record, field, .. } = identity;
        let other = Identity::found_in(segment, field)?;
        let found = other.record;
        let version = version_of(other, segment);
        let is_whole = self.first_difference(other, version, segment).is_none();
        (found != record && is_whole).then_some(Mismatch::OtherRecord {
            record,
            field,
            found,
            version,
        })
    }

    fn first_difference(
        &self,
        identity: Identity,
        version: u32,
        segment: &[u8],
    ) -> Option<Difference> {
        let (tag_bytes, version_bytes) = head_bytes(segment.len());
        let tag_octets = identity.tag().to_le_bytes();
        if let Some(difference) =
            difference(segment.get(..tag_bytes)?, tag_octets.get(..tag_bytes)?, 0)
        {
            return Some(difference);
        }
        let pool = self.window(identity, version, segment.len());
        self.runs(tag_bytes + version_bytes, segment.len())
            .find_map(|run| {
                let found = segment.get(run.from..run.to)?;
                let expected = if run.from_pool {
                    pool.get(run.from..run.to)?
                } else {
                    segment.get(run.from - self.fresh..run.to - self.fresh)?
                };
                difference(found, expected, run.from)
            })
    }

    /// Returns the bytes of the pool that belong to a segment; its head's are not used. Fields of
    /// one version have them in a row: a whole value is read from one place.
    fn window(&self, identity: Identity, version: u32, bytes: usize) -> &[u8] {
        let hash = mix_64(mix_64(identity.record).wrapping_add(u64::from(version)));
        // A value takes no more than half of the pool.
        let value_from = scale(hash, self.pool.len() as u64 / 2) as usize;
        let from = value_from + identity.field as usize * identity.field_bytes;
        self.pool.get(from..from + bytes).unwrap_or_default()
    }

    /// Returns the runs behind the head. A repeated run is no longer than the bytes it repeats, so
    /// that it does not overlap with them.
    fn runs(&self, head: usize, bytes: usize) -> impl Iterator<Item = Run> {
        let (piece, fresh) = (self.piece, self.fresh);
        let mut from = head;
        std::iter::from_fn(move || {
            if from >= bytes {
                return None;
            }
            let piece_from = from / piece * piece;
            let fresh_to = piece_from.saturating_add(fresh);
            let from_pool = from < fresh_to;
            let to = if from_pool {
                fresh_to
            } else {
                (from + fresh).min(piece_from + piece)
            };
            let run = Run {
                from,
                to: to.min(bytes),
                from_pool,
            };
            from = run.to;
            Some(run)
        })
    }
}

/// Returns the record that a whole tag belongs to.
pub(super) fn record_of(segment: &[u8], field: u32) -> Option<u64> {
    if head_bytes(segment.len()).0 < TAG_BYTES {
        return None;
    }
    let tag = u64::from_le_bytes(*segment.first_chunk()?);
    Some(unmix_64(tag).wrapping_sub(FIELD_STEP.wrapping_mul(u64::from(field))))
}

/// Returns the version that a segment says it has, as much of it as there is.
pub(super) fn version_of(identity: Identity, segment: &[u8]) -> u32 {
    if let Some((_, rest)) = segment.split_first_chunk::<TAG_BYTES>()
        && let Some(stored) = rest.first_chunk::<VERSION_BYTES>()
    {
        return u32::from_le_bytes(*stored) ^ version_mask(identity.tag());
    }
    let (tag_bytes, version_bytes) = head_bytes(segment.len());
    let stored = segment.iter().skip(tag_bytes).take(version_bytes);
    let mask = version_mask(identity.tag()).to_le_bytes();
    let version = stored.zip(mask).map(|(stored, mask)| stored ^ mask);
    let mut octets = [0; VERSION_BYTES];
    for (octet, byte) in octets.iter_mut().zip(version) {
        *octet = byte;
    }
    u32::from_le_bytes(octets)
}

/// Returns the bytes of the tag and of the version.
fn head_bytes(segment: usize) -> (usize, usize) {
    let version = VERSION_BYTES.min(segment / 2);
    (TAG_BYTES.min(segment - version), version)
}

fn version_mask(tag: u64) -> u32 {
    (mix_64(tag) >> 32) as u32
}

fn copy(segment: &mut [u8], octets: &[u8], at: usize, count: usize) {
    for (to, from) in segment.iter_mut().skip(at).take(count).zip(octets) {
        *to = *from;
    }
}

struct Difference {
    at: usize,
    expected: u8,
    found: u8,
}

/// Returns the first difference between slices of one length that begin at `from`.
fn difference(found: &[u8], expected: &[u8], from: usize) -> Option<Difference> {
    if found == expected {
        return None;
    }
    let pairs = found.iter().zip(expected);
    let (at, (found, expected)) = pairs.enumerate().find(|(_, (f, e))| f != e)?;
    Some(Difference {
        at: from + at,
        expected: *expected,
        found: *found,
    })
}
