//! Numbers of the whole index, shared by its partitions.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A bound of the index that an insert would pass. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The index has its greatest number of keys.
    Keys,
    /// Values of several extents have as many of them as the index may hold.
    Extents,
}

/// Sums over all partitions, and their bounds.
pub(super) struct Totals {
    max_keys: u64,
    max_extra_extents: u64,
    keys: AtomicU64,
    value_bytes: AtomicU64,
    extra_extents: AtomicU64,
}

impl Totals {
    pub(super) fn new(max_keys: u64) -> Self {
        Totals {
            max_keys,
            max_extra_extents: (max_keys / 8).max(64),
            keys: AtomicU64::new(0),
            value_bytes: AtomicU64::new(0),
            extra_extents: AtomicU64::new(0),
        }
    }

    pub(super) fn keys(&self) -> u64 {
        self.keys.load(Relaxed)
    }

    pub(super) fn value_bytes(&self) -> u64 {
        self.value_bytes.load(Relaxed)
    }

    pub(super) fn extra_extents(&self) -> u64 {
        self.extra_extents.load(Relaxed)
    }

    /// Counts one key more, unless the bound is reached.
    pub(super) fn add_key(&self) -> Result<(), Full> {
        let more = |keys: u64| (keys < self.max_keys).then_some(keys + 1);
        match self.keys.fetch_update(Relaxed, Relaxed, more) {
            Ok(_) => Ok(()),
            Err(_) => Err(Full::Keys),
        }
    }

    pub(super) fn remove_key(&self) {
        self.keys.fetch_sub(1, Relaxed);
    }

    /// Replaces `old` bytes of values by `new`.
    pub(super) fn change_value_bytes(&self, old: u32, new: u32) {
        // Wraps to a subtraction if there is less than before.
        let difference = u64::from(new).wrapping_sub(u64::from(old));
        self.value_bytes.fetch_add(difference, Relaxed);
    }

    /// Replaces `old` extents of side tables by `new`, unless the bound would be passed.
    pub(super) fn change_extra_extents(&self, old: u64, new: u64) -> Result<(), Full> {
        if old == new {
            return Ok(());
        }
        // Giving back is always possible, whatever the bound.
        let most = self.max_extra_extents;
        let change = |extra: u64| {
            let after = extra.wrapping_sub(old).wrapping_add(new);
            (after <= most || new < old).then_some(after)
        };
        match self.extra_extents.fetch_update(Relaxed, Relaxed, change) {
            Ok(_) => Ok(()),
            Err(_) => Err(Full::Extents),
        }
    }
}
