//! Ways through the whole index that hold one lock at a time.

use std::ops::ControlFlow;

use rand::Rng;

use super::entry::Found;
use super::{Index, PARTITIONS, partition_of};
use crate::block::Extent;
use crate::key::Key;

/// The place of a walk. The default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkCursor {
    partition: usize,
    slot: u32,
}

impl Index {
    /// Visits keys in the order of their hashes, and of the keys where hashes are equal, from the
    /// place of `from` on, whether that key exists or not. Until the visitor breaks.
    ///
    /// No lock is held while a key is visited. Keys that come or go meanwhile may be missed or seen;
    /// all others are seen once.
    pub fn list(&self, from: Option<&Key>, mut visit: impl FnMut(&Key) -> ControlFlow<()>) {
        let mut hash = from.map_or(0, |key| self.hash(key));
        let mut start = from;
        loop {
            let (last, keys) = self.partition(hash).lock().keys_from(hash, start);
            for (_, key) in keys {
                if visit(&key).is_break() {
                    return;
                }
            }
            let Some(next) = last.checked_add(1) else {
                return;
            };
            (hash, start) = (next, None);
        }
    }

    /// Visits the next entries, and moves the cursor behind them. Returns true at the end.
    ///
    /// A call looks at `max_entries` slots at most, in the order of partitions and slots, and holds a
    /// partition's lock while it visits. Entries that are there from the first call to the last are
    /// seen exactly once.
    pub fn walk(
        &self,
        cursor: &mut WalkCursor,
        max_entries: usize,
        mut visit: impl FnMut(&Key, &Found),
    ) -> bool {
        self.step(cursor, max_entries, |partition, from, to| {
            partition.visit(from, to, &mut visit);
        })
    }

    /// Walks as [`walk`](Index::walk) does, and visits the entries that have a block in `range`. A
    /// cell is no block of its own: the keys of a segment are in its cells.
    pub fn entries_in(
        &self,
        cursor: &mut WalkCursor,
        max_entries: usize,
        range: Extent,
        mut visit: impl FnMut(&Key, &Found),
    ) -> bool {
        self.step(cursor, max_entries, |partition, from, to| {
            partition.visit_in(from, to, range, &mut visit);
        })
    }

    fn step(
        &self,
        cursor: &mut WalkCursor,
        max_entries: usize,
        mut visit: impl FnMut(&super::Partition, u32, u32),
    ) -> bool {
        let mut left = u32::try_from(max_entries.max(1)).unwrap_or(u32::MAX);
        while cursor.partition < PARTITIONS && left > 0 {
            let partition = self.partitions[cursor.partition].lock();
            let end = partition.slots();
            let to = cursor.slot.saturating_add(left).min(end);
            visit(&partition, cursor.slot, to);
            left -= to.saturating_sub(cursor.slot);
            cursor.slot = to;
            if to == end {
                *cursor = WalkCursor {
                    partition: cursor.partition + 1,
                    slot: 0,
                };
            }
        }
        cursor.partition >= PARTITIONS
    }

    /// Visits `n` random entries with their ages, some of them perhaps twice; none if there are no
    /// keys. No lock is held while an entry is visited.
    pub fn sample(&self, rng: &mut impl Rng, n: usize, mut visit: impl FnMut(&Key, &Found, u8)) {
        for _ in 0..n {
            // An empty partition passes the choice on to the next one.
            let first = partition_of(rng.next_u64());
            let chosen = (0..PARTITIONS).find_map(|step| {
                let partition = self.partitions[(first + step) % PARTITIONS].lock();
                partition.random(rng)
            });
            let Some((key, found, age)) = chosen else {
                return;
            };
            visit(&key, &found, age);
        }
    }
}
