//! The footer of a table: its contents and their places, as tagged fields.
//!
//! A field is a tag, a length and that many bytes. The lowest bit of a tag says that a reader which
//! does not know it may skip it; the other bits are the field's number. Numbers ascend.

mod fields;

use terrace_storage::Purpose;

use self::fields::Fields;
use super::compression::Compression;
use super::filter::{FilterForm, FilterKind};
use super::format::{BlockHandle, Malformed};
use super::key_sample::SampleSummary;
use super::range_block::RangeSummary;
use super::superseded::Superseded;
use crate::coding::{put_bytes, put_varint, varint_length};
use crate::key::{InternalKey, KeyspaceId, MAX_KEYSPACE, MAX_STORED_SEQUENCE, SequenceNumber};

/// The latest time that is believed. A manifest that listed a later one would be damaged.
const MAX_SECONDS: u64 = u64::MAX / 2;

/// The numbers of the fields; never reused, 0 is invalid.
mod field {
    pub(super) const KEYSPACE: u64 = 1;
    pub(super) const ENTRIES: u64 = 2;
    pub(super) const TOMBSTONES: u64 = 3;
    pub(super) const USER_KEY_BYTES: u64 = 4;
    pub(super) const VALUE_BYTES: u64 = 5;
    pub(super) const SMALLEST: u64 = 6;
    pub(super) const LARGEST: u64 = 7;
    pub(super) const SMALLEST_SEQUENCE: u64 = 8;
    pub(super) const LARGEST_SEQUENCE: u64 = 9;
    pub(super) const HASH_SEED: u64 = 10;
    pub(super) const AGE_HINT: u64 = 11;
    pub(super) const COMPRESSION: u64 = 12;
    pub(super) const TOP_INDEX: u64 = 13;
    pub(super) const FILTER: u64 = 14;
    pub(super) const SKETCH: u64 = 15;
    pub(super) const KEY_SAMPLE: u64 = 16;
    pub(super) const RANGE_TOMBSTONES: u64 = 17;
    pub(super) const FILTER_KIND: u64 = 18;
    pub(super) const OLDEST_TOMBSTONE: u64 = 19;
    pub(super) const IDENTITY: u64 = 20;
    /// The last one that a reader has to know; those behind it are skippable.
    pub(super) const LAST_KNOWN: u64 = IDENTITY;
    pub(super) const SUPERSEDED: u64 = 25;
}

/// Entries from one whole key in a data block to the next. Shorter keys in between cost more to find.
pub const RESTART_INTERVAL: usize = 16;

/// How a table is written.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// Contents at which a data block or an index partition ends.
    pub block_bytes: usize,
    pub restart_interval: usize,
    pub compression: Compression,
    pub filter: FilterForm,
    /// The store's seed of [`key_hash`](super::key_hash).
    pub hash_seed: u64,
    /// Random bits of this table's own.
    pub identity: u128,
    pub keyspace: KeyspaceId,
    /// The age of the table's sub-level when it was written; `repair` may use it.
    pub age_hint: u64,
    /// Stated if the table gets a tombstone, as in [`TableProperties`].
    pub oldest_tombstone_seconds: Option<u64>,
    /// The file is written past the page cache.
    pub direct: bool,
    pub purpose: Purpose,
}

/// A filter's kind, and the block of its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FilterPlace {
    pub(super) kind: FilterKind,
    pub(super) handle: BlockHandle,
}

/// A table's description of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableProperties {
    pub keyspace: KeyspaceId,
    pub entries: u64,
    pub tombstones: u64,
    pub user_key_bytes: u64,
    pub value_bytes: u64,
    /// The first and the last internal key, encoded; empty without entries.
    pub(super) smallest: Vec<u8>,
    pub(super) largest: Vec<u8>,
    pub smallest_sequence: SequenceNumber,
    pub largest_sequence: SequenceNumber,
    pub hash_seed: u64,
    /// Random bits of this table's own, which the manifest lists.
    pub identity: u128,
    pub age_hint: u64,
    /// The requested compression; a block that does not shrink is stored as it is.
    pub compression: Compression,
    /// `None` without entries.
    pub(super) top_index: Option<BlockHandle>,
    pub(super) filter: Option<FilterPlace>,
    /// Sketch of distinct user keys; `None` without entries.
    pub(super) sketch: Option<BlockHandle>,
    /// `None` if no key was chosen, too.
    pub(super) key_sample: Option<SampleSummary>,
    pub range_tombstones: Option<RangeSummary>,
    /// When the oldest tombstone, of an entry or a range, reached its first table, in seconds
    /// since 1970. `None` without tombstones, and where it is unknown.
    pub oldest_tombstone_seconds: Option<u64>,
    /// `None` without superseded versions, and in tables of before the note. Bytes are of keys and values.
    pub superseded: Option<Superseded>,
    /// The length of the file; not stored.
    pub file_bytes: u64,
}

