//! Numbers of the whole index, shared by its partitions.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Sums over all partitions. A difference that is added wraps: less than before is subtracted.
#[derive(Default)]
pub(super) struct Totals {
    keys: AtomicU64,
    value_bytes: AtomicU64,
    extra_extents: AtomicU64,
}

impl Totals {
    pub(super) fn keys(&self) -> u64 {
        self.keys.load(Relaxed)
    }

    pub(super) fn value_bytes(&self) -> u64 {
        self.value_bytes.load(Relaxed)
    }

    pub(super) fn extra_extents(&self) -> u64 {
        self.extra_extents.load(Relaxed)
    }

    pub(super) fn add_key(&self) {
        self.keys.fetch_add(1, Relaxed);
    }

    pub(super) fn remove_key(&self) {
        self.keys.fetch_sub(1, Relaxed);
    }

    /// Replaces `old` bytes of values by `new`.
    pub(super) fn change_value_bytes(&self, old: u32, new: u32) {
        let difference = u64::from(new).wrapping_sub(u64::from(old));
        self.value_bytes.fetch_add(difference, Relaxed);
    }

    /// Replaces `old` extents of side tables by `new`.
    pub(super) fn change_extra_extents(&self, old: u64, new: u64) {
        self.extra_extents.fetch_add(new.wrapping_sub(old), Relaxed);
    }
}
