//! Keys as the engine orders them: a user key, then its versions from the newest to the oldest.

use std::cmp::Ordering;
use std::fmt;

/// The number of a write; every record of every batch has its own. 56 bits are used.
pub type SequenceNumber = u64;

/// The largest sequence number that fits beside a kind in one word.
pub const MAX_SEQUENCE: SequenceNumber = (1 << 56) - 1;

/// The largest sequence number that is believed of a file. A larger one leaves no room for the
/// writes to come; at a million writes a second a store gets there after 2,000 years.
pub const MAX_STORED_SEQUENCE: SequenceNumber = MAX_SEQUENCE - (1 << 40);

/// The smallest sequence number of a version that lies on top of a store and is none of its writes. A
/// store that begins at the largest stored number gets there after 2^40 - 2^32 writes.
pub const MIN_OVERLAY_SEQUENCE: SequenceNumber = MAX_SEQUENCE - u32::MAX as u64;

/// Above the number of every keyspace that is believed of a file.
pub const MAX_KEYSPACE: u32 = u32::MAX / 2;

/// The longest key that can be stored, in bytes.
pub const MAX_KEY_BYTES: usize = 65_535;

/// The number of a keyspace; 0 is never valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyspaceId(pub(crate) u32);

impl KeyspaceId {
    /// The keyspace that every store has.
    pub const DEFAULT: KeyspaceId = KeyspaceId(1);

    /// Returns the keyspace of this number. For the crates of the engine: a store gives out the numbers.
    #[doc(hidden)]
    pub const fn from_number(number: u32) -> Self {
        KeyspaceId(number)
    }

    /// Returns the number as it is stored.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for KeyspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The effect of a record on its key. Numbers are stored in frames and tables and never reused.
///
/// `Put`, `Delete` and `RangeDelete` are written today. `RangeDelete` is the tombstone of a whole
/// range: its key is the range's start and its value the range's end. The others are reserved: a
/// store of a later version is refused with a clear error instead of being misread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    Put = 1,
    Delete = 2,
    Merge = 3,
    RangeDelete = 4,
    ExpiringPut = 5,
    SeparatedPut = 6,
}

impl Kind {
    /// Returns the kind with a stored number, `None` for 0 and for numbers never given.
    pub const fn from_number(number: u8) -> Option<Kind> {
        Some(match number {
            1 => Kind::Put,
            2 => Kind::Delete,
            3 => Kind::Merge,
            4 => Kind::RangeDelete,
            5 => Kind::ExpiringPut,
            6 => Kind::SeparatedPut,
            _ => return None,
        })
    }
}

/// A sequence number and a kind in one word: `sequence << 8 | kind`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

impl Tag {
    pub const fn new(sequence: SequenceNumber, kind: Kind) -> Tag {
        Tag(sequence << 8 | kind as u64)
    }

    /// Returns the tag that sorts before every version that a reader at `snapshot` may see, and
    /// after every newer one.
    pub const fn seek(snapshot: SequenceNumber) -> Tag {
        Tag(snapshot << 8 | 0xff)
    }

    pub const fn sequence(self) -> SequenceNumber {
        self.0 >> 8
    }

    /// Returns the same kind at another number.
    pub const fn with_sequence(self, sequence: SequenceNumber) -> Tag {
        Tag(sequence << 8 | self.0 & 0xff)
    }

    /// Returns the kind; `None` if the low byte is not the number of a kind.
    pub const fn kind(self) -> Option<Kind> {
        Kind::from_number(self.0 as u8)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            Some(kind) => write!(f, "{}:{:?}", self.sequence(), kind),
            None => write!(f, "{}:kind {}", self.sequence(), self.0 as u8),
        }
    }
}

/// A version of a user key. Ordered by user key bytewise, then from the newest to the oldest.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct InternalKey<'a> {
    pub user_key: &'a [u8],
    pub tag: Tag,
}

impl<'a> InternalKey<'a> {
    #[cfg(any(test, feature = "internal"))]
    pub const fn new(user_key: &'a [u8], sequence: SequenceNumber, kind: Kind) -> Self {
        InternalKey {
            user_key,
            tag: Tag::new(sequence, kind),
        }
    }

    /// Returns the place in the order where the versions visible at `snapshot` begin.
    pub const fn seek(user_key: &'a [u8], snapshot: SequenceNumber) -> Self {
        InternalKey {
            user_key,
            tag: Tag::seek(snapshot),
        }
    }

    pub const fn sequence(&self) -> SequenceNumber {
        self.tag.sequence()
    }

    /// Appends `user_key` and the tag, little-endian: the form in which tables store keys.
    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.user_key);
        out.extend_from_slice(&self.tag.0.to_le_bytes());
    }

    /// Splits the stored form; `None` if it is shorter than a tag.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (user_key, tag) = bytes.split_last_chunk::<8>()?;
        Some(InternalKey {
            user_key,
            tag: Tag(u64::from_le_bytes(*tag)),
        })
    }
}

impl Ord for InternalKey<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.user_key
            .cmp(other.user_key)
            .then_with(|| other.tag.cmp(&self.tag))
    }
}

impl PartialOrd for InternalKey<'_> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for InternalKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:?}", self.user_key.escape_ascii(), self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_a_key_sort_from_the_newest() {
        let newest = InternalKey::new(b"a", 9, Kind::Delete);
        let oldest = InternalKey::new(b"a", 2, Kind::Put);
        let longer = InternalKey::new(b"a\0", 100, Kind::Put);
        assert!(newest < oldest && oldest < longer);
        assert!(InternalKey::seek(b"a", 9) < newest && newest < InternalKey::seek(b"a", 8));
    }

    #[test]
    fn the_stored_form_splits_into_what_was_joined() {
        let key = InternalKey::new(b"key", MAX_SEQUENCE, Kind::Put);
        let mut bytes = Vec::new();
        key.encode_into(&mut bytes);
        assert_eq!(InternalKey::decode(&bytes), Some(key));
        assert_eq!(InternalKey::decode(&bytes[4..]), None);
        assert_eq!(key.tag.kind(), Some(Kind::Put));
        assert_eq!(Tag(0).kind(), None);
    }
}