impl TableProperties {
    /// Returns the first and the last user key of the entries; `None` without entries.
    pub fn user_keys(&self) -> Option<(&[u8], &[u8])> {
        let user_key = |key| InternalKey::decode(key).map(|key| key.user_key);
        user_key(&self.smallest).zip(user_key(&self.largest))
    }

    /// Returns the filter's kind, and the bytes of its block.
    pub fn filter(&self) -> Option<(FilterKind, u64)> {
        let filter = self.filter?;
        Some((filter.kind, filter.handle.length_bytes))
    }

    /// Returns the number of range tombstones.
    pub(crate) fn range_tombstones(&self) -> u64 {
        let summary = self.range_tombstones.as_ref();
        summary.map_or(0, |summary| summary.count)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let number = |out: &mut Vec<u8>, field, value| {
            put_varint(out, field << 1);
            put_varint(out, varint_length(value) as u64);
            put_varint(out, value);
        };
        let bytes = |out: &mut Vec<u8>, field, value: &[u8]| {
            put_varint(out, field << 1);
            put_bytes(out, value);
        };
        let handle = |out: &mut Vec<u8>, field, handle: BlockHandle| {
            let mut value = Vec::new();
            handle.encode_into(&mut value);
            bytes(out, field, &value);
        };
        number(&mut out, field::KEYSPACE, u64::from(self.keyspace.0));
        number(&mut out, field::ENTRIES, self.entries);
        number(&mut out, field::TOMBSTONES, self.tombstones);
        number(&mut out, field::USER_KEY_BYTES, self.user_key_bytes);
        number(&mut out, field::VALUE_BYTES, self.value_bytes);
        if self.entries > 0 {
            bytes(&mut out, field::SMALLEST, &self.smallest);
            bytes(&mut out, field::LARGEST, &self.largest);
        }
        number(&mut out, field::SMALLEST_SEQUENCE, self.smallest_sequence);
        number(&mut out, field::LARGEST_SEQUENCE, self.largest_sequence);
        number(&mut out, field::HASH_SEED, self.hash_seed);
        number(&mut out, field::AGE_HINT, self.age_hint);
        number(&mut out, field::COMPRESSION, self.compression as u64);
        if let Some(top_index) = self.top_index {
            handle(&mut out, field::TOP_INDEX, top_index);
        }
        if let Some(filter) = self.filter {
            handle(&mut out, field::FILTER, filter.handle);
        }
        if let Some(sketch) = self.sketch {
            handle(&mut out, field::SKETCH, sketch);
        }
        if let Some(summary) = &self.key_sample {
            let mut value = Vec::new();
            summary.encode_into(&mut value);
            bytes(&mut out, field::KEY_SAMPLE, &value);
        }
        if let Some(summary) = &self.range_tombstones {
            let mut value = Vec::new();
            summary.encode_into(&mut value);
            bytes(&mut out, field::RANGE_TOMBSTONES, &value);
        }
        // Tables are as before wherever they can be.
        if let Some(filter) = self.filter.filter(|f| f.kind != FilterKind::SplitBlock) {
            number(&mut out, field::FILTER_KIND, filter.kind as u64);
        }
        // A reader that does not know it loses nothing but the age.
        if let Some(seconds) = self.oldest_tombstone_seconds {
            put_varint(&mut out, field::OLDEST_TOMBSTONE << 1 | 1);
            put_varint(&mut out, varint_length(seconds) as u64);
            put_varint(&mut out, seconds);
        }
        bytes(&mut out, field::IDENTITY, &self.identity.to_le_bytes());
        // Without it, the versions stay until a policy merges them.
        if let Some(superseded) = &self.superseded {
            put_varint(&mut out, field::SUPERSEDED << 1 | 1);
            put_bytes(&mut out, &superseded.encode());
        }
        out
    }

