//! The interface of a structure that holds the buffer's entries.

use crate::{KeyspaceId, SequenceNumber};

/// Bytes that leave a structure which holds more than it may, for each byte that comes.
pub(super) const SHRINK_PACE: u64 = 3;

/// A key, hashed.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    pub(super) keyspace: u32,
    pub(super) bytes: &'a [u8],
    pub(super) hash: u64,
}

impl<'a> Key<'a> {
    /// Makes a key. `hash` is that of the user key: keyspaces are told apart here.
    #[inline]
    pub(crate) fn new(keyspace: KeyspaceId, bytes: &'a [u8], hash: u64) -> Self {
        let keyspace = keyspace.number();
        let apart = u64::from(keyspace).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Key {
            keyspace,
            bytes,
            hash: hash ^ apart,
        }
    }
}

/// The state of a key from a number on: a value, or nothing.
#[derive(Clone, Copy)]
pub(crate) struct Version<'a> {
    pub(crate) sequence: SequenceNumber,
    pub(crate) value: Option<&'a [u8]>,
}

/// An answer to a reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Value(Box<[u8]>),
    /// The key was deleted, or never was.
    Absent,
}

/// The outcome of a back-fill.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fill {
    Taken,
    /// Its stripe has seen a newer forward.
    Outdated,
    /// The entry is there already, too large, or not read often enough; or other threads are in the
    /// way.
    NotWanted,
}

/// Counters of a structure.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) hits: u64,
    pub(super) absent_hits: u64,
    pub(super) misses: u64,
    pub(super) evictions: u64,
}

/// Entries and stripes. Forwards and invalidations come from one thread at a time, in the order of
/// their numbers. Reads and fills come from any thread and wait for no other: where one is in the
/// way, a read misses and a fill is dropped.
pub(super) trait Structure: Send + Sync {
    /// Returns the key's entry, if its number is from `floor` to `snapshot`.
    fn get(&self, key: &Key<'_>, floor: SequenceNumber, snapshot: SequenceNumber) -> Option<Found>;

    /// Raises the key's stripe and brings its entry up to date; makes one if `insert`. Returns
    /// whether the version was stored.
    fn forward(&self, key: &Key<'_>, version: Version<'_>, insert: bool) -> bool;

    /// Raises the key's stripe and forgets its entry.
    fn invalidate(&self, key: &Key<'_>, sequence: SequenceNumber);

    /// Takes a version that was read at `read_at`. Refuses it if the key's stripe has seen a newer
    /// number by the time that a forward can find the entry.
    fn fill(&self, key: &Key<'_>, version: Version<'_>, read_at: SequenceNumber) -> Fill;

    /// Drops all entries and their memory. The stripes stay.
    fn clear(&self);

    /// Sets the memory to take from now on, bookkeeping included, up to the size it was made for.
    /// Memory beyond the limit leaves as entries come, and by `shrink`.
    fn limit(&self, bytes: u64);

    /// Releases `bytes` of the memory that is held beyond the limit, or fewer.
    fn shrink(&self, bytes: u64);

    /// Returns the lowest limit in bytes.
    fn least_bytes(&self) -> u64;

    /// Returns the memory taken, bookkeeping included.
    fn memory_bytes(&self) -> u64;

    fn counts(&self) -> Counts;
}
