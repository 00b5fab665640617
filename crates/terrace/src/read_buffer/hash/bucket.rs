//! One cache line of the table: the places of some entries, and the stripe.
//!
//! A get that finds nothing, and a forward of a key that is not held, touch this line and take no
//! lock. Slots change under the lock of the bucket's shard only.

use terrace_lsm::sync::atomic::{AtomicU64, Ordering};

use crate::SequenceNumber;

/// Entries that a bucket can name.
pub(super) const SLOTS: usize = 7;

/// The place of an entry, and how often it was read: the fingerprint of its key (30 bits), its uses (2
/// bits), its place plus one (32 bits). All zeros name nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(u64);

impl Slot {
    const EMPTY: Slot = Slot(0);
    const MOST_USES: u64 = 3;

    /// Names an entry.
    pub(super) fn new(hash: u64, place: u32) -> Self {
        Slot(hash << 34 | (u64::from(place) + 1))
    }

    fn is_of(self, hash: u64) -> bool {
        self != Slot::EMPTY && self.0 >> 34 == hash & ((1 << 30) - 1)
    }

    fn place(self) -> u32 {
        (self.0 as u32).wrapping_sub(1)
    }

    fn uses(self) -> u64 {
        self.0 >> 32 & Slot::MOST_USES
    }

    fn with_uses(self, uses: u64) -> Self {
        Slot(self.0 & !(Slot::MOST_USES << 32) | uses << 32)
    }
}

/// See the head of the file. The low half of a hash tells keys of a bucket apart; the high half
/// chose the bucket.
#[repr(align(64))]
pub(super) struct Bucket {
    slots: [AtomicU64; SLOTS],
    /// The highest number forwarded.
    stripe: AtomicU64,
}

impl Bucket {
    pub(super) fn new() -> Self {
        Bucket {
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
            stripe: AtomicU64::new(0),
        }
    }

    pub(super) fn stripe(&self) -> SequenceNumber {
        self.stripe.load(Ordering::SeqCst)
    }

    /// Raises the stripe. One thread at a time calls it.
    pub(super) fn raise_stripe(&self, sequence: SequenceNumber) {
        if self.stripe.load(Ordering::Relaxed) < sequence {
            self.stripe.store(sequence, Ordering::SeqCst);
        }
    }

    /// Returns the slots that may be a key's. It needs no lock: if there are none, the key is not
    /// held, or not yet.
    pub(super) fn candidates(&self, hash: u64) -> impl Iterator<Item = (&AtomicU64, u32)> {
        self.slots.iter().filter_map(move |slot| {
            let found = Slot(slot.load(Ordering::SeqCst));
            found.is_of(hash).then(|| (slot, found.place()))
        })
    }

    /// Returns the slot that names a place.
    pub(super) fn naming(&self, place: u32) -> Option<&AtomicU64> {
        let names = |slot: &&AtomicU64| {
            let found = Slot(slot.load(Ordering::Relaxed));
            found != Slot::EMPTY && found.place() == place
        };
        self.slots.iter().find(names)
    }

    /// Names an entry. Returns its slot, and whether another entry had to go.
    pub(super) fn name(&self, new: Slot) -> (&AtomicU64, bool) {
        let [first, ..] = &self.slots;
        let rank = |slot: &&AtomicU64| match Slot(slot.load(Ordering::Relaxed)) {
            Slot::EMPTY => 0,
            found => 1 + found.uses(),
        };
        let least = self.slots.iter().min_by_key(rank).unwrap_or(first);
        let displaced = rank(&least) > 0;
        least.store(new.0, Ordering::SeqCst);
        (least, displaced)
    }

    /// Clears all slots.
    pub(super) fn clear(&self) {
        self.slots.iter().for_each(clear);
    }
}

/// Makes a slot name nothing.
pub(super) fn clear(slot: &AtomicU64) {
    slot.store(Slot::EMPTY.0, Ordering::SeqCst);
}

/// Counts a use.
pub(super) fn used(slot: &AtomicU64) {
    let found = Slot(slot.load(Ordering::Relaxed));
    if found.uses() < Slot::MOST_USES {
        slot.store(found.with_uses(found.uses() + 1).0, Ordering::Relaxed);
    }
}

/// Returns whether the entry was read since it was last named or moved.
pub(super) fn has_uses(slot: &AtomicU64) -> bool {
    Slot(slot.load(Ordering::Relaxed)).uses() > 0
}

/// Names the same entry at another place, with one use less.
pub(super) fn move_to(slot: &AtomicU64, place: u32) {
    let found = Slot(slot.load(Ordering::Relaxed));
    let moved = Slot(found.0 & !u64::from(u32::MAX) | (u64::from(place) + 1));
    slot.store(
        moved.with_uses(found.uses().saturating_sub(1)).0,
        Ordering::SeqCst,
    );
}
