//! Reservations of keys and extents against a namespace's limits. A change keeps its own until the index
//! has it.

use std::sync::atomic::Ordering;

use super::namespace::Namespace;
use crate::Key;
use crate::index::Found;

/// The share of its namespace's bounds that a change keeps until the index has it.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// Whether a place among the keys is kept.
    pub(super) key: bool,
    /// Extents of values that lie in several.
    pub(super) extents: u64,
}

impl Namespace {
    /// Returns the most extents of a value of a key that nothing else changes: the namespace has no
    /// more than it may, and those of the value before count for it.
    pub(super) fn permitted_extents(&self, hash: u64, key: &Key) -> u64 {
        let reserved = self.reserved_extents.load(Ordering::Acquire);
        self.extents_before(hash, key) + self.extents_left(reserved).unwrap_or(0)
    }

    /// Keeps extents of the index for a value of a key that nothing else changes. Returns their
    /// number, which is less by those of the value before; none if the namespace would have more
    /// than it may.
    pub(super) fn reserve_extents(&self, hash: u64, key: &Key, found: &Found) -> Option<u64> {
        let before = self.extents_before(hash, key);
        let more = found.extra_extents().saturating_sub(before);
        if more == 0 {
            return Some(0);
        }
        // Kept first, then judged: no other caller takes the same ones.
        let reserved = self.reserved_extents.fetch_add(more, Ordering::AcqRel) + more;
        if self.extents_left(reserved).is_some() {
            return Some(more);
        }
        self.reserved_extents.fetch_sub(more, Ordering::AcqRel);
        None
    }

    fn extents_before(&self, hash: u64, key: &Key) -> u64 {
        let before = self.index.partition(hash).lock().get(hash, key);
        before.map_or(0, |before| before.extra_extents())
    }

    /// Returns the extents that may come beside `reserved`; none if these are too many. Their
    /// number was read before: a share that was given back then is in the index now.
    fn extents_left(&self, reserved: u64) -> Option<u64> {
        let most = self.description.max_extra_extents();
        most.checked_sub(self.index.extra_extents() + reserved)
    }

    /// Keeps a place among the keys for one that does not exist yet. Returns false if there is none.
    pub(super) fn reserve_key(&self) -> bool {
        let reserved = self.reserved_keys.fetch_add(1, Ordering::AcqRel) + 1;
        if self.index.len() + reserved <= self.description.max_keys {
            return true;
        }
        self.reserved_keys.fetch_sub(1, Ordering::AcqRel);
        false
    }

    /// Gives a share back: the index has the value that it was kept for, or will not have it.
    pub(super) fn unreserve(&self, share: &Share) {
        let (keys, extents) = (share.key.into(), share.extents);
        self.reserved_keys.fetch_sub(keys, Ordering::AcqRel);
        self.reserved_extents.fetch_sub(extents, Ordering::AcqRel);
    }
}
