//! What the buffer asks of a structure that holds its entries.

use crate::{KeyspaceId, SequenceNumber};

/// So many times the bytes that come leave a structure that holds more than it may.
pub(super) const SHRINK_PACE: u64 = 3;

/// A key, hashed.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    pub(super) keyspace: u32,
    pub(super) bytes: &'a [u8],
    pub(super) hash: u64,
}

impl<'a> Key<'a> {
    /// `hash` is that of the user key: keyspaces are told apart here.
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

/// What a key has from a number on: a value, or nothing.
#[derive(Clone, Copy)]
pub(crate) struct Version<'a> {
    pub(crate) sequence: SequenceNumber,
    pub(crate) value: Option<&'a [u8]>,
}

/// What a reader is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Value(Box<[u8]>),
    /// The key was deleted, or never was.
    Absent,
}

/// What became of a back-fill.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fill {
    Taken,
    /// Its stripe has seen a newer forward.
    Outdated,
    /// It is there already, too large, or not read often enough; or others are in the way.
    NotWanted,
}

/// What a structure counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) hits: u64,
    pub(super) absent_hits: u64,
    pub(super) misses: u64,
    pub(super) evictions: u64,
}

/// Entries and stripes. Forwards and invalidations come from one thread at a time, in the order of
/// their numbers; reads and fills from any, and these wait for nobody: where another thread is in
/// the way a read misses and a fill is dropped.
pub(super) trait Structure: Send + Sync {
    /// The key's entry, if its number is from `floor` to `snapshot`.
    fn get(&self, key: &Key<'_>, floor: SequenceNumber, snapshot: SequenceNumber) -> Option<Found>;

    /// Raises the key's stripe and brings its entry up to date; makes one if `insert`. Whether the
    /// version was stored.
    fn forward(&self, key: &Key<'_>, version: Version<'_>, insert: bool) -> bool;

    /// Raises the key's stripe and forgets its entry.
    fn invalidate(&self, key: &Key<'_>, sequence: SequenceNumber);

    /// Takes what was read at `read_at`, unless the key's stripe has seen a newer number by the time
    /// that the entry can be found by a forward.
    fn fill(&self, key: &Key<'_>, version: Version<'_>, read_at: SequenceNumber) -> Fill;

    /// Drops all entries and their memory. The stripes stay.
    fn clear(&self);

    /// How much memory to take from now on, bookkeeping included, up to what it was made for. What it
    /// holds beyond that it lets go as entries come, and when it is told to.
    fn limit(&self, bytes: u64);

    /// Lets go of so many bytes of what is held beyond the limit, or of some.
    fn shrink(&self, bytes: u64);

    /// The least that it can be limited to.
    fn least_bytes(&self) -> u64;

    /// Memory taken, bookkeeping included.
    fn memory_bytes(&self) -> u64;

    fn counts(&self) -> Counts;
}