    pub(super) fn decode(contents: &[u8], file_bytes: u64) -> Result<Self, FooterFault> {
        let fields = Fields::parse(contents)?;
        let filter_kind = match fields.get(field::FILTER_KIND) {
            None => Some(FilterKind::SplitBlock),
            Some(_) => match fields.number(field::FILTER_KIND) {
                None | Some(0) => None,
                Some(number) => {
                    let kind = FilterKind::from_number(number);
                    Some(kind.ok_or(FooterFault::UnknownFilter(number))?)
                }
            },
        };
        let properties = || {
            let keyspace = u32::try_from(fields.number(field::KEYSPACE)?).ok()?;
            let compression = u8::try_from(fields.number(field::COMPRESSION)?).ok()?;
            let handle = |number| match fields.get(number) {
                Some(bytes) => BlockHandle::decode(bytes).map(Some),
                None => Some(None),
            };
            let key = |number| match fields.get(number) {
                Some(_) => fields.key(number),
                None => Some(Vec::new()),
            };
            // A kind without a filter would be the kind of nothing.
            let filter = |kind, handle: Option<BlockHandle>| match handle {
                Some(handle) => Some(Some(FilterPlace { kind, handle })),
                None => fields.get(field::FILTER_KIND).is_none().then_some(None),
            };
            let key_sample = match fields.get(field::KEY_SAMPLE) {
                Some(bytes) => Some(SampleSummary::decode(bytes)?),
                None => None,
            };
            let range_tombstones = match fields.get(field::RANGE_TOMBSTONES) {
                Some(bytes) => Some(RangeSummary::decode(bytes)?),
                None => None,
            };
            let oldest_tombstone_seconds = match fields.get(field::OLDEST_TOMBSTONE) {
                Some(_) => Some(fields.number(field::OLDEST_TOMBSTONE)?),
                None => None,
            };
            let entries = fields.number(field::ENTRIES)?;
            let user_key_bytes = fields.number(field::USER_KEY_BYTES)?;
            let value_bytes = fields.number(field::VALUE_BYTES)?;
            let superseded = match fields.get(field::SUPERSEDED) {
                Some(bytes) => {
                    let most_bytes = user_key_bytes.saturating_add(value_bytes);
                    Some(Superseded::decode(bytes, entries, most_bytes)?)
                }
                None => None,
            };
            let properties = TableProperties {
                keyspace: (keyspace != 0).then_some(KeyspaceId(keyspace))?,
                entries,
                tombstones: fields.number(field::TOMBSTONES)?,
                user_key_bytes,
                value_bytes,
                smallest: key(field::SMALLEST)?,
                largest: key(field::LARGEST)?,
                smallest_sequence: fields.number(field::SMALLEST_SEQUENCE)?,
                largest_sequence: fields.number(field::LARGEST_SEQUENCE)?,
                hash_seed: fields.number(field::HASH_SEED)?,
                identity: u128::from_le_bytes(fields.get(field::IDENTITY)?.try_into().ok()?),
                age_hint: fields.number(field::AGE_HINT)?,
                compression: Compression::from_number(compression)?,
                top_index: handle(field::TOP_INDEX)?,
                filter: filter(filter_kind?, handle(field::FILTER)?)?,
                sketch: handle(field::SKETCH)?,
                key_sample,
                range_tombstones,
                oldest_tombstone_seconds,
                superseded,
                file_bytes,
            };
            properties.is_complete().then_some(properties)
        };
        properties().ok_or(FooterFault::Malformed(Malformed::new(
            0,
            "a field of the footer is missing or wrong",
        )))
    }
}

impl TableProperties {
    /// Returns whether the fields of entries are there if there are entries, and not if there are
    /// none; a table without entries holds range tombstones. Numbers leave room for those to come.
    fn is_complete(&self) -> bool {
        if self.smallest_sequence > self.largest_sequence
            || self.largest_sequence > MAX_STORED_SEQUENCE
            || self.keyspace.0 >= MAX_KEYSPACE
            || self.oldest_tombstone_seconds > Some(MAX_SECONDS)
        {
            return false;
        }
        let has_tombstones = self.tombstones > 0 || self.range_tombstones.is_some();
        if self.oldest_tombstone_seconds.is_some() && !has_tombstones {
            return false;
        }
        let largest_by = self.superseded.map(|superseded| superseded.largest_by);
        if largest_by > Some(self.largest_sequence) {
            return false;
        }
        let of_entries = [
            self.top_index.is_some(),
            self.sketch.is_some(),
            !self.smallest.is_empty(),
            !self.largest.is_empty(),
        ];
        match self.entries {
            0 => {
                of_entries == [false; 4]
                    && self.filter.is_none()
                    && self.key_sample.is_none()
                    && self.range_tombstones.is_some()
            }
            _ => of_entries == [true; 4],
        }
    }
}

/// Why a footer cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FooterFault {
    Malformed(Malformed),
    UnknownField(u64),
    UnknownFilter(u64),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Kind, MAX_KEY_BYTES};

    fn sample(handle: Option<BlockHandle>) -> TableProperties {
        with_filter(FilterKind::SplitBlock, handle)
    }

    fn with_filter(kind: FilterKind, handle: Option<BlockHandle>) -> TableProperties {
        let encoded = |key: InternalKey<'_>| {
            let mut bytes = Vec::new();
            key.encode_into(&mut bytes);
            bytes
        };
        TableProperties {
            keyspace: KeyspaceId(3),
            entries: 1000,
            tombstones: 1,
            user_key_bytes: 70_000,
            value_bytes: 0,
            smallest: encoded(InternalKey::new(b"", 4, Kind::Put)),
            largest: encoded(InternalKey::new(b"z", 2, Kind::Delete)),
            smallest_sequence: 2,
            largest_sequence: 1 << 55,
            hash_seed: u64::MAX,
            identity: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
            age_hint: 0,
            compression: Compression::Zstd,
            top_index: Some(BlockHandle {
                offset: 5000,
                length_bytes: 30,
            }),
            filter: handle.map(|handle| FilterPlace { kind, handle }),
            sketch: Some(BlockHandle {
                offset: 4000,
                length_bytes: 900,
            }),
            key_sample: None,
            range_tombstones: None,
            oldest_tombstone_seconds: None,
            superseded: None,
            file_bytes: 9000,
        }
    }

    #[test]
    fn a_footer_with_a_number_that_leaves_no_room_is_damaged() {
        let largest = TableProperties {
            keyspace: KeyspaceId(MAX_KEYSPACE - 1),
            oldest_tombstone_seconds: Some(u64::MAX / 2),
            ..sample(None)
        };
        let decode = |properties: &TableProperties| {
            TableProperties::decode(&properties.encode(), properties.file_bytes)
        };
        assert_eq!(decode(&largest).unwrap(), largest);
        let keyspace = TableProperties {
            keyspace: KeyspaceId(MAX_KEYSPACE),
            ..sample(None)
        };
        let second = TableProperties {
            oldest_tombstone_seconds: Some(u64::MAX / 2 + 1),
            ..sample(None)
        };
        for damaged in [keyspace, second] {
            assert!(decode(&damaged).is_err(), "{damaged:?}");
        }
    }

    #[test]
    fn a_footer_round_trips() {
        let handle = BlockHandle {
            offset: 16,
            length_bytes: 45,
        };
        let with_ranges = TableProperties {
            range_tombstones: Some(RangeSummary {
                handle,
                count: 3,
                start: b"".to_vec(),
                end: vec![0xff; MAX_KEY_BYTES],
            }),
            ..sample(None)
        };
        let only_ranges = TableProperties {
            entries: 0,
            smallest: Vec::new(),
            largest: Vec::new(),
            top_index: None,
            sketch: None,
            ..with_ranges.clone()
        };
        let fused = with_filter(FilterKind::Fuse, Some(handle));
        let aged = TableProperties {
            oldest_tombstone_seconds: Some(1_764_000_000),
            ..sample(None)
        };
        let superseded = TableProperties {
            superseded: Some(Superseded {
                versions: 1000,
                bytes: 70_000,
                largest_by: 1 << 55,
            }),
            ..sample(None)
        };
        let all = [
            aged,
            superseded,
            sample(None),
            sample(Some(handle)),
            fused,
            with_ranges,
            only_ranges,
        ];
        for properties in all {
            let decoded = TableProperties::decode(&properties.encode(), 9000);
            assert_eq!(decoded, Ok(properties));
        }
    }

    #[test]
    fn a_footer_that_notes_more_superseded_versions_than_it_may_hold_is_damaged() {
        let decode = |versions, bytes, largest_by| {
            let properties = TableProperties {
                superseded: Some(Superseded {
                    versions,
                    bytes,
                    largest_by,
                }),
                ..sample(None)
            };
            TableProperties::decode(&properties.encode(), 9000)
        };
        assert!(decode(1, 1, 1).is_ok());
        for (versions, bytes, largest_by) in [
            (0, 1, 1),
            (1001, 1, 1),
            (1, 70_001, 1),
            (1, 1, 0),
            (1, 1, (1 << 55) + 1),
        ] {
            assert!(decode(versions, bytes, largest_by).is_err());
        }
    }

    #[test]
    fn an_unknown_field_is_refused_unless_it_may_be_skipped() {
        let mut skippable = sample(None).encode();
        put_varint(&mut skippable, 200 << 1 | 1);
        put_bytes(&mut skippable, b"later");
        assert_eq!(TableProperties::decode(&skippable, 9000), Ok(sample(None)));
        let mut required = sample(None).encode();
        put_varint(&mut required, 200 << 1);
        put_bytes(&mut required, b"later");
        assert_eq!(
            TableProperties::decode(&required, 9000),
            Err(FooterFault::UnknownField(200))
        );
    }

    #[test]
    fn an_unknown_kind_of_filter_is_told_from_a_wrong_one() {
        let handle = BlockHandle {
            offset: 16,
            length_bytes: 45,
        };
        let with_kind = |handle, kind: &[u8]| {
            // Before the identity, the last field: a tag, a length and 16 bytes.
            let mut footer = sample(handle).encode();
            let identity = footer.split_off(footer.len() - 18);
            put_varint(&mut footer, field::FILTER_KIND << 1);
            put_bytes(&mut footer, kind);
            footer.extend(identity);
            TableProperties::decode(&footer, 9000)
        };
        assert_eq!(with_kind(Some(handle), &[1]), Ok(sample(Some(handle))));
        assert_eq!(
            with_kind(Some(handle), &[2]),
            Ok(with_filter(FilterKind::Fuse, Some(handle)))
        );
        let unknown = with_kind(Some(handle), &[3]);
        assert_eq!(unknown, Err(FooterFault::UnknownFilter(3)));
        let wrong = [
            (Some(handle), vec![0]),
            (Some(handle), vec![2, 2]),
            (None, vec![2]),
        ];
        for (handle, kind) in wrong {
            let decoded = with_kind(handle, &kind);
            assert!(matches!(decoded, Err(FooterFault::Malformed(_))));
        }
    }

    #[test]
    fn a_footer_cut_short_doubled_or_with_a_zero_is_refused() {
        let whole = sample(None).encode();
        for length in 0..whole.len() {
            assert!(TableProperties::decode(&whole[..length], 9000).is_err());
        }
        assert!(TableProperties::decode(&[&whole[..], &whole[..]].concat(), 9000).is_err());
        let keyspace_zero = sample(None);
        let keyspace_zero = TableProperties {
            keyspace: KeyspaceId(0),
            ..keyspace_zero
        };
        assert!(TableProperties::decode(&keyspace_zero.encode(), 9000).is_err());
    }

    #[test]
    fn entries_and_what_belongs_to_them_come_together() {
        let nothing = TableProperties {
            entries: 0,
            top_index: None,
            ..sample(None)
        };
        let no_index = TableProperties {
            top_index: None,
            ..sample(None)
        };
        let no_sketch = TableProperties {
            sketch: None,
            ..sample(None)
        };
        for properties in [nothing, no_index, no_sketch] {
            assert!(TableProperties::decode(&properties.encode(), 9000).is_err());
        }
    }
}
